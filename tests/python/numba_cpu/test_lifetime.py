"""Wrapping again and again registers once, compiles once, and leaks nothing."""

import gc
import weakref

import jax
import jax.numpy as jnp
import kernbridge
import kernbridge._core as _core
import numba
import numpy as np
import psutil
import pytest
from kernbridge import numba_kernel
from kernbridge._src.numba_cpu import entry as numba_cpu_entry

S = jax.ShapeDtypeStruct
x = jnp.arange(4, dtype=jnp.float32)


@pytest.mark.exhaustive
@pytest.mark.once
def test_ten_thousand_wraps_of_one_kernel():
    @numba.njit
    def kernel(x, out):
        for i in range(out.size):
            out[i] = x[i] + 17

    def wrap_and_call(n):
        for _ in range(n):
            numba_kernel(kernel, S((4,), jnp.float32))(x)

    before = _core.registry_stats()[0]
    wrap_and_call(500)
    gc.collect()
    resident = psutil.Process().memory_info().rss
    objects = len(gc.get_objects())
    wrap_and_call(9_500)
    gc.collect()
    assert _core.registry_stats()[0] == before + 1
    assert len(gc.get_objects()) - objects < 200
    assert psutil.Process().memory_info().rss - resident < 8 * 2**20
    assert numba_kernel(kernel, S((4,), jnp.float32)) is numba_kernel(kernel, S((4,), jnp.float32))


def test_outs_made_anew_each_time_do_not_pile_up():
    @numba.njit
    def kernel(x, out):
        out[:] = x

    made = [weakref.ref(numba_kernel(kernel, lambda x: S(x.shape, x.dtype))) for _ in range(300)]
    gc.collect()
    assert sum(operation() is not None for operation in made) <= 64


@pytest.mark.exhaustive
def test_equal_kernels_made_anew_share_their_machine_code():
    def make():
        @numba.njit
        def kernel(x, out):
            for i in range(out.size):
                out[i] = x[i] + 18

        return kernel

    before = _core.registry_stats()[0]
    for _ in range(20):
        np.testing.assert_array_equal(numba_kernel(make(), S((4,), jnp.float32))(x), x + 18)
    assert _core.registry_stats()[0] == before + 1


def test_a_kernel_that_nobody_holds_goes_away():
    @numba.njit
    def kernel(x, out):
        out[:] = x

    numba_kernel(kernel, S((4,), jnp.float32))
    alive = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert alive() is None


@pytest.mark.exhaustive
def test_a_compiled_program_outlives_its_operation():
    @numba.njit
    def kernel(x, out):
        for i in range(out.size):
            out[i] = x[i] + 19

    f = jax.jit(numba_kernel(kernel, S((4,), jnp.float32))).lower(x).compile()
    del kernel
    gc.collect()
    jax.clear_caches()
    gc.collect()
    np.testing.assert_array_equal(f(x), np.asarray(x) + 19)


@pytest.fixture
def built(monkeypatch):
    """The libraries of entries that are built meanwhile."""
    libraries = weakref.WeakSet()
    build = numba_cpu_entry.build_entry

    def noting(*args):
        entry = build(*args)
        libraries.add(entry.library)
        return entry

    monkeypatch.setattr(numba_cpu_entry, "build_entry", noting)
    return libraries


@pytest.mark.exhaustive
def test_numbas_library_goes_where_the_core_has_the_machine_code(built):
    @numba.njit
    def kernel(x, out):
        for i in range(out.size):
            out[i] = x[i] + 4711

    op = numba_kernel(kernel, lambda x: S(x.shape, x.dtype))
    np.testing.assert_array_equal(op(x), x + 4711)
    if "llvmlite is too old" in op.inspect(x)[0].export:
        pytest.skip("Numba's library has the machine code")
    gc.collect()
    assert len(built) == 0
    assert "kb_entry" in op.inspect(x)[0].llvm_ir  # made anew for that
    gc.collect()
    assert len(built) == 0


@pytest.mark.exhaustive
def test_numbas_library_stays_where_it_has_the_machine_code(built):
    @numba.njit
    def kernel(x, out):
        for i in range(out.size):
            out[i] = x[i] + 4712 + 0 * np.random.random()  # Numba's state is in this process

    op = numba_kernel(kernel, lambda x: S(x.shape, x.dtype))
    np.testing.assert_array_equal(op(x), x + 4712)
    f = jax.jit(op).lower(x).compile()
    del op, kernel
    gc.collect()
    assert len(built) == 1
    np.testing.assert_array_equal(f(x), x + 4712)


@pytest.mark.once
def test_numbas_pass_managers_are_freed(monkeypatch):
    if not numba_cpu_entry.DISPOSE_CHANGES:
        pytest.skip("this llvmlite frees them")
    from llvmlite.binding import ffi, newpassmanagers

    made, freed = [], []
    builder, dispose = newpassmanagers.PassBuilder, newpassmanagers.NewPassManager._dispose

    def noting(make):
        def making(self):
            made.append(make)
            return make(self)

        return making

    for name in ("getModulePassManager", "getFunctionPassManager"):
        monkeypatch.setattr(builder, name, noting(getattr(builder, name)))

    def freeing(self):
        freed.append(type(self))
        dispose(self)

    monkeypatch.setattr(newpassmanagers.NewPassManager, "_dispose", freeing)
    changes = [(kind, name, freeing) for kind, name, _ in numba_cpu_entry.DISPOSE_CHANGES]
    monkeypatch.setattr(numba_cpu_entry, "DISPOSE_CHANGES", changes)

    @numba.njit
    def kernel(x, out):
        for i in range(out.size):
            out[i] = x[i] + 4713

    np.testing.assert_array_equal(numba_kernel(kernel, S((4,), jnp.float32))(x), x + 4713)
    assert len(made) >= 4
    assert len(freed) >= len(made)
    assert newpassmanagers.ModulePassManager._dispose is ffi.ObjectRef._dispose


def test_functions_that_return_values_and_are_made_anew_do_not_pile_up():
    """JAX keeps front ends, which kept their operations, whose programs have a megabyte each."""

    @numba.njit
    def double(x):
        return 2 * x

    def dispatchers():
        gc.collect()
        return sum(type(o).__name__ == "CPUDispatcher" for o in gc.get_objects())

    made, counts = [], []
    for _ in range(4):
        operation = kernbridge.kernel(lambda x: x)(double)
        np.testing.assert_array_equal(operation(x), 2 * x)
        made.append(weakref.ref(operation))
        del operation
        np.testing.assert_array_equal(kernbridge.elementwise(lambda x: 3 * x)(x), 3 * x)
        counts.append(dispatchers())
    assert [operation() for operation in made] == [None] * 4
    assert counts[1:] == counts[:1] * 3
