"""CUDA kernels on the CPU with `fastmath` or `vector_math`: threads of a block call libmvec."""

import platform

import pytest
from kernbridge._src.numba_cpu.entry import vector_math

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not vector_math.provided(), reason="there is no libmvec"),
]

# The machine code of each kernel that is compiled is appended to `codes`.
HEAD = """
import math, re
import jax, jax.numpy as jnp, numpy as np
import kernbridge
from kernbridge import _core, numba_cuda_callable, numba_cuda_kernel
from numba import cuda

codes = []
add_host_code = _core.add_host_code

def adding(digest, code, name):
    codes.append(code)
    return add_host_code(digest, code, name)

_core.add_host_code = adding
"""

PROGRAM = """
def values(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 1 / (1 + math.exp(-x[i])) + math.tanh(x[i])

x = np.linspace(-3, 3, 1001).astype(np.float32)
want = 1 / (1 + np.exp(-x.astype(np.float64))) + np.tanh(x.astype(np.float64))

def check(out, *names):
    np.testing.assert_allclose(out, want, rtol=2e-6, atol=1e-6)
    code = codes.pop()
    assert [name in code for name in names] == [True] * len(names), names
    assert (b"_ZGV" in code) == bool(names)

outs = jax.ShapeDtypeStruct(x.shape, x.dtype)
for fast in (False, True):
    op = numba_cuda_kernel(cuda.jit(fastmath=fast)(values), outs, launch_dims=x.size)
    check(op(jnp.asarray(x)), *[b"v_expf", b"v_tanhf"][: 2 * fast])
    program = jax.export.export(jax.jit(op))(x).serialize()
    np.testing.assert_array_equal(jax.export.deserialize(program).call(x), op(x))

def launching(kernel):
    def launch(x, out, stream):
        kernel[4, 256, stream](x, out)

    return launch

for fast in (False, True):
    of_kernel = launching(cuda.jit(fastmath=fast)(values))
    op = numba_cuda_callable(of_kernel, outs, record="always", vector_math=not fast)
    check(op(jnp.asarray(x)), *[b"v_expf", b"v_tanhf"][: 2 * (not fast)])
    assert op is not numba_cuda_callable(of_kernel, outs, record="always")

with kernbridge.cuda_on_cpu():
    for fast in (False, True):
        out = np.zeros_like(x)
        cuda.jit(fastmath=fast)(values)[4, 256](x, out)
        check(out, *[b"v_expf", b"v_tanhf"][: 2 * fast])
"""


OPTION = """
def values(x, e, s, t, l, p):
    i = cuda.grid(1)
    if i < e.size:
        e[i] = math.exp(x[i])
        s[i] = math.sin(x[i])
        t[i] = math.tanh(x[i])
        l[i] = math.log(abs(x[i]))
        p[i] = math.pow(abs(x[i]), x[i])

odd = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -3e-40, -88.5, -100.0, 89.0]
x = np.concatenate([np.linspace(-20, 20, 5000), odd]).astype(np.float32)
wide = x.astype(np.float64)
with np.errstate(all="ignore"):
    exact = [np.exp(wide), np.sin(wide), np.tanh(wide), np.log(abs(wide)), abs(wide) ** wide]
kernels = {fast: cuda.jit(fastmath=fast)(values) for fast in (False, True)}

def op(fast, **options):
    outs = (jax.ShapeDtypeStruct(x.shape, x.dtype),) * 5
    return numba_cuda_kernel(kernels[fast], outs, launch_dims=x.size, **options)

def check(op, has_vectors, is_accurate):
    found = list(map(np.asarray, op(jnp.asarray(x))))
    assert (b"_ZGV" in codes.pop()) == has_vectors
    for value, want in zip(found, exact) if is_accurate else ():
        with np.errstate(all="ignore"):
            want32 = want.astype(np.float32)
            np.testing.assert_array_equal(np.isnan(value), np.isnan(want32))
            off = abs(value.astype(np.float64) - want) / np.spacing(abs(want32))
        assert np.nanmax(np.where(np.isfinite(want32), off, 0)) <= 4
        infinite = np.isinf(want32)
        np.testing.assert_array_equal(value[infinite], want32[infinite])

def program(op, platform):
    text = jax.export.export(jax.jit(op), platforms=[platform])(x).mlir_module()
    return re.sub(r"(?m)^#?loc.*\\n?|loc\\(#loc\\d*\\)", "", text)  # without places in sources

check(op(False, vector_math=True), True, True)
check(op(True, vector_math=False), False, False)  # fast_powf(0, 0) is NaN, as on a GPU
assert not codes
assert op(False) is op(False, vector_math=False) is not op(False, vector_math=True)
assert op(True) is op(True, vector_math=True) is not op(True, vector_math=False)
for platform in ("cpu", "cuda"):
    plain, other = (program(op(False, vector_math=v), platform) for v in (None, True))
    assert (plain == other) == (platform == "cuda")
"""


@pytest.mark.exhaustive
def test_the_option(run_python):
    run_python(HEAD + OPTION, KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so", KERNBRIDGE_CACHE_DIR="0")


def test_what_is_refused():
    import jax
    import jax.numpy as jnp
    from kernbridge import numba_cuda_callable, numba_cuda_kernel
    from numba import cuda

    @cuda.jit
    def nothing(out):
        pass

    def wrap(**options):
        out = jax.ShapeDtypeStruct((1,), jnp.float32)
        return numba_cuda_kernel(nothing, out, launch_dims=1, **options)

    with pytest.raises(TypeError, match=r"'nothing'.*vector_math.*is 1.*\[KB1005\]"):
        wrap(vector_math=1)
    with pytest.raises(ValueError, match=r"vector_math=True.*check=True.*\[KB1005\]"):
        wrap(vector_math=True, check=True)
    wrap(vector_math=False, check=True)

    def launch(out, stream):
        nothing[1, 1, stream](out)

    with pytest.raises(TypeError, match=r"'launch'.*vector_math.*'on'.*\[KB1005\]"):
        numba_cuda_callable(launch, jax.ShapeDtypeStruct((1,), jnp.float32), vector_math="on")


@pytest.mark.exhaustive
def test_fast_kernels(run_python):
    run_python(HEAD + PROGRAM, KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so", KERNBRIDGE_CACHE_DIR="0")


@pytest.mark.exhaustive
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the registers are of x86-64")
def test_a_variable_names_the_processor(run_python):
    """As for Numba: a generic one has no features, unless another variable gives some."""
    program = """
@cuda.jit
def twice(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]

out = jax.ShapeDtypeStruct((1024,), np.float32)
(found,) = numba_cuda_kernel(twice, out, launch_dims=1024).inspect(out)
print(*sorted(set(re.findall(r"%([xyz]mm)", found.assembly))))
"""
    settings = {"KERNBRIDGE_LIBCUDA": "/nowhere/libcuda.so", "NUMBA_CPU_NAME": "generic"}
    assert run_python(HEAD + program, **settings).strip() == "xmm"
    wide = run_python(HEAD + program, NUMBA_CPU_FEATURES="+avx,+avx2", **settings)
    assert wide.strip() in ("xmm ymm", "ymm")
