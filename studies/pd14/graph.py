"""The plan `graph`: one launch a step, whose blocks own a part of the neurons each.

A block lists who fired in the step before, adds what arrives now to an array in shared memory and
what arrives later to its ring in global memory, advances its neurons, and writes its word of
spikes. The launch is the barrier. Words are the loop's state, and are all that devices exchange.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import jax
import numpy as np
from kernbridge import numba_cuda_kernel
from numba import cuda, int32

from . import on_device, state
from .neuron import BIT_WORDS, LISTED, MANY, Constants
from .parameters import SLOTS

ROW = 1 + BIT_WORDS  # words of a part
UNROLL = 20  # steps of a turn of the loop: bodies of several launches become CUDA graphs
NUMBERS = len(state.State._fields)


def start_mail(parts: int) -> np.ndarray:
    """The words of a step in which no one fired: pairs of uint32 for each of 64 bits."""
    return np.zeros((parts * ROW, 2), np.uint32)


def make_step(c: Constants):
    """Make the operation of a step: it takes what is given, the state and the mail."""
    f = on_device.functions(c)
    width = c.width  # sizes of shared arrays are global or captured numbers

    @cuda.jit(launch_bounds=c.threads)
    def step(
        part, population, records, synapses, rises, poisson, seed, _clock, _v, _current, _wait,
        _ring, _total, _log, _logged, _crowded, mail, clock, v, current, wait, ring, total, log,
        logged, crowded, written,
    ):  # fmt: skip
        block, thread = cuda.blockIdx.x, cuda.threadIdx.x
        sources = cuda.shared.array(LISTED, int32)
        fired = cuda.shared.array(width, int32)
        now = cuda.shared.array(width, int32)
        found = cuda.shared.array(2, int32)  # sources, fired
        own, t = part[block], clock[block]
        slot = (t & (SLOTS - 1)) * c.width
        source = thread * c.parts + own
        is_neuron = thread < c.width and source < c.neurons

        # What comes from memory is asked for before the first wait. The last threads, which own no
        # neurons, take the words.
        k = c.threads - 1 - thread
        word = mail[k * ROW] if k < c.parts else np.uint64(0)
        arrived, row, own_wait = np.int32(0), np.int32(0), np.int32(0)
        own_v, own_current = np.float32(0), np.float32(0)
        if thread < c.width:
            arrived = ring[block, slot + thread]
            now[thread] = 0
        if is_neuron:
            own_v, own_current = v[block, thread], current[block, thread]
            own_wait, row = wait[block, thread], np.int32(population[block, thread])
        if thread < 2:
            found[thread] = 0
        cuda.syncthreads()
        while k < c.parts:
            f.unpack(word, k, mail, k * ROW + 1, sources, 0, found, 0)
            k += c.threads
            if k < c.parts:
                word = mail[k * ROW]
        rise = rises[row]
        cuda.syncthreads()

        n = min(found[0], LISTED)
        lane = thread % c.group
        own_ring = ring[block]
        k = thread // c.group
        at, end = np.int64(0), np.int64(0)
        if k < n:
            at, end = f.deliver_early(sources[k], block, lane, records, synapses, now, 0)
            at += lane
        # These loads end while the external spikes are drawn.
        a, b = np.uint32(0), np.uint32(0)
        if at < end:
            a = synapses[at]
        if at + c.group < end:
            b = synapses[at + c.group]
        if c.poisson and is_neuron:
            words = f.words(source, t >> 2, seed[0])
            arrived += f.count_spikes(words, t, poisson, row) * c.external
        if at < end:
            f.deliver(a, t, own_ring, 0)
        if at + c.group < end:
            f.deliver(b, t, own_ring, 0)
        at += 2 * c.group
        while k < n:
            while at < end:
                f.deliver(synapses[at], t, own_ring, 0)
                at += c.group
            k += c.threads // c.group
            if k < n:
                at, end = f.deliver_early(sources[k], block, lane, records, synapses, now, 0)
                at += lane
        cuda.syncthreads()

        if is_neuron:
            ring[block, slot + thread] = 0
            v[block, thread], current[block, thread], wait[block, thread], fires = f.advance(
                own_v, own_current, own_wait, arrived + now[thread], rise
            )
            if fires:
                fired[cuda.atomic.add(found, 1, 1)] = thread
                total[block, thread] += 1
        cuda.syncthreads()

        count = found[1]
        if thread == 0:
            written[block * ROW] = f.pack(fired, count, 0)
            clock[block] = t + 1
            if found[0] > LISTED:
                cuda.atomic.max(crowded, 0, found[0])
        if count >= MANY and thread < BIT_WORDS:
            written[block * ROW + 1 + thread] = f.bits_of(fired, count, thread)
        if c.records_spikes:
            f.record(fired, count, thread, own, t, log, logged)

    def outs(*inputs):
        changed = state.State(*inputs[-NUMBERS - 1 : -1])
        mail = jax.ShapeDtypeStruct((c.own * ROW, 2), np.uint32)
        return [*state.shapes(changed), mail]

    first = len(state.Given._fields)
    return numba_cuda_kernel(
        step,
        outs,
        grid=c.own,
        block=c.threads,
        input_output_aliases={first + i: i for i in range(NUMBERS)},
        view={"mail": np.dtype(np.uint64), "written": np.dtype(np.uint64)},
    )


def make_run(c: Constants, devices: int):
    """Make the function of a number of steps, on each device with its part of the arrays."""
    step = make_step(c)

    def run(given, values, mail, steps):
        def body(_, carried):
            values, mail = carried
            *values, mail = step(*given, *values, mail)
            if devices > 1:
                mail = jax.lax.all_gather(mail, "device", tiled=True)
            return state.State(*values), mail

        return jax.lax.fori_loop(0, steps, body, (values, mail), unroll=min(UNROLL, steps))

    return run
