"""Machine code of CUDA kernels for the CPU in exported programs.

It runs without LLVM, Numba or a compiler, and is compiled anew where it cannot run.
"""

import pytest

CPU = {"KERNBRIDGE_LIBCUDA": "/nowhere/libcuda.so"}

MAKE = """
import jax, jax.numpy as jnp, numba, numpy as np
from jax import export
from numba import cuda
from kernbridge import numba_cuda_callable, numba_cuda_kernel
S = jax.ShapeDtypeStruct
X = S((64,), jnp.float32)

@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]

@cuda.jit
def sums(x, out):
    part = cuda.shared.array(32, numba.float32)
    t = cuda.threadIdx.x
    part[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 16
    while step:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]

def twice(x, out, stream):
    tmp = cuda.device_array(x.shape, x.dtype)
    add[2, 32, stream](x, x, tmp)
    add[2, 32, stream](tmp, x, out)

op_add = numba_cuda_kernel(add, X, launch_dims=64)
op_sums = numba_cuda_kernel(sums, S((2,), jnp.float32), grid=2, block=32)
op_checked = numba_cuda_kernel(add, X, launch_dims=64, check=True)
op_twice = numba_cuda_callable(twice, X)
"""
EXPORT = """
def write(name, f, *avals):
    with open(name, "wb") as file:
        file.write(export.export(jax.jit(f))(*avals).serialize())

write("add", op_add, X, X)
write("sums", op_sums, X)
write("checked", op_checked, X, X)
write("twice", op_twice, X)
write("rows", jax.vmap(op_sums), S((3, 64), jnp.float32))
"""
BLOCK = """
import sys
for name in ("llvmlite", "numba", "numba_cuda"):
    sys.modules[name] = None  # an import of it fails
"""
LOAD = """
import jax, jax.numpy as jnp, numpy as np
from jax import export
x = jnp.arange(64, dtype=jnp.float32)

def call(name, *args):
    try:
        return np.asarray(export.deserialize(open(name, "rb").read()).call(*args))
    except Exception as e:
        print(str(e).splitlines()[0])
"""
COMPARE = """
half = [np.arange(32).sum(), np.arange(32, 64).sum()]
np.testing.assert_array_equal(call("add", x, x), 2 * np.arange(64))
np.testing.assert_array_equal(call("sums", x), half)
np.testing.assert_array_equal(call("checked", x, x), 2 * np.arange(64))
np.testing.assert_array_equal(call("twice", x), 3 * np.arange(64))
np.testing.assert_array_equal(call("rows", jnp.stack([x, 0 * x, -x])), np.outer([1, 0, -1], half))
"""
# As if the processor of the exporting process had a feature that no other one has.
OTHER_PROCESSOR = """
from kernbridge._ext.emulator.compiler import compile as on_cpu
known = on_cpu.cpu_features.known
on_cpu.cpu_features.known = lambda given: (known(given)[0], 1 << 63)
on_cpu._core.add_host_code = lambda *_: {}
"""


@pytest.fixture
def run(run_python, tmp_path):
    def run(program, **environment):
        where = {"KERNBRIDGE_CACHE_DIR": str(tmp_path / "cache"), **CPU, **environment}
        return run_python(program, **where)

    return run


@pytest.mark.once
def test_programs_run_without_llvm_and_numba(run, tmp_path):
    run(MAKE + EXPORT)
    assert run(BLOCK + LOAD + COMPARE) == ""
    sizes = {name: (tmp_path / name).stat().st_size for name in ("add", "sums")}
    assert all(size <= 56 * 1024 for size in sizes.values()), sizes


@pytest.mark.once
@pytest.mark.exhaustive
def test_code_for_another_processor_is_compiled_anew(run):
    run(MAKE + OTHER_PROCESSOR + EXPORT, KERNBRIDGE_CACHE_DIR="0")
    assert run(LOAD + COMPARE) == ""
    printed = run(BLOCK + LOAD + "call('add', x, x)")
    assert "feature 63 of a later kernbridge" in printed
    assert ". Nor can the kernel be compiled again: " in printed
    assert "llvmlite" in printed


@pytest.mark.exhaustive
@pytest.mark.once
@pytest.mark.parametrize("what", ["recompile", "refuse"])
def test_code_of_programs_runs_only_where_it_may(run, what):
    run(MAKE + EXPORT)
    printed = run(LOAD + "call('add', x, x)", KERNBRIDGE_EXPORTED_CODE=what)
    assert printed.startswith("FAILED_PRECONDITION: ")
    assert f'kernbridge.config.set_exported_code("{what}")' in printed


@pytest.mark.exhaustive
@pytest.mark.once
def test_damaged_code_is_refused(run, tmp_path):
    run(MAKE + EXPORT)
    program = bytearray((tmp_path / "add").read_bytes())
    program[program.index(b"KBCC") + 1000] ^= 1
    (tmp_path / "add").write_bytes(program)
    printed = run(LOAD + "call('add', x, x)")
    assert (
        "INVALID_ARGUMENT: a kernel's program is damaged, or of another version of kernbridge: "
        "the check of its digest failed [KB5107]" in printed
    )


@pytest.mark.exhaustive
@pytest.mark.once
def test_a_second_process_takes_the_code_from_the_disk(run):
    call = "print(np.asarray(op_add(jnp.ones(64), jnp.ones(64)))[0])"
    assert run(MAKE + call).endswith("2.0\n")
    never = """
from kernbridge._ext.emulator.compiler import compile as on_cpu
def fail(*args): raise AssertionError("compiled anew")
on_cpu._made = on_cpu.image_of = fail
"""
    assert run(MAKE + never + call).endswith("2.0\n")
