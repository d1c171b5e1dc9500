"""`kernbridge inspect` of functions of C and C++ modules."""

import json
import shutil
from types import SimpleNamespace

import pytest
from kernbridge import cli
from kernbridge._src.tools import inspected_source

CXX = shutil.which("g++") or shutil.which("c++")
pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(CXX is None, reason="no C++ compiler here"),
]
MODULE = '''
import jax
import jax.numpy as jnp
import kernbridge

module = kernbridge.load_cpp_inline("inspected", """
#include "kernbridge/kernbridge.hpp"
namespace deep {
[[gnu::noinline]] void other(float *p) { *p = 1; }
}
// @BE axpy arg arg ret attr.a
[[gnu::noinline]]
void axpy(const kernbridge::Tensor x, const kernbridge::Tensor y, kernbridge::Tensor out, float a) {
    for (int64_t i = 0; i < x.numel(); i++)
        out.data_ptr<float>()[i] = a * x.data_ptr<float>()[i] + y.data_ptr<float>()[i];
}
// @BE fill ret
void fill(kernbridge::Tensor out) { deep::other(out.data_ptr<float>()); }
""", extra_cflags=["-DWHATEVER=1"])
axpy = module.axpy
out = jax.ShapeDtypeStruct((3,), jnp.float32)
operation = axpy.operation(out, attrs={"a": 2.0})
c = kernbridge.load_c_inline("inspected_c", """
#include "kernbridge/kernbridge.h"
// @BE total arg:f32[...] ret:f32[]
void total(const kb_tensor *x, kb_tensor *out) { *(float *)out->data = *(const float *)x->data; }
""")
binary = kernbridge.load_binary(module.path, name="binary", auto_register=False)
'''


@pytest.fixture
def run(tmp_path, capfd):
    def run(name, *arguments, status=0):
        file = tmp_path / "inspected_sources.py"
        file.write_text(MODULE)
        assert cli.main(["inspect", f"{file}:{name}", *arguments]) == status
        printed = capfd.readouterr()
        return printed.out if status == 0 else printed.out + printed.err

    return run


@pytest.mark.skipif(shutil.which("objdump") is None, reason="no objdump here")
@pytest.mark.parametrize("name", ["axpy", "module.axpy", "operation"])
def test_a_cpp_function(run, name):
    (kernel,) = json.loads(run(name, "--asm", "--json"))["kernels"]
    assert kernel["name"] == "inspected.axpy"
    assert kernel["signature"].startswith("axpy(const kernbridge::Tensor x, ")
    assert kernel["annotation"] == "arg arg ret attr.a:float32"
    assert kernel["platform"] == "cpu"
    assert "-O3" in kernel["command"]
    assert "-DWHATEVER=1" in kernel["command"]
    assert "kb_run" in kernel["symbol"]
    assert len(kernel["digest"]) == 64
    assembly = kernel["code"]["asm"]
    assert kernel["lines"] == {"asm": len(assembly.splitlines())}
    headings = [line for line in assembly.splitlines() if line.endswith(">:")]
    assert any("<axpy(" in line for line in headings)
    assert any("<kb_run" in line for line in headings)
    assert not any("deep::other" in line for line in headings)
    assert "ret" in assembly


def test_what_is_printed_of_c_and_of_a_binary(run):
    printed = run("c.total")
    assert "total(const kb_tensor *x, kb_tensor *out)" in printed
    assert "-std=c11" in printed
    assert ".so" in printed
    assert "another program" in run("binary.axpy")


def test_what_is_refused(run, monkeypatch):
    assert "does not keep it" in run("axpy", "--llvm", status=1)
    said = run("module", status=1)
    assert "inspect one of its functions: axpy, fill" in said
    monkeypatch.setattr(inspected_source, "shutil", SimpleNamespace(which=lambda _: None))
    assert "objdump was not found" in run("binary.axpy", "--asm", status=1)
