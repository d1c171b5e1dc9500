"""Ctrl-C while a kernel runs or is compiled: when it arrives, what is left, and the next call."""

import random
import shutil

import pytest

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


@pytest.mark.parametrize("kind", ["numba", "c++"])
def test_machine_code_runs_to_its_end(kind, run_python):
    order = ["the kernel may end", "interrupted"]
    run_python(f"{BEGIN}KIND, ORDER = {kind!r}, {order!r}\n{RUNNING}")


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
