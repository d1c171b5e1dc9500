"""What `numba_cuda_kernel` and `numba_cuda_callable` refuse, when, and in which words."""

import cuda_kernels
import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")
add = cuda_kernels.add
pytestmark = pytest.mark.usefixtures("gpu")
S = jax.ShapeDtypeStruct
F32 = jnp.float32
OUT = S((8,), F32)
X = jnp.ones(8, F32)


def wrap(**options):
    return kernbridge.numba_cuda_kernel(add, OUT, **options)


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs launch_dims, or both grid and block; neither"),
        ({"grid": 1}, "only one of them is given"),
        ({"block": 1}, "only one of them is given"),
        ({"grid": 1, "launch_dims": 8}, "both launch_dims and grid are given"),
        ({"launch_dims": ()}, "1-3 dimensions, got 0"),
        ({"launch_dims": (1, 1, 1, 1)}, "1-3 dimensions, got 4"),
        ({"launch_dims": -1}, "negative number -1"),
        ({"launch_dims": 8, "threads_per_block": 0}, "threads_per_block is 0, expected 1 to 1024"),
        ({"launch_dims": 8, "threads_per_block": 2048}, "2048, expected 1 to 1024"),
        ({"grid": (1, 1, 1, 1), "block": 1}, "grid must have 1-3 dimensions"),
        ({"grid": 1, "block": 1025}, "1025 threads, but a block can have at most 1024"),
        ({"grid": 1, "block": (32, 32, 2)}, "2048 threads"),
        ({"grid": 1, "block": (1, 1, 65)}, "at most .*64.* along x, y, z"),
        ({"grid": (1, 65536), "block": 1}, "65536 blocks along y, but can have at most 65535"),
        ({"grid": 4, "block": 1, "cluster": 3}, "does not divide grid"),
        ({"grid": 4, "block": 1, "cluster": 17}, "cluster is 17, expected 1 to 16"),
        ({"launch_dims": 8, "shared_mem": -1}, "shared_mem is -1"),
        ({"launch_dims": 8, "vmap_method": "loop"}, "vmap_method is 'loop'"),
        ({"launch_dims": 8, "input_output_aliases": {0: 1}}, "maps input 0 to output 1"),
    ],
)
def test_launch_arguments_are_checked_when_wrapped(options, message):
    with pytest.raises(ValueError, match=rf"numba_cuda_kernel 'add': .*{message}"):
        wrap(**options)


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"launch_dims": 8.0}, "launch_dims contains 8.0"),
        ({"launch_dims": True}, "launch_dims contains True"),
        ({"grid": "4", "block": 1}, "grid contains '4'"),
        ({"launch_dims": 8, "threads_per_block": 1.5}, "threads_per_block is 1.5 of type float"),
        ({"launch_dims": 8, "shared_mem": "1k"}, "shared_mem is '1k' of type str"),
        ({"launch_dims": 8, "view": {"x": "no dtype"}}, "view contains 'no dtype' for 'x'"),
    ],
)
def test_launch_arguments_of_wrong_types(options, message):
    with pytest.raises(TypeError, match=message):
        wrap(**options)


def test_only_cuda_kernels_are_wrapped():
    @cuda.jit(device=True)
    def device_function(x):
        return x

    with pytest.raises(TypeError, match=r"\[KB1001\]"):
        kernbridge.numba_cuda_kernel(lambda x, out: None, OUT, launch_dims=8)
    with pytest.raises(TypeError, match=r"\[KB1001\]"):
        kernbridge.numba_cuda_kernel(numba.njit(lambda x, out: None), OUT, launch_dims=8)
    with pytest.raises(TypeError, match=r"\[KB1001\]"):
        kernbridge.numba_cuda_kernel(device_function, OUT, launch_dims=8)


def test_calls_are_checked_when_traced():
    op = wrap(launch_dims=8)
    with pytest.raises(TypeError, match=r"\[KB2001\]"):
        op(X)
    with pytest.raises(TypeError, match=r"'z'.*\[KB2001\]"):
        op(X, X, z=1.0)
    with pytest.raises(TypeError, match=r"input 1.*'x'.*\[KB2002\]"):
        op(X, "x")
    with pytest.raises(ValueError, match=r"'x'.*int4.*CUDA.*\[KB2003\]"):
        op(X.astype(jnp.int4), X)
    with pytest.raises(ValueError, match=r"'y'.*\[KB2005\]"):
        op(X, y=X)
    with pytest.raises(TypeError, match=r"takes 3 parameters.*\[KB1004\]"):
        kernbridge.numba_cuda_kernel(add, [OUT] * 4, launch_dims=8)


def test_launch_dims_as_a_function():
    op = kernbridge.numba_cuda_kernel(add, OUT, launch_dims=lambda x: x.shape)
    with pytest.raises(TypeError, match=r"2 inputs.*`launch_dims`.*\(x\).*\[KB2004\]"):
        op(X, X)
    op = kernbridge.numba_cuda_kernel(add, OUT, launch_dims=lambda x, y: (1, 1, 1, 1))
    with pytest.raises(ValueError, match=r"\[KB1102\]"):
        op(X, X)


def test_symbolic_launch_that_no_buffer_knows():
    (n,) = jax.export.symbolic_shape("n")
    op = kernbridge.numba_cuda_kernel(
        add, lambda x, y: S(x.shape, x.dtype), launch_dims=lambda x, y: 2 * x.size + 1
    )
    with pytest.raises(ValueError, match=r"launch_dims.*extent 2.*1.*\[KB1102\]"):
        jax.export.export(jax.jit(op))(S((n,), F32), S((n,), F32))


def test_a_kernel_that_does_not_compile_names_itself_and_its_types():
    @cuda.jit
    def wrong(x, out):
        out[0] = x.no_such_attribute

    op = kernbridge.numba_cuda_kernel(wrong, OUT, launch_dims=8)
    with pytest.raises(
        kernbridge.KernelCompilationError,
        match=r"(?s)'wrong': Numba-CUDA cannot compile the kernel for \(f32\[1d\], "
        r"f32\[1d\]\).*no_such_attribute",
    ):
        op(X)


def test_a_kernel_that_returns_a_value_is_refused():
    @cuda.jit
    def returning(x, out):
        out[0] = x[0]
        return x[0]

    with pytest.raises(TypeError, match=r"\[KB4002\]"):
        kernbridge.numba_cuda_kernel(returning, OUT, launch_dims=8)(X)


def test_callable_arguments():
    def run(x, out, stream):
        add[1, 8, stream](x, x, out)

    make = kernbridge.numba_cuda_callable
    with pytest.raises(TypeError, match=r"func is 3, expected a function.*\[KB1001\]"):
        make(3, OUT)
    with pytest.raises(ValueError, match=r"'maybe'.*\[KB1005\]"):
        make(run, OUT, record="maybe")
    op = make(run, OUT)
    with pytest.raises(ValueError, match=r"input 0.*\(x\).*rank 0.*\[KB2003\]"):
        op(F32(3))
    with pytest.raises(TypeError, match=r"0 inputs.*1 output.*\[KB2001\]"):
        op()
    np.testing.assert_array_equal(op(X), 2 * np.ones(8))


@pytest.mark.once
def test_without_a_gpu_arguments_are_still_checked(run_python):
    program = """
import kernbridge, jax, jax.numpy as jnp
try:
    from numba import cuda
    kernel = cuda.jit(lambda x, out: None)
except ImportError:
    kernel = None
out = jax.ShapeDtypeStruct((3,), jnp.float32)
for make in (
    lambda: kernbridge.numba_cuda_kernel(kernel, out),
    lambda: kernbridge.numba_cuda_kernel(kernel, out, launch_dims=3),
    lambda: kernbridge.numba_cuda_callable(3, out),
):
    try:
        make()
    except Exception as e:
        print(type(e).__name__, e)
"""
    told = run_python(program, KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so").splitlines()
    assert [line.split()[0] for line in told] == ["ValueError", "TypeError"]


@pytest.mark.exhaustive
@pytest.mark.once
def test_a_machine_without_gpu_compiles_for_others(run_python):
    printed = run_python(
        """
import jax, jax.numpy as jnp, kernbridge
from numba import cuda
kernbridge.config.set_cuda_architectures("8.0, sm_90")
@cuda.jit
def twice(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]
S = jax.ShapeDtypeStruct((3,), jnp.float32)
op = kernbridge.numba_cuda_kernel(twice, S, launch_dims=3)
check = jax.export.DisabledSafetyCheck.custom_call("kernbridge.cuda.graph")
blob = jax.export.export(jax.jit(op), platforms=["cuda"], disabled_checks=[check])(S).serialize()
print(len(blob) > 4000, [cc for s in op.plan(S).steps for cc, _ in s.function.images])
kernbridge.config.set_cuda_on_cpu("error")
try:
    op(jnp.ones(3))
except kernbridge.KernelNotAvailableError as e:
    print(e)
""",
        KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so",
    )
    assert "True [80, 90]" in printed
    assert "'twice' was lowered for the CPU, and kernbridge.config.set_cuda_on_cpu" in printed


def test_architectures_are_checked():
    config = kernbridge.config
    for text in ("", "nine", "9.0,x", "1.0"):
        with pytest.raises(ValueError, match="cuda architecture"):
            config.set_cuda_architectures(text)
    config.set_cuda_architectures("sm_90a 8.6")
    assert config.get_cuda_architectures() == ((8, 6), (9, 0))
    config.set_cuda_architectures(None)
    assert config.get_cuda_architectures() is None


@pytest.mark.parametrize(
    ("dims", "launch"),
    [((100, 50), "[(7, 4, 1), (16, 16, 1)]"), ((9, 9, 9), "[(2, 2, 3), (8, 8, 4)]")],
)
def test_blocks_of_two_and_three_dimensions_have_one_size(dims, launch, gpu):
    for options in ({}, {"threads_per_block": 64}, {"threads_per_block": "auto"}):
        op = kernbridge.numba_cuda_kernel(
            cuda_kernels.copy, S((4,), F32), launch_dims=dims, **options
        )
        assert launch in str(op.plan(jnp.zeros(4, F32)))
