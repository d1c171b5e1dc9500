"""Ctrl-C while a kernel runs or is compiled: when it arrives, what is left, and the next call."""

import random
import shutil
import subprocess

import kernbridge
import pytest
from kernbridge._ext.nvrtc import nvrtc
from kernbridge._src.toolchain.nvcc import find_nvcc
from kernbridge.errors import KernelToolchainError

pytestmark = pytest.mark.once

BEGIN = """
import faulthandler, os, random, signal, sys, threading, time, warnings
import jax, jax.numpy as jnp, numba, numpy as np
import kernbridge
faulthandler.dump_traceback_later(280, exit=True)
warnings.simplefilter("ignore")
# A shell has its jobs in the background ignore Ctrl-C, which their children inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

def same(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)

def press(times=1):
    for _ in range(times):
        os.kill(os.getpid(), signal.SIGINT)

def interrupted(function):
    try:
        function()
    except KeyboardInterrupt:
        return True
    return False

x = np.arange(8, dtype=np.float32)
"""

NUMBA = """
from numba.extending import overload
times, calls = 1, []

def slow(x):
    return 2 * x

@overload(slow)
def _slow(x):
    calls.append("begun")
    press(times)
    calls.append("done")
    return lambda x: 2 * x

def make(c):
    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = slow(x[i]) + c
    return kernbridge.numba_kernel(kernel, same)
"""


def test_numba_finishes_the_kernel_that_it_compiles(run_python):
    """It and LLVM may lose their own state, or crash, where they are interrupted."""
    run_python(
        f"{BEGIN}{NUMBA}\n"
        "op = make(1)\n"
        "assert interrupted(lambda: op(x))\n"
        "assert calls == ['begun', 'done'], calls\n"
        "np.testing.assert_array_equal(op(x), 2 * x + 1)\n"
        "assert calls == ['begun', 'done'], calls\n"  # the code was there
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    )


def test_a_second_time_interrupts_numba_at_once(run_python):
    run_python(
        f"{BEGIN}{NUMBA}\n"
        "times, op = 2, make(2)\n"
        "assert interrupted(lambda: op(x))\n"
        "assert calls == ['begun'], calls\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
        "times = 0\n"
        "np.testing.assert_array_equal(op(x), 2 * x + 2)\n"
    )


def test_a_handler_of_the_user_is_called_in_the_end(run_python):
    run_python(
        f"{BEGIN}{NUMBA}\n"
        "signal.signal(signal.SIGINT, lambda *_: calls.append('mine'))\n"
        "np.testing.assert_array_equal(make(3)(x), 2 * x + 3)\n"
        "assert calls == ['begun', 'done', 'mine'], calls\n"
        "times = 0\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "np.testing.assert_array_equal(make(4)(x), 2 * x + 4)\n"
        "assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN\n"
    )


RUNNING = """
import ctypes
c = ctypes.CDLL(None)
there = c.access
there.argtypes, there.restype = [ctypes.c_uint64, ctypes.c_int32], ctypes.c_int32
nap = c.usleep
nap.argtypes, nap.restype = [ctypes.c_uint32], ctypes.c_int32
make_file = c.mkdir
make_file.argtypes, make_file.restype = [ctypes.c_uint64, ctypes.c_uint32], ctypes.c_int32
texts = [ctypes.create_string_buffer(name) for name in (b"begun", b"end")]
begun, end = map(ctypes.addressof, texts)

@numba.njit
def waiting(x, out):
    make_file(begun, 0o700)
    while there(end, 0) != 0:
        nap(1000)
    for i in range(x.size):
        out[i] = 2 * x[i]

SOURCE = r'''
#include "kernbridge/kernbridge.hpp"
#include <sys/stat.h>
#include <unistd.h>
// @BE waiting arg ret
void waiting(const kernbridge::Tensor x, kernbridge::Tensor out) {
    mkdir("begun", 0700);
    while (access("end", F_OK) != 0) usleep(1000);
    for (int64_t i = 0; i < x.numel(); i++) out.data_ptr<float>()[i] = 2 * x.data_ptr<float>()[i];
}
'''

def of_python(x, out, stream):
    os.makedirs("begun", exist_ok=True)
    while not os.path.exists("end"):
        time.sleep(0.001)
    doubled[1, 8, stream](x, out)

def make(kind):
    if kind == "numba":
        return kernbridge.numba_kernel(waiting, same)
    if kind == "c++":
        module = kernbridge.load_cpp_inline("waiting", SOURCE)
        return lambda x: module.waiting(x, outs=same(x))
    from numba import cuda
    global doubled

    @cuda.jit
    def doubled(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = 2 * x[i]
    return kernbridge.numba_cuda_callable(of_python, same, record="never")

order = []

def keys():
    while not os.path.exists("begun"):
        time.sleep(0.001)
    press()
    time.sleep(0.2)
    order.append("the kernel may end")
    os.mkdir("end")

op = jax.jit(make(KIND))
thread = threading.Thread(target=keys)
thread.start()
assert interrupted(lambda: op(x).block_until_ready())
order.append("interrupted")
thread.join()
assert ORDER is None or order == ORDER, order
os.path.exists("end") or os.mkdir("end")
np.testing.assert_array_equal(op(x), 2 * x)
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["numba", "c++"])
def test_machine_code_runs_to_its_end(kind, run_python):
    order = ["the kernel may end", "interrupted"]
    run_python(f"{BEGIN}KIND, ORDER = {kind!r}, {order!r}\n{RUNNING}")


@pytest.mark.exhaustive
def test_a_function_that_runs_as_python(run_python):
    """It is interrupted if JAX calls it in the main thread, and runs to its end otherwise."""
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    run_python(f"{BEGIN}KIND, ORDER = 'python', None\n{RUNNING}")


BUILDING = """
import signal, threading
compiler = os.path.abspath("compiler")
with open(compiler, "w") as file:
    file.write('#!/bin/sh\\n[ "$1" = --version ] && exec c++ "$@"\\n')
    file.write("echo $$ > pid.new; mv pid.new pid; sleep 99\\n")
os.chmod(compiler, 0o700)
os.environ["CXX"] = compiler
SOURCE = r'''
#include "kernbridge/kernbridge.hpp"
// @BE doubled arg ret
void doubled(const kernbridge::Tensor x, kernbridge::Tensor out) {
    for (int64_t i = 0; i < x.numel(); i++) out.data_ptr<float>()[i] = 2 * x.data_ptr<float>()[i];
}
'''

def load():
    return kernbridge.load_cpp_inline("interrupted", SOURCE)

def files():
    return [f for _, _, fs in os.walk(os.environ["KERNBRIDGE_CACHE_DIR"]) for f in fs]

def keys():
    while not os.path.exists("pid"):
        time.sleep(0.001)
    press()

thread = threading.Thread(target=keys)
thread.start()
assert interrupted(load)
thread.join()
pid = int(open("pid").read())
try:
    os.kill(pid, 0)
except ProcessLookupError:
    pass
else:
    raise AssertionError("the compiler is running")
assert all(name.endswith(".lock") for name in files()), files()
assert os.listdir(os.path.join(os.environ["KERNBRIDGE_CACHE_DIR"], "v1", "staging")) == []
del os.environ["CXX"]
module = load()
np.testing.assert_array_equal(module.doubled(x, outs=same(x)), 2 * x)
"""


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
def test_a_compiler_is_stopped_with_all_that_it_started(run_python, tmp_path):
    run_python(BEGIN + BUILDING, KERNBRIDGE_CACHE_DIR=str(tmp_path / "cache"))


LONG_KERNEL = """
from numba import cuda, uint32

@cuda.jit
def kernel(n, out):
    value = uint32(1)
    for i in range(n[0]):
        value = value * uint32(1664525) + uint32(1013904223) + (value >> uint32(16))
    out[0] = value

out = jax.ShapeDtypeStruct((1,), jnp.uint32)
op = jax.jit(kernbridge.numba_cuda_kernel(kernel, out, launch_dims=1))
n = np.array([100_000_000], np.int32)
expected = np.asarray(op(n))

def call(thread):
    thread.start()
    op(n).block_until_ready()
    thread.join()

thread = threading.Timer(0.05, press)
assert interrupted(lambda: call(thread))
thread.join()
np.testing.assert_array_equal(op(n), expected)
"""


@pytest.mark.exhaustive
def test_a_cuda_kernel_on_the_cpu_runs_to_its_end(run_python):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    run_python(BEGIN + LONG_KERNEL)


NVRTC = """
from kernbridge._ext.nvrtc import nvrtc
kernbridge.config.set_cuda_architectures("9.0")
SOURCE = r'''
extern "C" __global__ void scaled(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = CONSTANT * x[i];
}
'''

def make(c):
    return kernbridge.cuda_kernel(
        SOURCE.replace("CONSTANT", str(c)), "scaled", same, launch_dims=8,
        attrs={"n": np.int32(8)},
    )

def export(*ops):
    f = jax.jit(lambda x: [op(x) for op in ops])
    return jax.export.export(f, platforms=["cuda"])(x).serialize()

real, threads = nvrtc._nvrtc_call, []

def pressing(*args):
    if not threads:
        threads.append(threading.Timer(0.005, press))
        threads[0].start()
    return real(*args)

def files():
    return [f for _, _, fs in os.walk(os.environ["KERNBRIDGE_CACHE_DIR"]) for f in fs]

def call(ops):
    export(*ops)
    threads[0].join()

for count in (1, 3):  # in this thread, and in threads
    threads.clear()
    nvrtc._nvrtc_call = pressing
    ops = [make(10 * count + c) for c in range(count)]
    assert interrupted(lambda: call(ops))
    threads[0].join()
    nvrtc._nvrtc_call = real
    assert export(*ops)
    assert export(*(make(10 * count + c) for c in range(count)))
    assert not [f for f in files() if f.endswith(".tmp")], files()
"""


@pytest.mark.exhaustive
def test_the_next_kernel_of_nvrtc_is_right(run_python, tmp_path):
    try:
        nvrtc.library()
    except KernelToolchainError:
        pytest.skip("NVRTC is not installed")
    run_python(BEGIN + NVRTC, KERNBRIDGE_CACHE_DIR=str(tmp_path / "cache"))


FIRST_OF_NVRTC = """
from kernbridge._ext.nvrtc import nvrtc
heard, done = set(), threading.Event()
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: heard.add(number))
SOURCE = 'extern "C" __global__ void f(int *x) { x[threadIdx.x] = 3; }'

def keys():
    while not done.is_set():
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), number)
        time.sleep(0.0002)

thread = threading.Thread(target=keys)
thread.start()
options = ("--gpu-architecture=sm_90",)
request = nvrtc.Compilation("f", SOURCE, "f.cu", "f", options, ())
cubin, *_ = nvrtc._nvrtc_call(request, LIBRARY, options)
done.set()
thread.join()
assert cubin[:4] == bytes([127]) + b"ELF"
assert heard == {signal.SIGINT, signal.SIGTERM}, heard
"""


def test_nvrtc_leaves_signals_to_python(run_python):
    """Up to 13.0 its first compilation in a process took them, and ended the process."""
    try:
        library = nvrtc.library()
    except KernelToolchainError:
        pytest.skip("NVRTC is not installed")
    run_python(f"{BEGIN}LIBRARY = {library!r}\n{FIRST_OF_NVRTC}")


TAKING = """
import ctypes
from numba import cuda
from numba.cuda import codegen
taking, taken = ctypes.CDLL("./libnvrtc-taking.so"), []
assert taking.takes() == 1
real = codegen.CUDACodeLibrary.get_cubin

def linking(self, **how):  # as it does when the kernel links CUDA C++
    taken.append(taking.takes())
    return real(self, **how)

codegen.CUDACodeLibrary.get_cubin = linking
kernbridge.config.set_cuda_architectures("9.0")

@cuda.jit
def kernel(x, out):
    out[cuda.grid(1)] = x[cuda.grid(1)]

op = kernbridge.numba_cuda_kernel(kernel, same, launch_dims=8)
assert jax.jit(op).trace(x).lower(lowering_platforms=("cuda",)).as_text()
assert taken == [0], taken
"""

TAKING_LIBRARY = """
#include <signal.h>
static void stop(int number) { (void)number; }
int takes(void)
{
    void (*before)(int) = signal(SIGINT, stop);
    struct sigaction now;
    sigaction(SIGINT, 0, &now);
    signal(SIGINT, before);
    return now.sa_handler == stop;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_nvrtc_leaves_signals_to_python_where_numba_calls_it(run_python, tmp_path):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    source, library = tmp_path / "taking.c", tmp_path / "libnvrtc-taking.so"
    source.write_text(TAKING_LIBRARY)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    run_python(BEGIN + TAKING, KERNBRIDGE_CACHE_DIR=str(tmp_path / "cache"))


NVCC = """
import subprocess
SOURCE = r'''
#include <cuda_runtime.h>
#include "kernbridge/kernbridge.hpp"
__global__ void scaled(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 3 * x[i];
}
// @BE scale arg ret stream
void scale(const kernbridge::Tensor x, kernbridge::Tensor out, int64_t stream) {
    scaled<<<1, 8, 0, (cudaStream_t)stream>>>(x.data_ptr<float>(), out.data_ptr<float>(), 8);
}
'''
groups, Popen = [], subprocess.Popen

class Noting(Popen):
    def __init__(self, *args, **how):
        super().__init__(*args, **how)
        if how.get("process_group") == 0:
            groups.append(self.pid)

subprocess.Popen = Noting

def members():  # the programs in the compilers' groups, by their numbers
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                about = file.read()
        except OSError:
            continue
        program, rest = about.split("(", 1)[1].rsplit(") ", 1)
        state, _, group = rest.split()[:3]
        if int(group) in groups and state != "Z":
            found[int(name)] = program
    return found

def load():
    return kernbridge.load_cuda_inline(
        "interrupted", SOURCE, compute_capability="9.0", auto_register=False
    )

def keys():
    while STAGE not in members().values():
        time.sleep(0.001)
    press()

def files():
    return [f for _, _, fs in os.walk(os.environ["KERNBRIDGE_CACHE_DIR"]) for f in fs]

thread = threading.Thread(target=keys)
thread.start()
assert interrupted(load)
thread.join()
while members():  # killed, and ending in their own time
    time.sleep(0.01)
assert all(name.endswith(".lock") for name in files()), files()
assert os.listdir(os.path.join(os.environ["KERNBRIDGE_CACHE_DIR"], "v1", "staging")) == []
assert os.listdir(os.environ["TMPDIR"]) == [], os.listdir(os.environ["TMPDIR"])
assert load().function_names == ["scale"]
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("stage", ["nvcc", "cicc", "ptxas", "cc1plus"])
def test_nvcc_is_stopped_with_all_that_it_started(stage, run_python, tmp_path):
    try:
        find_nvcc()
    except kernbridge.NvccNotFoundError:
        pytest.skip("nvcc is not installed")
    (tmp_path / "tmp").mkdir()
    folders = {"KERNBRIDGE_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "tmp")}
    run_python(BEGIN + NVCC.replace("STAGE", repr(stage)), **folders)


ANYWHERE = """
def numba_cpu(c):
    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = c * x[i] + 1
    return kernbridge.numba_kernel(kernel, same)

def numba_cuda(c):
    from numba import cuda

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = c * x[i] + 1
    return kernbridge.numba_cuda_kernel(kernel, same, launch_dims=8)

def recorded(c):
    from numba import cuda

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = c * x[i] + 1

    def function(x, out, stream):
        temporary = cuda.device_array(x.size, x.dtype)
        temporary[:] = x
        kernel[1, 8, stream](temporary, out)
    return kernbridge.numba_cuda_callable(function, same, record="always")

def call(make, c):
    return np.asarray(jax.jit(make(c))(x))

def files():
    return [f for _, _, fs in os.walk(os.environ["KERNBRIDGE_CACHE_DIR"]) for f in fs]

sys.unraisablehook = lambda _: None  # an interrupt in a finaliser, which Python passes over
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
draw = random.Random(SEED)
hits = 0
for make in (numba_cpu, numba_cuda, recorded):
    call(make, 1)
    begun = time.monotonic()
    call(make, 2)
    took = time.monotonic() - begun
    for c in range(3, 3 + ROUNDS):
        def interrupt_once():
            signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.001, took))
            try:
                call(make, c)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        hits += interrupted(interrupt_once)
        np.testing.assert_array_equal(call(make, c), c * x + 1, str((SEED, make, c)))
assert not [f for f in files() if f.endswith(".tmp")], files()
assert hits > 0
print(hits)
"""


@pytest.mark.exhaustive
def test_the_next_call_is_right_wherever_an_interrupt_came(run_python, tmp_path):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    seed = random.SystemRandom().randrange(10_000)
    print("seed", seed)
    run_python(
        f"{BEGIN}SEED, ROUNDS = {seed}, 50\n{ANYWHERE}",
        KERNBRIDGE_CACHE_DIR=str(tmp_path / "cache"),
    )
