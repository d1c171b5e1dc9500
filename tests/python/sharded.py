"""Arrays on meshes of four devices, and calls that are compared with those on one."""

import itertools
import re
import types

import jax
import jax.numpy as jnp
import numba
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

COLLECTIVE = re.compile(r" (all-gather|all-reduce|all-to-all|collective-permute)(?:-start)?\(")


def mesh(*shape, kind=AxisType.Auto):
    return jax.make_mesh(shape, ("x", "y")[: len(shape)], axis_types=(kind,) * len(shape))


LINE, SQUARE = (4,), (2, 2)
_numbers = itertools.count()


def renamed(kernel):
    """The Numba kernel by a name of its own, about which nothing has been warned."""
    code, name = kernel.py_func.__code__, f"{kernel.py_func.__name__}_{next(_numbers)}"
    return numba.njit(types.FunctionType(code, kernel.py_func.__globals__, name))


def put(array, *spec, on=LINE, kind=AxisType.Auto):
    return jax.device_put(array, NamedSharding(mesh(*on, kind=kind), P(*spec)))


def collectives(function, *operands):
    text = jax.jit(function).lower(*operands).compile().as_text()
    return COLLECTIVE.findall(text)


def check(function, *operands, moved=(), jit=True):
    """Compare with one device, and the collectives of the compiled program with these."""
    expected = function(*(jnp.asarray(np.asarray(x)) for x in operands))
    found = (jax.jit(function) if jit else function)(*operands)
    for one, many in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        np.testing.assert_allclose(many, one, rtol=1e-5)
    if moved is not None:
        assert collectives(function, *operands) == list(moved)
    return found
