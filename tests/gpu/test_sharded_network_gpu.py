"""examples/sharded_network.py on one GPU and on two."""

import sys
from pathlib import Path

import jax
import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples"))

import sharded_network as example

pytest.importorskip("numba.cuda")
pytestmark = [
    pytest.mark.gpu_only("tests/python/test_sharded_network.py runs it on the CPU"),
    pytest.mark.skipif(len(jax.devices()) < 2, reason="needs two GPUs"),
]


def test_the_spikes_are_the_same(capsys):
    options = ["--devices", "1", "2", "--platform", "gpu", "--neurons", "20000", "--steps", "500"]
    assert example.main(options) == 0
    assert "spikes are the same on [1, 2] devices" in capsys.readouterr().out
