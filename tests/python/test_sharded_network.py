"""examples/sharded_network.py: the spikes of 1, 2 and 4 devices, and those of NumPy."""

import json
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.append(str(EXAMPLES))

import sharded_network as example  # noqa: E402

pytestmark = pytest.mark.once
NEURONS, STEPS = 416, 300


def by_numpy(start, targets):
    """The same network, neuron by neuron where weights are added."""
    v, g_exc, g_inh, wait = (x.copy() for x in start)
    n_exc = round(NEURONS * example.EXC_FRACTION)
    spikes = []
    for k in range(STEPS):
        synaptic = g_exc * (example.E_EXC - v) + g_inh * (example.E_INH - v)
        leak = example.G_LEAK * (example.E_LEAK - v)
        risen = v + example.DT_OVER_C * (leak + synaptic + example.CURRENT)
        fires = (risen > example.V_THRESHOLD) & (wait == 0)
        v = np.where((wait > 0) | fires, example.V_RESET, risen)
        wait = np.where(fires, example.REFRACTORY, np.maximum(wait - 1, 0))
        g_exc, g_inh = g_exc * example.DECAY_EXC, g_inh * example.DECAY_INH
        for i in np.flatnonzero(fires):
            g, w = (g_exc, example.W_EXC) if i < n_exc else (g_inh, example.W_INH)
            np.add.at(g, targets[i], w)
        spikes.append(np.flatnonzero(fires) + k * NEURONS)
    return np.concatenate(spikes)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_spikes_are_those_of_numpy(n):
    start, targets = example.draw(NEURONS, seed=0)
    run = example.simulate(start, targets, jax.devices()[:n], STEPS, chunk=100, unroll=1)
    assert run.spikes.size > 100
    np.testing.assert_array_equal(run.spikes, by_numpy(start, targets))


def test_kernels_for_gpus_on_the_cpu(monkeypatch):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    start, targets = example.draw(NEURONS, seed=0)
    monkeypatch.setattr(example, "kernels_for_cpu", example.kernels_for_gpu)
    one, two = (
        example.simulate(start, targets, jax.devices()[:n], STEPS, chunk=100, unroll=10)
        for n in (1, 2)
    )
    assert one.spikes.size > 100
    np.testing.assert_array_equal(one.spikes, two.spikes)


@pytest.mark.exhaustive
def test_the_command_line(run_python, tmp_path):
    options = ["--devices", "1", "2", "4", "--neurons", "416", "--steps", "200"]
    options += ["--json", str(tmp_path / "figures.json")]
    source = f"import sys\nsys.path.append({str(EXAMPLES)!r})\nimport sharded_network\n"
    printed = run_python(f"{source}sys.exit(sharded_network.main({options}))", XLA_FLAGS="")
    assert printed.splitlines()[-1].endswith(" spikes are the same on [1, 2, 4] devices")
    written = json.loads((tmp_path / "figures.json").read_text())
    assert [row["devices"] for row in written["results"]] == [1, 2, 4]
    assert all(row["us_per_step"] > 0 for row in written["results"])
    assert written["options"]["neurons"] == 416
    assert written["machine"]["jax"] == jax.__version__


def test_what_cannot_be_split(capsys):
    with pytest.raises(SystemExit):
        example.main(["--devices", "3", "--neurons", "400"])
    assert "400 neurons are no multiple of 8 for each of 3 devices" in capsys.readouterr().err
