"""The plan `persistent`: one cooperative launch for many steps, which never leaves the SMs.

A block owns a part of the neurons: their state is in its threads' registers, their ring in its
shared memory. In each step every block writes one word, which says who of its neurons has fired,
and waits for the words of all others. That is the barrier of the grid and the exchange of spikes
at once, and it takes one store and one load. What the next step does not need happens during that
wait:

    list     take the words of the step before, and list who fired
    early    read a record for each spike, add the synapses with a delay of one step to the ring,
             and ask for the first of the others
    advance  the neurons, and write this part's word
    late     add the other synapses to the ring
    drive    draw the next step's external spikes
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from kernbridge import numba_cuda_kernel
from numba import cuda, int32

from . import on_device, state
from .network import WIDEST
from .neuron import BIT_WORDS, COUNT_AT, LISTED, MANY, TAG_AT, TAGS, Constants
from .parameters import SLOTS

NUMBERS = len(state.State._fields)
TWO_LISTS = 2 * LISTED


def shared_memory(width: int) -> int:
    """The bytes of shared memory that a block needs for its ring."""
    return 4 * SLOTS * width


def start_mail(parts: int) -> np.ndarray:
    """Words and bits of two steps, which take turns: pairs of uint32 for each of 64 bits."""
    return np.zeros((2 * parts * (1 + BIT_WORDS), 2), np.uint32)


def make_steps(c: Constants, spins: bool):
    """Make the operation of many steps: it takes their number, what is given, state and mail.

    Blocks wait for each other in a loop if it `spins`, as a GPU's can, which run at the same time;
    on a CPU they wait in the barrier of the cooperative grid.
    """
    read = on_device.read_word if spins else cuda.ldcv
    f = on_device.functions(c, read)
    bits_at = 2 * c.parts

    @cuda.jit(launch_bounds=c.threads)  # so that the registers of a block suffice
    def run(
        steps, part, population, records, synapses, rises, poisson, seed, _clock, _v, _current,
        _wait, _ring, _total, _log, _logged, _crowded, _mail, clock, v, current, wait, ring, total,
        log, logged, crowded, mail,
    ):  # fmt: skip
        block, thread = cuda.blockIdx.x, cuda.threadIdx.x
        own_ring = cuda.shared.array(0, int32)
        sources = cuda.shared.array(TWO_LISTS, int32)  # of even and of odd steps
        fired = cuda.shared.array(WIDEST, int32)
        found = cuda.shared.array(4, int32)  # sources of even and odd steps, fired
        own, t = part[block], clock[block]
        source = thread * c.parts + own
        is_neuron = thread < c.width and source < c.neurons
        lane, groups = thread % c.group, c.threads // c.group

        k = thread
        while k < SLOTS * c.width:
            own_ring[k] = ring[block, k]
            k += c.threads
        if thread < 4:
            found[thread] = 0
        own_v, own_current, own_wait = np.float32(0), np.float32(0), np.int32(0)
        own_total, drive = np.int32(0), np.int32(0)
        row, rise = np.int32(0), np.float32(0)
        words = (np.uint32(0), np.uint32(0), np.uint32(0), np.uint32(0))
        if is_neuron:
            own_v, own_current, own_wait = (
                v[block, thread],
                current[block, thread],
                wait[block, thread],
            )
            row = np.int32(population[block, thread])
            rise = rises[row]
            if c.poisson:
                words = f.words(source, t >> 2, seed[0])
                drive = f.count_spikes(words, t, poisson, row) * c.external
        cuda.syncthreads()

        for _ in range(steps[0]):
            parity, before = t & 1, (t + 1) & 1
            if not spins:
                cuda.cg.this_grid().sync()
            # The last threads, which own no neurons, are the first that have nothing to do.
            k = c.threads - 1 - thread
            while k < c.parts:
                word = read(mail, before * c.parts + k)
                while np.int32(word >> np.uint64(TAG_AT)) != (t & TAGS):
                    word = read(mail, before * c.parts + k)
                bits = bits_at + (before * c.parts + k) * BIT_WORDS
                if np.int32(word >> np.uint64(COUNT_AT)) & np.int32(7) == MANY:
                    cuda.threadfence()
                f.unpack(word, k, mail, bits, sources, parity * LISTED, found, parity)
                k += c.threads
            cuda.syncthreads()

            listed = found[parity]
            n = min(listed, LISTED)
            slot = (t & (SLOTS - 1)) * c.width
            at, end = np.int64(0), np.int64(0)
            k = thread // c.group
            if k < n:
                at, end = f.deliver_early(
                    sources[parity * LISTED + k], block, lane, records, synapses, own_ring, slot
                )
                at += lane
            # These loads end while the neurons advance.
            a, b, d, e = np.uint32(0), np.uint32(0), np.uint32(0), np.uint32(0)
            if at < end:
                a = synapses[at]
            if at + c.group < end:
                b = synapses[at + c.group]
            if at + 2 * c.group < end:
                d = synapses[at + 2 * c.group]
            if at + 3 * c.group < end:
                e = synapses[at + 3 * c.group]
            k += groups
            while k < n:
                f.deliver_early(
                    sources[parity * LISTED + k], block, lane, records, synapses, own_ring, slot
                )
                k += groups
            if thread == 0:
                found[2] = 0
            cuda.syncthreads()

            if is_neuron:
                arrived = own_ring[slot + thread] + drive
                own_ring[slot + thread] = 0
                own_v, own_current, own_wait, fires = f.advance(
                    own_v, own_current, own_wait, arrived, rise
                )
                if fires:
                    fired[cuda.atomic.add(found, 2, 1)] = thread
                    own_total += 1
            if thread == 0:
                found[parity] = 0
            cuda.syncthreads()

            count = found[2]
            if count >= MANY:
                if thread < BIT_WORDS:
                    bits = bits_at + (parity * c.parts + own) * BIT_WORDS
                    mail[bits + thread] = f.bits_of(fired, count, thread)
                    cuda.threadfence()
                cuda.syncthreads()
            if thread == 0:
                word = f.pack(fired, count, (t + 1) & TAGS)
                cuda.atomic.exch(mail, parity * c.parts + own, word)
            if c.records_spikes:
                f.record(fired, count, thread, own, t, log, logged)

            if at < end:
                f.deliver(a, t, own_ring, 0)
            if at + c.group < end:
                f.deliver(b, t, own_ring, 0)
            if at + 2 * c.group < end:
                f.deliver(d, t, own_ring, 0)
            if at + 3 * c.group < end:
                f.deliver(e, t, own_ring, 0)
            at += 4 * c.group
            k = thread // c.group
            while k < n:
                while at < end:
                    f.deliver(synapses[at], t, own_ring, 0)
                    at += c.group
                k += groups
                if k < n:
                    at, end = f.late_of(sources[parity * LISTED + k], block, records)
                    at += lane
            if listed > LISTED and thread == 0:
                cuda.atomic.max(crowded, 0, listed)

            t += 1
            if c.poisson and is_neuron:
                if t & 3 == 0:
                    words = f.words(source, t >> 2, seed[0])
                drive = f.count_spikes(words, t, poisson, row) * c.external

        cuda.syncthreads()
        k = thread
        while k < SLOTS * c.width:
            ring[block, k] = own_ring[k]
            k += c.threads
        if is_neuron:
            v[block, thread], current[block, thread], wait[block, thread] = (
                own_v,
                own_current,
                own_wait,
            )
            total[block, thread] += own_total
        if thread == 0:
            clock[block] = t

    first = 1 + len(state.Given._fields)
    return numba_cuda_kernel(
        run,
        lambda *inputs: state.shapes(inputs[first:]),
        grid=c.own,
        block=c.threads,
        shared_mem=shared_memory(c.width),
        cooperative=True,
        input_output_aliases={first + i: i for i in range(NUMBERS + 1)},
        view={"_mail": np.dtype(np.uint64), "mail": np.dtype(np.uint64)},
    )


def make_run(c: Constants, spins: bool):
    """Make the function of a number of steps."""
    operation = make_steps(c, spins)

    def run(given, values, mail, steps):
        *values, mail = operation(np.array([steps], np.int32), *given, *values, mail)
        return state.State(*values), mail

    return run
