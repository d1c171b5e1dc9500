"""A tenth of the microcircuit has the rates, variation and correlations that NEST has."""

import microcircuit_truth as truth
import numpy as np
import pytest
from pd14 import measures
from pd14 import parameters as p

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def nest():
    return np.load(truth.KEPT)["nest"]


def mean_distance(one, others):
    return np.mean([measures.ks_distance(one, other) for other in others])


def far(ours, nest):
    """Which measures of a seed are farther from NEST's seeds than these are from each other."""
    found = []
    for m, what in enumerate(truth.MEASURES):
        for i, name in enumerate(p.NAMES):
            seeds = nest[:, m, i, 1:]
            within = max(mean_distance(x, np.delete(seeds, k, 0)) for k, x in enumerate(seeds))
            if mean_distance(ours[m, i, 1:], seeds) > 2 * within + 0.02:
                found.append((what, name))
    return found


@pytest.mark.exhaustive
def test_what_is_kept_of_nest(nest):
    assert nest.shape == (10, 3, 8, 102)
    np.testing.assert_allclose(nest[:, 0, :, 0].mean(0), p.TENTH_RATES, atol=6e-4)
    for k, seed in enumerate(nest):
        assert far(seed, np.delete(nest, k, 0)) == []


@pytest.mark.exhaustive
def test_a_tenth_agrees_with_nest(nest, tmp_path):
    model = p.Model(0.1)
    truth.simulate(tmp_path / "spikes.npz", model, "cpu", [11], 10.0)
    assert far(truth.of_spikes(tmp_path / "spikes.npz", model)[0], nest) == []


@pytest.mark.exhaustive
def test_another_model_does_not(nest, tmp_path, monkeypatch):
    monkeypatch.setattr(p, "RELATIVE_INHIBITION", -4.4)
    model = p.Model(0.1)
    truth.simulate(tmp_path / "spikes.npz", model, "cpu", [1], 3.0)
    assert len(far(truth.of_spikes(tmp_path / "spikes.npz", model)[0], nest)) > 8
