"""`kernbridge inspect`: what it prints of kernels for CPUs and for GPUs, without a call of them."""

import json
import re

import pytest
from kernbridge import _core, cli
from kernbridge._src.gpu import inspection
from kernbridge._src.tools import inspected

pytestmark = pytest.mark.once
OPERATIONS = """
import jax
import jax.numpy as jnp
import kernbridge
import numba

print("imported")


@kernbridge.kernel(lambda x, factor: x)
@numba.njit
def scale(x, factor, out):
    for i in range(x.size):
        out[i] = factor * x[i] - 7


jitted = jax.jit(scale)
undecorated = scale.__wrapped__
number = 3
jitted(jnp.ones((5,)), factor=2.0)
scale(jnp.ones(5), factor=3.0)
"""
CUDA = """
import kernbridge
from numba import cuda


@kernbridge.kernel(lambda x: x, launch_dims=lambda x: x.size, threads_per_block=512)
@cuda.jit
def summed(x, out):
    shared = cuda.shared.array(512, "float32")
    i = cuda.grid(1)
    shared[cuda.threadIdx.x] = x[i] if i < x.size else 0
    cuda.syncthreads()
    if i < out.size:
        out[i] = shared[511 - cuda.threadIdx.x]
"""
SOURCE = """
import kernbridge
kernel = kernbridge.cuda_kernel(
    "__global__ void f(const float *x, float *y, int n) { if (n) y[0] = x[0]; }",
    "f", lambda x: x, grid=1, block=64,
)
"""


@pytest.fixture
def answer(tmp_path, monkeypatch, capfd):
    """What the command answers about an operation of this source."""
    monkeypatch.setattr(_core, "device_count", lambda: (0, "there is none"))

    def run(source, name, *arguments, status=0):
        file = tmp_path / "inspected_operations.py"
        file.write_text(source)
        assert cli.main(["inspect", f"{file}:{name}", *arguments, "--json"]) == status
        return json.loads(capfd.readouterr().out)

    return run


def test_the_calls_of_the_module_are_inspected(answer):
    for name in ("scale", "jitted"):
        (kernel,) = answer(OPERATIONS, name, "--asm")["kernels"]
        assert kernel["name"] == "scale"
        assert kernel["arguments"] == "float32[5], factor=float32"
        assert kernel["platform"] == "cpu"
        assert kernel["registers"] is kernel["occupancy"] is kernel["block"] is None
        assert "machine code" in kernel["export"]
        assert list(kernel["code"]) == ["asm"]
        assert "ret" in kernel["code"]["asm"]
        assert kernel["lines"].keys() == {"asm", "llvm"}


def test_arguments_are_given(answer):
    (kernel,) = answer(OPERATIONS, "scale", "--args", "float64[4], factor=0.5", "--llvm")["kernels"]
    assert kernel["arguments"] == "float64[4], factor=0.5"
    assert "define" in kernel["code"]["llvm"]


def test_a_cuda_kernel_is_inspected_without_a_gpu(answer):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    arguments = ("--args", "float32[4096]", "--ptx", "--arch")
    (kernel,) = answer(CUDA, "summed", *arguments, "sm_90")["kernels"]
    assert kernel["architecture"] == "sm_90"
    assert (kernel["block"], kernel["shared_memory"]) == ([512, 1, 1], 2048)
    assert 0 < kernel["registers"] <= 32
    assert kernel["local_memory"] == 0
    assert kernel["occupancy"] == 1.0
    assert ".target sm_90" in kernel["code"]["ptx"]
    (kernel,) = answer(CUDA, "summed", *arguments, "8.6")["kernels"]
    assert kernel["architecture"] == "sm_86"
    assert kernel["occupancy"] == 1.0


def test_sass_is_what_the_disassembler_writes(answer, tmp_path, monkeypatch):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    arguments = ("--args", "float32[4096]", "--arch", "sm_90", "--sass")
    monkeypatch.setattr(inspection, "_find_nvdisasm", lambda: None)
    assert "--sass: no nvdisasm was found" in answer(CUDA, "summed", *arguments, status=1)["error"]
    program = tmp_path / "nvdisasm"
    program.write_text('#!/bin/sh\necho "EXIT ; /* 0x00000000 */ of $(head -c 4 $2 | tail -c 3)"\n')
    program.chmod(0o755)
    monkeypatch.setattr(inspection, "_find_nvdisasm", lambda: str(program))
    (kernel,) = answer(CUDA, "summed", *arguments)["kernels"]
    assert kernel["code"] == {"sass": "EXIT ; of ELF\n"}
    assert kernel["lines"]["sass"] == 1


def test_source_is_inspected_without_a_gpu(answer, monkeypatch):
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    monkeypatch.setenv("KERNBRIDGE_CUDA_ARCHS", "8.0")
    found = answer(SOURCE, "kernel", "--args", "float32[64], n=3", "--arch", "sm_90")
    (kernel,) = found["kernels"]
    assert (kernel["name"], kernel["architecture"]) == ("f", "sm_90")


def test_the_text(answer, tmp_path, capfd):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    file = tmp_path / "inspected_text.py"
    file.write_text(CUDA)
    command = ["inspect", f"{file}:summed", "--args", "float32[8]", "--arch", "sm_90", "--ptx"]
    assert cli.main(command) == 0
    printed = " ".join(capfd.readouterr().out.split())
    for text in (
        "summed arguments float32[8] platform cuda sm_90",
        "local memory 0 B a thread (no spills) shared memory 2.0 kB a block",
        "block 8 x 1 x 1 threads",
        ".visible .entry",
    ):
        assert text in printed


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("undecorated", (), "is a CPUDispatcher, which has no kernel.*@kernbridge.kernel"),
        ("number", (), "is a int, which has no kernel to inspect; inspect an operation"),
        ("scale", ("--ptx",), "--ptx: 'scale' was compiled for cpu; .* --asm"),
        ("scale", ("--args", "float32[2]"), "missing a required argument: 'factor'"),
    ],
)
def test_what_cannot_be_inspected(answer, name, arguments, text):
    error = answer(OPERATIONS, name, *arguments, status=1)["error"]
    assert re.search(text, error), error


def test_what_a_module_raises_is_raised(tmp_path):
    (tmp_path / "raising.py").write_text("raise ValueError('of the module')")
    with pytest.raises(ValueError, match="of the module"):
        cli.main(["inspect", f"{tmp_path / 'raising.py'}:op"])


UNRECORDED = """
import kernbridge


def reads(x, out, stream):
    x.copy_to_host()


operation = kernbridge.numba_cuda_callable(reads, lambda x: x, record="never")
"""


def test_a_function_that_runs_as_python_has_no_kernels(answer):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    error = answer(UNRECORDED, "operation", "--args", "float32[2]", status=1)["error"]
    assert "operation for float32[2] has no kernels to inspect: it runs as Python" in error


def test_an_operation_of_several_backends_is_not_inspected(answer):
    source = 'import kernbridge\nseveral = kernbridge.XLACustomKernel("inspected_several")\n'
    error = answer(source, "several", status=1)["error"]
    assert "is a XLACustomKernel" in error
    assert "inspect the operation of one of them" in error


def test_an_operation_that_is_not_called_needs_its_arguments(answer):
    source = OPERATIONS.partition("jitted(jnp")[0]
    error = answer(source, "scale", status=1)["error"]
    assert "was not called when its module was imported" in error
    assert "--args 'float32[1024], ...' (the kernel's parameters: x, factor, out)" in error


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["scale"], "expected module:op or file.py:op, got 'scale'"),
        (["json:nothing"], "json has no operation 'nothing'"),
        (["no_such_module:op"], "there is no module 'no_such_module'"),
        (["no/such.py:op"], "there is no file 'no/such.py'"),
        (["json:loads", "--args", "float99[3]"], "'float99[3]' is neither an array such as"),
        (["json:loads", "--args", "[3]"], "'[3]' is neither an array"),
        (
            ["json:loads", "--args", "n=2, float32[3]"],
            "'float32[3]' has no name, but follows an argument with a name",
        ),
        (["json:loads", "--args", "__import__('os')"], "is neither an array"),
        (["json:loads", "--arch", "hopper"], "'hopper' is not a compute capability"),
        (["json:loads", "--arch", "8.0, 9.0"], "contains several architectures, expected one"),
    ],
)
def test_wrong_arguments(arguments, text, capfd):
    with pytest.raises(SystemExit) as left:
        cli.main(["inspect", *arguments])
    assert left.value.code == 2
    assert text in capfd.readouterr().err


def test_arguments_are_read():
    inputs, named = inspected.read_arguments("bfloat16[2, 3],int8[] , -4, flag=True, s=int32")
    assert [(x.shape, x.dtype.name) for x in inputs[:2]] == [((2, 3), "bfloat16"), ((), "int8")]
    assert inputs[2] == -4
    assert named["flag"] is True
    assert (named["s"].shape, named["s"].dtype.name) == ((), "int32")
    assert inspected.read_arguments("") == ([], {})
