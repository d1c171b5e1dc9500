"""Operations of functions, methods and kernels: each belongs to one object in one state."""

import functools
import gc
import pickle
import threading

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from kernbridge._src.base import lru

cuda = pytest.importorskip("numba.cuda")

S = jax.ShapeDtypeStruct
OUT = S((3,), jnp.float32)
ones = jnp.ones(3)


@cuda.jit
def scale(x, out, factor):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * factor


def wrap(function, outs=OUT, **options):
    return kernbridge.numba_cuda_callable(function, outs, record="always", **options)


class Layer:
    def __init__(self, factor):
        self.factor = factor

    def forward(self, x, out, stream):
        scale[1, 4, stream](x, out, self.factor)

    def __call__(self, x, out, stream):
        self.forward(x, out, stream)


class Slotted:
    __slots__ = ("factor",)

    def __init__(self, factor):
        self.factor = factor

    forward, __call__ = Layer.forward, Layer.__call__


def by(factor, x, out, stream):
    scale[1, 4, stream](x, out, factor)


def named(x, out, stream, factor=1.0):
    scale[1, 4, stream](x, out, factor)


@pytest.mark.usefixtures("gpu")
class TestCallables:
    @pytest.mark.parametrize(
        "make",
        [
            lambda n: Layer(n).forward,
            Layer,
            lambda n: Slotted(n).forward,
            lambda n: functools.partial(by, n),
            lambda n: functools.partial(Layer(n).forward),
        ],
        ids=["method", "object", "method of slots", "partial", "partial of a method"],
    )
    def test_equal_code_of_other_objects_is_another_operation(self, make):
        functions = [make(10.0), make(2.0)]
        for function, factor in zip(functions * 2, [10.0, 2.0] * 2, strict=True):
            np.testing.assert_array_equal(wrap(function)(ones), np.full(3, factor))

    def test_a_wrapper_is_not_what_it_wraps(self):
        def double(x, out, stream):
            scale[1, 4, stream](x, out, 2.0)

        np.testing.assert_array_equal(wrap(double)(ones), np.full(3, 2))

        @functools.wraps(double)
        def wrapper(x, out, stream):
            scale[1, 4, stream](x, out, 7.0)

        np.testing.assert_array_equal(wrap(wrapper)(ones), np.full(3, 7))
        assert wrap(double) is wrap(double)
        assert wrap(wrapper) is wrap(wrapper)

    def test_an_object_that_changed_is_recorded_anew(self):
        layer = Layer(3.0)
        assert wrap(layer.forward) is wrap(layer.forward)
        np.testing.assert_array_equal(wrap(layer.forward)(ones), np.full(3, 3))
        layer.factor = 4.0
        np.testing.assert_array_equal(wrap(layer.forward)(ones), np.full(3, 4))
        op = wrap(layer)
        np.testing.assert_array_equal(jax.jit(lambda x: op(x))(ones), np.full(3, 4))
        layer.factor = 5.0
        np.testing.assert_array_equal(jax.jit(lambda x: op(x))(ones), np.full(3, 5))

    def test_signs_and_types_that_python_calls_equal(self):
        @cuda.jit
        def reciprocal(out, zero):
            out[0] = 1 / zero

        def make(zero):
            def run(out, stream):
                reciprocal[1, 1, stream](out, zero)

            return run

        for zero, expected in ((0.0, np.inf), (-0.0, -np.inf)):
            assert wrap(make(zero), S((1,), jnp.float32))()[0] == expected
        layer = Layer(0.0)

        def invert(out, stream):
            reciprocal[1, 1, stream](out, layer.factor)

        for zero, expected in ((0.0, np.inf), (-0.0, -np.inf)):
            layer.factor = zero
            assert wrap(invert, S((1,), jnp.float32))()[0] == expected

    def test_an_object_can_still_be_pickled(self):
        layer, function = Layer(2.0), functools.partial(named, factor=2.0)
        wrap(layer.forward)
        wrap(function)
        assert pickle.loads(pickle.dumps(layer)).factor == 2.0
        assert pickle.loads(pickle.dumps(function)).keywords == {"factor": 2.0}

    def test_launch_dimensions_are_asked_for_at_every_lowering(self, gpu):
        threads = [1]

        @cuda.jit
        def count(out):
            i = cuda.grid(1)
            if i < out.size:
                out[i] = 1

        op = kernbridge.numba_cuda_kernel(
            count, OUT, launch_dims=lambda: threads[0], zero_outputs=True
        )
        np.testing.assert_array_equal(jax.jit(lambda: op())(), [1, 0, 0])
        threads[0] = 3
        np.testing.assert_array_equal(jax.jit(lambda: op() + 0)(), [1, 1, 1])


@numba.njit
def fill(out):
    for i in range(out.size):
        out[i] = out.size


def test_outputs_are_asked_for_when_an_outer_function_is_traced():
    size = [2]
    op = kernbridge.numba_kernel(fill, lambda: S((size[0],), jnp.float32))
    assert jax.jit(lambda: op())().shape == (2,)
    size[0] = 3
    assert jax.jit(lambda: op())().shape == (3,)

    class Outs:
        n = 4

        def __call__(self, x=None):
            return S((self.n,), jnp.float32)

        def __eq__(self, other):
            return isinstance(other, Outs)

        def __hash__(self):
            return 1

    one, other = Outs(), Outs()
    other.n = 5
    assert kernbridge.numba_kernel(fill, one)().shape == (4,)
    assert kernbridge.numba_kernel(fill, other)().shape == (5,)
    other.n = 6
    assert kernbridge.numba_kernel(fill, other)().shape == (6,)


@pytest.mark.exhaustive
@pytest.mark.once
def test_rules_of_objects_that_compare_equal():
    class Rule:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, inputs, outputs, cotangents):
            return (cotangents * self.factor,)

        def __eq__(self, other):
            return isinstance(other, Rule)

        def __hash__(self):
            return 1

    @numba.njit
    def copy(x, out):
        out[:] = x

    for factor in (2.0, 3.0, -0.0, 0.0):
        op = kernbridge.numba_kernel(copy, OUT, vjp=Rule(factor))
        gradient = jax.grad(lambda x: op(x).sum())(ones)  # noqa: B023
        np.testing.assert_array_equal(gradient, np.full(3, factor))
        np.testing.assert_array_equal(np.signbit(gradient), np.signbit(np.full(3, factor)))


ALIKE = [0, 0.0, -0.0, False, np.float32(0), np.float32(-0.0), np.float64(0), np.int32(0),
         0j, complex(0, -0.0), complex(-0.0, 0), (), (0,), (0.0,), ((-0.0,),), ((0.0,),),
         frozenset((0.0,)), frozenset((-0.0,)), "0", b"0", None, True, 1, 1.0,
         float("nan"), np.float32("nan"), (float("nan"),)]  # fmt: skip


def test_keywords_are_told_apart_exactly():
    made = []
    op = kernbridge.XLACustomKernel("test_function_identity_alike")
    op.def_kernel("jnp", "cpu", lambda outs, value: made.append(value) or (lambda x: x))
    for value in ALIKE:
        op(ones, outs=[OUT], value=value)
    assert {(type(value), repr(value)) for value in made} == {
        (type(value), repr(value)) for value in ALIKE
    }
    n_made = len(made)
    op(ones, outs=[OUT], value=(float("nan"),))
    assert len(made) == n_made
    for bad in ([], (1, []), {}, np.zeros(2)):
        with pytest.raises(TypeError, match=r"\[KB8008\]"):
            op(ones, outs=[OUT], value=bad)


def test_the_least_recently_used_goes_first():
    kept = lru.LRUCache(3)
    for n in range(3):
        assert kept.find_or_make(n, lambda n=n: [n]) == [n]
    assert kept.find(0) == [0]
    kept.put(3, [3])
    assert [kept.find(n) for n in range(4)] == [[0], None, [2], [3]]
    assert len(kept) == 3


def test_a_value_is_made_once_by_many_threads():
    kept, made, barrier = lru.LRUCache(4), [], threading.Barrier(8)

    def make():
        made.append(1)
        return object()

    def ask(found):
        barrier.wait()
        found.append(kept.find_or_make("key", make))

    found = []
    threads = [threading.Thread(target=ask, args=(found,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert len(set(map(id, found))) == 1


def test_what_is_kept_with_a_function_goes_with_it():
    import weakref

    class Value:
        pass

    def owner():
        pass

    value = lru.attached_to(owner, "value", Value)
    value.owner = owner
    assert lru.attached_to(owner, "value", Value) is value
    alive = weakref.ref(value)
    del owner, value
    gc.collect()
    assert alive() is None
