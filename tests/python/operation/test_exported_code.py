"""What a program brings is neither opened, loaded nor imported where the process says so."""

import os

import jax
import jax.numpy as jnp
import kernbridge
import pytest

pytestmark = pytest.mark.once

ROW = jax.ShapeDtypeStruct((8,), jnp.float32)
GPU = {k: v for k, v in os.environ.items() if k in ("KERNBRIDGE_LIBCUDA", "KERNBRIDGE_TEST_CUDA")}
LOAD = """
import ctypes, os
import jax, jax.numpy as jnp
from jax import export

try:
    program = export.deserialize(bytearray(open("program", "rb").read()))
    program.call(jnp.ones(8)).block_until_ready()
    print("ran")
except Exception as e:
    print(str(e).splitlines()[0])
"""
# Loading the library is enough to run what it holds.
CONSTRUCTOR = """
#include "kernbridge/kernbridge.hpp"
#include <cstdio>

__attribute__((constructor)) static void opened() {
    std::fclose(std::fopen("opened", "w"));
}

// @BE copy arg ret
void copy(const kernbridge::Tensor x, kernbridge::Tensor out) {
    for (int64_t i = 0; i < x.numel(); i++)
        out.data_ptr<float>()[i] = x.data_ptr<float>()[i];
}
"""
SAID = {
    "run": "ran",
    "recompile": "load its module 'test_constructor' here",
    "refuse": 'configured to refuse such programs (kernbridge.config.set_exported_code("refuse")',
}


@pytest.fixture(scope="module")
def library_program(tmp_path_factory):
    """A program that carries a library; the folder is where it is opened here."""
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("opened_here"))
    try:
        module = kernbridge.load_cpp_inline(
            "test_constructor", CONSTRUCTOR, auto_register=False, carry=True
        )
        assert os.path.exists("opened")
    finally:
        os.chdir(before)
    return bytes(jax.export.export(jax.jit(lambda x: module.copy(x, outs=ROW)))(ROW).serialize())


@pytest.mark.exhaustive
@pytest.mark.parametrize("what", ["run", "recompile", "refuse"])
def test_a_library_is_opened_only_where_it_may(library_program, what, tmp_path, run_python):
    (tmp_path / "program").write_bytes(library_program)
    printed = run_python(LOAD, KERNBRIDGE_EXPORTED_CODE=what)
    assert SAID[what] in printed
    assert (tmp_path / "opened").exists() == (what == "run")


@pytest.mark.exhaustive
@pytest.mark.parametrize("what", ["run", "recompile", "refuse"])
def test_an_image_gets_to_the_driver_only_where_it_may(gpu, what, tmp_path, run_python):
    from numba import cuda

    @cuda.jit
    def twice(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = 2 * x[i]

    op = kernbridge.numba_cuda_kernel(twice, ROW, launch_dims=8)
    (tmp_path / "program").write_bytes(jax.export.export(jax.jit(op))(ROW).serialize())
    count = """
driver = ctypes.CDLL(os.environ["KERNBRIDGE_LIBCUDA"])
print(driver.fake_cuda_calls(b"cuLibraryLoadData"), driver.fake_cuda_n_launches())
"""
    said, counted = run_python(LOAD + count, KERNBRIDGE_EXPORTED_CODE=what, **GPU).splitlines()
    if what == "run":
        assert (said, counted) == ("ran", "1 1")
    else:
        assert counted == "0 0"
        assert said.startswith("FAILED_PRECONDITION: ")
        assert f'kernbridge.config.set_exported_code("{what}")' in said


MODULE = """
import numba
open("imported", "w").close()

@numba.njit
def printing(x, out):  # which machine code in programs cannot do
    print(x.size)
    for i in range(out.size):
        out[i] = x[i]
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("what", ["run", "refuse"])
def test_a_module_is_imported_only_where_it_may(what, tmp_path, run_python):
    """Whatever is said of code: importing is allowed for each module by its name."""
    (tmp_path / "named_here.py").write_text(MODULE)
    export = """
import jax, jax.numpy as jnp, kernbridge, named_here
row = jax.ShapeDtypeStruct((8,), jnp.float32)
op = kernbridge.numba_kernel(named_here.printing, row)
assert "by name" in op.inspect(jnp.ones(8))[0].export
open("program", "wb").write(jax.export.export(jax.jit(op))(row).serialize())
"""
    run_python(export)
    (tmp_path / "imported").unlink()
    printed = run_python(LOAD, KERNBRIDGE_EXPORTED_CODE=what)
    assert "kernbridge.config.allow_imports('named_here')" in printed
    assert not (tmp_path / "imported").exists()
    allowed = {"KERNBRIDGE_EXPORTED_CODE": what, "KERNBRIDGE_ALLOW_IMPORTS": "named_here"}
    assert run_python(LOAD, **allowed).endswith("ran\n")
    assert (tmp_path / "imported").exists()
