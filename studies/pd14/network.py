"""The synapses: drawn by counters, and laid out for kernels whose blocks own a part of the neurons.

Neuron n belongs to part n % parts, as its neuron n // parts, so that every part has its share of
every population. A synapse is one word: 10 bits for the neuron of the part, 6 for the delay in
steps, 16 for the weight, an integer in units of a power of two. The synapses of a source lie part
by part, those with a delay of one step first. A record for each source and part says where they
begin (word 0) and how many there are (word 1: of delay 1 in the low half, all in the high one), and
repeats the first ones with a delay of one step, since only these are needed in the next step. It
has eight words, or fewer where there are many parts, so that records take at most 2 bytes a
synapse beside the 4 of the synapse itself: 1.1 with 132 parts or 264.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numba
import numpy as np

from . import draws, philox
from . import parameters as p

WIDEST = 1 << 10  # neurons of a part
RECORDS = (8, 4, 2)  # words, of which all but two are synapses
MOST_WORDS = 1900  # of all records of a source
BLOCK = 256  # sources that a task draws

_philox = numba.njit(inline="always")(philox.philox)


@numba.njit(inline="always")
def _words(k, source, seed):
    """Draw the words of the k-th synapse of a source: of its target, delay and weight (two)."""
    zero = np.uint32(0)
    return _philox(np.uint32(k), np.uint32(source), zero, zero, seed, np.uint32(philox.SYNAPSES))


@numba.njit(inline="always")
def _target(word, start, size):
    return np.uint32(start) + np.uint32((np.uint64(word) * np.uint64(size)) >> np.uint64(32))


class Tables(NamedTuple):
    """What words are turned into; the weights are in units."""

    sizes: np.ndarray
    starts: np.ndarray
    means: np.ndarray  # (8, 8)
    deviations: np.ndarray
    delay_below: np.ndarray  # (2, 64)
    delay_alias: np.ndarray
    normal_below: np.ndarray
    normal_alias: np.ndarray


class Network(NamedTuple):
    parts: int
    width: int  # neurons of the largest part
    record: int  # words
    unit: float  # pA, of weights
    external: int  # the weight of an external input, in units
    records: np.ndarray  # uint32 (devices * neurons, parts of a device * record)
    synapses: np.ndarray  # uint32 (devices * synapses of the device that has most,)
    count: int  # all synapses


def unit_of(model: p.Model) -> float:
    """Choose the largest power of two of units in a pA for which 16 bits hold every weight."""
    largest = np.abs(model.weights).max() * (1 + draws.NORMAL_LIMIT * p.WEIGHT_DEVIATION)
    return float(2.0 ** -np.floor(np.log2(32767 / largest)))


def _tables(model: p.Model) -> Tables:
    means = model.weights / unit_of(model)
    delays = [draws.delay_table(kind) for kind in (0, 1)]
    below, alias = (np.stack(columns) for columns in zip(*delays, strict=True))
    deviations = np.abs(means) * p.WEIGHT_DEVIATION
    normal = draws.normal_table()
    return Tables(model.sizes, model.starts, means, deviations, below, alias, *normal)


def record_words(parts: int) -> int:
    """Choose the words of a record."""
    return next((n for n in RECORDS if n * parts <= MOST_WORDS), RECORDS[-1])


def out_degrees(model: p.Model, seed: int) -> np.ndarray:
    """Draw how many synapses each neuron has onto each population: int32 (neurons, 8)."""
    rng = np.random.Generator(np.random.Philox(key=seed))
    degrees = np.zeros((model.neurons, 8), np.int32)
    for s in range(8):
        mine, size = slice(*model.starts[s : s + 2]), int(model.sizes[s])
        for t in range(8):
            degrees[mine, t] = rng.multinomial(model.synapses[t, s], np.full(size, 1 / size))
    return degrees


@numba.njit(nogil=True, cache=True)
def _count_targets(first, last, degrees, tables, seed, parts, own, counts):
    """Count the synapses of sources onto each device, which owns `own` parts."""
    for i in range(first, last):
        k = 0
        for t in range(8):
            for _ in range(degrees[i, t]):
                target = np.int64(_target(_words(k, i, seed)[0], tables.starts[t], tables.sizes[t]))
                counts[target % parts // own, i] += 1
                k += 1


@numba.njit(nogil=True, cache=True)
def _draw(first, last, degrees, tables, seed, parts, own, rows, longest, size, records, synapses):
    """Draw the synapses of sources, and lay them out."""
    neurons = degrees.shape[0]
    words = np.empty(longest, np.uint32)
    keys = np.empty(longest, np.int32)
    places = np.empty(2 * parts, np.int64)  # of each key: how many, then where the next one goes
    limit, width = draws.NORMAL_LIMIT, 2 * draws.NORMAL_LIMIT / 2**draws.NORMAL_BITS
    whole = synapses.size // rows.shape[0]
    for i in range(first, last):
        source = 0
        while i >= tables.starts[source + 1]:
            source += 1
        delay_below, delay_alias = tables.delay_below[source % 2], tables.delay_alias[source % 2]
        places[:] = 0
        k = 0
        for t in range(8):
            mean, deviation = tables.means[t, source], tables.deviations[t, source]
            for _ in range(degrees[i, t]):
                a, b, c, d = _words(k, i, seed)
                target = np.uint32(_target(a, tables.starts[t], tables.sizes[t]))
                delay = np.int32(b & np.uint32(63))
                if b >> np.uint32(6) >= delay_below[delay]:
                    delay = delay_alias[delay]
                column = np.int32(c & np.uint32(2**draws.NORMAL_BITS - 1))
                if c >> np.uint32(draws.NORMAL_BITS) >= tables.normal_below[column]:
                    column = tables.normal_alias[column]
                z = (column + d * 2.0**-32) * width - limit
                weight = np.int32(np.floor(mean + deviation * z + 0.5))
                part = np.int32(target % np.uint32(parts))
                low = np.uint32(target // np.uint32(parts)) | np.uint32(delay << 10)
                words[k] = low | (np.uint32(weight) << np.uint32(16))
                keys[k] = 2 * part + (delay > 1)
                places[keys[k]] += 1
                k += 1
        at = 0
        for part in range(parts):
            device, local = part // own, part % own
            if local == 0:
                at = rows[device, i]
            early, late = places[2 * part], places[2 * part + 1]
            record = records[device * neurons + i, local * size : (local + 1) * size]
            record[0] = at
            record[1] = early | (early + late) << 16
            places[2 * part], places[2 * part + 1] = at, at + early
            at += early + late
        for j in range(k):
            part, late = keys[j] // 2, keys[j] % 2
            device, local = part // own, part % own
            at = places[keys[j]]
            places[keys[j]] += 1
            synapses[device * whole + at] = words[j]
            record = records[device * neurons + i, local * size : (local + 1) * size]
            n = at - np.int64(record[0])
            if late == 0 and n < size - 2:
                record[2 + n] = words[j]


def build(
    model: p.Model,
    seed: int,
    parts: int,
    devices: int = 1,
    advance: Callable[[int], object] = lambda sources: None,
) -> Network:
    """Draw the network; `advance` is called with the number of sources that were drawn."""
    neurons, own = model.neurons, parts // devices
    width = -(-neurons // parts)
    if parts % devices or width > WIDEST:
        raise ValueError(
            f"{parts} parts of {width} neurons on {devices} devices: expected a multiple of"
            f" {devices} parts, of at most {WIDEST} neurons"
        )
    degrees, tables, key = out_degrees(model, seed), _tables(model), np.uint32(seed)
    whole = degrees.sum(axis=1)
    if whole.max(initial=0) >= 1 << 16:
        raise ValueError(f"a neuron has {whole.max():,} synapses, expected fewer than 65,536")
    blocks = [(i, min(i + BLOCK, neurons)) for i in range(0, neurons, BLOCK)]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        counts = whole[None].astype(np.int64)
        if devices > 1:
            counts = np.zeros((devices, neurons), np.int64)
            counting = (degrees, tables, key, parts, own, counts)
            list(pool.map(lambda block: _count_targets(*block, *counting), blocks))
        ends = np.cumsum(counts, axis=1)
        size = int(ends[:, -1].max())
        if size >= 1 << 32:
            raise ValueError(f"{size:,} synapses on a device, expected fewer than 2**32")
        record = record_words(parts)
        records = np.zeros((devices * neurons, own * record), np.uint32)
        synapses = np.zeros(devices * size, np.uint32)
        longest = max(1, int(whole.max()))
        rows = ends - counts
        given = (degrees, tables, key, parts, own, rows, longest, record, records, synapses)
        tasks = [pool.submit(_draw, *block, *given) for block in blocks]
        for (first, last), task in zip(blocks, tasks, strict=True):
            task.result()
            advance(last - first)
    unit = unit_of(model)
    external = round(model.external_weight / unit)
    return Network(parts, width, record, unit, external, records, synapses, int(whole.sum()))
