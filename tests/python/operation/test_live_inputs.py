"""No kernel changes a live JAX array, whatever it calls: ways that Numba's types do not refuse."""

import warnings

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from kernbridge import numba_kernel
from numba import types
from numba.experimental import jitclass, structref
from numba.extending import (
    intrinsic,
    overload,
    overload_attribute,
    overload_method,
    register_jitable,
)

pytestmark = pytest.mark.once

OUT = jax.ShapeDtypeStruct((4,), jnp.float32)
START = np.array([3, 1, 2, 0], np.float32)
ITEM = np.dtype([("a", np.float32)])
NESTED = np.dtype([("item", np.dtype([("a", np.float32), ("b", np.float32)]))])
PAIR = np.dtype([("pair", np.float32, (2,))])


@numba.njit
def writes(a):
    a.flat[0] = 99


@numba.njit
def writes_to_flat(flat):
    flat[0] = 99


@numba.njit
def writes_to_items(items):
    for v in items:
        v[()] = 99


@numba.njit
def writes_to_record(record):
    record.a = 99


@numba.njit
def first(a):
    return a[0]


@numba.njit
def items_of(a):
    for item in np.nditer(a):  # noqa: UP028 - Numba has no `yield from`
        yield item


@numba.njit
def writes_if_any(a):
    if a is not None:
        a.flat[0] = 99


@numba.njit
def writes_at_the_end(a, n):
    if n > 0:
        writes_at_the_end(a, n - 1)
    else:
        a.flat[0] = 99


@numba.njit
def generates(a):
    a.flat[0] = 99
    yield 1


@register_jitable
def jitable(a):
    a.flat[0] = 99


@register_jitable
def reads(a):
    return a.flat[0] + a.sum()


def overloaded(a):
    raise NotImplementedError


@overload(overloaded)
def _overloaded(a):
    return lambda a: writes(a)


@overload_method(types.Array, "kernbridge_scribble")
def _scribble(a):
    def implementation(a):
        a.flat[0] = 99

    return implementation


@overload_attribute(types.Array, "kernbridge_scribbled")
def _scribbled(a):
    def implementation(a):
        a.flat[0] = 99
        return 0

    return implementation


@intrinsic
def poke(context, a):
    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        builder.store(context.get_constant(types.float32, 99.0), array.data)
        return context.get_dummy_value()

    return types.void(a), generate


@numba.guvectorize(["void(float32[:], float32[:])"], "(n)->(n)")
def scribbles_on_its_input(a, out):
    a[0] = 99
    out[:] = a


@structref.register
class HolderType(types.StructRef):
    def preprocess_fields(self, fields):
        return tuple((name, types.unliteral(t)) for name, t in fields)


class Holder(structref.StructRefProxy):
    def __new__(cls, a):
        return structref.StructRefProxy.__new__(cls, a)


structref.define_proxy(Holder, HolderType, ["a"])


@numba.njit
def writes_to_holder(holder):
    holder.a.flat[0] = 99


@jitclass([("a", types.Array(types.float32, 1, "C", readonly=True))])
class Box:
    def __init__(self, a):
        self.a = a

    def scribble(self):
        self.a.flat[0] = 99


WRITES = {
    "flat by a function": "writes_to_flat(x.flat)",
    "nditer by a function": "writes_to_items(np.nditer(x))",
    "item of nditer by a function": "for v in np.nditer(x):\n        writes(v)",
    "view of an item of nditer": "for v in np.nditer(x):\n        v.reshape(1)[0] = 99",
    "items of nditer in a list": "l = [v for v in np.nditer(x)]\n    l[0][()] = 99",
    "record": "x.view(ITEM)[0].a = 99",
    "record of a function": "first(x.view(ITEM)).a += 1",
    "records in a loop": "for r in x.view(ITEM):\n        r['a'] = 99",
    "record by a function": "writes_to_record(x.view(ITEM)[1])",
    "nested record": "r = x.view(NESTED)[0].item\n    r.b = 99",
    "array in a record": "a = x.view(PAIR)[0].pair\n    a[0] = 99",
    "array in a record, ufunc": "np.add(x.view(PAIR)[1].pair, 1, x.view(PAIR)[0].pair)",
    "record in a tuple": "t = (x.view(ITEM)[0], 1)\n    t[0].a = 99",
    "record in a structref": "Holder(x.view(ITEM)[0]).a.a = 99",
    "record or none": "r = None\n    if x.size > 2:\n        r = x.view(ITEM)[0]\n        r.a = 99",
    "records in a parallel loop": "for i in numba.prange(4):\n        x.view(ITEM)[i].a = 99",
    "ufunc out in nditer": "for v in np.nditer(x):\n        np.add(v, 1, v)",
    "augmented item of nditer": "for v in np.nditer(x):\n        v += 1",
    "view of items of nditer": "for v in np.nditer(x):\n        np.atleast_1d(v)[0] = 99",
    "items of a generator": "for v in items_of(x):\n        v[()] = 99",
    "two arrays in nditer": "for v, w in np.nditer((y, x)):\n        w *= v + 1",
    "items in object mode": "for v in np.nditer(x):\n        with numba.objmode():\n"
    "            v[()] = 99",
    "optional": "writes_if_any(None if x.size > 100 else x)",
    "list": "l = [x]\n    l[0].flat[0] = 99",
    "typed list": "l = numba.typed.List()\n    l.append(x)\n    l[0].flat[0] = 99",
    "structref": "writes_to_holder(Holder(x))",
    "jitclass": "Box(x).scribble()",
    "recursion": "writes_at_the_end(x, 3)",
    "generator": "for _ in generates(x):\n        pass",
    "register_jitable": "jitable(x)",
    "overload": "overloaded(x)",
    "overload_method": "x.kernbridge_scribble()",
    "overload_attribute": "x.kernbridge_scribbled",
    "intrinsic": "poke(x)",
    "guvectorize": "scribbles_on_its_input(x, out)",
    "views": "x.reshape((2, 2)).ravel().view(np.int32).flat[0] = 99",
    "ctypes": "writes_there(x.ctypes)",
    "shuffle": "np.random.seed(3)\n    np.random.shuffle(x)",
    "ufunc out": "np.add(x, 1, x)",
    "nan_to_num": "np.nan_to_num(x, copy=False)[0] = 99",
    "prange": "for i in numba.prange(1):\n        writes(x)",
}


@numba.cfunc("void(CPointer(float32))")
def writes_there(pointer):
    numba.carray(pointer, 4)[0] = 99


def make(statement, **options):
    scope = dict(globals())
    exec(f"def kernel(y, x, out):\n    {statement}\n    out[:] = x + y\n", scope)
    return numba.njit(**options)(scope["kernel"])


def some(ways):
    """Every eighth way runs always, the others in `make test-all`: each takes a second or two."""
    for i, (name, statement) in enumerate(ways.items()):
        yield pytest.param(statement, id=name, marks=[pytest.mark.exhaustive] if i % 8 else [])


@pytest.mark.exhaustive
@pytest.mark.parametrize("statement", list(some(WRITES)))
def test_an_input_that_is_written_to_is_a_copy(statement):
    options = {"parallel": "prange" in statement}
    expected, own = np.zeros(4, np.float32), START.copy()
    make(statement, **options)(np.ones(4, np.float32), own, expected)
    op = numba_kernel(make(statement, **options), OUT)
    x = jnp.array(START)
    with pytest.warns(kernbridge.KernbridgeWarning, match=r"input 1.*\(x\).*\[KB4003\]"):
        got = op(jnp.ones(4), x)
    np.testing.assert_array_equal(x, START)
    np.testing.assert_array_equal(got, expected)


def slowly(statement):
    """A statement that Numba compiles for seconds."""
    return pytest.param(statement, marks=pytest.mark.exhaustive)


@pytest.mark.brief
@pytest.mark.parametrize(
    "statement",
    [
        "out[0] = reads(x)",
        slowly("out[0] = np.linalg.norm(x) + np.median(x) + np.percentile(x, 50)"),
        slowly("x = np.sort(x)[::-1]\n    x = np.roll(x, 1)"),
        "for v, w in zip(x, np.nditer(x)):\n        out[0] += v + w.item() + np.sqrt(w)",
        "l = [x, y]\n    out[0] = l[0][1]",
        slowly("x = np.linalg.inv(np.diag(x + 1)).sum() + np.where(x > 1, x, y)"),
        "for i in numba.prange(4):\n        out[i] = reads(x) + np.sqrt(x[i]) + x.sum()",
        "x = np.concatenate((x, y))[:4].astype(np.float64)",
        "out.view(ITEM)[1] = x.view(ITEM)[0]\n    r = x.view(PAIR)[0]\n    "
        "out[0] = r.pair.sum() + r.pair[1] + np.max(r.pair)",
        "o = first(out.view(ITEM))\n    for r, v in zip(x.view(ITEM), np.nditer(x)):\n        "
        "o.a = r.a + np.sqrt(v) + np.maximum(v, 1) + float(v.item())",
        "for r, o in zip(x, out.reshape((4, 1))):\n        o[:] = r\n    "
        "writes_to_record(out.view(ITEM)[0])",
    ],
)
def test_an_input_that_is_read_is_not_copied(statement):
    op = numba_kernel(make(statement, parallel="prange" in statement), OUT)
    with warnings.catch_warnings():
        warnings.simplefilter("error", kernbridge.KernbridgeWarning)
        text = jax.jit(op).lower(jnp.ones(4), jnp.array(START)).as_text()
    assert "output_operand_alias" not in text


def test_an_array_that_is_two_inputs_is_intact():
    @numba.njit
    def kernel(a, b, out):
        jitable(b)
        out[:] = a + b

    x = jnp.array(START)
    with pytest.warns(kernbridge.KernbridgeWarning, match=r"input 1.*\(b\).*\[KB4003\]"):
        got = numba_kernel(kernel, OUT)(x, x)
    np.testing.assert_array_equal(got, [102, 2, 4, 0])
    np.testing.assert_array_equal(x, START)


def test_a_write_in_object_mode_is_an_error():
    @numba.njit
    def kernel(x, out):
        with numba.objmode():
            x[0] = 99
        out[:] = x

    x = jnp.array(START)
    with pytest.raises(
        Exception, match=r"ValueError: assignment destination is read-only.*\[KB3001\]"
    ):
        numba_kernel(kernel, OUT)(x).block_until_ready()
    np.testing.assert_array_equal(x, START)


CACHED = """
import numba
from numba.extending import register_jitable

@numba.njit(cache=True)
def deep(a):
    a.flat[0] = 99

@numba.njit(cache=True)
def helper(a):
    deep(a)

@numba.njit(cache=True)
def reader(a):
    return a.flat[0] + a.sum()

@numba.njit(cache=True)
def writes(x, out):
    helper(x)
    out[:] = x

@numba.njit(cache=True)
def reads(x, out):
    out[:] = x
    out[0] = reader(x)

@numba.njit
def not_cached(x, out):
    out[:] = 1
    helper(x)
    out[:] = x
"""


@pytest.mark.exhaustive
def test_what_numba_kept_on_disk_is_searched_too(tmp_path, run_python):
    (tmp_path / "cached_kernels.py").write_text(CACHED)
    program = """
import sys, warnings; sys.path.insert(0, ".")
import jax, jax.numpy as jnp, kernbridge, numpy as np
from cached_kernels import deep, helper, not_cached, reader, reads, writes
for function in (deep, helper, reader):
    function(np.frombuffer(bytes(12), np.float32))
for kernel in (writes, not_cached, reads):
    x = jnp.zeros(3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", kernbridge.KernbridgeWarning)
        op = kernbridge.numba_kernel(kernel, jax.ShapeDtypeStruct((3,), jnp.float32))
        print(op(x).tolist(), x.tolist(), sum("may write" in str(w.message) for w in caught))
print(all(sum(f.stats.cache_hits.values()) for f in (helper, reader)))
"""
    expected = "[99.0, 0.0, 0.0] [0.0, 0.0, 0.0] 1\n" * 2 + "[0.0, 0.0, 0.0] [0.0, 0.0, 0.0] 0\n"
    for process, cached in (("first", "False"), ("second", "True")):  # Numba's cache alone is kept
        folder = str(tmp_path / process)
        assert run_python(program, KERNBRIDGE_CACHE_DIR=folder) == expected + cached + "\n"


def plain(a):
    a.flat[0] = 99


CUDA_WRITES = {
    "flat": "x.flat[0] = 99",
    "device function": "on_device(x)",
    "register_jitable": "jitable_on_gpu(x)",
    "intrinsic": "poke_on_gpu(x)",
    "atomic": "cuda.atomic.add(x, 0, 96)",
    "record": "x.view(ITEM)[0].a = 99",
    "array in a record": "cuda.atomic.add(x.view(PAIR)[0].pair, 0, 96)",
    "view": "x.reshape((2, 2)).flat[0] = 99",
}


@pytest.mark.parametrize("statement", list(some(CUDA_WRITES)))
def test_a_cuda_kernel_gets_a_copy_too(statement):
    cuda = pytest.importorskip("numba_cuda") and pytest.importorskip("numba.cuda")
    extending = pytest.importorskip("numba.cuda.extending")
    scope = {
        "__name__": __name__,
        "ITEM": ITEM,
        "PAIR": PAIR,
        "cuda": cuda,
        "on_device": cuda.jit(device=True)(writes.py_func),
        "jitable_on_gpu": extending.register_jitable(plain),
        "poke_on_gpu": extending.intrinsic(poke._defn),
    }
    exec(
        f"def kernel(x, out):\n    {statement}\n    for i in range(4):\n        out[i] = x[i]\n",
        scope,
    )
    x = jnp.array(START)
    op = kernbridge.numba_cuda_kernel(cuda.jit(scope["kernel"]), OUT, grid=1, block=1)
    with pytest.warns(kernbridge.KernbridgeWarning, match=r"\[KB4003\]"):
        got = op(x)
    np.testing.assert_array_equal(x, START)
    np.testing.assert_array_equal(got, [99, 1, 2, 0])
