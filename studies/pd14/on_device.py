"""The device functions of both CUDA plans."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import cuda, types
from numba.core import cgutils
from numba.cuda import libdevice
from numba.cuda.extending import intrinsic

from . import neuron, philox
from .neuron import BIT_WORDS, COUNT_AT, ID_BITS, LISTED, MANY, TAG_AT, Constants
from .parameters import SLOTS


class Functions(NamedTuple):
    advance: Any
    words: Any
    count_spikes: Any
    unpack: Any
    pack: Any
    bits_of: Any
    deliver_early: Any
    late_of: Any
    deliver: Any
    record: Any


@cuda.jit(device=True)
def _multiply(x, y):
    return libdevice.fmul_rn(x, y)


@cuda.jit(device=True)
def _add(x, y):
    return libdevice.fadd_rn(x, y)


@intrinsic
def _load_relaxed(typing, words, index):
    """Read element `index` of a 1-D array of uint64 again."""

    def code(context, builder, signature, arguments):
        array, at = arguments
        array = context.make_array(signature.args[0])(context, builder, array)
        pointer = cgutils.get_item_pointer(context, builder, signature.args[0], array, [at])
        word = context.get_value_type(types.uint64)
        read = ir.FunctionType(word, [pointer.type])
        load = ir.InlineAsm(read, "ld.relaxed.gpu.global.b64 $0, [$1];", "=l,l", side_effect=True)
        return builder.call(load, [pointer])

    return types.uint64(words, types.intp), code


@cuda.jit(device=True)
def read_word(words, index):
    """Read a word that another block of the same launch may write.

    `cuda.ldcv` will not do: its instruction is a weak load, and ptxas removes a loop that waits
    for another value of it.
    """
    return _load_relaxed(words, index)


def functions(c: Constants, read: Any = cuda.ldcv) -> Functions:
    """Compile the functions for these constants; `read` reads a word that others write."""
    device = cuda.jit(device=True)

    @device
    def append(source, sources, base, found, which):
        at = cuda.atomic.add(found, which, 1)
        if at < LISTED:
            sources[base + at] = source

    @device
    def unpack(word, part, bits, first, sources, base, found, which):
        """Append the neurons of a word of spikes to a list."""
        count = np.int32(word >> np.uint64(COUNT_AT)) & np.int32(7)
        if count < MANY:
            for k in range(count):
                local = np.int32(word >> np.uint64(ID_BITS * k)) & np.int32(1023)
                append(local * c.parts + part, sources, base, found, which)
        else:
            for w in range(BIT_WORDS):
                left = read(bits, first + w)
                for k in range(64):
                    if left >> np.uint64(k) & np.uint64(1):
                        append((64 * w + k) * c.parts + part, sources, base, found, which)

    @device
    def pack(fired, count, tag):
        """Make the word of the spikes of a part."""
        word = np.uint64(tag) << np.uint64(TAG_AT)
        word |= np.uint64(min(count, MANY)) << np.uint64(COUNT_AT)
        if count < MANY:
            for k in range(count):
                word |= np.uint64(fired[k]) << np.uint64(ID_BITS * k)
        return word

    @device
    def bits_of(fired, count, w):
        """Make word `w` of the bits of the neurons that have fired."""
        bits = np.uint64(0)
        for k in range(count):
            if fired[k] >> 6 == w:
                bits |= np.uint64(1) << np.uint64(fired[k] & 63)
        return bits

    @device
    def deliver_early(source, part, lane, records, synapses, now, base):
        """Add what arrives in this step; returns where the rest lies: begin and end."""
        first = part * c.record
        begin, counts = np.int64(records[source, first]), records[source, first + 1]
        early = np.int32(counts & np.uint32(0xFFFF))
        k = lane
        while k < early:
            word = records[source, first + 2 + k] if k < c.record - 2 else synapses[begin + k]
            cuda.atomic.add(now, base + np.int32(word & np.uint32(1023)), np.int32(word) >> 16)
            k += c.group
        return begin + early, begin + np.int64(counts >> np.uint32(16))

    @device
    def late_of(source, part, records):
        """Find the synapses that `deliver_early` leaves: begin and end."""
        first = part * c.record
        begin, counts = np.int64(records[source, first]), records[source, first + 1]
        late = begin + np.int64(counts & np.uint32(0xFFFF))
        return late, begin + np.int64(counts >> np.uint32(16))

    @device
    def deliver(word, step, ring, base):
        """Add one synapse, of a spike that was fired before this step, to a ring."""
        slot = (np.int32(word >> np.uint32(10)) + step - 1) & (SLOTS - 1)
        local = np.int32(word & np.uint32(1023))
        cuda.atomic.add(ring, base + slot * c.width + local, np.int32(word) >> 16)

    @device
    def record(fired, count, thread, part, step, log, logged):
        k = thread
        while k < count:
            at = cuda.atomic.add(logged, 0, 1)
            if at < log.size:
                who = np.uint32(fired[k] * c.parts + part)
                log[at] = np.uint32(step & neuron.CLOCKED) << np.uint32(neuron.LOG_BITS) | who
            k += c.threads

    return Functions(
        device(neuron.make_advance(c, _multiply, _add)),
        device(neuron.make_words(device(philox.philox))),
        device(neuron.count_spikes),
        unpack,
        pack,
        bits_of,
        deliver_early,
        late_of,
        deliver,
        record,
    )
