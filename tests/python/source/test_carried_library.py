"""Libraries of modules in exported programs, which then need neither source nor compiler."""

from pathlib import Path

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

F32 = jnp.float32
SOURCE = """
#include "kernbridge/kernbridge.hpp"
#include <stdexcept>

static int n_calls = 0; // of both functions

// @BE scale arg ret attr.factor
void scale(const kernbridge::Tensor x, kernbridge::Tensor out, double factor) {
    n_calls++;
    const float *from = x.data_ptr<float>();
    for (int64_t i = 0; i < x.numel(); i++) {
        if (from[i] < 0)
            throw std::runtime_error("negative");
        out.data_ptr<float>()[i] = factor * from[i];
    }
}

// @BE calls arg ret
void calls(const kernbridge::Tensor x, kernbridge::Tensor out) {
    for (int64_t i = 0; i < out.numel() - 1; i++)
        out.data_ptr<float>()[i] += n_calls;
}
"""
LOAD = """
import sys
for name in ("llvmlite", "numba"):
    sys.modules[name] = None  # an import of it fails
import jax, jax.numpy as jnp
from jax import export

def call(x):
    try:
        print(export.deserialize(open("program", "rb").read()).call(x).tolist())
    except Exception as e:
        print(str(e).splitlines()[0])
"""
NOWHERE = {"CXX": "/nowhere/g++", "KERNBRIDGE_CACHE_DIR": "0"}


def load(name, **options):
    return kernbridge.load_cpp_inline(name, SOURCE, auto_register=False, **options)


def export(function, *types):
    return jax.export.export(jax.jit(function))(*types).serialize()


@pytest.fixture(scope="module")
def module():
    return load("test_carried", carry=True)


def test_a_program_runs_without_source_and_compiler(module, tmp_path, run_python):
    """Functions share a library, and its variables; attributes, zeroed outputs, vmap and errors."""
    row = jax.ShapeDtypeStruct((3,), F32)

    def function(rows):
        scaled = jax.vmap(lambda x: module.scale(x, outs=row, factor=2.5))(rows)
        count = module.calls(scaled[0], outs=row, zero_outputs=True)
        return scaled + count

    data = export(function, jax.ShapeDtypeStruct((2, 3), F32))
    assert len(data) < 2 * Path(module.path).stat().st_size + 8 * 1024  # once for each function
    (tmp_path / "program").write_bytes(data)
    calls = "call(jnp.arange(6.0).reshape(2, 3))\ncall(-jnp.ones((2, 3)))"
    good, bad = run_python(LOAD + calls, **NOWHERE).splitlines()
    np.testing.assert_array_equal(eval(good), [[2, 4.5, 5], [9.5, 12, 12.5]])
    assert bad.startswith("INTERNAL: load_cpp_inline 'test_carried.scale': negative [slice ")
    assert bad.endswith("] [KB3005]")


@pytest.mark.exhaustive
@pytest.mark.once
def test_libraries_are_told_apart(module, tmp_path, run_python):
    """By their content: the system knows them by the numbers of files."""
    twice = SOURCE.replace("factor * from[i]", "2 * factor * from[i]")
    other = kernbridge.load_cpp_inline("test_other", twice, auto_register=False, carry=True)
    (tmp_path / "program").write_bytes(scaled(module))
    (tmp_path / "other").write_bytes(scaled(other))
    both = (
        "call(jnp.ones(3))\nprint(export.deserialize(open('other', 'rb').read()).call(jnp.ones(3)))"
    )
    assert run_python(LOAD + both, **NOWHERE).splitlines() == ["[2.0, 2.0, 2.0]", "[4. 4. 4.]"]


def scaled(module):
    return export(
        lambda x: module.scale(x, outs=jax.ShapeDtypeStruct((3,), F32), factor=2.0),
        jax.ShapeDtypeStruct((3,), F32),
    )


@pytest.mark.once
def test_a_library_is_carried_when_asked_for(tmp_path, run_python):
    (tmp_path / "program").write_bytes(scaled(load("test_named")))
    printed = run_python(LOAD + "call(jnp.ones(3))", **NOWHERE)
    assert "load its module 'test_named' here" in printed


@pytest.mark.brief
@pytest.mark.once
@pytest.mark.parametrize("what", ["recompile", "refuse"])
def test_code_of_programs_runs_only_where_it_may(module, what, tmp_path, run_python):
    (tmp_path / "program").write_bytes(scaled(module))
    printed = run_python(LOAD + "call(jnp.ones(3))", KERNBRIDGE_EXPORTED_CODE=what, **NOWHERE)
    expected = {
        "recompile": "load its module 'test_carried' here",
        "refuse": "refuse such programs",
    }
    assert expected[what] in printed


@pytest.mark.exhaustive
@pytest.mark.once
def test_a_damaged_library_is_refused(module, tmp_path, run_python):
    data = bytearray(scaled(module))
    data[data.index(b"KBSO") + 50] ^= 1
    (tmp_path / "program").write_bytes(data)
    printed = run_python(LOAD + "call(jnp.ones(3))", **NOWHERE)
    assert printed.startswith(
        "INVALID_ARGUMENT: the library of a kernel is damaged, or belongs to "
    )
    assert "the check of its digest failed" in printed


@pytest.mark.exhaustive
@pytest.mark.once
def test_a_library_that_needs_another_one(module, tmp_path, run_python):
    """What cannot be opened is looked for among the modules that are loaded."""
    source = "#define _GNU_SOURCE\n#include <dlfcn.h>\n" + SOURCE
    other = kernbridge.load_cpp_inline(
        "test_needs",
        source,
        auto_register=False,
        carry=True,
        extra_ldflags=["-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", str(library_of(tmp_path))],
    )
    (tmp_path / "program").write_bytes(scaled(other))
    (tmp_path / "libneeded.so").unlink()
    printed = run_python(LOAD + "call(jnp.ones(3))", **NOWHERE)
    assert printed.startswith("FAILED_PRECONDITION: ")
    assert "libneeded.so" in printed
    assert "load its module 'test_needs' here" in printed


def library_of(folder):
    """A library that another one needs."""
    import subprocess

    file = folder / "libneeded.so"
    (folder / "needed.c").write_text("int needed(void) { return 1; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", folder / "needed.c", "-o", file], check=True)
    return file
