"""Draws programs, each as a Numba kernel and as a function of JAX."""

import math

import jax
import jax.numpy as jnp
import numba
import numpy as np

N = 7
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


def draw(seed, n_steps=6):
    """Return a kernel of (x, y, at, out, last), and the function of JAX of (x, y, at)."""
    rng = np.random.default_rng(seed)
    lines, steps, names = [], [], ["x", "y"]

    def one():
        return names[rng.integers(len(names))]

    for k in range(n_steps):
        t, a, b = f"t{k}", one(), one()
        kind = rng.integers(9)
        lines.append(f"{t} = np.{'zeros' if kind == 3 else 'empty'}(n, x.dtype)")
        if kind == 0:
            text = list(_UNARY)[rng.integers(len(_UNARY))]
            lines += ["for i in range(n):", f"    {t}[i] = {text.format(f'{a}[i]')}"]
            steps.append((t, lambda v, at, f=_UNARY[text], a=a: f(v[a])))
        elif kind == 1:
            text = list(_BINARY)[rng.integers(len(_BINARY))]
            spelled = text.format(f"{a}[i]", f"{b}[i]")
            lines += ["for i in range(n):", f"    {t}[i] = {spelled}"]
            steps.append((t, lambda v, at, f=_BINARY[text], a=a, b=b: f(v[a], v[b])))
        elif kind == 2:
            lines += ["for i in range(n):", f"    {t}[i] = {a}[at[i]] * np.cos({b}[i])"]
            steps.append((t, lambda v, at, a=a, b=b: v[a][at] * jnp.cos(v[b])))
        elif kind == 3:
            lines += ["for i in range(n):", f"    {t}[at[i]] += {a}[i] * np.cos({b}[i])"]
            steps.append(
                (t, lambda v, at, a=a, b=b: jnp.zeros_like(v[a]).at[at].add(v[a] * jnp.cos(v[b])))
            )
        elif kind == 4:
            lines += [
                "for i in range(n):",
                f"    if {a}[i] > 0.1:",
                f"        {t}[i] = {a}[i] * np.sin({b}[i])",
                "    else:",
                f"        {t}[i] = {b}[i] - {a}[i]",
            ]
            steps.append(
                (
                    t,
                    lambda v, at, a=a, b=b: jnp.where(
                        v[a] > 0.1, v[a] * jnp.sin(v[b]), v[b] - v[a]
                    ),
                )
            )
        elif kind == 5:
            lines += [
                f"state = {b}[0]",
                "for i in range(n):",
                f"    state = 0.5 * state * np.sin({b}[i]) + {a}[i]",
                f"    {t}[i] = state",
            ]

            def scan(v, at, a=a, b=b):
                def step(state, given):
                    state = 0.5 * state * jnp.sin(given[1]) + given[0]
                    return state, state

                return jax.lax.scan(step, v[b][0], (v[a], v[b]))[1]

            steps.append((t, scan))
        elif kind == 6:
            lines += [
                "for i in range(n):",
                f"    {t}[i] = 0",
                "    for j in range(i + 1):",
                f"        {t}[i] += np.sin({a}[j]) * {b}[i - j] / n",
            ]

            def convolve(v, at, a=a, b=b):
                return jnp.convolve(jnp.sin(v[a]), v[b])[:N] / N

            steps.append((t, convolve))
        elif kind == 7:
            lines += [
                "for i in range(n):",
                f"    u = {a}[i]",
                "    for _ in range(5):",
                "        if u > 1:",
                f"            u = u * 0.5 * np.cos({b}[i])",
                f"    {t}[i] = u",
            ]

            def halve(v, at, a=a, b=b):
                u = v[a]
                for _ in range(5):
                    u = jnp.where(u > 1, u * 0.5 * jnp.cos(v[b]), u)
                return u

            steps.append((t, halve))
        else:
            lines += [
                f"{t}[:] = {a} * np.tanh({b}.sum())",
                "for i in range(n - 1):",
                f"    {t}[i + 1] = {t}[i + 1] + 0.3 * np.sin({t}[i])",
            ]

            def sweep(v, at, a=a, b=b):
                def step(before, own):
                    now = own + 0.3 * jnp.sin(before)
                    return now, now

                first = v[a] * jnp.tanh(v[b].sum())
                rest = jax.lax.scan(step, first[0], first[1:])[1]
                return jnp.concatenate([first[:1], rest])

            steps.append((t, sweep))
        names.append(t)
    result, last = names[-1], names[-2]
    lines += [
        "for i in range(n):",
        f"    out[i] = {result}[i] + {last}[i]",
        f"last[0] = {last}[n - 1]",
    ]
    body = "\n".join(f"    {line}" for line in lines)
    source = f"def program(x, y, at, out, last):\n    n = x.size\n{body}\n"
    space = {}
    exec(source, {"np": np, "math": math}, space)

    def reference(x, y, at):
        values = {"x": x, "y": y}
        for name, step in steps:
            values[name] = step(values, at)
        return values[result] + values[last], values[last][-1:]

    return numba.njit(space["program"]), reference, source


def arguments(seed, dtype="float64"):
    rng = np.random.default_rng(seed)
    x, y = (rng.normal(size=N).astype(dtype) for _ in range(2))
    return x, y, rng.integers(0, N, N).astype(np.int32)
