"""Launches as Numba-CUDA writes them, on the CPU: its host API on the memory of the process.

What numba-cuda-mlir does alike is tested here with both packages, where it is installed.
"""

import threading

import kernbridge
import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
from launched_kernels import PACKAGES
from numba import cuda, float32, int32, vectorize

pytestmark = [
    pytest.mark.once,
    pytest.mark.filterwarnings("ignore::numba.cuda.core.errors.NumbaPerformanceWarning"),
    pytest.mark.filterwarnings("ignore:Host array used"),
    pytest.mark.filterwarnings("ignore:Grid size"),
]
N = 100
add_one, twice, doubled = (vars(PACKAGES["numba-cuda"])[n] for n in ("add_one", "twice", "doubled"))


@pytest.fixture(params=PACKAGES.values(), ids=PACKAGES)
def package(request):
    return request.param


@pytest.fixture
def on_cpu():
    with kernbridge.cuda_on_cpu():
        yield


@pytest.fixture
def x():
    return np.arange(N, dtype=np.float32)


def without_gpu(package):
    try:
        package.cuda.get_current_device()
    except package.error:
        return True
    return False


def test_a_kernel_writes_into_device_arrays_and_into_numpy_arrays(package, on_cpu, x):
    out = np.zeros_like(x)
    package.add_one[1, 128](x, out)
    np.testing.assert_array_equal(out, x + 1)
    given, made = package.cuda.to_device(x), package.cuda.device_array_like(x)
    package.add_one[(N + 31) // 32, 32](given, made)
    np.testing.assert_array_equal(made.copy_to_host(), x + 1)
    x[:] = 0  # which the device has a copy of
    np.testing.assert_array_equal(given.copy_to_host(), np.arange(N))


def test_the_thread_uses_the_cpu_inside_alone(package, x):
    assert without_gpu(package) or "by kernbridge" not in str(package.cuda.get_current_device())
    with kernbridge.cuda_on_cpu():
        assert package.cuda.is_available()
        assert "by kernbridge" in str(package.cuda.get_current_device())
        with kernbridge.cuda_on_cpu(check=True):
            assert package.cuda.is_available()
        assert package.cuda.is_available()
        elsewhere = []
        other = threading.Thread(target=lambda: elsewhere.append(without_gpu(package)))
        other.start()
        other.join()
    if without_gpu(package):
        assert elsewhere == [True]
        assert not package.cuda.is_available()
        with pytest.raises(package.error, match="driver"):
            package.add_one[1, 128](x, x)


def test_a_decorated_function_and_threads_of_its_own(x):
    @kernbridge.cuda_on_cpu()
    def run(out):
        add_one[1, 128](x, out)

    outs = [np.zeros_like(x) for _ in range(4)]
    threads = [threading.Thread(target=run, args=(out,)) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for out in outs:
        np.testing.assert_array_equal(out, x + 1)


def test_a_dispatcher_made_inside_is_no_gpu_s_outside(on_cpu, x):
    @cuda.jit
    def inside(x):
        x[cuda.grid(1)] *= 3

    inside[1, N](x)
    assert len(inside.overloads) == 1
    with kernbridge.cuda_on_cpu(check=True):
        assert len(inside.overloads) == 0
        inside[1, N](x)
        assert len(inside.overloads) == 1
    np.testing.assert_array_equal(x, 9 * np.arange(N))


def test_a_kernel_compiled_for_the_cpu_leaves_no_trace_in_the_dispatcher():
    with kernbridge.cuda_on_cpu():
        x = np.ones(3)
        doubled[1, 32](x)
        assert len(doubled.overloads) == 1
    assert len(doubled.overloads) == 0
    assert len(twice.overloads) == 0
    assert x.tolist() == [2, 2, 2]


def test_streams_events_contexts_and_memory(package, on_cpu, x):
    stream = package.cuda.stream()
    begin, end = package.cuda.event(), package.cuda.event()
    begin.record(stream)
    with stream.auto_synchronize():
        given = package.cuda.to_device(x, stream=stream)
        made = package.cuda.device_array(N, np.float32, stream=stream)
        package.add_one[4, 32, stream, 16](given, made)
        got = made.copy_to_host(stream=stream)
    end.record(stream)
    end.synchronize()
    package.cuda.synchronize()
    assert begin.elapsed_time(end) >= 0
    assert end.query()
    np.testing.assert_array_equal(got, x + 1)
    called = []
    stream.add_callback(lambda *given: called.append(given[1:]), "argument")
    assert called == [(0, "argument")]
    with package.cuda.gpus[0], package.cuda.defer_cleanup():
        assert package.cuda.current_context().device.id == 0
        assert package.cuda.current_context().get_memory_info().total > 0
    assert [d.id for d in package.cuda.list_devices()] == [0]
    assert package.cuda.select_device(0).compute_capability == (9, 0)


@pytest.mark.parametrize("kind", ["pinned_array", "mapped_array", "managed_array"])
def test_arrays_that_host_and_device_share(package, on_cpu, x, kind):
    given = getattr(package.cuda, kind)(N, np.float32)
    given[:] = x
    out = getattr(package.cuda, kind)(N, np.float32)
    package.add_one[1, 128](given, out)
    np.testing.assert_array_equal(np.asarray(out), x + 1)


def test_arrays_pinned_or_mapped_for_a_while(on_cpu, x):
    out = np.zeros_like(x)
    with cuda.pinned(x.copy()), cuda.mapped(x, out) as (given, mapped):
        add_one[1, 128](given, mapped)
    np.testing.assert_array_equal(out, x + 1)


def test_hints_of_arguments(package, on_cpu, x):
    y = x.copy()
    package.doubled[1, 128](package.cuda.In(y))
    np.testing.assert_array_equal(y, x)
    package.doubled[1, 128](package.cuda.InOut(y))
    np.testing.assert_array_equal(y, 2 * x)
    out = np.zeros_like(x)
    package.add_one[1, 128](package.cuda.In(x), package.cuda.Out(out))
    np.testing.assert_array_equal(out, x + 1)


def test_arrays_that_overlap_are_copies_as_on_a_gpu(package, on_cpu):
    @package.cuda.jit
    def last_first(a, b):
        for i in range(b.size):
            b[i] = 10 * a[i]

    both = np.arange(6.0)
    last_first[1, 1](both[:-1], both[1:])
    np.testing.assert_array_equal(both, [0, 0, 10, 20, 30, 40])


def test_arrays_whose_elements_interleave_are_written_each(on_cpu):
    @cuda.jit
    def negated(a, b):
        i = cuda.grid(1)
        if i < a.size:
            a[i], b[i] = -a[i], -b[i]

    both = np.arange(8.0)
    negated[1, 32](both[::2], both[1::2])
    np.testing.assert_array_equal(both, -np.arange(8.0))


def test_tuples_of_arrays(on_cpu):
    @cuda.jit
    def negated(pair, more):
        i = cuda.grid(1)
        if i < pair[0].size:
            pair[0][i] = -pair[0][i]
            more[1][0][i] = more[0] * pair[1]

    x, y = np.arange(8.0), np.zeros((2, 4))
    negated[1, 32]((x[::2], 7), (2.5, (y[1], np.float32(1))))
    np.testing.assert_array_equal(x, [0, 1, -2, 3, -4, 5, -6, 7])
    np.testing.assert_array_equal(y, [[0] * 4, [17.5] * 4])


def test_strided_reversed_and_unaligned_arrays(package, on_cpu):
    doubled = package.doubled
    for given in (np.arange(12.0)[::3], np.arange(6.0)[::-1], np.arange(12.0).reshape(3, 4).T):
        wanted = 2 * given
        if given.ndim == 1:
            doubled[1, 32](given)
        else:
            for row in given:
                doubled[1, 32](row)
        np.testing.assert_array_equal(given, wanted)
    unaligned = np.zeros(8 * 4 + 1, np.uint8)[1:].view(np.float64)
    unaligned[:] = range(4)
    doubled[1, 32](unaligned)
    np.testing.assert_array_equal(unaligned, [0, 2, 4, 6])


def test_scalars_of_every_kind(on_cpu):
    @cuda.jit
    def kernel(out, i, f, c, b, h):
        out[0], out[1], out[2], out[3], out[4], out[5] = i, f, c.real, c.imag, b, h

    out = np.zeros(6)
    kernel[1, 1](out, -5, 0.25, 1 + 2j, True, np.float16(1.5))
    assert out.tolist() == [-5, 0.25, 1, 2, 1, 1.5]
    kernel[1, 1](out, np.uint8(200), np.float32(0.5), np.complex64(3j), False, np.float16(2))
    assert out.tolist() == [200, 0.5, 0, 3, 0, 2]


def test_forall_and_specialize(package, on_cpu, x):
    out = np.zeros_like(x)
    package.add_one.forall(N)(x, out)
    np.testing.assert_array_equal(out, x + 1)
    package.add_one.specialize(x, out)[1, 128](out, x)
    np.testing.assert_array_equal(x, out + 1)


def test_declared_signatures(on_cpu, x):
    @cuda.jit("float32(float32)", device=True)
    def half(v):
        return v / 2

    @cuda.jit("void(float32[::1])")
    def halved(v):
        i = cuda.grid(1)
        if i < v.size:
            v[i] = half(v[i])

    halved[1, 128](x)
    np.testing.assert_array_equal(x, np.arange(N) / 2)
    with kernbridge.cuda_on_cpu(check=True):
        halved[1, 128](x)
    np.testing.assert_array_equal(x, np.arange(N) / 4)


@pytest.mark.exhaustive
def test_reductions_and_ufuncs(on_cpu, x):
    total = cuda.reduce(lambda a, b: a + b)
    assert total(x) == x.sum()

    @vectorize([float32(float32, float32)], target="cuda")
    def hypotenuse(a, b):
        return (a * a + b * b) ** 0.5

    np.testing.assert_allclose(hypotenuse(x, x), np.hypot(x, x), rtol=1e-6)

    @cuda.guvectorize([(int32[:], int32[:])], "(n)->(n)")
    def backwards(a, out):
        for i in range(a.size):
            out[i] = a[a.size - 1 - i]

    rows = np.arange(12, dtype=np.int32).reshape(3, 4)
    np.testing.assert_array_equal(backwards(rows), rows[:, ::-1])


MODULE = """
from numba import cuda

@cuda.jit("void(float64[::1])", cache=True)
def kernel(x):
    x[cuda.grid(1)] += 1
"""
PROGRAM = """
import sys, threading, warnings, kernbridge, numpy as np
sys.path.append({folder!r})
from kept import kernel
warnings.simplefilter("ignore")
x = np.zeros(4)
kernel[1, 4](x)
thread = threading.Thread(target=lambda: kernel[1, 4](x))
thread.start()
thread.join()
asks = "__getattribute__" in vars(type(kernel))
print(x.tolist(), sum(kernel.stats.cache_hits.values()), asks)
try:
    kernel[1, 5](x)
except kernbridge.errors.KernelFaultError as e:
    print("thread (4, 0, 0)" in str(e))
"""


@pytest.mark.exhaustive
def test_the_variable_switches_all_threads_of_the_process(run_python, tmp_path):
    (tmp_path / "kept.py").write_text(MODULE)
    program = PROGRAM.format(folder=str(tmp_path))
    told = run_python(program, KERNBRIDGE_CUDA_ON_CPU="check").splitlines()
    assert told == ["[2.0, 2.0, 2.0, 2.0] 0 False", "True"]


@pytest.mark.exhaustive
def test_numba_s_cache_on_disk_keeps_the_modes_apart(run_python, tmp_path):
    (tmp_path / "kept.py").write_text(MODULE)
    program = PROGRAM.format(folder=str(tmp_path))
    told = [
        run_python(program, KERNBRIDGE_CUDA_ON_CPU=how).splitlines() for how in ("1", "1", "check")
    ]
    assert told == [
        ["[2.0, 2.0, 2.0, 2.0] 0 False", "False"],
        ["[2.0, 2.0, 2.0, 2.0] 1 False", "False"],
        ["[2.0, 2.0, 2.0, 2.0] 0 False", "True"],
    ]


def test_the_command_runs_a_script_that_does_not_know_of_kernbridge(tmp_path, run_python):
    (tmp_path / "beside.py").write_text(MODULE)
    (tmp_path / "script.py").write_text(
        "import sys, warnings, beside, numpy as np\n"
        "warnings.simplefilter('ignore')\n"
        "x = np.zeros(3)\n"
        "beside.kernel[1, 3](x)\n"
        "print(__name__, sys.argv[1:], x.tolist())\n"
    )
    program = (
        "from kernbridge.cli import main\n"
        f"main(['cuda-on-cpu', '--check', {str(tmp_path / 'script.py')!r}, '--of', 'script'])"
    )
    assert run_python(program) == "__main__ ['--of', 'script'] [1.0, 1.0, 1.0]\n"


def test_jax_s_operations_are_the_same_inside(x):
    import jax
    import jax.numpy as jnp

    shape = jax.ShapeDtypeStruct(x.shape, jnp.float32)
    op = kernbridge.numba_cuda_kernel(add_one, shape, launch_dims=N)
    cpu = jax.devices("cpu")[0]
    with kernbridge.cuda_on_cpu(check=True), jax.default_device(cpu):
        np.testing.assert_array_equal(jax.jit(op)(x), x + 1)
        out = np.zeros_like(x)
        add_one[1, 128](x, out)
        np.testing.assert_array_equal(out, x + 1)
    np.testing.assert_array_equal(op(x), x + 1)


WITHOUT_LIBRARIES = """
import cuda.pathfinder as pathfinder

load, asked = pathfinder.load_nvidia_dynamic_lib, set()
def refuse(name):
    if name == "cudart":  # which `import numba.cuda` loads
        return load(name)
    asked.add(name)
    raise pathfinder.DynamicLibNotFoundError(name)
pathfinder.load_nvidia_dynamic_lib = refuse

import math, warnings, kernbridge, numpy as np
from numba import cuda

warnings.simplefilter("ignore")
kernbridge.cuda_on_cpu().install()

@cuda.jit("void(float32[:])")
def kernel(x):
    i = cuda.grid(1)
    x[i] = math.exp(x[i]) + cuda.libdevice.fast_sinf(x[i])

x = np.zeros(3, np.float32)
kernel[1, 3](x)
print(x.tolist(), cuda.reduce(lambda a, b: a + b)(x), "nvvm" in asked)
"""


@pytest.mark.exhaustive
def test_no_library_of_cuda_is_needed_but_its_runtime(run_python):
    assert run_python(WITHOUT_LIBRARIES) == "[1.0, 1.0, 1.0] 3.0 False\n"
