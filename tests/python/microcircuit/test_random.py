"""studies/pd14: the generator of random words, and what is drawn by them."""

import numba
import numpy as np
import pytest
from pd14 import draws, philox
from pd14 import parameters as p
from scipy import stats

pytestmark = pytest.mark.once

words_of = numba.njit(philox.philox)

KNOWN = [  # counter, key and words: kat_vectors of Random123 1.14
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@numba.njit
def drive(neurons, turns, seed):
    """The words of the drive: neuron, turn, word."""
    out = np.empty((neurons, turns, 4), np.uint32)
    zero = np.uint32(0)
    for i in range(neurons):
        for k in range(turns):
            found = words_of(np.uint32(i), np.uint32(k), zero, zero, seed, np.uint32(1))
            for w in range(4):
                out[i, k, w] = found[w]
    return out


@pytest.fixture(scope="module")
def words():
    return drive(1024, 256, np.uint32(7))  # 2**20 words


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_known_answers(counter, key, expected):
    assert list(words_of(*map(np.uint32, (*counter, *key)))) == expected


@pytest.mark.exhaustive
def test_words_are_uniform(words):
    flat = words.reshape(-1)
    for shift in (0, 8, 16, 24):
        counts = np.bincount(flat >> shift & 255, minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-4
    assert stats.kstest(flat / 2**32, "uniform").pvalue > 1e-4
    ones = np.array([np.count_nonzero(flat >> bit & 1) for bit in range(32)])
    assert np.all(np.abs(ones - flat.size / 2) < 5 * np.sqrt(flat.size) / 2)


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["neurons", "turns", "words"])
def test_neighbours_are_independent(words, axis):
    x = words / 2**32 - 0.5
    a, b = (np.delete(x, at, axis=axis).reshape(-1) for at in (0, -1))
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(a.size)
    pairs = np.histogram2d(a, b, 32)[0]
    assert stats.chisquare(pairs.reshape(-1)).pvalue > 1e-4


def test_seeds_are_independent(words):
    other = drive(1024, 256, np.uint32(8))
    assert abs(np.corrcoef(words.reshape(-1), other.reshape(-1))[0, 1]) < 5 / 2**10


def test_numbers_of_spikes_are_poisson(words):
    means = p.Model().external_rates * p.DT
    table = draws.poisson_table(means)
    for row, mean in zip(table, means, strict=True):
        drawn = np.searchsorted(row, words.reshape(-1), side="right")
        last = int(stats.poisson.isf(1e-4, mean))  # with all beyond, 100 draws and more
        observed = np.bincount(np.minimum(drawn, last))
        expected = np.append(
            stats.poisson.pmf(np.arange(last), mean), stats.poisson.sf(last - 1, mean)
        )
        expected *= drawn.size / expected.sum()
        assert stats.chisquare(observed, expected).pvalue > 1e-4


def probabilities(table):
    """What a table of the alias method draws with which probability."""
    n = table.below.size
    keep = table.below / (2**32 // n)
    found = keep / n
    np.add.at(found, table.alias, (1 - keep) / n)
    return found


@pytest.mark.parametrize("kind", [0, 1])
def test_delays(kind):
    found = probabilities(draws.delay_table(kind))
    mean = p.DELAY_MEANS[kind] / p.DT
    normal = stats.norm(mean, mean * p.DELAY_DEVIATION)
    expected = np.diff(normal.cdf(np.arange(65) - 0.5))
    expected[0] = 0
    np.testing.assert_allclose(found, expected / expected.sum(), atol=2e-8)
    assert found[0] == 0


def test_normal_numbers():
    found = probabilities(draws.normal_table())
    edges = np.linspace(-draws.NORMAL_LIMIT, draws.NORMAL_LIMIT, found.size + 1)
    np.testing.assert_allclose(found, np.diff(stats.norm.cdf(edges)), atol=5e-7)
