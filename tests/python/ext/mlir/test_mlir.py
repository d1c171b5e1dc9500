"""Kernels of numba-cuda-mlir, the successor of Numba-CUDA, as operations."""

import re
from types import ModuleType

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

pytest.importorskip("numba_cuda_mlir", reason="numba-cuda-mlir is not installed")

import mlir_kernels
from kernbridge import KernelCompilationError, numba_cuda_kernel
from kernbridge._ext.tools import doctor
from kernbridge._src.keys import fingerprint
from numba_cuda_mlir import cuda, types

S = jax.ShapeDtypeStruct
F32 = jnp.float32
CODE = 2  # a launch of the fake driver executed the kernel's code

ON_CPU = """
import mlir_kernels
for name in mlir_kernels.CASES:
    mlir_kernels.check(name)
    print(name)
"""


@pytest.mark.parametrize("name", mlir_kernels.CASES)
def test_values_of_a_gpu_operation(name, gpu):
    mlir_kernels.check(name)
    assert gpu.launches
    assert {launch.does for launch in gpu.launches} == {CODE}


def test_values_on_the_cpu(run_python):
    assert run_python(ON_CPU).split() == list(mlir_kernels.CASES)


def test_the_decorator_takes_these_kernels(gpu):
    options = {"launch_dims": 4, "zero_outputs": True}
    made = kernbridge.kernel(S((4,), F32), **options)(one_of_two)
    assert made is numba_cuda_kernel(one_of_two, S((4,), F32), **options)
    assert made.__wrapped__ is one_of_two
    with pytest.raises(TypeError, match="half_as_bits is an option of numba_kernel"):
        kernbridge.kernel(S((4,), F32), launch_dims=4, half_as_bits=True)(one_of_two)


@pytest.mark.once
def test_the_self_test_of_the_command_line_knows_these_kernels(monkeypatch):
    monkeypatch.delenv("KERNBRIDGE_TEST_CUDA", raising=False)
    (name,) = (v.name for v in doctor.verdicts() if "mlir" in v.name)
    assert doctor.self_test([(name, "cpu")]) == [""]


def test_an_input_that_may_be_written_is_copied(gpu):
    op = numba_cuda_kernel(mlir_kernels.greedy, S((4,), F32), launch_dims=4)
    x = jnp.arange(4.0)
    with pytest.warns(kernbridge.KernbridgeWarning, match=r"may write to input 0 \(x\)"):
        out = op(x)
    assert out.tolist() == [1, 2, 3, 4]
    assert x.tolist() == [0, 1, 2, 3]


@cuda.jit(device=True)
def bump(array, i):
    cuda.atomic.max(array, i, 2)


@cuda.jit
def one_of_two(x, y, out):
    t = cuda.threadIdx.x
    bump(y, t)
    out[t] = x[t] + y[t]


@pytest.mark.filterwarnings("ignore::kernbridge.KernbridgeWarning")
def test_only_the_input_that_may_be_written_is_copied(gpu):
    op = numba_cuda_kernel(one_of_two, S((2,), F32), grid=1, block=2)
    x, y = jnp.ones(2), jnp.asarray([1.0, 3.0])
    assert op(x, y).tolist() == [3, 4]
    assert y.tolist() == [1, 3]
    with pytest.warns(kernbridge.KernbridgeWarning) as caught:
        jax.jit(op).lower(jnp.ones(2, jnp.int32), jnp.ones(2))
    (message,) = {str(w.message) for w in caught}
    assert "may write to input 1 (y)" in message
    assert "input 0" not in message


READS = """
import mlir_kernels
from kernbridge._src.keys import fingerprint
kernels = [mlir_kernels.scaled_by(c) for c in (1.0, 1.0, 2.0)]
kernels += [mlir_kernels.looked_up, mlir_kernels.sums, mlir_kernels.functions, mlir_kernels.lanes]
for kernel in kernels:
    taken = fingerprint.take(kernel)
    assert not taken.opaque, taken.opaque
    print(taken.digest.hex())
"""


def test_what_a_kernel_reads_is_in_its_fingerprint(run_python):
    digests = run_python(READS).split()
    assert digests == run_python(READS).split()
    assert digests[0] == digests[1]
    assert len(set(digests[1:])) == len(digests) - 1


def test_a_compilation_leaves_the_fingerprint_as_it_was(gpu):
    kernel = mlir_kernels.scaled_by(7.0)
    before = fingerprint.take(kernel)
    options = dict(mlir_kernels.square.targetoptions)
    numba_cuda_kernel(kernel, S((8,), F32), launch_dims=8)(jnp.ones(8), factor=np.float32(1))
    assert fingerprint.take(kernel) == before
    assert mlir_kernels.square.targetoptions.get("chip") == options.get("chip")


def plain(value):
    return value + 1


def test_a_python_function_counts_as_opaque():
    @cuda.jit
    def calling(x, out):
        out[0] = plain(x[0])

    assert fingerprint.take(calling).opaque


EXPORT = """
import jax, jax.numpy as jnp, numpy as np
import mlir_kernels
from jax import export
from kernbridge import numba_cuda_kernel
op = numba_cuda_kernel(mlir_kernels.reversed_blocks, jax.ShapeDtypeStruct((128,), jnp.float32),
                       grid=2, block=64)
x = jax.ShapeDtypeStruct((128,), jnp.float32)
exported = export.export(jax.jit(op), platforms=["cpu"])(x)
open("program", "wb").write(exported.serialize())
"""
LOAD = """
import sys
import jax, jax.numpy as jnp, numpy as np
import kernbridge
from jax import export
x = np.arange(128, dtype=np.float32)
program = export.deserialize(bytearray(open("program", "rb").read()))
np.testing.assert_array_equal(jax.jit(program.call)(x), x.reshape(2, 64)[:, ::-1].ravel())
assert "numba_cuda_mlir" not in sys.modules and "numba.cuda" not in sys.modules
"""


def test_an_exported_program_needs_neither_package(run_python, tmp_path):
    program = str(tmp_path / "exported")
    run_python(EXPORT.replace('"program"', repr(program)))
    run_python(LOAD.replace('"program"', repr(program)))


def test_dynamic_shared_memory_lies_behind_the_static_one(gpu):
    op = numba_cuda_kernel(
        mlir_kernels.reversed_dynamic, S((96,), F32), grid=2, block=48, shared_mem=192
    )
    (launch,) = op.inspect(jnp.zeros(96))
    shared = re.findall(r"^.*\.shared .*\.b8 .*;$", launch.assembly, re.MULTILINE)
    assert len(shared) == 2
    assert sum(line.strip().startswith(".extern .shared .align 16 ") for line in shared) == 1


def test_the_code_of_an_operation_can_be_inspected(gpu):
    op = numba_cuda_kernel(mlir_kernels.reversed_blocks, S((128,), F32), grid=2, block=64)
    (launch,) = op.inspect(jnp.zeros(128))
    assert ".visible .entry reversed_blocks_" in launch.assembly
    assert "@kb_global_0 = private addrspace(3) global [64 x float]" in launch.llvm_ir


def test_launch_bounds_reach_the_entry(gpu):
    @cuda.jit(launch_bounds=96)
    def bounded(x, out):
        out[cuda.grid(1)] = x[cuda.grid(1)]

    (launch,) = numba_cuda_kernel(bounded, S((4,), F32), launch_dims=4).inspect(jnp.zeros(4))
    assert re.search(r"\.maxntid 96", launch.assembly)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"debug": True, "opt": False},
            "with debug=True is not supported by kernbridge; remove it",
        ),
        ({"link": ["f.cu"]}, "with link= is not supported by kernbridge; write the function"),
        ({"extensions": [object()]}, "with extensions= is not supported"),
    ],
)
def test_options_that_are_refused(options, words):
    def kernel(x, out):
        out[0] = x[0]

    with pytest.raises(ValueError, match=re.escape(words)):
        numba_cuda_kernel(cuda.jit(kernel, **options), S((1,), F32), launch_dims=1)


def test_a_variadic_kernel_is_refused():
    @cuda.jit
    def kernel(*arrays):
        arrays[0][0] = 1

    with pytest.raises(ValueError, match=r"with a \*parameter is not supported .*name the"):
        numba_cuda_kernel(kernel, S((1,), F32), launch_dims=1)


def test_a_device_function_is_refused():
    with pytest.raises(TypeError, match="decorate it without device=True"):
        numba_cuda_kernel(mlir_kernels.square, S((1,), F32), launch_dims=1)


def test_a_kernel_that_returns_is_refused(gpu):
    @cuda.jit
    def kernel(x, out):
        return x[0]

    op = numba_cuda_kernel(kernel, S((1,), F32), launch_dims=1)
    with pytest.raises((TypeError, KernelCompilationError), match="return"):
        op(jnp.zeros(1))


def test_what_the_package_refuses_is_named(gpu):
    @cuda.jit
    def kernel(x, out):
        out[0] = x.nothing

    op = numba_cuda_kernel(kernel, S((1,), F32), launch_dims=1)
    with pytest.raises(KernelCompilationError, match="numba-cuda-mlir cannot compile the kernel"):
        op(jnp.zeros(1))


def test_records_with_two_axes_are_refused(gpu):
    @cuda.jit
    def kernel(x, out):
        out[0] = 1

    record = np.dtype([("a", np.float32), ("b", np.float32)])
    op = numba_cuda_kernel(kernel, S((1,), F32), launch_dims=1, view={"x": record})
    with pytest.raises((ValueError, KernelCompilationError), match="that have one axis and no gap"):
        op(jnp.zeros((3, 4, 2)))


module = ModuleType("of_users")
module.square, module.shift = mlir_kernels.square, 2.0
Float = types.float64
place = cuda.grid


@cuda.jit(device=True)
def power(x):
    return mlir_kernels.square(x)


def reading_much(added):
    @cuda.jit
    def kernel(x, out):
        local = cuda.local.array(2, Float)
        local[1] = module.square(x[place(1)])
        cuda.atomic.add(out, 0, power(local[1]) + module.shift + added)
        out[1] = types.f32(0.5)

    return kernel


@cuda.jit
def assembling(x, out):
    cuda.inline_ptx("mov.u32 $0, %clock;", out)


@cuda.jit
def beyond(x, out):
    out[cuda.threadIdx.x] = mlir_kernels.square(x[cuda.threadIdx.x + 1])


OF_NUMBA_CUDA = """
import jax, jax.numpy as jnp, numpy as np
from kernbridge import numba_cuda_kernel
import test_mlir
S = jax.ShapeDtypeStruct
for added in (1, 5):
    kernel = test_mlir.reading_much(added)
    op = numba_cuda_kernel(kernel, S((2,), jnp.float32), grid=1, block=4, zero_outputs=True)
    print(op(jnp.arange(4.0)).tolist())
for kernel in (test_mlir.assembling, test_mlir.beyond):
    op = numba_cuda_kernel(kernel, S((4,), jnp.float32), grid=1, block=4, check=True)
    try:
        op(jnp.zeros(4))
    except Exception as e:
        print(str(e).splitlines()[0])
"""


def test_numba_cuda_compiles_a_kernel_for_the_cpu_with_all_that_it_reads(run_python):
    one, five, assembled, checked = run_python(OF_NUMBA_CUDA).splitlines()
    assert one == str([float(1 + 16 + 81 + 12), 0.5])
    assert five == str([float(1 + 16 + 81 + 28), 0.5])
    assert "the kernel uses `inline_ptx` of numba-cuda-mlir, and Numba-CUDA" in assembled
    assert "thread (3, 0, 0)" in checked
    assert "test_mlir.py:" in checked
