"""The operations of seed 003, sections 7 and 8, on the CPU; tests/gpu runs the same on GPUs."""

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from operations import check_leaky, check_lif, leaky, leaky_op, leaky_pallas, leaky_warp, lif_op

BACKENDS = ("numba", "cpp")


def but(backend):
    """Both, one of them in `make test-all` alone: it takes seconds to compile."""
    return [pytest.param(b, marks=[pytest.mark.exhaustive] * (b == backend)) for b in BACKENDS]


@pytest.mark.exhaustive
@pytest.mark.once
@pytest.mark.parametrize("backend", but("cpp"))
def test_leaky_relu(backend):
    check_leaky(backend)


@pytest.mark.once
@pytest.mark.parametrize("backend", but("numba"))
def test_lif_step(backend):
    check_lif(backend)


@pytest.mark.once
def test_rules():
    x = jnp.linspace(-3.0, 3.0, 8)
    checks = kernbridge.check_rules(leaky_op, x, alpha=0.1)
    assert {c.backend for c in checks} >= set(BACKENDS)
    assert all(c.status == "passed" for c in checks)
    V = jnp.linspace(-75, -50, 9)
    checks = kernbridge.check_rules(lif_op, V, jnp.array([-55.0]), jnp.array([-70.0]))
    assert all(c.status == "passed" for c in checks), checks
    assert leaky_op.available_backends("gpu")[:2] == ["numba_cuda", "cuda_raw"]


def test_jitted_leaky_relu_as_printed():
    @jax.jit
    def jitted_leaky_relu(x, alpha=0.1):
        return leaky_op(x, outs=[jax.ShapeDtypeStruct(x.shape, x.dtype)], alpha=alpha)[0]

    x = jnp.linspace(-3.0, 3.0, 256, dtype=jnp.float32)
    np.testing.assert_array_equal(jitted_leaky_relu(x), leaky(x))
    with pytest.raises(TypeError, match=r"\[KB8008\]"):
        jitted_leaky_relu(x, alpha=0.1)


@pytest.fixture
def also_on_the_cpu():
    """Backends that some tests define besides, and that go with them."""
    yield
    for backend in ("pallas", "warp"):
        leaky_op._kernels["cpu"].pop(backend, None)


@pytest.mark.once
@pytest.mark.exhaustive
def test_leaky_relu_in_pallas(also_on_the_cpu):
    leaky_op.def_kernel("pallas", "cpu", lambda outs, alpha: leaky_pallas(outs, alpha, True))
    check_leaky("pallas")


def test_leaky_relu_in_warp(also_on_the_cpu):
    pytest.importorskip("warp", reason="Warp (warp-lang, 145 MB) is not installed")
    leaky_op.def_kernel("warp", "cpu", leaky_warp)
    check_leaky("warp")


def test_types_of_warp():
    warp = pytest.importorskip("warp", reason="Warp (warp-lang, 145 MB) is not installed")
    from kernbridge import jaxinfo_to_warpinfo, jaxtype_to_warptype

    for name in ("float16", "float32", "float64", "int8", "uint8", "int64", "uint64", "bool"):
        assert jaxtype_to_warptype(np.dtype(name)) is getattr(warp, name)
    info = jaxinfo_to_warpinfo(jax.ShapeDtypeStruct((2, 3), jnp.float32))
    assert (info.dtype, info.ndim) == (warp.float32, 2)


def test_types_that_warp_does_not_have():
    from kernbridge import jaxinfo_to_warpinfo, jaxtype_to_warptype

    for dtype in (jnp.bfloat16, np.complex64):
        with pytest.raises(ValueError, match=r"scalar.*\[KB2003\]"):
            jaxtype_to_warptype(dtype)
    with pytest.raises(ValueError, match=r"rank 0.*\[KB2003\]"):
        jaxinfo_to_warpinfo(jax.ShapeDtypeStruct((), jnp.float32))
