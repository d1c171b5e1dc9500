"""The same network as a plain loop on one core: `--plan cpu`, and what the other plans must equal.

It goes through neurons and synapses one after the other, and shares with the plans for GPUs the
synapses, the step of a neuron and the random numbers, but nothing of how work is split.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numba
import numpy as np
from kernbridge import numba_kernel

from . import neuron, philox, state
from .neuron import Constants
from .parameters import SLOTS

NUMBERS = len(state.State._fields)


def start_mail(neurons: int) -> np.ndarray:
    """Who fired in the step before."""
    return np.zeros(neurons, np.uint8)


@numba.njit
def _multiply(x, y):
    return np.float32(x * y)


@numba.njit
def _add(x, y):
    return np.float32(x + y)


def make_run(c: Constants):
    """Make the function of a number of steps."""
    advance = numba.njit(neuron.make_advance(c, _multiply, _add))
    draw = numba.njit(neuron.make_words(numba.njit(philox.philox)))
    count_spikes = numba.njit(neuron.count_spikes)

    @numba.njit
    def simulate(
        steps, part, population, records, synapses, rises, poisson, seed, _clock, _v, _current,
        _wait, _ring, _total, _log, _logged, _crowded, _mail, clock, v, current, wait, ring, total,
        log, logged, crowded, mail,
    ):  # fmt: skip
        words = np.zeros((c.parts, c.width, 4), np.uint32)
        for step in range(steps[0]):
            t = clock[0]
            for source in range(c.neurons):
                if mail[source] == 0:
                    continue
                for k in range(c.parts):
                    begin = np.int64(records[source, k * c.record])
                    end = begin + np.int64(records[source, k * c.record + 1] >> np.uint32(16))
                    for word in synapses[begin:end]:
                        slot = (np.int32(word >> np.uint32(10)) + t - 1) & (SLOTS - 1)
                        local = np.int32(word & np.uint32(1023))
                        ring[k, slot * c.width + local] += np.int32(word) >> 16
            slot = (t & (SLOTS - 1)) * c.width
            for k in range(c.parts):
                for i in range(c.width):
                    source = i * c.parts + k
                    if source >= c.neurons:
                        continue
                    arrived = ring[k, slot + i]
                    ring[k, slot + i] = 0
                    row = population[k, i]
                    if c.poisson:
                        of_neuron = words[k, i]
                        if step == 0 or t & 3 == 0:
                            of_neuron[:] = draw(source, t >> 2, seed[0])
                        arrived += count_spikes(of_neuron, t, poisson, row) * c.external
                    v[k, i], current[k, i], wait[k, i], fires = advance(
                        v[k, i], current[k, i], wait[k, i], arrived, rises[row]
                    )
                    mail[source] = fires
                    if fires:
                        total[k, i] += 1
                        if c.records_spikes and logged[0] < log.size:
                            at = np.uint32(t & neuron.CLOCKED) << np.uint32(neuron.LOG_BITS)
                            log[logged[0]] = at | np.uint32(source)
                        logged[0] += np.int32(c.records_spikes)
            clock[:] += 1

    first = 1 + len(state.Given._fields)
    operation = numba_kernel(
        simulate,
        lambda *inputs: state.shapes(inputs[first:]),
        input_output_aliases={first + i: i for i in range(NUMBERS + 1)},
    )

    def run(given, values, mail, steps):
        *values, mail = operation(np.array([steps], np.int32), *given, *values, mail)
        return state.State(*values), mail

    return run
