"""What the model's papers measure of its spikes. Imports NumPy only, so that NEST's run can, too.

The rate of each neuron, the coefficient of variation of the intervals between its spikes, and
Pearson's correlation between the spike counts of two neurons in bins of 2 ms, for the pairs among
the first 200 neurons of a population: the measures of van Albada et al. (2018), Front. Neurosci.
12:291, doi 10.3389/fnins.2018.00291.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

BIN = 2.0  # ms
CORRELATED = 200  # neurons of a population


class Measures(NamedTuple):
    """A value for each neuron, or pair of neurons, of each of the eight populations."""

    rates: list[np.ndarray]  # Hz
    cvs: list[np.ndarray]  # of neurons with at least three spikes
    correlations: list[np.ndarray]  # of pairs that have spikes


def measure(neurons: np.ndarray, times: np.ndarray, starts: np.ndarray, seconds: float) -> Measures:
    """Measure spikes that are given by neuron and time (in ms, from 0)."""
    order = np.lexsort((times, neurons))
    neurons, times = np.asarray(neurons)[order], np.asarray(times)[order]
    result = Measures([], [], [])
    for low, high in pairwise(starts):
        mine = slice(*np.searchsorted(neurons, [low, high]))
        local, at = neurons[mine] - low, times[mine]
        count = np.bincount(local, minlength=high - low)
        result.rates.append(count / seconds)
        result.cvs.append(_variation(local, at, count))
        result.correlations.append(_correlations(local, at, min(CORRELATED, high - low), seconds))
    return result


def _variation(neurons: np.ndarray, times: np.ndarray, count: np.ndarray) -> np.ndarray:
    intervals, same = np.diff(times), np.diff(neurons) == 0
    who, intervals = neurons[1:][same], intervals[same]
    enough = count >= 3
    n = np.maximum(count - 1, 1)
    mean = np.bincount(who, intervals, minlength=count.size) / n
    squares = np.bincount(who, (intervals - mean[who]) ** 2, minlength=count.size) / n
    return np.sqrt(squares[enough]) / mean[enough]


def _correlations(neurons: np.ndarray, times: np.ndarray, size: int, seconds: float) -> np.ndarray:
    bins = max(2, round(seconds * 1000 / BIN))
    chosen = neurons < size
    at = np.minimum((times[chosen] / BIN).astype(np.int64), bins - 1)
    count = np.bincount(neurons[chosen] * bins + at, minlength=size * bins).reshape(size, bins)
    spiking = count[count.any(axis=1)].astype(float)
    if len(spiking) < 2:
        return np.zeros(0)
    return np.corrcoef(spiking)[np.triu_indices(len(spiking), 1)]


def ks_distance(a: np.ndarray, b: np.ndarray) -> float:
    """Compute the largest distance between two cumulative distributions."""
    a, b = np.sort(a), np.sort(b)
    both = np.concatenate([a, b])
    below = (np.searchsorted(x, both, side="right") / x.size for x in (a, b))
    return float(np.max(np.abs(np.subtract(*below))))
