"""Functions of launchers.cu that are differentiated, with JAX's functions of the same values."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from kernbridge import load_cuda_inline

SOURCE = (Path(__file__).parent / "launchers.cu").read_text()


def module(dtype, **options):
    """The functions for one type of reals."""
    c, token = {"float32": ("float", "f32"), "float64": ("double", "f64")}[dtype]
    source = f"typedef {c} T;\n#line 1\n{SOURCE.replace(':T[', f':{token}[')}"
    return load_cuda_inline(
        f"launchers_{token}",
        source,
        auto_register=False,
        extra_cuda_cflags=["--extended-lambda"],
        **options,
    )


def energy(x):
    return jnp.sum(-1.5 * x[2:] ** 2)[None]


def scaled(x):
    return jnp.sum(1.5 * x[2:])[None]


def diffused(n_steps):
    def reference(u, k):
        for _ in range(n_steps):
            up = jnp.pad(u, ((1, 0), (0, 0)))[:-1]
            left = jnp.concatenate([u[:, :1], u[:, :-1]], 1)
            u = u + k[:, None] * (up + left - 2 * u) * u
        return u

    return reference


def scattered(x, to, w):
    return jnp.zeros(5, x.dtype).at[to].add(w * x), x * x * w[0]


def decayed(v, drive):
    for _ in range(3):
        v = 0.5 * v + drive * v
    return v


def unnamed(x):
    return x**6 + 0.25 * x**2


A, SMALL = (70,), (9, 13)
CASES = {
    "energy": ("energy", energy, {"a": 1.5, "square": True}, (A,)),
    "scaled": ("energy", scaled, {"a": 1.5, "square": False}, (A,)),
    "diffused": ("diffused", diffused(2), {"n_steps": 2}, (SMALL, SMALL[:1])),
    "diffused to the other": ("diffused", diffused(3), {"n_steps": 3}, (SMALL, SMALL[:1])),
    "copied": ("diffused", diffused(0), {"n_steps": 0}, (SMALL, SMALL[:1])),
    "scattered": ("scattered", scattered, {}, (A, "indices", A)),
    "unnamed": ("unnamed", unnamed, {"a": 0.25}, (A,)),
    "decayed": ("decayed", decayed, {"a": 0.5, "input_output_aliases": {0: 0}}, (A, A)),
}


def case(name, loaded, dtype):
    """The operation, the reference, and arguments."""
    function, reference, options, shapes = CASES[name]
    rng = np.random.default_rng(0)
    arguments = [
        rng.integers(0, 5, A).astype(np.int32)
        if shape == "indices"
        else rng.uniform(0.1, 1, shape).astype(dtype)
        for shape in shapes
    ]
    outs = jax.tree.map(
        lambda y: jax.ShapeDtypeStruct(y.shape, y.dtype), jax.eval_shape(reference, *arguments)
    )
    return loaded[function].operation(outs, derivatives="enzyme", **options), reference, arguments
