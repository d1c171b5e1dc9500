"""What the kernels of all plans are made of: the step of a neuron, its drive, and words of spikes.

A part reports its spikes to the others in one word of 64 bits: the neurons of up to four spikes in
10 bits each, their number in 3 bits, and the step in 20 bits. If more neurons have fired, the
number is `MANY`, and 16 further words have a bit for each neuron.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import parameters as p
from . import philox
from .draws import POISSON_LIMIT
from .network import Network

ID_BITS, IDS = 10, 4
COUNT_AT, TAG_AT = 40, 43
TAGS = (1 << 20) - 1
MANY = 5
BIT_WORDS = 16
LISTED = 2048  # spikes of all neurons in one step, at most
CLOCKED = (1 << 15) - 1  # the part of a step's number that an entry of the log has room for
LOG_BITS = 17  # of the neuron in an entry of the log


class Constants(NamedTuple):
    """What Numba compiles into the kernels."""

    neurons: int
    parts: int  # of all devices
    own: int  # of one
    width: int
    record: int  # words
    threads: int
    group: int  # threads that deliver a spike to a part
    poisson: bool
    records_spikes: bool
    external: int  # the weight of an external input, in units
    unit: np.float32  # pA
    decay_v: np.float32
    decay_current: np.float32
    v_of_current: np.float32  # mV per pA
    threshold: np.float32  # mV above the leak's potential
    refractory: int  # steps


def constants(model: p.Model, net: Network, own: int, **launch: Any) -> Constants:
    """Round the propagators of the exact integration to float32."""
    decay_v, decay_current = np.exp(-p.DT / p.TAU_M), np.exp(-p.DT / p.TAU_SYN)
    v_of_current = p.TAU_M * p.TAU_SYN / (p.C_M * (p.TAU_M - p.TAU_SYN))
    return Constants(
        neurons=model.neurons,
        parts=net.parts,
        own=own,
        width=net.width,
        record=net.record,
        poisson=model.drive == "poisson",
        external=net.external,
        unit=np.float32(net.unit),
        decay_v=np.float32(decay_v),
        decay_current=np.float32(decay_current),
        v_of_current=np.float32(v_of_current * (decay_v - decay_current)),
        threshold=np.float32(p.THRESHOLD - p.E_LEAK),
        refractory=round(p.T_REFRACTORY / p.DT),
        **launch,
    )


def rises(model: p.Model) -> np.ndarray:
    """Compute what the direct current adds to the potential in a step: float32, mV."""
    decay = np.exp(-p.DT / p.TAU_M)
    return (p.TAU_M / p.C_M * (1 - decay) * model.currents).astype(np.float32)


def make_advance(c: Constants, multiply, add):
    """Make the step of a neuron.

    Products and sums are rounded one by one, so that CPUs and GPUs have the same bits.
    """

    def advance(v, current, wait, arrived, rise):
        fires = False
        if wait > 0:
            wait -= 1
        else:
            driven = add(multiply(c.v_of_current, current), rise)
            v = add(multiply(c.decay_v, v), driven)
            if v >= c.threshold:
                v, wait, fires = np.float32(0), c.refractory, True
        arrived = np.float32(np.float32(arrived) * c.unit)
        return v, add(multiply(c.decay_current, current), arrived), wait, fires

    return advance


def make_words(generator):
    """Make the four random words of a neuron for the steps 4 * turn to 4 * turn + 3."""

    def words(neuron, turn, seed):
        zero = np.uint32(0)
        return generator(
            np.uint32(neuron), np.uint32(turn), zero, zero, seed, np.uint32(philox.DRIVE)
        )

    return words


def count_spikes(words, step, table, row):
    """Count the external spikes that arrive in a step."""
    turn = step & 3
    word = words[0]
    if turn == 1:
        word = words[1]
    elif turn == 2:
        word = words[2]
    elif turn == 3:
        word = words[3]
    count = np.int32(0)
    while count < POISSON_LIMIT - 1 and word >= table[row, count]:
        count += np.int32(1)
    return count
