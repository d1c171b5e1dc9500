"""Algorithms in C++: graphs, dynamic programming, sorting, searching, spikes."""

from __future__ import annotations

import heapq

import numpy as np
import scipy.sparse as sp
import scipy.spatial
from corpus import F32, F64, I8, I16, I32, I64, U8, U64, call, case, normal
from scipy.sparse.csgraph import connected_components


def edges(rng):
    return rng.integers(0, 40, 25).astype(I32), rng.integers(0, 40, 25).astype(I32)


def labels(u, v):
    graph = sp.coo_matrix((np.ones(len(u)), (u, v)), (40, 40))
    count, label = connected_components(graph, directed=False)
    return label.astype(I32), np.array([count], I32)


def sizes(u, v):
    label, _ = labels(u, v)
    return np.bincount(label)[label].astype(I64)


case(
    "union_find",
    "c++",
    "class namespace vector two-functions check",
    [call("components", edges, labels), call("component_sizes", edges, sizes)],
    ("parent_[b] = a;", "parent_[a] = a;", "sets are never joined"),
    ("named[root] = next++;", "named[i] = next++;", "a label is kept for the wrong vertex"),
    ("size_[a] += size_[b];", "size_[a] += 1;", "size of a joined set"),
    (
        "parent_[x] = parent_[parent_[x]];\n            x = parent_[x];",
        "break;",
        "no walk to the root",
    ),
)


def words(dtype):
    def make(rng):
        a, b = rng.integers(0, 3, (6, 9)), rng.integers(0, 3, (6, 12))
        n = np.stack([rng.integers(4, 10, 6), rng.integers(5, 13, 6)], 1)
        return a.astype(dtype), b.astype(dtype), n.astype(I32)

    return make


def levenshtein(insertion, deletion, substitution):
    def one(a, b):
        d = np.zeros((len(a) + 1, len(b) + 1), I32)
        d[0], d[:, 0] = np.arange(len(b) + 1) * insertion, np.arange(len(a) + 1) * deletion
        for i, x in enumerate(a, 1):
            for j, y in enumerate(b, 1):
                change = d[i - 1, j - 1] + (substitution if x != y else 0)
                d[i, j] = min(change, d[i - 1, j] + deletion, d[i, j - 1] + insertion)
        return d[-1, -1]

    def reference(a, b, n):
        return np.array([one(x[:i], y[:j]) for x, y, (i, j) in zip(a, b, n, strict=True)], I32)

    return reference


def costs(i, d, s):
    return {"insertion": i, "deletion": d, "substitution": s}


case(
    "edit_distance",
    "c++",
    "name-only template dispatch-integral default-arguments comments-between-parameters vector",
    [
        call("edit_distance", words(t), levenshtein(*c), **costs(*c))
        for t, c in ((I8, (1, 1, 1)), (np.uint32, (2, 3, 4)), (I64, (3, 1, 9)), (bool, (1, 2, 1)))
    ],
    ("before[j - 1] + (a", "before[j] + (a", "the diagonal is read one column aside"),
    ("before[j] + deletion", "before[j] + insertion", "an attribute in place of another"),
    ("y + i * b.stride(0)", "y + i * a.stride(0)", "stride of the other tensor"),
    ("length[2 * i + 1]", "length[2 * i]", "length of the other row"),
)


def hidden_markov(rng):
    def logs(*shape):
        p = rng.random(shape)
        return np.log(p / p.sum(-1, keepdims=True))

    return logs(5), logs(5, 5), logs(17, 5)


def viterbi(start, transition, emission):
    score, back = start + emission[0], np.full((17, 5), -1, I32)
    for k in range(1, 17):
        paths = score[:, None] + transition
        back[k] = paths.argmax(0)
        score = paths.max(0) + emission[k]
    at = [int(score.argmax())]
    for k in range(16, 0, -1):
        at.append(int(back[k, at[-1]]))
    return np.array(at[::-1], I32), np.array([score.max()]), back


case(
    "viterbi",
    "c++",
    "scratch returns-int negative-axis own-headers several-outputs",
    [call("viterbi", hidden_markov, viterbi)],
    ("t[r * states + s]", "t[s * states + r]", "transitions are transposed"),
    ("k = steps - 1; k >= 0", "k = steps - 1; k > 0", "the first step has no state"),
    ("next[s] = most + e[k * states + s]", "next[s] = most + e[s]", "emissions of the first step"),
    ("double *next = best + states;", "double *next = best;", "rows of scratch overlap"),
)


def network(index, offset):
    def make(rng):
        n, degree = 30, rng.multinomial(90, np.full(30, 1 / 30))
        indptr = np.concatenate([[0], np.cumsum(degree)]).astype(offset)
        stimulus = np.full(n, -1, F32)
        stimulus[[2, 11]] = rng.random(2)
        delays = rng.uniform(0.5, 4, 90).astype(F32)
        return indptr, rng.integers(0, n, 90).astype(index), delays, stimulus

    return make


def first_spikes(horizon, leak):
    def reference(indptr, indices, delays, stimulus):
        times, order = np.full(30, -1, F32), np.full(30, -1, I32)
        queue = [(t, i) for i, t in enumerate(stimulus) if t >= 0]
        heapq.heapify(queue)
        fired = 0
        while queue and queue[0][0] <= F32(horizon):
            t, i = heapq.heappop(queue)
            if order[i] >= 0:
                continue
            times[i], order[i], fired = t, fired, fired + 1
            for k in range(indptr[i], indptr[i + 1]):
                heapq.heappush(queue, (F32(t + delays[k] * F32(leak)), int(indices[k])))
        return times, order

    return reference


case(
    "dijkstra_events",
    "c++",
    "priority-queue args-rets-attrs-aliases dispatch-index-pair plural-aliases struct",
    [
        call("first_spikes", network(i, o), first_spikes(h, k), horizon=h, leak=k)
        for i, o, h, k in ((I32, I32, 100.0, 1.0), (I64, I32, 4.0, 1.0), (I32, I64, 5.0, 0.75))
    ],
    (
        "std::greater<Event>>;",
        "std::less<Event>>;\n"
        "inline bool operator<(const Event& a, const Event& b) { return a.time < b.time; }",
        "the latest event first",
    ),
    ("e.time > horizon", "false", "an attribute is ignored"),
    ("* leak,", ",", "another attribute is ignored"),
    ("rank[e.neuron] = fired++", "rank[fired] = fired, fired++", "ranks in the place of neurons"),
)


def trains(rng):
    return np.sort(rng.uniform(0, 10, (7, 8))), rng.integers(2, 9, 7).astype(I32)


def victor_purpura(t, count):
    def one(a, b):
        d = np.add.outer(np.arange(len(a) + 1.0), np.arange(len(b) + 1.0))
        for i in range(1, len(a) + 1):
            for j in range(1, len(b) + 1):
                shift = d[i - 1, j - 1] + 0.8 * abs(a[i - 1] - b[j - 1])
                d[i, j] = min(shift, d[i - 1, j] + 1, d[i, j - 1] + 1)
        return d[-1, -1]

    cut = [row[:n] for row, n in zip(t, count, strict=True)]
    return np.array([[one(a, b) for b in cut] for a in cut])


def statistics(t, count):
    intervals = [np.diff(row[:n]) for row, n in zip(t, count, strict=True)]
    cv = [d.std() / d.mean() if len(d) > 1 else 0.0 for d in intervals]
    return count / 10.0, np.array(cv)


case(
    "spike_metrics",
    "c++",
    "namespace anonymous-namespace tensor-references name-only float64-attribute",
    [
        call("distances", trains, victor_purpura, cost=0.8),
        call("interval_statistics", trains, statistics, duration=10.0, rtol=1e-9),
    ],
    ("cost * std::fabs", "std::fabs", "an attribute is ignored"),
    ("t + j * width, c[j]", "t + j * width, c[i]", "length of the other train"),
    ("n < 3 ? 0.0 :", "n < 4 ? 0.0 :", "short trains"),
    ("t[k] - t[k - 1]", "t[k] - t[0]", "intervals are from the first spike"),
)


def neighbours(dtype, dimension):
    def reference(points, queries):
        d, i = scipy.spatial.cKDTree(points.astype(F64)).query(queries.astype(F64), k=4)
        return (d**2).astype(dtype), i.astype(I32)

    shapes = (101, dimension), (23, dimension)
    return call("nearest", normal(*shapes, dtype=dtype), reference, rtol=1e-5)


case(
    "kdtree",
    "c++",
    "template recursion nth-element heap lambda dispatch-floating check",
    [neighbours(F32, 3), neighbours(F64, 2)],
    ("aside * aside < found.front().first", "false", "the other side is not searched"),
    (
        "split(middle + 1, end, (axis + 1) % dimension);\n    }",
        "}",
        "half of the tree is not built",
    ),
    ("(at(i, a) - q[a]) * (at(i, a) - q[a])", "at(i, a) - q[a]", "distance is not squared"),
    ("queries.stride(0)", "index.size(-1)", "stride of another tensor"),
)


def argsort(keys, descending):
    if descending:
        n = keys.shape[-1]
        return (n - 1 - np.argsort(keys[..., ::-1], -1, kind="stable"))[..., ::-1].astype(I32)
    return np.argsort(keys, -1, kind="stable").astype(I32)


def keys(dtype, *shape):
    def make(rng):
        if np.dtype(dtype).kind == "f":
            return rng.normal(size=shape).astype(dtype)
        return rng.integers(0, 2 if dtype is bool else 60, shape).astype(dtype)

    return make


case(
    "quicksort",
    "c++",
    "recursion template prototype-before-definition dispatch-all-types inferred-bool",
    [
        call("argsort", keys(t, *s), lambda k, d=d: argsort(k, d), descending=d)
        for t, s, d in (
            (F32, (3, 200), False),
            (I16, (300,), True),
            (bool, (2, 90), False),
            (F64, (41,), True),
            (U64, (2, 2, 77), False),
            (U8, (5, 16), True),
        )
    ],
    ("return a < b;", "return a > b;", "equal keys in the wrong order"),
    (
        "if (j + 1 < n - i) {",
        "if (j + 1 < n - i - 1) {\n            n -= 1;",
        "a tail is not sorted",
    ),
    (
        "descending ? keys[a] > keys[b] : keys[a] < keys[b]",
        "keys[a] < keys[b]",
        "attribute ignored",
    ),
    ("keys.data_ptr<key_t>() + r * n", "keys.data_ptr<key_t>()", "every row is the first"),
)


def with_gaps(rng):
    x = rng.normal(size=(6, 11))
    x[rng.random(x.shape) < 0.2] = np.nan
    x[:, 3] = rng.normal(size=6)
    return x


def most_frequent(x):
    found = [np.unique(row, return_counts=True) for row in x]
    most = [(v[c.argmax()], c.max()) for v, c in found]
    return np.array([v for v, _ in most], I64), np.array([c for _, c in most], I32)


case(
    "quantiles",
    "c++",
    "std-sort map std-exceptions int-exception vector uint64-attribute three-functions",
    [
        call("quantile", with_gaps, lambda x: np.nanquantile(x, 0.3, axis=1), q=0.3),
        call("quantile", normal((3, 1), dtype=F64), lambda x: x[:, 0], q=1.0),
        call("mode", lambda rng: rng.integers(-9, 9, (5, 40)), most_frequent),
        call("pick", normal(9), lambda x: x[7:8], index=7),
    ],
    (
        "row.size() - 1);\n        size_t low",
        "row.size() - 2.0);\n        size_t low",
        "place of the quantile",
    ),
    ("row.at(low) * (1 - part) + high * part", "row.at(low)", "no interpolation"),
    ("x.data_ptr<int64_t>()[r * n + i]", "x.data_ptr<int64_t>()[r + i]", "stride of rows"),
    ("all.at(index)", "all.at(index - 1)", "index of the element"),
)
