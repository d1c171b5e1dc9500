"""Philox4x32-10, a counter-based generator of random numbers: four words for four words and a key.

The generator is that of Salmon et al. (2011), Parallel random numbers: as easy as 1, 2, 3, SC11,
doi 10.1145/2063384.2063405. The words depend on the counter and the key alone. The counters of the
model are the indices of neurons, synapses and steps, so that its numbers are the same on CPUs and
GPUs, whatever is split among threads or devices. `philox` is plain Python that Numba compiles for
both.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

ROUNDS = 10
MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
WEYL = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
HALF = np.uint64(32)

SYNAPSES, DRIVE, START = 0, 1, 2  # the second word of the key: what the numbers are for


def philox(c0, c1, c2, c3, k0, k1):
    """Compute the four words of a counter of four words, with a key of two."""
    for _ in range(ROUNDS):
        a = MULTIPLIERS[0] * np.uint64(c0)
        b = MULTIPLIERS[1] * np.uint64(c2)
        c0 = np.uint32(np.uint32(b >> HALF) ^ c1 ^ k0)
        c1 = np.uint32(b)
        c2 = np.uint32(np.uint32(a >> HALF) ^ c3 ^ k1)
        c3 = np.uint32(a)
        k0 = np.uint32(k0 + WEYL[0])
        k1 = np.uint32(k1 + WEYL[1])
    return c0, c1, c2, c3
