"""Faults of real kernels, and the modes of KERNBRIDGE_DEBUG, each in a process of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import numpy
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack
import jax, jax.numpy as jnp, kernbridge, numpy as np
from numba import cuda
S = jax.ShapeDtypeStruct((1024,), jnp.float32)

@cuda.jit
def wild(x, out):
    i = cuda.grid(1)
    out[i + 1_000_000_000_000] = x[i]

@cuda.jit
def half(x, out):
    i = cuda.grid(1)
    if i < out.size // 2:
        out[i] = x[i]

@cuda.jit
def increment(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + 1

def wrap(kernel, **options):
    return kernbridge.numba_cuda_kernel(kernel, S, launch_dims=1024, **options)

def attempt(f, *args):
    try:
        print(float(f(*args).block_until_ready().sum()), flush=True)
    except Exception as e:
        print(type(e).__name__, " ".join(str(e).split()), flush=True)

x = jnp.ones(1024)
x.block_until_ready()
"""


def run(source, debug="", command=(), check=True, **environment):
    done = subprocess.run(
        [*command, sys.executable, "-c", PROGRAM + source],
        env={
            **os.environ,
            "KERNBRIDGE_DEBUG": debug,
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_fault_is_told_by_a_later_call_which_says_so():
    printed = run(
        """
from concurrent.futures import ThreadPoolExecutor
wild_op, fine = jax.jit(wrap(wild)), jax.jit(wrap(increment))
fine(x).block_until_ready()
try:
    wild_op(x).block_until_ready()
except Exception as e:
    print("first:", " ".join(str(e).split()))
attempt(fine, x)
""",
        check=False,
    )
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in printed
    ours = [line for line in printed.splitlines() if "numba_cuda_kernel 'increment'" in line]
    assert ours, printed
    assert "possibly an earlier one" in ours[0]
    assert "context is lost" in ours[0]


def test_sync_names_the_guilty_launch():
    printed = run("attempt(wrap(increment), x)\nattempt(wrap(wild), x)\n", "sync", check=False)
    first, second = printed.splitlines()[:2]
    assert first == "2048.0"
    assert "numba_cuda_kernel 'wild': launch of" in second
    assert "cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS" in second
    assert "earlier" not in second


def test_poison_finds_what_nobody_writes():
    printed = run(
        """
attempt(wrap(half), x)
attempt(wrap(increment), x)
attempt(wrap(increment, input_output_aliases={0: 0}), x)
attempt(wrap(half, zero_outputs=True), x)
""",
        "poison",
    ).splitlines()
    assert "no thread wrote 512 of the 1024 elements of output 0 (out)" in printed[0]
    assert printed[1:] == ["2048.0", "2048.0", "512.0"]


def test_verify_compares_recorded_and_unrecorded():
    printed = run(
        """
from kernbridge._src.record import record
def right(x, out, stream):
    increment[4, 256, stream](x, out)
attempt(kernbridge.numba_cuda_callable(right, S), x)
def wrong(x, out, stream):
    increment[4, 256, stream](x, out)
    half[4, 256, stream](x, out)
run = record.record
def losing(*args):
    recording = run(*args)
    recording.steps.pop()
    return recording
record.record = losing  # a recording that loses a launch
attempt(kernbridge.numba_cuda_callable(wrong, S), x)
""",
        "verify",
    ).splitlines()
    assert printed[0] == "2048.0"
    assert "recorded and unrecorded results differ, first at element 0" in printed[1]


@pytest.mark.skipif(
    shutil.which("compute-sanitizer") is None, reason="compute-sanitizer is not installed"
)
@pytest.mark.parametrize("tool", ["memcheck", "initcheck"])
def test_compute_sanitizer_finds_nothing(tool):
    printed = run(
        """
def two(x, out, stream):
    temporary = cuda.device_array(x.shape, x.dtype)
    increment[4, 256, stream](x, temporary)
    out[:] = 0
    increment[4, 256, stream](temporary[:512], out[512:])
    increment[4, 256, stream](temporary[:512], out[:512])
op = kernbridge.numba_cuda_callable(two, S, record="always")
attempt(jax.jit(lambda x: wrap(increment)(op(x))), x)
attempt(jax.vmap(wrap(increment)), jnp.ones((3, 1024)))
""",
        command=(
            "compute-sanitizer",
            *("--tool", tool),
            *("--error-exitcode", "9"),
            *("--report-api-errors", "no"),  # XLA asks the driver for what it may not have
        ),
        XLA_FLAGS="--xla_gpu_enable_command_buffer=",
    )
    assert "4096.0" in printed


SOURCE = """
source = r'''
#include "brainevent/common.h"
__global__ void first_half(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 2) out[i] = x[i] + 1;
}
// @BE half_of arg ret stream
void half_of(const BE::Tensor x, BE::Tensor out, int64_t stream) {
    int n = x.numel();
    first_half<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(
        x.data_ptr<float>(), out.data_ptr<float>(), n);
}
__global__ void wild(float* out) { out[(long long)1 << 40] = 1; }
// @BE fault ret stream
void fault(BE::Tensor out, int64_t stream) {
    wild<<<1, 1, 0, (cudaStream_t)stream>>>(out.data_ptr<float>());
}
'''
module = kernbridge.load_cuda_inline("debugged", source)
"""


def test_poison_and_source():
    program = SOURCE + "attempt(lambda x: module.half_of(x, outs=S), x)\n"
    assert "no thread wrote 512 of the 1024 elements of output 0" in run(program, "poison")
    direct = program.replace('"debugged", source', '"debugged", source, record="never"')
    assert "nothing wrote 512 of the 1024 elements of output 0" in run(direct, "poison")


def test_sync_names_the_source_function_that_faults():
    program = SOURCE + "attempt(lambda x: module.fault(outs=S), x)\n"
    told = run(program, "sync")
    assert "debugged.fault" in told
    assert "illegal" in told.lower()
