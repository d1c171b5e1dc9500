"""Draws CUDA C++ kernels, each with the same function in JAX, and compares their derivatives.

    python tests/python/ext/enzyme/drawn_cuda.py FIRST LAST [PROCESSES]

compares the kernels of the seeds from FIRST to LAST - 1, on a GPU if JAX has one, and else on the
CPU. It prints each disagreement, each refusal and each other error with the kernel, and then how
many there are.
"""

import os
import sys
from pathlib import Path

if __name__ in ("__main__", "__mp_main__"):
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("KERNBRIDGE_CACHE_DIR", "")  # no kernel is compiled twice
    sys.path.insert(0, str(Path(__file__).parents[2]))

import warnings
from typing import Any, NamedTuple

import drawn
import jax
import jax.numpy as jnp
import numpy as np
from kernbridge import cuda_kernel
from kernbridge.errors import KernbridgeWarning
from needs_enzyme import assert_derivatives

S = jax.ShapeDtypeStruct
STYLES = ("guard", "stride", "two axes", "in place", "blocks", "blocks", "warps", "warps")
UNARY = {
    "sin({})": jnp.sin,
    "tanh({})": jnp.tanh,
    "exp(-{0} * {0})": lambda a: jnp.exp(-a * a),
    "log1p({0} * {0})": lambda a: jnp.log1p(a * a),
    "sqrt(U(1) + {0} * {0})": lambda a: jnp.sqrt(1 + a * a),
    "rsqrt(U(1) + {0} * {0})": lambda a: 1 / jnp.sqrt(1 + a * a),
    "atan({})": jnp.arctan,
    "fabs({})": jnp.abs,
    "erf({})": jax.scipy.special.erf,
    "({0} - floor({0}))": lambda a: a - jnp.floor(a),
}
BINARY = {
    "{0} + {1}": jnp.add,
    "sin({0}) * {1}": lambda a, b: jnp.sin(a) * b,
    "{0} / (U(2) + sin({1}))": lambda a, b: a / (2 + jnp.sin(b)),
    "atan2({0}, U(2) + {1} * {1})": lambda a, b: jnp.arctan2(a, 2 + b * b),
    "max({0}, {1})": jnp.maximum,
    "fmin({0}, {1})": jnp.minimum,
    "hypot({0}, U(1) + {1} * {1})": lambda a, b: jnp.hypot(a, 1 + b * b),
    "fma({0}, {1}, {0})": lambda a, b: a * b + a,
    "copysign(sin({0}), {1})": lambda a, b: jnp.copysign(jnp.sin(a), b),
}
# What is singular at zero, where the guard is closed.
GUARDED = {
    "u > 0 ? u * log(u) : {}": lambda u, b: (u > 0, lambda u: u * jnp.log(u), b),
    "u != 0 ? {} / u : U(0.3)": lambda u, b: (u != 0, lambda u: b / u, 0.3),
    "u > 0 ? exp(sqrt(u)) : {}": lambda u, b: (u > 0, lambda u: jnp.exp(jnp.sqrt(u)), b),
}
HEAD = """\
struct Numbers { float a; int n; double b; };
template <typename U> struct Pair { U first, second; };
template <typename U, int K> __device__ U mixed(U a, U b)
{
    U u = a;
    for (int j = 0; j < K; j++)
        u = U(0.5) * sin(u) * b + a;
    return u;
}
template <typename U> __device__ void split(U a, U &s, U &c)
{
    s = sin(a);
    c = cos(a);
}
template <typename U> __device__ Pair<U> turned(Pair<U> p)
{
    return {-p.second, p.first * p.first};
}
"""
NUMBERS = np.array([(1.5, 3, 0.25)], [("a", "f4"), ("n", "i4"), ("b", "f8")])[0]


class Drawn(NamedTuple):
    """An operation, the same function in JAX, arguments for both, and the kernel's source."""

    operation: Any
    reference: Any
    arguments: tuple
    source: str


def one(rng, of):
    of = list(of)
    return of[rng.integers(len(of))]


def spread(j, values):
    """For each thread, the value of the number that it chooses."""
    return jnp.select([j == k for k in range(len(values))], values)


def _of_items(rng, a, b, arrays):
    """Lines in which a thread computes `{t}`, and the function of JAX for all threads."""
    kind, array = rng.integers(15), one(rng, arrays)
    if kind == 0:
        text = one(rng, UNARY)
        return [f"U {{t}} = {text.format(a)};"], lambda v: UNARY[text](v[a])
    if kind == 1:
        text = one(rng, BINARY)
        return [f"U {{t}} = {text.format(a, b)};"], lambda v: BINARY[text](v[a], v[b])
    if kind == 2:
        return [f"U {{t}} = {array}[k] * cos({b});"], lambda v: v[array][v["k"]] * jnp.cos(v[b])
    if kind == 3:
        lines = ["U {t};", f"if ({a} > U(0.1))", f"    {{t}} = {a} * sin({b});"]
        lines += ["else", f"    {{t}} = {b} - {a};"]
        return lines, lambda v: jnp.where(v[a] > 0.1, v[a] * jnp.sin(v[b]), v[b] - v[a])
    if kind == 4:
        lines = [f"U {{t}} = {a};", "for (int j = 0; j < 5; j++)", "    if ({t} > 1)"]
        lines += [f"        {{t}} *= U(0.5) * cos({b});"]

        def shrunk(v):
            u = v[a]
            for _ in range(5):
                u = jnp.where(u > 1, u * 0.5 * jnp.cos(v[b]), u)
            return u

        return lines, shrunk
    if kind == 5:
        rounds = one(rng, ["rounds", "k % 4", "p.n"])
        lines = [f"U {{t}} = {b};", f"for (int j = 0; j < {rounds}; j++)"]
        lines += [f"    {{t}} = U(0.5) * {{t}} * sin({array}[(i + j) % n]) + {a};"]

        def repeated(v):
            n, u = len(v[array]), v[b]
            m = {"rounds": 4, "k % 4": v["k"] % 4, "p.n": 3}[rounds]
            for j in range(4):
                now = 0.5 * u * jnp.sin(v[array][(v["i"] + j) % n]) + v[a]
                u = jnp.where(j < m, now, u)
            return u

        return lines, repeated
    if kind == 6:
        text = one(rng, GUARDED)
        lines = [f"U {{t}} = {a} > U(0.2) ? {a} : U(0);"]
        lines += [f"{{{{ U u = {{t}}; {{t}} = {text.format(b)}; }}}}"]

        def guarded(v):
            u = jnp.where(v[a] > 0.2, v[a], 0)
            is_open, inside, outside = GUARDED[text](u, v[b])
            return jnp.where(is_open, inside(jnp.where(is_open, u, 1)), outside)

        return lines, guarded
    if kind == 7:  # an array of another rank, extents and dtype
        lines = [f"U {{t}} = U(w[(k % rows) * 2 + i % 2]) * sin({a}) + {b};"]
        return lines, lambda v: v["w"][v["k"] % len(v["w"]), v["i"] % 2] * jnp.sin(v[a]) + v[b]
    if kind == 8:
        rounds = one(rng, [1, 3])

        def by_template(v):
            u = v[a]
            for _ in range(rounds):
                u = 0.5 * jnp.sin(u) * v[b] + v[a]
            return u

        return [f"U {{t}} = mixed<U, {rounds}>({a}, {b});"], by_template
    if kind == 9:
        return [f"U {{t}} = U(p.a) * {a} * {a} + U(p.b) * {b};"], (
            lambda v: 1.5 * v[a] * v[a] + 0.25 * v[b]
        )
    if kind == 10:
        rounds = one(rng, [1, 3])
        lines = ["U {t};", "{{", "    U q[4];", "    for (int j = 0; j < 4; j++)"]
        lines += [f"        q[j] = {a} * U(j + 1);", f"    for (int j = 0; j < {rounds}; j++)"]
        lines += [f"        q[k % 4] = sin(q[k % 4]) * {b} + q[3 - k % 4];"]
        lines += ["    {t} = q[0] * q[3] - q[1] + q[2];", "}}"]

        def of_local(v):
            q, at = [v[a] * (j + 1) for j in range(4)], v["k"] % 4
            for _ in range(rounds):
                own = jnp.sin(spread(at, q)) * v[b] + spread(at, q[::-1])
                q = [jnp.where(at == j, own, q[j]) for j in range(4)]
            return q[0] * q[3] - q[1] + q[2]

        return lines, of_local
    if kind == 11:
        lines = [f"U {{t}} = {b};", "for (int m = k; m > 0; m /= 2)"]
        lines += [f"    {{t}} += {array}[m] * cos({a});"]

        def halved(v):
            u, at = v[b], v["k"]
            for _ in range(10):
                u, at = jnp.where(at > 0, u + v[array][at] * jnp.cos(v[a]), u), at // 2
            return u

        return lines, halved
    if kind == 12:
        lines = ["U {t};", "switch (k % 3) {{", f"case 0: {{t}} = {a} * {b}; break;"]
        lines += [f"case 1: {{t}} = sin({b}); break;", f"default: {{t}} = {a};", "}}"]
        return lines, lambda v: spread(v["k"] % 3, [v[a] * v[b], jnp.sin(v[b]), v[a]])
    if kind == 13:
        lines = [
            "U {t}s, {t}c;",
            f"split({a}, {{t}}s, {{t}}c);",
            f"U {{t}} = {{t}}s * {{t}}c + {b};",
        ]
        return lines, lambda v: jnp.sin(v[a]) * jnp.cos(v[a]) + v[b]
    lines = [f"Pair<U> {{t}}p = turned(Pair<U>{{{{{a}, {b}}}}});"]
    lines += ["U {t} = {t}p.first * {t}p.second;"]
    return lines, lambda v: -v[b] * v[a] * v[a]


def _of_blocks(rng, a, b, block):
    """Lines in which the threads of a block use shared memory, and the function of JAX."""
    kind = rng.integers(7)
    wait = "__syncthreads();"
    if kind == 0:
        lines = [f"s[own] = {a};", wait, f"U {{t}} = s[BLOCK - 1 - own] * cos({b});", wait]
        return lines, lambda v: v[a].reshape(-1, block)[:, ::-1].reshape(-1) * jnp.cos(v[b])
    if kind == 1:
        lines = [f"s[own] = U(0.1) * {b};", wait]
        lines += [
            f"atomicAdd(&s[k % BLOCK], {a} * sin({b}));",
            wait,
            f"U {{t}} = s[own] * {a};",
            wait,
        ]

        def added(v):
            first = jnp.arange(len(v[a])) // block * block
            to = first + v["k"] % block
            return v[a] * (0.1 * v[b]).at[to].add(v[a] * jnp.sin(v[b]))

        return lines, added
    if kind == 2:
        lines = [f"s[own] = sin({a});", wait, "for (int half = BLOCK / 2; half > 0; half /= 2) {{"]
        lines += ["    if (own < half)", "        s[own] += s[own + half] * s[own + half];"]
        lines += [f"    {wait}", "}}", f"U {{t}} = s[0] / BLOCK + {b};", wait]

        def reduced(v):
            s = jnp.sin(v[a]).reshape(-1, block)
            while s.shape[1] > 1:
                half = s.shape[1] // 2
                s = s[:, :half] + s[:, half:] ** 2
            return jnp.repeat(s[:, 0], block) / block + v[b]

        return lines, reduced
    if kind == 3:
        rounds = one(rng, [2, "rounds"])
        lines = [f"U {{t}} = {a};", f"for (int j = 0; j < {rounds}; j++) {{{{"]
        lines += ["    s[own] = {t};", f"    {wait}"]
        lines += [f"    {{t}} = U(0.5) * sin(s[(own + 1) % BLOCK]) + U(0.3) * {{t}} * {b};"]
        lines += [f"    {wait}", "}}"]

        def passed(v):
            u = v[a]
            for _ in range(4 if rounds == "rounds" else rounds):
                moved = jnp.roll(u.reshape(-1, block), -1, axis=1).reshape(-1)
                u = 0.5 * jnp.sin(moved) + 0.3 * u * v[b]
            return u

        return lines, passed
    if kind == 4:  # an array that some threads of a block fill, and all read
        lines = ["if (own < 4)", f"    few[own] = {a} * {a};", wait]
        lines += [f"U {{t}} = few[k % 4] * {b} - few[0];", wait]

        def shared(v):
            few = v[a].reshape(-1, block)[:, :4] ** 2
            of = jnp.arange(len(v[a])) // block
            return few[of, v["k"] % 4] * v[b] - few[of, 0]

        return lines, shared
    if kind == 5:
        lines = [f"tile[own / 4][own % 4] = {a} * {b};", wait]
        lines += ["U {t} = tile[own % (BLOCK / 4)][own / (BLOCK / 4)];", wait]

        def transposed(v):
            tiles = (v[a] * v[b]).reshape(-1, block // 4, 4)
            return tiles.transpose(0, 2, 1).reshape(-1)

        return lines, transposed
    lines = ["pairs[own].first = " + f"{a};", f"pairs[own].second = {b};", wait]
    lines += ["Pair<U> {t}p = pairs[own ^ 1];", "U {t} = {t}p.first * sin({t}p.second);", wait]

    def of_pairs(v):
        at = jnp.arange(len(v[a])) ^ 1
        return v[a][at] * jnp.sin(v[b][at])

    return lines, of_pairs


def _of_warps(rng, a, b):
    """Lines in which the threads of a warp pass numbers, and the function of JAX."""
    kind, lanes = rng.integers(7), np.arange(32)

    def warps(x):
        return x.reshape(-1, 32)

    if kind == 0:
        lines = [f"U {{t}} = {a};", "for (int j = 16; j > 0; j /= 2)"]
        lines += ["    {t} += __shfl_xor_sync(0xffffffff, {t}, j);"]
        lines += [f"{{t}} = sin({{t}} / 32) * {b};"]
        return lines, lambda v: jnp.sin(jnp.repeat(warps(v[a]).mean(1), 32)) * v[b]
    if kind == 1:
        width, by = one(rng, [4, 8, 16, 32]), int(rng.integers(1, 4))
        way = one(rng, ["up", "down"])
        of = lanes - by if way == "up" else lanes + by
        of = np.where(of // width == lanes // width, of, lanes)
        lines = [f"U {{t}} = {b} * __shfl_{way}_sync(0xffffffff, {a}, {by}, {width});"]
        return lines, lambda v: v[b] * warps(v[a])[:, of].reshape(-1)
    if kind == 2:
        lines = [f"U {{t}} = {a} * {b};", "for (int j = 1; j < 32; j *= 2) {{"]
        lines += ["    U {t}b = __shfl_up_sync(0xffffffff, {t}, j);", "    if (lane >= j)"]
        lines += ["        {t} += {t}b;", "}}"]
        return lines, lambda v: jnp.cumsum(warps(v[a] * v[b]), 1).reshape(-1)
    if kind == 3:
        lines = [f"U {{t}} = {b} * __shfl_sync(0xffffffff, {a} * {a}, k % 32);"]

        def by_index(v):
            return v[b] * jnp.take_along_axis(warps(v[a] ** 2), warps(v["k"] % 32), 1).reshape(-1)

        return lines, by_index
    if kind == 4:
        lines = [f"unsigned {{t}}v = __ballot_sync(0xffffffff, {a} > 0);"]
        lines += [f"U {{t}} = {b} * U(__popc({{t}}v)) / 32;"]
        lines += [f"if (__any_sync(0xffffffff, {b} > 1))", f"    {{t}} += {a};"]

        def voted(v):
            count, is_any = (warps(v[a]) > 0).sum(1), (warps(v[b]) > 1).any(1)
            u = v[b] * jnp.repeat(count, 32) / 32
            return jnp.where(jnp.repeat(is_any, 32), u + v[a], u).astype(v[a].dtype)

        return lines, voted
    if kind == 5:
        lines = ["U {t} = x[__shfl_xor_sync(0xffffffff, k, 5)] * " + f"{a};"]
        return lines, lambda v: v["x"][warps(v["k"])[:, lanes ^ 5].reshape(-1)] * v[a]
    lines = [f"U {{t}} = {a};", "for (int j = 0; j < 5; j++)"]
    lines += ["    {t} = max({t}, __shfl_xor_sync(0xffffffff, {t}, 1 << j));"]
    lines += [f"{{t}} = exp({a} - {{t}}) * {b};"]
    return lines, lambda v: jnp.exp(v[a] - jnp.repeat(warps(v[a]).max(1), 32)) * v[b]


def _moved(lines):
    return [f"    {line}" for line in lines]


def draw(seed, dtype, n_steps=5):
    rng = np.random.default_rng(seed)
    style = one(rng, STYLES)
    has_blocks, is_in_place = style in ("blocks", "warps"), style == "in place"
    block = int(one(rng, [32, 64]) if style == "warps" else one(rng, [16, 32]))
    n = int(rng.integers(2, 4)) * block - int(one(rng, [0, rng.integers(1, 9)]))
    n_threads = -(-n // block) * block if has_blocks else n
    arrays = ["x", "y"][is_in_place:]
    items, steps, body = ["xi", "yi"], {}, []
    for number in range(n_steps):
        t, a, b = f"t{number}", one(rng, items), one(rng, items)
        if has_blocks and rng.random() < 0.65:
            is_of_warps = style == "warps" and rng.random() < 0.7
            lines, step = _of_warps(rng, a, b) if is_of_warps else _of_blocks(rng, a, b, block)
        else:
            lines, step = _of_items(rng, a, b, arrays)
        body += [line.format(t=t) for line in lines]
        steps[t] = step
        items.append(t)
    result, last = items[-1], items[-2]
    adds_all, counts = rng.random() < 0.5, one(rng, ["", "0", "k"])
    ends = [f"out[i] = {result} + {last};", f"atomicAdd(&total[k], {last});"]
    ends += [f"atomicAdd(&total[0], {result} * xi);"] * adds_all
    ends += [f"atomicAdd(&count[{counts}], 1);"] * bool(counts)
    if is_in_place:
        ends = [f"x[i] = {result} + {last};"]
    given = ["U xi = x[i], yi = y[i];", "int k = at[i];"]
    thread = "blockIdx.x * blockDim.x + threadIdx.x"
    launch = {"launch_dims": n_threads, "threads_per_block": block}
    if style == "stride":
        launch = {"grid": 2, "block": 8}
        lines = [f"for (int i = {thread}; i < n; i += gridDim.x * blockDim.x) {{"]
        lines += [*_moved(given + body + ends), "}"]
    elif style == "two axes":
        launch = {"grid": (1, -(-n // 28)), "block": (8, 4)}
        lines = ["int column = threadIdx.x, i = (blockIdx.y * 4 + threadIdx.y) * 7 + column;"]
        lines += ["if (column >= 7 || i >= n)", "    return;", *given, *body, *ends]
    elif not has_blocks:
        lines = [f"int i = {thread};", "if (i >= n)", "    return;", *given, *body, *ends]
    else:
        memory = "extern __shared__ unsigned char memory[];\n    U *s = (U *)memory;"
        is_dynamic = rng.random() < 0.4
        if is_dynamic:
            launch["shared_mem"] = block * np.dtype(dtype).itemsize
        lines = [memory if is_dynamic else "__shared__ U s[BLOCK];"]
        lines += ["__shared__ U few[4], tile[BLOCK / 4][5];", "__shared__ Pair<U> pairs[BLOCK];"]
        own = "threadIdx.x"
        if rng.random() < 0.3:
            launch = {k: v for k, v in launch.items() if k == "shared_mem"}
            launch |= {"grid": n_threads // block, "block": (8, block // 8)}
            own = "threadIdx.y * 8 + threadIdx.x"
        lines += [f"int own = {own}, lane = own % 32, i = blockIdx.x * BLOCK + own;"]
        lines += ["U xi = U(0.37) + U(0.01) * i, yi = U(0.02) * i - U(1.3);", "int k = 1;"]
        lines += ["if (i < n) {", "    xi = x[i], yi = y[i];", "    k = at[i];", "}", *body]
        lines += ["if (i < n) {", *_moved(ends), "}"]
    const = "" if is_in_place else "const "
    head = "template <typename U, int BLOCK>\n__global__ void drawn("
    head += f"{const}U *x, const U *y, const int *at, const float *w, "
    head += "" if is_in_place else "U *out, U *total, int *count, "
    head += "int n, int rows, int rounds, Numbers p)\n{\n"
    source = HEAD + head + "\n".join([*_moved(lines), "}"]) + "\n"
    m = n // 2 + 1
    x, y = (rng.normal(size=n).astype(dtype) for _ in range(2))
    w = rng.normal(size=(m, 2)).astype(np.float32)
    arguments = x, y, rng.integers(0, n, n).astype(np.int32), w

    def reference(x, y, at, w):
        i = jnp.arange(n, n_threads)
        v = {"x": x, "y": y, "w": w, "i": jnp.arange(n_threads, dtype=np.int32)}
        v["xi"] = jnp.concatenate([x, (0.37 + 0.01 * i).astype(dtype)])
        v["yi"] = jnp.concatenate([y, (0.02 * i - 1.3).astype(dtype)])
        v["k"] = jnp.concatenate([at, jnp.ones(n_threads - n, at.dtype)])
        for name, step in steps.items():
            v[name] = step(v).astype(dtype)
        out = (v[result] + v[last])[:n]
        if is_in_place:
            return out
        total = jnp.zeros(n, dtype).at[at].add(v[last][:n])
        if adds_all:
            total = total.at[0].add((v[result][:n] * x).sum())
        count = jnp.zeros(n, at.dtype)
        if counts:
            count = count.at[at * 0 if counts == "0" else at].add(1)
        return out, total, count

    c = {"float32": "float", "float64": "double"}[dtype]
    outs = {"outs": (S((n,), dtype), S((n,), dtype), S((n,), "int32")), "zero_outputs": True}
    operation = cuda_kernel(
        source,
        f"drawn<{c}, {block}>",
        attrs={"n": n, "rows": m, "rounds": 4, "p": NUMBERS},
        derivatives="enzyme",
        **({"inplace": "x"} if is_in_place else outs),
        **launch,
    )
    return Drawn(operation, reference, arguments, source)


def compare(seed):
    """Compare the derivatives of a kernel with JAX's own."""
    rng = np.random.default_rng([seed, 2])
    dtype = "float64" if rng.random() < 0.6 else "float32"
    batched = rng.random() < 0.15
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore", KernbridgeWarning)
        drawn = draw(seed, dtype)
        try:
            for shakes in (0, 4):  # a disagreement may be an error of rounding, amplified
                try:
                    assert_derivatives(
                        *drawn[:2],
                        *drawn.arguments,
                        seed=seed,
                        alone=False,
                        batched=batched,
                        shakes=shakes,
                    )
                    break
                except AssertionError:
                    if shakes:
                        raise
        except Exception as e:
            e.add_note(f"seed {seed}, {dtype}\n{drawn.source}")
            raise


if __name__ == "__main__":
    sys.exit(drawn.main(compare, *map(int, sys.argv[1:])))
