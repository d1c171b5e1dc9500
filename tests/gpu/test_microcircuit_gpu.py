"""studies/microcircuit.py on GPUs: the bits of a plain loop on the CPU, by both plans."""

import sys
from pathlib import Path

import jax
import pytest

sys.path.append(str(Path(__file__).parents[2] / "studies"))

import microcircuit as example
from pd14 import network, run
from pd14 import parameters as p

pytest.importorskip("numba.cuda")
pytestmark = pytest.mark.gpu_only("tests/python/microcircuit runs it on the CPU")
STEPS = 2000


@pytest.mark.parametrize("drive", ["poisson", "dc"])
@pytest.mark.parametrize(("plan", "devices"), [("graph", 1), ("graph", 2), ("persistent", 1)])
def test_the_bits_of_a_plain_loop(plan, devices, drive):
    if len(jax.devices()) < devices:
        pytest.skip("needs two GPUs")
    model, found = p.Model(0.1, drive=drive), []
    for name, on in ((plan, jax.devices()[:devices]), ("cpu", jax.devices("cpu")[:1])):
        parts = run.default_parts(model, jax.devices()[0], devices, plan)
        net = network.build(model, 1, parts, len(on))
        simulation = run.Simulation(model, net, 1, name, on)
        found.append((simulation.advance(STEPS)[0], simulation.values()))
    ours, theirs = found
    assert ours[0].steps.size > 1000
    assert example.compare_spikes(ours[0], theirs[0]) == []
    assert example.compare_states(ours[1], theirs[1]) == []


def test_the_command_at_full_scale(tmp_path, capsys):
    options = ["--scale", "1", "--plan", "persistent", "--seconds", "2"]
    status = example.main([*options, "--figure", str(tmp_path / "f.png")])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert "Exact: 1,000 steps have the bits of a plain loop on a CPU" in printed.out
