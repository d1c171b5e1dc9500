"""Exported programs of another version: what they were generated for is compared at load."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.once

OPERATION = """
import jax, jax.numpy as jnp, numba.cuda as cuda
from jax import export
import kernbridge._core as _core
from kernbridge import numba_cuda_kernel
S = jax.ShapeDtypeStruct

@cuda.jit
def twice(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]

op = numba_cuda_kernel(twice, S((8,), jnp.float32), launch_dims=8)
"""

EXPORT = """
_core.HOST_ABI += 1
_core.add_host_code = lambda *_: {}  # this process runs no code of the other version
print(_core.HOST_ABI)
check = [export.DisabledSafetyCheck.custom_call("kernbridge.cuda.host")]
exported = export.export(jax.jit(op), disabled_checks=check)(S((8,), jnp.float32))
open("program", "wb").write(exported.serialize())
"""

LOAD = """
def call(f):
    try:
        print(f(jnp.arange(8.0)).tolist())
    except Exception as e:
        print(str(e).splitlines()[0])

call(export.deserialize(open("newer", "rb").read()).call)
call(export.deserialize(open("program", "rb").read()).call)
call(op)
"""


@pytest.mark.exhaustive
def test_a_program_of_another_version_is_refused(run_python, tmp_path: Path):
    """And the same kernel, lowered in the same process, runs."""
    theirs = run_python(OPERATION + EXPORT, KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so")
    program = (tmp_path / "program").read_bytes()
    at = program.index(b"KBCU") + 4
    version = program[at]
    (tmp_path / "newer").write_bytes(program[:at] + bytes([version + 1]) + program[at + 1 :])
    printed = run_python(OPERATION + LOAD, KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so")
    assert printed.splitlines() == [
        f"FAILED_PRECONDITION: a kernel's program has format {version + 1}, and this kernbridge "
        f"reads format {version}: export the program again with this version [KB5107]",
        "FAILED_PRECONDITION: numba_cuda_kernel 'twice': the program's code for the CPU was "
        f"generated for ABI {int(theirs)} of kernbridge, and this kernbridge has ABI "
        f"{int(theirs) - 1}: export the program again with this version [KB5107]",
        "[0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]",
    ]
