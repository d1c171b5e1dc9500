"""The interpreter ends while calls, kernels and compilations are under way."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.once

BEGIN = """
import atexit, faulthandler, os, sys, threading, time, warnings
import jax, jax.numpy as jnp, numba, numpy as np
import kernbridge
faulthandler.dump_traceback_later(100, exit=True)
warnings.simplefilter("ignore")

def same(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)

@numba.njit
def slow(x, out):
    for _ in range(20_000):
        for i in range(len(x)):
            out[i] = 0.5 * out[i] + x[i]

def fresh(c):
    @numba.njit
    def kernel(x, out):
        for i in range(len(x)):
            out[i] = c * x[i] + 1
    return kernbridge.numba_kernel(kernel, same)

x = np.ones(1000, np.float32)
f = jax.jit(kernbridge.numba_kernel(slow, same))
f(x).block_until_ready()
"""

UNDER_WAY = {
    "calls whose results nobody awaits": "results = [f(x) for _ in range(5)]",
    "calls whose results are gone": "for _ in range(5): f(x)",
    "a thread in a kernel": """
for _ in range(3):
    threading.Thread(target=lambda: [f(x).block_until_ready() for _ in range(3)]).start()
""",
    "a thread that compiles": """
def compile_some():
    for c in range(3):
        np.testing.assert_array_equal(jax.jit(fresh(c))(x), c * x + 1)

for _ in range(3):
    threading.Thread(target=compile_some).start()
""",
    "a call of a function that runs as Python": """
from numba import cuda

@cuda.jit
def doubled(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = 2 * x[i]

def function(x, out, stream):
    time.sleep(0.05)
    doubled[4, 256, stream](x, out)

op = jax.jit(kernbridge.numba_cuda_callable(function, same, record="never"))
op(x).block_until_ready()
results = [op(x) for _ in range(3)]
""",
    "an exception": "results = [f(x) for _ in range(5)]\nraise SystemExit",
}


ALWAYS = ("calls whose results are gone", "a thread that compiles")


@pytest.mark.parametrize(
    "what", [w if w in ALWAYS else pytest.param(w, marks=pytest.mark.exhaustive) for w in UNDER_WAY]
)
def test_the_process_ends_with_its_status(what, run_python):
    if "runs as Python" in what:
        pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    end = "print('the end')\n"
    source = f"{BEGIN}{'atexit.register(print, 1)' if 'exception' in what else ''}\n{end}"
    assert "the end" in run_python(source + UNDER_WAY[what])


COMPILING = """
import threading, time, os, kernbridge
SOURCE = '''
#include "kernbridge/kernbridge.hpp"
// @BE nothing arg ret
void nothing(const kernbridge::Tensor x, kernbridge::Tensor out) {}
'''
daemon = os.environ["DAEMON"] == "1"
load = lambda: kernbridge.load_cpp_inline("late", SOURCE)
threading.Thread(target=load, daemon=daemon).start()
while not os.path.exists("pid"):
    time.sleep(0.001)
"""


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
def test_a_compiler_of_a_daemon_thread_ends_with_the_process(tmp_path):
    compiler = tmp_path / "compiler"
    compiler.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exec c++ "$@"\n'
        "echo $$ > pid.new; mv pid.new pid; exec sleep 99\n".replace(" pid", f" {tmp_path}/pid")
    )
    compiler.chmod(0o700)
    environment = {**os.environ, "CXX": str(compiler), "DAEMON": "1"}
    environment["KERNBRIDGE_CACHE_DIR"] = str(tmp_path / "cache")
    done = subprocess.run(
        [sys.executable, "-c", COMPILING], env=environment, cwd=tmp_path, timeout=60
    )
    assert done.returncode == 0
    pid = int((tmp_path / "pid").read_text())
    try:
        for _ in range(1000):
            if not is_running(pid):
                break
            time.sleep(0.01)
        assert not is_running(pid)
    finally:
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)
