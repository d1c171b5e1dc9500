"""Tables by which uniform random words become delays, weights and numbers of Poisson spikes.

A table of Walker's alias method draws from any distribution over 2**b values by one word of 32
bits: the low b bits choose a column, and the others choose between the column and its alias. The
probabilities are exact to 2**(b - 32).
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from math import erf, exp, sqrt
from typing import NamedTuple

import numpy as np

from . import parameters as p

NORMAL_BITS = 10
NORMAL_LIMIT = 6.5  # normal numbers beyond this occur once in 10**10 draws, and are left out
POISSON_LIMIT = 32  # a number of spikes below this


class Alias(NamedTuple):
    below: np.ndarray  # uint32: the column itself is drawn if the other bits are below
    alias: np.ndarray  # int32


def alias_table(probabilities: np.ndarray) -> Alias:
    """Build the table of a distribution over a power of two of values."""
    n = probabilities.size
    left = probabilities / probabilities.sum() * n
    small = [i for i in range(n) if left[i] < 1]
    large = [i for i in range(n) if left[i] >= 1]
    keep, alias = np.ones(n), np.arange(n, dtype=np.int32)
    while small and large:
        i, j = small.pop(), large.pop()
        keep[i], alias[i] = left[i], j
        left[j] -= 1 - left[i]
        (small if left[j] < 1 else large).append(j)
    return Alias(np.round(keep * (2**32 // n)).astype(np.uint32), alias)


def _normal_below(z: float) -> float:
    return 0.5 * (1 + erf(z / sqrt(2)))


def delay_table(kind: int) -> Alias:
    """Delays in steps, of excitatory (0) or inhibitory (1) neurons.

    A normal number that is drawn again until it is at least half a step, rounded to steps.
    """
    mean = p.DELAY_MEANS[kind] / p.DT
    below = [_normal_below((d - 0.5 - mean) / (p.DELAY_DEVIATION * mean)) for d in range(65)]
    probabilities = np.diff(below)
    probabilities[0] = 0
    return alias_table(probabilities)


def normal_table() -> Alias:
    """Build a table of 1,024 equal columns of the normal distribution.

    A number is the column that is drawn, plus a uniform part of it: the density is a staircase
    whose steps are 0.0127 standard deviations wide, and its variance is 1 + 1.3e-5.
    """
    edges = np.linspace(-NORMAL_LIMIT, NORMAL_LIMIT, 2**NORMAL_BITS + 1)
    return alias_table(np.diff([_normal_below(z) for z in edges]))


def poisson_table(means: np.ndarray) -> np.ndarray:
    """Cumulative probabilities in units of 2**-32: a word draws how many of its row it reaches."""
    table = np.full((means.size, POISSON_LIMIT), 2**32 - 1, np.uint32)
    for row, mean in zip(table, means, strict=True):
        term = total = exp(-mean)
        for k in range(POISSON_LIMIT - 1):
            row[k] = min(round(total * 2**32), 2**32 - 1)
            term *= mean / (k + 1)
            total += term
    return table
