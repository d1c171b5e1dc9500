"""What the programs of pairs call: transformations, places to run, and the comparison."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from kernbridge import config

BOUNDS = {"float32": 3e-5, "float64": 1e-10, "float16": 1e-2, "bfloat16": 6e-2}
N_THREADS = 4


def is_real(x):
    return jnp.issubdtype(jnp.result_type(x), jnp.inexact)


def total(f):
    """The sum of the squares of all real numbers that a function returns."""
    return lambda *x: sum(jnp.sum(y * y) for y in jax.tree.leaves(f(*x)) if is_real(y))


def pushed(f, which):
    """Values and tangents with respect to some arguments."""

    def run(*x):
        def of_some(*some):
            every = dict(enumerate(x)) | dict(zip(which, some, strict=True))
            return f(*every.values())

        some = [x[i] for i in which]
        return jax.jvp(of_some, some, [0.5 * s for s in some])

    return run


def scanned(f):
    return lambda x, *rest: jax.lax.scan(lambda c, _: (c, f(c, *rest)), x, length=3)[1]


def chosen(f):
    def other(*x):
        return jax.tree.map(lambda y: y + y, f(*x))

    return lambda x, *rest: jax.lax.cond(jnp.sum(x) < 50, f, other, x, *rest)


def in_parts(f, n):
    """A function whose first argument is split among devices, and its results are, too."""
    specs = (P("x"), *[P()] * (n - 1))
    return jax.shard_map(f, mesh=_mesh("automatic axes"), in_specs=specs, out_specs=P("x"))


def _mesh(place):
    kind = AxisType.Explicit if place == "explicit axes" else AxisType.Auto
    return jax.make_mesh((4,), ("x",), axis_types=(kind,))


def put(mesh, arguments, split):
    """Split some arguments among devices."""
    specs = [P("x") if i in split else P() for i in range(len(arguments))]
    return [
        jax.device_put(x, NamedSharding(mesh, s)) for x, s in zip(arguments, specs, strict=True)
    ]


def placed_as(x, like):
    """Split arrays on explicit axes as others are."""
    return jax.tree.map(lambda x, y: jax.sharding.reshard(x, jax.typeof(y).sharding), x, like)


def referee(program, reference):
    """The same program of JAX alone; it is traced anew, since globals may have changed."""
    return jax.jit(program(lambda *x: reference(*x)))


def compare(place, program, call, reference, arguments, split):
    """Run a program where it is to run, and compare it with the same program of JAX alone."""
    expected = referee(program, reference)
    if place == "threads":
        run = program(call)
        several = [[arguments[0] * (k + 1), *arguments[1:]] for k in range(N_THREADS)]
        wanted = [expected(*each) for each in several]
        with ThreadPoolExecutor(N_THREADS) as pool:
            for _ in range(3):
                found = list(pool.map(lambda each: jax.block_until_ready(run(*each)), several))
                same(found, wanted)
        return
    wanted = expected(*arguments)
    if place == "one device":
        same(program(call)(*arguments), wanted)
        return
    mesh = _mesh(place)
    with jax.set_mesh(mesh) if place == "explicit axes" else nullcontext():
        placed = put(mesh, arguments, split)
        run = jax.jit(program(call))
        try:
            for _ in range(3):
                same(run(*placed), wanted)
        except Exception as e:
            if "[KB6002]" in str(e) and config.get_gathers() is None:  # it has no rule
                config.set_gathers("warn")
                try:
                    compare(place, program, call, reference, arguments, split)
                finally:
                    config.set_gathers(None)
                return
            if isinstance(e, AssertionError) or not _refuses(program, reference, placed):
                raise  # what JAX itself refuses says nothing about operations


def _refuses(program, reference, placed):
    """Whether JAX itself cannot do this on explicit axes, such as a split of what is sharded."""
    try:
        referee(program, reference)(*placed)
    except Exception:
        return True
    return False


def same(found, wanted):
    """Compare shapes, dtypes and values."""
    found, wanted = jax.tree.leaves(found), jax.tree.leaves(wanted)
    for number, (a, b) in enumerate(zip(found, wanted, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype), f"result {number}"
        bound = BOUNDS.get(str(b.dtype), 0)
        scale = bound * max(1.0, float(np.max(np.abs(b), initial=0)))
        np.testing.assert_allclose(a, b, rtol=bound, atol=scale, err_msg=f"result {number}")


def refused(program, make, arguments):
    """Run a program with a mistake; kernbridge must find it."""
    try:
        found = jax.block_until_ready(program(make())(*arguments))
    except Exception as e:
        if "[KB" in str(e):
            return
        raise
    raise AssertionError(f"nothing was found; the results are {str(found)[:400]}")
