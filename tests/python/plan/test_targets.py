"""Targets of other packages, and a core without the emulator."""

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
pytestmark = pytest.mark.once
HEAD = """
import sys
{first}
import jax, jax.numpy as jnp, kernbridge
from numba import cuda

@cuda.jit
def one(x, out):
    out[0] = x[0]

op = kernbridge.numba_cuda_kernel(one, jax.ShapeDtypeStruct((1,), jnp.float32), launch_dims=1)
x = jnp.ones(1)

def lowered(*platforms):
    return jax.jit(op).trace(x).lower(lowering_platforms=platforms).as_text()
"""
STRANGER = """
from kernbridge._src.plan import targets

class Other(targets.Gpu):
    def announce(self, label):
        print(label, "runs elsewhere")

class NoGpu(targets.Target):  # which runs what the emulator makes
    def __init__(self):
        self.base = targets.of_platform("cpu")

    def words(self, kernel):
        return ("stranger",)

    def lowering(self, raises):
        return self.base.lowering(raises)

    def finish(self, job, compiled, opened):
        print("compiles", job.label)
        return self.base.finish(job, compiled, opened)

    def images(self, job, made):
        return self.base.images(job, made)

    def handler(self, in_graph):
        return self.base.handler(in_graph)

def on_cpu():
    found = NoGpu()
    targets.register("cpu", lambda checked, vector_math: found)

def start():
    targets.register("rocm", lambda checked, vector_math: Other(((9, 0),)))
"""


@pytest.fixture
def stranger(tmp_path):
    """Installs a package that has extensions; gives a line that lets a program see it."""

    def install(*points: str) -> str:
        (tmp_path / "stranger.py").write_text(STRANGER)
        about = tmp_path / "stranger-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
        lines = "\n".join(f"e{i} = {point}" for i, point in enumerate(points))
        (about / "entry_points.txt").write_text(f"[kernbridge.extensions]\n{lines}\n")
        return f"sys.path.insert(0, {str(tmp_path)!r})"

    return install


def test_a_target_of_another_package(run_python, stranger):
    said = run_python(
        HEAD.format(first=stranger("stranger:start"))
        + """
print("stranger" in sys.modules)
print("@kernbridge.cuda.graph" in lowered("rocm"))
"""
    )
    assert said.splitlines() == ["True", "numba_cuda_kernel 'one' runs elsewhere", "True"]


def test_a_target_that_is_no_gpu(run_python, stranger):
    """It runs kernels of Numba-CUDA alone."""
    said = run_python(
        HEAD.format(first=stranger("stranger:on_cpu"))
        + """
print(jax.jit(op)(x), jax.vmap(op)(jnp.ones((2, 1)))[1])
kept = jax.export.export(jax.jit(op))(x).serialize()
print(jax.export.deserialize(kept).call(x))
source = "__global__ void one(const float *x, float *out) { out[0] = x[0]; }"
shape = jax.ShapeDtypeStruct((1,), jnp.float32)
try:
    kernbridge.cuda_kernel(source, "one", shape, launch_dims=1)(x)
except kernbridge.KernelNotAvailableError as e:
    print(str(e).splitlines()[0])
"""
    )
    label = "numba_cuda_kernel 'one'"
    assert said.splitlines() == [
        *(f"compiles {label}", f"compiles {label}", "[1.] [1.]", "[1.]"),
        "cuda_kernel 'one' was lowered for a machine whose target does not compile CUDA C++; write "
        "the kernel with Numba-CUDA, or commit the inputs to a GPU, "
        "jax.device_put(x, jax.devices('cuda')[0]) [KB7001]",
    ]


def test_extensions_are_found_where_jax_starts(run_python, stranger):
    """They are not looked for before that."""
    said = run_python(
        f"import sys\n{stranger('stranger:start')}"
        """
import jax, kernbridge
print("stranger" in sys.modules)
jax.devices()
print("stranger" in sys.modules)
"""
    )
    assert said.splitlines() == ["False", "True"]


def test_an_extension_that_asks_for_a_target_that_is_missing(run_python, stranger):
    """The error names it once."""
    without = "; sys.modules['kernbridge._ext.emulator'] = None"
    said = run_python(
        HEAD.format(first=stranger("stranger:on_cpu") + without)
        + """
try:
    op(x)
except kernbridge.KernelNotAvailableError as e:
    print(e)
"""
    )
    assert said.count("'stranger:on_cpu' cannot be loaded: KernelNotAvailableError: a CUDA") == 1


@pytest.mark.exhaustive
def test_an_extension_that_cannot_be_loaded_is_named_where_it_lacks(run_python, stranger):
    said = run_python(
        HEAD.format(first=stranger("stranger:absent", "nowhere"))
        + """
try:
    lowered("rocm")
except kernbridge.KernelNotAvailableError as e:
    print(e)
"""
    )
    assert "has a kernel for cuda or cpu, and was lowered for rocm (the extension 'stranger" in said
    assert "'stranger:absent' cannot be loaded: AttributeError: " in said
    assert "'nowhere' cannot be loaded: ModuleNotFoundError: " in said


def test_a_program_whose_kernel_no_package_finds(run_python, stranger):
    said = run_python(
        f"import sys\n{stranger('nowhere')}"
        """
import jax, jax.numpy as jnp, kernbridge, numpy as np

digest, like = np.arange(32, dtype=np.uint8), jax.ShapeDtypeStruct((1,), jnp.float32)
how = {"call": digest[:8].view(np.int64), "digest": digest, "origin": '{"format":2,"kind":"other"}'}
try:
    print(jax.jit(lambda x: jax.ffi.ffi_call("kernbridge.host", like)(x, **how))(jnp.ones(1)))
except jax.errors.JaxRuntimeError as e:
    print(e)
"""
    )
    assert "a kernel of the kind 'other', and no extension of this installation finds these" in said
    assert "(the extension 'nowhere' cannot be loaded: ModuleNotFoundError: " in said


def test_the_core_without_the_emulator(run_python):
    said = run_python(
        HEAD.format(first="sys.modules['kernbridge._ext.emulator'] = None")
        + """
print("@kernbridge.cuda.graph" in lowered("cuda"))
print("@kernbridge.absent" in lowered("cpu", "cuda"))
try:
    op(x)
except kernbridge.KernelNotAvailableError as e:
    print(str(e).splitlines()[0])
module = kernbridge.load_c_inline("m", "// @BE first x: f32[n], n -> f32\\n"
                                  "float first(const float *x, int n) { return x[0]; }")
print(module.first(x))
"""
    )
    assert said.splitlines() == [
        *("True", "True"),
        "numba_cuda_kernel 'one' was lowered for cpu, and no extension of this installation runs "
        "CUDA kernels there; install kernbridge again, whose extension 'emulator' runs them on "
        "CPUs, or commit the inputs to a GPU, jax.device_put(x, jax.devices('cuda')[0]) [KB7001]",
        "1.0",
    ]
