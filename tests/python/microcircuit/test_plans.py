"""studies/microcircuit.py: every plan has the spikes and the state of a plain loop, to the bit.

What launches CUDA kernels is a program of its own, without the fake driver of the other tests.
"""

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

import microcircuit as example
from pd14 import parameters as p
from pd14 import run as runs
from plans import differences, results

pytestmark = pytest.mark.once
HEAD = """
import numpy as np
from plans import differences, results
from pd14 import network, neuron, run
from pd14 import parameters as p
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "plans",  # with a number of words
    [{"persistent": 32}, pytest.param({"graph": 16}, marks=pytest.mark.exhaustive)],
    ids=str,
)
def test_plans_have_the_bits_of_a_plain_loop(plans, run):
    run(
        f"plans = {plans}"
        """
p.START_MEAN = p.START_MEAN + 9  # many begin above the threshold
model = p.Model(0.005)
plain = results(model, "cpu", 220)
spikes = plain[0]
in_words = np.bincount(spikes.steps * 4 + spikes.neurons % 4)
assert in_words.max() > neuron.MANY and (in_words == 1).sum() > 10, in_words
for plan, words in plans.items():
    network.MOST_WORDS = words  # of the records of a source, in four parts
    launch = run.Launch(group=4, threads=128)
    found = differences(results(model, plan, 220, launch=launch), plain)
    assert not found, (plan, found)
"""
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("drive", ["poisson", "dc"])
@pytest.mark.parametrize("in_degrees", [1.0, 0.2])
def test_drives_and_devices(run, drive, in_degrees):
    run(f"""
model = p.Model(0.01, {in_degrees}, {drive!r})
plain = results(model, "cpu", 1000)
assert plain[0].steps.size > 100
for plan, devices in (("graph", 1), ("graph", 2), ("graph", 4), ("persistent", 1)):
    found = differences(results(model, plan, 1000, devices, 250), plain)
    assert not found, (plan, devices, found)
""")


@pytest.mark.exhaustive
def test_groups_and_calls_do_not_matter(run):
    run("""
model = p.Model(0.005)
plain = results(model, "cpu", 250)
for plan in ("graph", "persistent"):
    for group, threads, chunk in ((1, 128, 7), (32, 128, 250), (8, 256, 33)):
        launch = run.Launch(group=group, threads=threads)
        found = differences(results(model, plan, 250, chunk=chunk, launch=launch), plain)
        assert not found, (plan, launch, found)
""")


@pytest.mark.exhaustive
def test_more_spikes_than_a_step_has_room_for(run):
    run("""
p.START_MEAN = p.START_MEAN + 100
model = p.Model(0.035)
for plan in ("graph", "persistent"):
    try:
        results(model, plan, 2)
    except run.Fault as fault:
        expected = f"{model.neurons} spikes in one step: expected at most 2048"
        assert str(fault) == expected, fault
    else:
        raise SystemExit("no error")
""")


@pytest.mark.exhaustive
def test_spikes_that_are_only_counted():
    plain = results(p.Model(0.005), "cpu", 250)
    spikes, values = results(p.Model(0.005), "cpu", 250, records_spikes=False)
    assert spikes.steps.size == 0
    np.testing.assert_array_equal(values["total"], np.bincount(plain[0].neurons, minlength=385))


def test_what_cannot_run():
    with pytest.raises(runs.Fault, match="'persistent' runs on one device, not on 2"):
        results(p.Model(0.005), "persistent", 1, 2)
    with pytest.raises(runs.Fault, match="64 threads a block: expected a multiple of 16, of at"):
        results(p.Model(0.005), "graph", 1, launch=runs.Launch(threads=64))


@pytest.mark.exhaustive
def test_more_spikes_than_the_log_has_room_for(monkeypatch):
    monkeypatch.setattr(runs, "LOG_ROOM", 0)
    monkeypatch.setattr(runs, "MOST_HZ", 1)
    with pytest.raises(runs.Fault, match="spikes in a call: expected at most"):
        results(p.Model(0.005), "cpu", 250, chunk=250)


def test_what_differs_is_named():
    steps, neurons = np.array([1, 4, 4, 9]), np.array([5, 2, 3, 0])
    values = {"v": np.zeros(7, np.float32), "wait": np.zeros(7, np.int32)}
    plain = runs.Spikes(steps, neurons), values
    assert differences(plain, plain) == []
    fewer = runs.Spikes(steps[:-1], neurons[:-1])
    named = ["the spikes differ from step 9 on; there are 3 and 4 in all"]
    assert example.compare_spikes(fewer, plain[0]) == named
    other = runs.Spikes(steps, neurons + (steps == 4))
    named = ["the spikes differ from step 4 on; there are 4 and 4 in all"]
    assert example.compare_spikes(other, plain[0]) == named
    changed = values | {"v": np.array([0, 0, 1, 0, -0.0, 0, 0], np.float32)}
    assert example.compare_states(changed, values) == ["the final v differs in 1 places"]


def test_rates_out_of_tolerance_are_named():
    rates = [np.full(3, hz) for hz in p.REFERENCE_RATES]
    assert example.check_rates(p.Model(), rates, 1.0) == []
    rates[4] = rates[4] * 1.2
    assert example.check_rates(p.Model(), rates, 1.0) == ["L5E has 9.08 Hz, not 7.57 +- 0.91"]
    assert example.check_rates(p.Model(), rates, 0.5) == []
    assert example.check_rates(p.Model(drive="dc"), rates, 1.0) == []


@pytest.mark.exhaustive
def test_the_command_line(run, tmp_path):
    options = ["--scale", "0.005", "--plan", "persistent", "--seconds", "0.02", "--check", "0.01"]
    options += ["--discard", "0.005", "--figure", str(tmp_path / "f.png")]
    printed = run(f"import microcircuit\nraise SystemExit(microcircuit.main({options}))")
    assert "Exact: 100 steps have the bits of a plain loop on a CPU" in printed
    assert "plan persistent" in printed
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "f.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scale", "2"], "--scale is 2.0, expected 0.001 to 1"),
        (["--check", "9"], "--check is 9.0, expected less than --discard and --seconds"),
        (["--group", "3"], "--group is 3, expected a power of two up to 32"),
    ],
)
def test_options_that_are_refused(options, message, capsys):
    with pytest.raises(SystemExit):
        example.parse(options)
    assert message in capsys.readouterr().err
