"""What the pages of the codes of CUDA kernels promise; `test_remedies.py` has the other codes."""

import enum
import math

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from kernbridge import config, numba_cuda_callable, numba_cuda_kernel
from refusals import equal, refused, silent, warned

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
from numba import cuda

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("gpu")]

X = jnp.arange(3.0)
F32 = jax.ShapeDtypeStruct((3,), jnp.float32)
SOURCE = 'extern "C" __global__ void f(const {0} *x, float *out) {{ out[threadIdx.x] = x[0]; }}'


class Mode(enum.IntEnum):
    HALVE = 1
    DOUBLE = 2


@cuda.jit
def double(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]


@cuda.jit
def chosen(x, mode, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] / 2
        if mode == Mode.DOUBLE:
            out[i] = 2 * x[i]


def test_kb1101():
    for launch in ({}, {"grid": 1}, {"launch_dims": 3, "grid": 1}):
        with refused("KB1101", ValueError):
            numba_cuda_kernel(double, F32, **launch)
    for launch in ({"launch_dims": 3}, {"launch_dims": 3, "block": 2}, {"grid": 1, "block": 3}):
        equal(numba_cuda_kernel(double, F32, **launch)(X), 2 * X)


def test_kb1102():
    for launch in (
        {"launch_dims": X},
        {"launch_dims": 3, "threads_per_block": 2048},
        {"grid": 1, "block": 1025},
        {"grid": lambda x: x.size / 3, "block": 3},
    ):
        with refused("KB1102"):
            numba_cuda_kernel(double, F32, **launch)(X)
    equal(numba_cuda_kernel(double, F32, grid=1, block=1024)(X), 2 * X)
    equal(numba_cuda_kernel(double, F32, launch_dims=lambda x: x.size)(X), 2 * X)
    equal(numba_cuda_kernel(double, F32, grid=lambda x: x.size, block=lambda x: 1)(X), 2 * X)


def test_kb1103():
    def with_static(**static):
        return numba_cuda_kernel(chosen, F32, launch_dims=3, static=static)

    for wrong in ({"mod": 2}, {"mode": X}, {"mode": "double"}):
        with refused("KB1103"):
            with_static(**wrong)
    equal(with_static(mode=2)(X), 2 * X)
    equal(with_static(mode=Mode.DOUBLE)(X), 2 * X)
    equal(with_static(mode=Mode.HALVE)(X), X / 2)


def exported(op, **options):
    jax.export.export(jax.jit(lambda x: op(x, **options)), platforms=["cuda"])(F32)


@pytest.fixture
def for_sm_90():
    """Kernels are compiled for one architecture."""
    config.set_cuda_architectures("9.0")
    yield
    config.set_cuda_architectures(None)


def test_kb2007(for_sm_90):
    def kernel(source, name="f"):
        return kernbridge.cuda_kernel(source, name, F32, launch_dims=3)

    template = "template <class T> " + SOURCE.removeprefix('extern "C" ').format("T")
    for wrong in (kernel(SOURCE.format("int")), kernel(template, "f<int>")):
        with refused("KB2007", TypeError):
            exported(wrong)
        exported(lambda x, op=wrong: op(x.astype(jnp.int32)))  # converted
    exported(kernel(template, "f<float>"))


@cuda.jit
def unguarded(x, out):
    out[cuda.grid(1)] = 2 * x[cuda.grid(1)]


def test_kb3004():
    def launch(n, **options):
        out = np.zeros(3, np.float32)
        with kernbridge.cuda_on_cpu(**options):
            unguarded[1, n](np.arange(3, dtype=np.float32), out)
        return out

    with refused("KB3004", kernbridge.errors.KernelFaultError):
        launch(32)
    with refused("KB3004", kernbridge.errors.KernelFaultError) as caught:
        launch(32, check=True)
    for shown in ("thread (3, 0, 0)", "index 3 of axis 0", "(at test_remedies_of_cuda.py:"):
        assert shown in str(caught.value)
    equal(launch(3), 2 * X)


def reads_an_element(x, out, stream):
    if x[0] < 1:
        double[1, 3, stream](x, out)


AS_PYTHON = """
import jax, jax.numpy as jnp, kernbridge, warnings
from numba import cuda
from test_remedies_of_cuda import double, reads_an_element

def not_launched(x, out, stream):
    double(x, out)

def launched(x, out, stream):
    double[1, 3, stream](x, out)

warnings.simplefilter("ignore")
for function in (not_launched, launched, reads_an_element):
    op = kernbridge.numba_cuda_callable(function, jax.ShapeDtypeStruct((3,), jnp.float32))
    try:
        print(op(jnp.arange(3.0)).tolist())
    except jax.errors.JaxRuntimeError as e:
        print(str(e).splitlines()[0])
"""


def test_kb3008(run_python):
    refusal, corrected, reading = run_python(AS_PYTHON).splitlines()
    assert refusal.endswith("program.py:7 (double(x, out)) [KB3008]")
    assert corrected == reading == "[0.0, 2.0, 4.0]"


def test_kb4004():
    @cuda.jit
    def importing(x, out):
        import math

        i = cuda.grid(1)
        out[i] = math.fabs(2 * x[i])

    with refused("KB4004", kernbridge.KernelCompilationError):
        numba_cuda_kernel(importing, F32, launch_dims=3)(X)

    @cuda.jit
    def at_the_top(x, out):
        i = cuda.grid(1)
        twice = math.fabs(2 * x[i])
        out[i] = twice

    equal(numba_cuda_kernel(at_the_top, F32, launch_dims=3)(X), 2 * X)


def test_kb4012():
    with refused("KB4012", kernbridge.KernelError) as caught:
        numba_cuda_callable(reads_an_element, F32, record="always")(X)
    assert "if x[0] < 1:" in str(caught.value)

    @cuda.jit
    def decides(x, out):
        i = cuda.grid(1)
        if x[0] < 1 and i < out.size:
            out[i] = 2 * x[i]

    def in_a_kernel(x, out, stream):
        decides[1, 3, stream](x, out)

    equal(numba_cuda_callable(in_a_kernel, F32, record="always")(X), 2 * X)


def test_kb4013():
    def lower(**options):  # AS_PYTHON above calls it
        return jax.jit(numba_cuda_callable(reads_an_element, F32, **options)).lower(X)

    with warned("KB4013"):
        lower()
    with silent():
        lower(record="never")


@cuda.jit
def doubles_in_place(x, out):
    i = cuda.grid(1)
    if i < out.size:
        x[i] = 2 * x[i]
        out[i] = x[i]


def writes_if_whole(x, out, stream):
    kernel = doubles_in_place if x.size == 8 else double
    kernel[1, x.size, stream](x, out)


def writes_always(x, out, stream):
    doubles_in_place[1, x.size, stream](x, out)


def test_kb6003_of_kernels_whose_written_inputs_depend_on_shapes():
    mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("d")
    y = jax.device_put(jnp.arange(8.0), jax.sharding.NamedSharding(mesh, spec))

    def split(function, **options):
        return jax.jit(numba_cuda_callable(function, lambda x: x, **options))(y)

    rule = {"sharding_rule": "i -> i"}
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"remove sharding_rule \[KB6003\]"):
        split(writes_if_whole, **rule)
    equal(split(writes_if_whole), 2 * np.arange(8))
    found = split(writes_always, **rule)
    assert found.sharding.spec == spec
    equal(found, 2 * np.arange(8))
    equal(y, np.arange(8))


def test_kb7003():
    config.set_cuda_on_cpu("error")
    try:
        with refused("KB7003", kernbridge.KernelNotAvailableError), kernbridge.cuda_on_cpu():
            pass
    finally:
        config.set_cuda_on_cpu("compile")
    with kernbridge.cuda_on_cpu():
        out = np.zeros(3, np.float32)
        double[1, 3](np.arange(3, dtype=np.float32), out)
    equal(out, 2 * X)
