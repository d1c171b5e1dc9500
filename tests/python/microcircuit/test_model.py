"""studies/pd14: the parameters, the neuron, the layout of synapses, and the measures."""

from itertools import pairwise

import numpy as np
import pytest
from pd14 import measures, network, neuron
from pd14 import parameters as p

pytestmark = pytest.mark.once
SCALE = 0.003


def decoded(net, model, devices=1):
    """The synapses of a network: source, target, delay and weight, sorted; checks the records."""
    own, n = net.parts // devices, model.neurons
    records = net.records.reshape(devices, n, own, net.record).astype(np.int64)
    rows = net.synapses.reshape(devices, -1)
    found = []
    for d in range(devices):
        begin, early = records[d, ..., 0], records[d, ..., 1] & 0xFFFF
        total = records[d, ..., 1] >> 16
        assert np.array_equal(begin.reshape(-1)[1:], (begin + total).reshape(-1)[:-1])
        words = rows[d, : total.sum()]
        segment = np.repeat(np.arange(total.size), total.reshape(-1))
        place = np.arange(words.size) - begin.reshape(-1)[segment]
        delay = (words >> 10 & 63).astype(int)
        assert np.array_equal(delay == 1, place < early.reshape(-1)[segment])
        inline = np.flatnonzero((delay == 1) & (place < net.record - 2))
        flat = records[d].reshape(-1, net.record)
        assert np.array_equal(flat[segment[inline], 2 + place[inline]], words[inline])
        part = d * own + segment % own
        target = (words & 1023).astype(int) * net.parts + part
        found.append((segment // own, target, delay, words.view(np.int32) >> 16))
    columns = [np.concatenate(x) for x in zip(*found, strict=True)]
    order = np.lexsort(columns[::-1])
    return [x[order] for x in columns]


@pytest.fixture(scope="module")
def model():
    return p.Model(SCALE)


@pytest.fixture(scope="module")
def synapses(model):
    return decoded(network.build(model, 3, 4), model)


def test_numbers_of_the_full_model():
    model = p.Model()
    assert (model.neurons, model.synapses.sum()) == (77_169, 298_880_970)
    assert model.weights[0, 0] == pytest.approx(87.81, abs=0.005)  # pA
    assert not model.currents.any()


def test_inputs_of_a_smaller_model(model):
    np.testing.assert_allclose(
        model.synapses / model.sizes[:, None], p.Model().full_in_degrees, atol=0.5 + 1e-9
    )


def test_fewer_inputs_have_the_same_mean_and_variance():
    full, less = p.Model(), p.Model(in_degrees=0.25)
    means, variances = [], []
    for m in (full, less):
        degrees = m.full_in_degrees * m.in_degrees
        mean = degrees * m.weights @ p.REFERENCE_RATES
        mean += m.external_in_degrees * m.external_weight * p.BACKGROUND_RATE
        means.append(mean * p.TAU_SYN / 1000 + m.currents)
        variances.append(degrees * m.weights**2 @ p.REFERENCE_RATES)
    np.testing.assert_allclose(means[1], means[0])
    np.testing.assert_allclose(variances[1], variances[0])


def test_the_direct_current_has_the_mean_of_the_poisson_drive():
    currents = p.Model(drive="dc").currents
    expected = p.EXTERNAL_IN_DEGREES * 8 * 87.8085 * 0.5e-3
    np.testing.assert_allclose(currents, expected, rtol=1e-5)


@pytest.mark.exhaustive
def test_numbers_of_synapses(model, synapses):
    source, target, _, _ = synapses
    found = np.zeros((8, 8), int)
    np.add.at(found, (model.population_of(target), model.population_of(source)), 1)
    np.testing.assert_array_equal(found, model.synapses)


@pytest.mark.exhaustive
def test_weights_and_delays(model, synapses):
    source, target, delay, weight = synapses
    s, t = model.population_of(source), model.population_of(target)
    unit = network.unit_of(model)
    means = model.weights[t, s]
    z = (weight * unit - means) / (p.WEIGHT_DEVIATION * np.abs(means))
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert z.std() == pytest.approx(1, abs=0.004)
    assert np.all((weight > 0) == (s % 2 == 0))
    for kind, mean, deviation in ((0, 1.5476, 0.7015), (1, 0.7770, 0.3487)):  # of truncated normals
        of_kind = delay[s % 2 == kind] * p.DT
        assert of_kind.mean() == pytest.approx(mean, abs=0.006)
        assert of_kind.std() == pytest.approx(deviation, abs=0.006)
    assert (delay.min(), delay.max() < 64) == (1, True)


def test_targets_are_uniform(model, synapses):
    """In-degrees from a population are Poisson numbers, but for the fixed total."""
    source, target, _, _ = synapses
    chosen = target[(model.population_of(source) == 2) & (model.population_of(target) == 2)]
    counts = np.bincount(chosen - model.starts[2], minlength=model.sizes[2])
    assert counts.var() / counts.mean() == pytest.approx(1, abs=0.5)


@pytest.mark.brief
@pytest.mark.parametrize(("parts", "devices"), [(6, 1), (4, 2)])
def test_synapses_do_not_depend_on_the_layout(model, synapses, parts, devices):
    other = decoded(network.build(model, 3, parts, devices), model, devices)
    for ours, theirs in zip(other, synapses, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.brief
@pytest.mark.parametrize("words", [4, 2])
def test_synapses_with_shorter_records(model, synapses, words, monkeypatch):
    monkeypatch.setattr(network, "MOST_WORDS", 4 * words)
    net = network.build(model, 3, 4)
    assert net.record == words
    for ours, theirs in zip(decoded(net, model), synapses, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_records_take_two_bytes_a_synapse_at_most():
    model = p.Model()
    for parts, words in ((132, 8), (148, 8), (264, 4), (528, 2)):
        assert network.record_words(parts) == words
        assert 4 * words * parts * model.neurons <= 2 * model.synapses.sum()


@pytest.mark.exhaustive
def test_another_seed_has_other_synapses(model, synapses):
    other = decoded(network.build(model, 4, 4), model)
    assert not np.array_equal(other[1], synapses[1])


def test_parts_that_are_too_wide(model):
    with pytest.raises(ValueError, match="expected a multiple of 2 parts, of at most 1024 neurons"):
        network.build(model, 1, 3, 2)


@pytest.fixture
def advance(model):
    net = network.Network(1, 1, 8, 1 / 32, 2810, np.zeros(0), np.zeros(0), 0)
    launch = {"threads": 32, "group": 8, "records_spikes": False}
    c = neuron.constants(model, net, 1, **launch)
    return neuron.make_advance(c, np.multiply, np.add)


def test_the_potential_of_one_spike(advance):
    """An excitatory weight raises the potential by 0.15 mV, as the exact solution says."""
    state = np.float32(0), np.float32(0), 0
    trace = []
    for step in range(400):
        *state, fires = advance(*state, 2810 if step == 0 else 0, np.float32(0))
        assert not fires
        trace.append(state[0])
    t = np.arange(400) * p.DT
    factor = p.TAU_M * p.TAU_SYN / (p.C_M * (p.TAU_M - p.TAU_SYN)) * 2810 / 32
    exact = factor * (np.exp(-t / p.TAU_M) - np.exp(-t / p.TAU_SYN))
    np.testing.assert_allclose(trace, exact, atol=1e-7)
    assert max(trace) == pytest.approx(p.PSP, rel=1e-3)


def test_a_spike_and_its_refractory_period(advance):
    rise = np.float32(20 * (1 - np.exp(-p.DT / p.TAU_M)))  # towards 20 mV, above the threshold
    state, fired = (np.float32(0), np.float32(0), 0), []
    for step in range(1000):
        *state, fires = advance(*state, 0, rise)
        fired += [step] * fires
        if fires:
            assert state[0] == 0
    period = p.T_REFRACTORY + p.TAU_M * np.log(20 / (20 - 15))
    intervals = [b - a for a, b in pairwise(fired)]
    assert set(intervals) == {int(np.ceil(period / p.DT))}


def test_measures():
    rng = np.random.default_rng(0)
    starts = np.arange(9) * 2
    seconds, clock = 100.0, np.arange(0, 100_000, 50.0)
    random = np.sort(rng.uniform(0, 100_000, 2000))
    trains = [clock, clock, random, rng.uniform(0, 100_000, 2000), random, random, random[:2]]
    neurons = np.repeat(np.arange(len(trains)), [t.size for t in trains])
    found = measures.measure(neurons, np.concatenate(trains), starts, seconds)
    assert found.rates[0].tolist() == [20, 20]
    assert found.rates[3].tolist() == [0.02, 0]
    assert found.rates[7].tolist() == [0, 0]
    np.testing.assert_allclose(found.cvs[0], 0, atol=1e-9)
    np.testing.assert_allclose(found.cvs[1], 1, atol=0.1)
    assert [x.size for x in found.cvs] == [2, 2, 2, 0, 0, 0, 0, 0]
    np.testing.assert_allclose(found.correlations[0], 1)
    np.testing.assert_allclose(found.correlations[2], 1)
    assert abs(found.correlations[1][0]) < 0.03
    assert found.correlations[3].size == 0


def test_the_distance_of_distributions():
    assert measures.ks_distance(np.arange(10), np.arange(10)) == 0
    assert measures.ks_distance(np.arange(10), np.arange(10) + 5) == 0.5
    assert measures.ks_distance(np.zeros(3), np.ones(5)) == 1
