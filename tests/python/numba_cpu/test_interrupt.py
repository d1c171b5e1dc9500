"""Ctrl-C while XLA's threads are in Python: the process ends, or goes on with its work."""

import os
import signal
import subprocess
import sys
import time

import jax
import pytest

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(
        not (0, 9) <= jax.__version_info__ < (0, 11),
        reason="JAX 0.8 and 0.11 instantiate in the main thread, where Ctrl-C waits for the kernel",
    ),
]

WAITING = """
import os, time

def wait(name):
    if not os.environ.get("WAIT"):
        return
    open(name + ".begun", "w").close()
    while not os.path.exists(name + ".end"):
        time.sleep(0.01)
"""

# The compilation waits within Numba's lock, in a process that has WAIT set.
KERNELS = """
import numba
from numba.extending import overload

def slow(x):
    return x + 1

@overload(slow)
def _slow(x):
    import waiting

    waiting.wait("compile")
    return lambda x: x + 1

@numba.njit
def kernel(x, out):
    for i in range(out.size):
        out[i] = slow(x[i])
"""

EXPORT = """
import jax, jax.numpy as jnp, kernels
from kernbridge import numba_kernel

S = jax.ShapeDtypeStruct((4,), jnp.float32)
checks = [jax.export.DisabledSafetyCheck.custom_call("kernbridge.host")]
exported = jax.export.export(jax.jit(numba_kernel(kernels.kernel, S)), disabled_checks=checks)(S)
open("program.bin", "wb").write(exported.serialize())
"""

# A shell has its jobs in the background ignore Ctrl-C, which their children inherit.
HEARS = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
"""

CALL = """
import os, sys, jax, jax.numpy as jnp, kernbridge, kernels
call = jax.jit(jax.export.deserialize(open("program.bin", "rb").read()).call)
try:
    call(jnp.ones(4)).block_until_ready()
    print("no interrupt came")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

AGAIN = """
open("compile.end", "w").close()
print(call(jnp.ones(4)))
"""


@pytest.fixture
def program(tmp_path, run_python):
    (tmp_path / "waiting.py").write_text(WAITING)
    (tmp_path / "kernels.py").write_text(KERNELS)
    run_python(EXPORT)
    return tmp_path


def interrupt(folder, source, begun):
    """Run a program, and press Ctrl-C when that file is there; gives exit status and output."""
    script = folder / "interrupted.py"
    script.write_text(HEARS + source)
    path = os.pathsep.join((str(folder), *filter(None, [os.environ.get("PYTHONPATH")])))
    process = subprocess.Popen(
        [sys.executable, str(script)],
        env={
            **os.environ,
            "PYTHONPATH": path,
            "WAIT": "1",
            "KERNBRIDGE_EXPORTED_CODE": "recompile",
        },
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        while not (folder / begun).exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, output


@pytest.mark.exhaustive
def test_the_process_ends_while_a_loaded_program_compiles(program):
    status, output = interrupt(program, CALL + "    raise\n", "compile.begun")
    assert status == -signal.SIGINT
    assert output.startswith("interrupted\n")
    assert output.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.exhaustive
def test_the_next_call_works(program):
    status, output = interrupt(program, CALL + AGAIN, "compile.begun")
    assert (status, output) == (0, "interrupted\n[2. 2. 2. 2.]\n")
