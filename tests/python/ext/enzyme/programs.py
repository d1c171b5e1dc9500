"""Draws programs, each as a kernel and as a function of JAX, and compares their derivatives.

A third of the kernels are of Numba-CUDA, the others of Numba. The steps that compute one item are
the same for both; the others use the arrays of a serial kernel, or the threads of a grid.

    python tests/python/ext/enzyme/programs.py FIRST LAST [PROCESSES]

compares the programs of the seeds from FIRST to LAST - 1, of which those of Numba-CUDA run on a GPU
if JAX has one, and else on the CPU. It prints each disagreement, each refusal and each other error
with the kernel, and then how many there are. Refusals alone are no failure.
"""

import os
import re
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

if __name__ in ("__main__", "__mp_main__"):
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("KERNBRIDGE_CACHE_DIR", "")  # no program is compiled twice
    sys.path.insert(0, str(Path(__file__).parents[2]))

import math

import drawn
import jax
import jax.numpy as jnp
import numba
import numpy as np
from kernbridge import numba_cuda_kernel, numba_kernel
from kernbridge.errors import KernbridgeWarning
from needs_enzyme import assert_derivatives
from numba import cuda

S = jax.ShapeDtypeStruct
BLOCK = 16
_UNARY = {
    "np.sin({})": jnp.sin,
    "np.cos({})": jnp.cos,
    "np.tanh({})": jnp.tanh,
    "np.exp(-{0} * {0})": lambda a: jnp.exp(-a * a),
    "np.log1p({0} * {0})": lambda a: jnp.log1p(a * a),
    "np.sqrt(1 + {0} * {0})": lambda a: jnp.sqrt(1 + a * a),
    "np.arctan({})": jnp.arctan,
    "abs({})": jnp.abs,
    "math.erf({})": jax.scipy.special.erf,
}
_BINARY = {
    "{0} + {1}": jnp.add,
    "{0} - {1}": jnp.subtract,
    "np.sin({0}) * {1}": lambda a, b: jnp.sin(a) * b,
    "{0} / (2 + np.sin({1}))": lambda a, b: a / (2 + jnp.sin(b)),
    "np.arctan2({0}, 2 + {1} * {1})": lambda a, b: jnp.arctan2(a, 2 + b * b),
    "max({0}, {1})": jnp.maximum,
    "np.hypot({0}, 1 + {1} * {1})": lambda a, b: jnp.hypot(a, 1 + b * b),
}
# What is singular at zero, where the guard is closed.
_GUARDED = {
    "u * np.log(u) if u > 0 else {}": lambda u, b: (u > 0, lambda u: u * jnp.log(u), b),
    "{} / u if u != 0 else 0.3": lambda u, b: (u != 0, lambda u: b / u, 0.3),
    "u ** 0.7 * {0} if u > 0 else {0}": lambda u, b: (u > 0, lambda u: u**0.7 * b, b),
    "np.sin(1 / u) if abs(u) > 0 else {}": lambda u, b: (abs(u) > 0, lambda u: jnp.sin(1 / u), b),
    "np.exp(np.sqrt(u)) if u > 0 else {}": lambda u, b: (u > 0, lambda u: jnp.exp(jnp.sqrt(u)), b),
}


class Program(NamedTuple):
    """An operation, the same function by JAX, arguments for both, and the kernel's source."""

    operation: object
    reference: object
    arguments: tuple
    source: str


def draw(seed, dtype):
    rng = np.random.default_rng(seed)
    return (_of_threads if rng.random() < 1 / 3 else _serial)(rng, dtype)


def one(rng, of):
    of = list(of)
    return of[rng.integers(len(of))]


def _arguments(rng, n, dtype):
    x, y = (rng.normal(size=n).astype(dtype) for _ in range(2))
    w = rng.normal(size=(n // 2 + 1, 2)).astype(np.float32)
    return x, y, rng.integers(0, n, n).astype(np.int32), w


def _compiled(lines, head, n_indents=1):
    body = "\n".join(f"{'    ' * n_indents}{line}" for line in lines)
    source = f"{head}\n{body}\n"
    space = {"np": np, "math": math, "cuda": cuda}
    exec(source, space)
    return space["program"], source


def _of_items(rng, items, arrays, spelled):
    """Lines that compute `{t}` for an index i, and the function of JAX for all of them.

    It depends on items of the same index, and on others of an array.
    """
    names = one(rng, items), one(rng, items), one(rng, arrays)
    a, b, array = spelled(names[0]), spelled(names[1]), names[2]
    kind = rng.integers(11)
    if kind == 0:
        text = one(rng, _UNARY)
        lines = ["{t} = " + text.format(a)]

        def by_jax(a, b, array, at):
            return _UNARY[text](a)

    elif kind == 1:
        text = one(rng, _BINARY)
        lines = ["{t} = " + text.format(a, b)]

        def by_jax(a, b, array, at):
            return _BINARY[text](a, b)

    elif kind == 2:
        lines = [f"{{t}} = {array}[{spelled('at')}] * np.cos({b})"]

        def by_jax(a, b, array, at):
            return array[at] * jnp.cos(b)

    elif kind == 3:
        lines = [
            f"if {a} > 0.1:",
            f"    {{t}} = {a} * np.sin({b})",
            "else:",
            f"    {{t}} = {b} - {a}",
        ]

        def by_jax(a, b, array, at):
            return jnp.where(a > 0.1, a * jnp.sin(b), b - a)

    elif kind == 4:
        lines = [
            f"u = {a}",
            "for _ in range(5):",
            "    if u > 1:",
            f"        u = u * 0.5 * np.cos({b})",
            "{t} = u",
        ]

        def by_jax(a, b, array, at):
            for _ in range(5):
                a = jnp.where(a > 1, a * 0.5 * jnp.cos(b), a)
            return a

    elif kind == 5:
        m = one(rng, ["3", "n // 2"])
        lines = [
            f"state = {b}",
            f"for j in range({m}):",
            f"    state = 0.5 * state * np.sin({array}[(i + j) % n]) + {a}",
            "{t} = state",
        ]

        def by_jax(a, b, array, at):
            n, i = len(array), jnp.arange(len(a))

            def step(state, j):
                return 0.5 * state * jnp.sin(array[(i + j) % n]) + a, None

            return jax.lax.scan(step, b, jnp.arange(eval(m, {"n": n})))[0]

    elif kind == 6:
        text = one(rng, _GUARDED)
        lines = [f"u = {a} if {a} > 0.2 else {a} * 0", "{t} = " + text.format(b)]

        def by_jax(a, b, array, at):
            u = jnp.where(a > 0.2, a, 0)
            is_open, inside, outside = _GUARDED[text](u, b)
            return jnp.where(is_open, inside(jnp.where(is_open, u, 1)), outside)

    elif kind == 7:
        step, n_steps = one(rng, [1, 2]), one(rng, ["2", "m % 3"])
        index = one(rng, ["m % 3", "(m + 1) % 3", "min(m, 2)"])
        lines = [
            f"m, u = {spelled('at')}, {b}",
            f"for j in range({n_steps}):",
            f"    m += {step}",
            f"    u = np.sin(u) * {a}",
            f"items = ({a}, u, {b} * u)",
            f"{{t}} = items[{index}] * u",
        ]

        def by_jax(a, b, array, at):
            n, m, u = eval(n_steps, {"m": at}), at, b
            for j in range(2):
                m = m + jnp.where(j < n, step, 0)
                u = jnp.where(j < n, jnp.sin(u) * a, u)
            k = eval(index, {"m": m, "min": jnp.minimum})
            return jnp.select([k == 0, k == 1], [a, u], b * u) * u

    elif kind == 8:
        other = one(rng, arrays)
        lines = [
            f"row = {array} if {spelled('at')} % 2 else {other}[1:]",
            f"{{t}} = row[{spelled('at')} // 2] * np.cos({a})",
        ]
        names = (*names[:2], array, other)

        def by_jax(a, b, array, other, at):
            return jnp.where(at % 2 == 1, array[at // 2], other[1 + at // 2]) * jnp.cos(a)

    elif kind == 9:  # an array of another rank, extents and dtype
        lines = [f"{{t}} = w[{spelled('at')} % w.shape[0], i % 2] * np.sin({a}) + {b}"]
        names = (*names, "w")

        def by_jax(a, b, array, w, at):
            return w[at % len(w), jnp.arange(len(a)) % 2] * jnp.sin(a) + b

    else:
        lines = [
            f"m, u = {spelled('at')}, {b}",
            "while m > 0:",
            f"    u += {array}[m] * np.cos({a})",
            "    m //= 2",
            "{t} = u",
        ]

        def by_jax(a, b, array, at):
            for _ in range(len(array)):
                b, at = jnp.where(at > 0, b + array[at] * jnp.cos(a), b), at // 2
            return b

    return lines, lambda v: by_jax(*(v[name] for name in (*names, "at")))


def _of_arrays(rng, arrays):
    """Lines that compute an array `{t}` from two, and the function of JAX."""
    a, b = one(rng, arrays), one(rng, arrays)
    kind = rng.integers(6)
    if kind == 0:
        lines = [
            "{t} = np.zeros(n, x.dtype)",
            "for i in range(n):",
            f"    {{t}}[at[i]] += {a}[i] * np.cos({b}[i])",
            "for i in range(n):",  # an item that remained zero would be at an edge of `abs`
            f"    {{t}}[i] += 0.1 * {b}[i]",
        ]

        def by_jax(a, b, at):
            return jnp.zeros_like(a).at[at].add(a * jnp.cos(b)) + 0.1 * b

    elif kind == 1:
        lines = [
            "{t} = np.empty(n, x.dtype)",
            f"state = {b}[0]",
            "for i in range(n):",
            f"    state = 0.5 * state * np.sin({b}[i]) + {a}[i]",
            "    {t}[i] = state",
        ]

        def by_jax(a, b, at):
            def step(state, given):
                state = 0.5 * state * jnp.sin(given[1]) + given[0]
                return state, state

            return jax.lax.scan(step, b[0], (a, b))[1]

    elif kind == 2:
        lines = [
            "{t} = np.empty(n, x.dtype)",
            "for i in range(n):",
            "    {t}[i] = 0",
            "    for j in range(i + 1):",
            f"        {{t}}[i] += np.sin({a}[j]) * {b}[i - j] / n",
        ]

        def by_jax(a, b, at):
            return jnp.convolve(jnp.sin(a), b)[: len(a)] / len(a)

    elif kind == 3:
        text = one(rng, ["np.var({})", "np.std({}[1:])", "{}.var()", "np.std(np.outer({0}, {0}))"])
        lines = [f"{{t}} = {a} * {text.format(b)}"]

        def by_jax(a, b, at):
            return a * eval(text.format("b"), {"np": jnp, "b": b})

    elif kind == 4:
        text = one(rng, ["np.cbrt({})", "min(max({}, -0.7), 0.4)", "{0} * np.conj({0})"])
        lines = [f"{{t}} = ({b} - {b}.mean()) / np.std({b})", "for i in range(n):"]
        lines += [f"    {{t}}[i] = {text.format('{t}[i]')} * {a}[i]"]

        def by_jax(a, b, at):
            known = {"np": jnp, "min": jnp.minimum, "max": jnp.maximum}
            return eval(text.format("z"), known | {"z": (b - b.mean()) / jnp.std(b)}) * a

    else:
        lines = [
            f"{{t}} = {a} * np.tanh({b}.sum())",
            "for i in range(n - 1):",
            "    {t}[i + 1] = {t}[i + 1] + 0.3 * np.sin({t}[i])",
        ]

        def by_jax(a, b, at):
            def step(before, own):
                now = own + 0.3 * jnp.sin(before)
                return now, now

            first = a * jnp.tanh(b.sum())
            rest = jax.lax.scan(step, first[0], first[1:])[1]
            return jnp.concatenate([first[:1], rest])

    return lines, lambda v: by_jax(v[a], v[b], v["at"])


def _serial(rng, dtype, n=7, n_steps=6):
    """A kernel of Numba, whose steps make arrays one from the other."""
    lines, steps, names = ["n = x.size"], {}, ["x", "y"]
    for k in range(n_steps):
        t = f"t{k}"
        if rng.random() < 0.6:
            body, step = _of_items(rng, names, names, "{}[i]".format)
            lines += [f"{t} = np.empty(n, x.dtype)", "for i in range(n):"]
            lines += [f"    {line.format(t=f'{t}[i]')}" for line in body]
        else:
            body, step = _of_arrays(rng, names)
            lines += [line.format(t=t) for line in body]
        steps[t] = step
        names.append(t)
    result, last = names[-1], names[-2]
    lines += ["for i in range(n):", f"    out[i] = {result}[i] + {last}[i]"]
    lines += [f"end[0] = {last}[n - 1]"]
    program, source = _compiled(lines, "def program(x, y, at, w, out, end):")

    def reference(x, y, at, w):
        v = {"x": x, "y": y, "at": at, "w": w}
        for name, step in steps.items():
            v[name] = step(v)
        return v[result] + v[last], v[last][-1:]

    outs = (S((n,), dtype), S((1,), dtype))
    operation = numba_kernel(numba.njit(program), outs, derivatives="enzyme")
    return Program(operation, reference, _arguments(rng, n, dtype), source)


def _of_blocks(rng, items, dtype):
    """Lines in which the threads of a block, or one alone, use memory, and the function of JAX."""
    a, b = one(rng, items), one(rng, items)
    kind = rng.integers(6)
    if kind == 0:
        lines = [
            f"q = cuda.local.array(4, '{dtype}')",
            "for j in range(4):",
            f"    q[j] = {a} * (j + 1)",
            f"for j in range({one(rng, [1, 3])}):",
            f"    q[k % 4] = np.sin(q[k % 4]) * {b} + q[3 - k % 4]",
            "{t} = q[0] * q[3] - q[1] + q[2]",
        ]
        n_rounds = int(lines[3][-3])

        def by_jax(a, b, at):
            q = [a * (j + 1) for j in range(4)]
            for _ in range(n_rounds):
                own = jnp.select([at % 4 == j for j in range(4)], q)
                other = jnp.select([at % 4 == j for j in range(4)], q[::-1])
                own = jnp.sin(own) * b + other
                q = [jnp.where(at % 4 == j, own, q[j]) for j in range(4)]
            return q[0] * q[3] - q[1] + q[2]

    elif kind == 1:
        lines = [
            f"s[own] = {a}",
            "cuda.syncthreads()",
            f"{{t}} = s[{BLOCK - 1} - own] * np.cos({b})",
            "cuda.syncthreads()",
        ]

        def by_jax(a, b, at):
            return a.reshape(-1, BLOCK)[:, ::-1].reshape(-1) * jnp.cos(b)

    elif kind == 2:
        lines = [
            f"s[own] = 0.1 * {b}",
            "cuda.syncthreads()",
            f"cuda.atomic.add(s, k % {BLOCK}, {a} * np.sin({b}))",
            "cuda.syncthreads()",
            f"{{t}} = s[own] * {a}",
            "cuda.syncthreads()",
        ]

        def by_jax(a, b, at):
            block = jnp.arange(len(a)) // BLOCK * BLOCK
            return a * (0.1 * b).at[block + at % BLOCK].add(a * jnp.sin(b))

    elif kind == 3:
        lines = [
            f"s[own] = np.sin({a})",
            "cuda.syncthreads()",
            f"half = {BLOCK // 2}",
            "while half > 0:",
            "    if own < half:",
            "        s[own] += s[own + half] * s[own + half]",
            "    cuda.syncthreads()",
            "    half //= 2",
            f"{{t}} = s[0] / {BLOCK} + {b}",
            "cuda.syncthreads()",
        ]

        def by_jax(a, b, at):
            s = jnp.sin(a).reshape(-1, BLOCK)
            while s.shape[1] > 1:
                half = s.shape[1] // 2
                s = s[:, :half] + s[:, half:] ** 2
            return jnp.repeat(s[:, 0], BLOCK) / BLOCK + b

    elif kind == 4:
        n_rounds = one(rng, [2, 3])
        lines = [
            f"u = {a}",
            f"for _ in range({n_rounds}):",
            "    s[own] = u",
            "    cuda.syncthreads()",
            f"    u = 0.5 * np.sin(s[(own + 1) % {BLOCK}]) + 0.3 * u * {b}",
            "    cuda.syncthreads()",
            "{t} = u",
        ]

        def by_jax(a, b, at):
            for _ in range(n_rounds):
                moved = jnp.roll(a.reshape(-1, BLOCK), -1, axis=1).reshape(-1)
                a = 0.5 * jnp.sin(moved) + 0.3 * a * b
            return a

    else:  # an array that some threads of a block fill, and all read
        lines = [
            "if own < 4:",
            f"    few[own] = {a} * {a}",
            "cuda.syncthreads()",
            f"{{t}} = few[k % 4] * {b} - few[0]",
            "cuda.syncthreads()",
        ]

        def by_jax(a, b, at):
            few = a.reshape(-1, BLOCK)[:, :4] ** 2
            block = jnp.arange(len(a)) // BLOCK
            return few[block, at % 4] * b - few[block, 0]

    return lines, lambda v: by_jax(v[a], v[b], v["k"])


def _of_threads(rng, dtype, n_steps=5):
    """A kernel of Numba-CUDA, in which each thread computes numbers of its own."""
    style = one(rng, ["guard", "stride", "two axes", "blocks", "part of a block"])
    has_blocks = style in ("blocks", "part of a block")
    n = int(rng.integers(2, 4)) * BLOCK - (0 if style == "blocks" else int(rng.integers(1, 9)))
    n_threads = -(-n // BLOCK) * BLOCK if has_blocks else n
    is_in_place = not has_blocks and rng.random() < 0.3
    items, steps = ["xi", "yi"], {}
    body = []
    for k in range(n_steps):
        t = f"t{k}"
        if rng.random() < (0.6 if has_blocks else 0):
            lines, step = _of_blocks(rng, items, dtype)
        elif rng.random() < 0.15:
            lines, step = ["pass"], None
            while lines[0][:5] != "q = c":
                lines, step = _of_blocks(rng, items, dtype)
        else:
            lines, step = _of_items(rng, items, ["x", "y"][is_in_place:], _own)
        body += [line.format(t=t) for line in lines]
        steps[t] = step
        items.append(t)
    result, last = items[-1], items[-2]
    ends = [f"out[i] = {result} + {last}"]
    adds = one(rng, ["add", "sub"])
    ends.append(f"cuda.atomic.{adds}(total, k, {last})")
    if rng.random() < 0.5:
        ends.append(f"cuda.atomic.add(total, 0, {result} * xi)")
    if rng.random() < 0.5:
        ends.append(f"cuda.atomic.add(count, {'0' if rng.random() < 0.5 else 'k'}, 1)")
    given = ["xi, yi, k = x[i], y[i], at[i]"]
    lines = ["n = out.size"]
    if style == "guard":
        lines += ["i = cuda.grid(1)", "if i < n:", *_moved(given + body + ends)]
    elif style == "stride":
        lines += ["for i in range(cuda.grid(1), n, cuda.gridsize(1)):"]
        lines += _moved(given + body + ends)
    elif style == "two axes":
        lines += ["row, column = cuda.grid(2)", "i = row * 7 + column"]
        lines += ["if column < 7 and i < n:", *_moved(given + body + ends)]
    else:
        lines += [f"s = cuda.shared.array({BLOCK}, '{dtype}')"]
        lines += [f"few = cuda.shared.array(4, '{dtype}')"]
        lines += ["i, own = cuda.grid(1), cuda.threadIdx.x"]
        if style == "blocks":
            lines += given + body + ends
        else:
            lines += ["xi, yi, k = 0.37 + 0.1 * i, 0.21 * i - 1.3, 1", "if i < n:"]
            lines += [*_moved(given), *body, "if i < n:", *_moved(ends)]
    lines = [re.sub(r"np\.(arc)?", lambda m: "math.a" if m[1] else "math.", x) for x in lines]
    program, source = _compiled(lines, "def program(x, y, at, w, out, total, count):")

    def reference(x, y, at, w):
        i = jnp.arange(n, n_threads)
        v = {"x": x, "y": y, "w": w}
        v["xi"] = jnp.concatenate([x, (0.37 + 0.1 * i).astype(dtype)])
        v["yi"] = jnp.concatenate([y, (0.21 * i - 1.3).astype(dtype)])
        v["k"] = v["at"] = jnp.concatenate([at, jnp.ones(n_threads - n, at.dtype)])
        for name, step in steps.items():
            v[name] = step(v)
        out = (v[result] + v[last])[:n]
        total = jnp.zeros(n, dtype).at[at].add(v[last][:n] * (1 if adds == "add" else -1))
        count = jnp.zeros(n, at.dtype)
        for line in ends[2:]:
            if "total" in line:
                total = total.at[0].add((v[result][:n] * x).sum())
            else:
                count = count.at[at * 0 if ", 0," in line else at].add(1)
        return out, total, count

    launch = {"launch_dims": n_threads, "threads_per_block": BLOCK}
    if style == "stride":
        launch = {"grid": 2, "block": 8}
    if style == "two axes":
        launch = {"launch_dims": (-(-n // 7), 7), "threads_per_block": (4, 8)}
    operation = numba_cuda_kernel(
        cuda.jit(program),
        (S((n,), dtype), S((n,), dtype), S((n,), "int32")),
        zero_outputs=True,
        input_output_aliases={0: 0} if is_in_place else None,
        derivatives="enzyme",
        **launch,
    )
    return Program(operation, reference, _arguments(rng, n, dtype), source)


def _own(name):
    return {"at": "k"}.get(name, name)


def _moved(lines):
    return [f"    {line}" for line in lines]


def compare(seed):
    """Compare the derivatives of a program with JAX's own."""
    rng = np.random.default_rng([seed, 1])
    dtype = "float64" if rng.random() < 0.75 else "float32"
    more = one(rng, ["alone", "batched", "", ""])
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore", KernbridgeWarning)
        program = draw(seed, dtype)
        cpu = jax.devices("cpu")[0] if "cuda" not in program.source else None
        try:
            with jax.default_device(cpu):
                for shakes in (0, 4):  # a disagreement may be an error of rounding, amplified
                    try:
                        assert_derivatives(
                            *program[:2],
                            *program.arguments,
                            seed=seed,
                            alone=more == "alone",
                            batched=more == "batched",
                            shakes=shakes,
                        )
                        break
                    except AssertionError:
                        if shakes:
                            raise
        except Exception as e:
            e.add_note(f"seed {seed}, {dtype}\n{program.source}")
            raise


if __name__ == "__main__":
    sys.exit(drawn.main(compare, *map(int, sys.argv[1:]), may_refuse=True))
