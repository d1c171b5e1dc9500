"""A sub-interpreter, in which importing JAX ends the process, cannot import kernbridge."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.once  # what is refused is Python's, not JAX's

PROGRAM = """
import sys
try:
    import _interpreters
except ImportError:
    import _xxsubinterpreters as _interpreters

TRIED = '''
try:
    import kernbridge{name}
except ImportError as e:
    print("refused:", e, flush=True)
'''

def create(isolated):
    if sys.version_info >= (3, 13):
        return _interpreters.create("isolated" if isolated else "legacy")
    return _interpreters.create(isolated=isolated)

for name in ("", "._core"):
    _interpreters.run_string(create({isolated}), TRIED.format(name=name))
{after}
"""

CALL = """
import jax, jax.numpy as jnp, numba, kernbridge
@numba.njit
def kernel(x, out):
    out[:] = x + 1
print(kernbridge.numba_kernel(kernel, jax.ShapeDtypeStruct((3,), jnp.float32))(jnp.ones(3)))
"""


def run(isolated, after=""):
    program = PROGRAM.replace("{isolated}", str(isolated)).replace("{after}", after)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )


@pytest.mark.exhaustive
def test_kernbridge_is_refused_and_the_main_interpreter_goes_on():
    done = run(False, CALL)
    assert done.returncode == 0, done.stderr
    *refused, value = done.stdout.splitlines()
    assert len(refused) == 2
    for line in refused:
        assert line.startswith("refused: kernbridge cannot be imported in a sub-interpreter")
        assert "import it in the main interpreter, or start another process [KB7009]" in line
    assert value == "[2. 2. 2.]"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="interpreters share one GIL")
def test_an_interpreter_with_a_gil_of_its_own_is_refused_by_python():
    done = run(True)
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.count("refused: module kernbridge._core does not support loading in sub") == 2
    )
