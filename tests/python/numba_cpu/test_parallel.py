"""parallel=True under each of Numba's threading layers, entered from many threads at once."""

import os
import sys

import numba
import pytest

pytestmark = pytest.mark.once

PROGRAM = """
import threading
import jax, jax.numpy as jnp, numba, numpy as np
numba.config.THREADING_LAYER = {layer!r}
import kernbridge._core as _core
from kernbridge import numba_kernel

S = jax.ShapeDtypeStruct((20000,), jnp.float32)

@numba.njit(parallel=True)
def inner(x, factor, out):
    for i in numba.prange(out.size):
        out[i] = x[i] * factor

@numba.njit
def outer(x, out):  # parallel only through what it calls
    inner(x, np.float32(2), out)

@numba.njit(parallel=True)
def fails(x, out):
    for i in numba.prange(out.size):
        out[i] = x[i]
    if x[0] < 0:
        raise ValueError("negative")

@numba.njit(parallel=True)
def threads(out):
    for i in numba.prange(out.size):
        out[i] = numba.get_num_threads()

x = jnp.ones(20000, jnp.float32)
for kernel in (inner, outer):
    kw = dict(factor=np.float32(2)) if kernel is inner else dict()
    op = numba_kernel(kernel, S)
    sixteen = jax.jit(lambda x: [op(x + i, **kw) for i in range(16)])
    wrong = []
    def work():
        for _ in range(20):
            for i, y in enumerate(sixteen(x)):
                if not bool((y == 2 * (1 + i)).all()):
                    wrong.append(i)
    team = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in team]
    [t.join() for t in team]
    assert not wrong, wrong

op = numba_kernel(fails, S)
for _ in range(5):
    try:
        jax.block_until_ready(op(-x))
        raise SystemExit("no error came")
    except jax.errors.JaxRuntimeError as e:
        assert "ValueError: negative" in str(e), e
assert bool((op(x) == 1).all())

count = numba_kernel(threads, jax.ShapeDtypeStruct((64,), jnp.int32))
most = numba.config.NUMBA_NUM_THREADS
assert int(count()[0]) == most, count()
import kernbridge.config
kernbridge.config.set_numba_num_threads(1)
assert int(count()[0]) == 1, count()
kernbridge.config.set_numba_num_threads(None)
assert int(count()[0]) == most
print(numba.threading_layer())
"""


PROBE = "from numba.np.ufunc import {module}"
MODULES = {"omp": "omppool", "tbb": "tbbpool", "workqueue": "workqueue"}
LIBRARIES = {"LD_LIBRARY_PATH": f"{sys.prefix}/lib:{os.environ.get('LD_LIBRARY_PATH', '')}"}


@pytest.mark.parametrize("layer", MODULES)
@pytest.mark.exhaustive
def test_many_threads_enter_parallel_kernels(layer, run_python):
    problem = run_python(PROBE.format(module=MODULES[layer]), check=False, **LIBRARIES)
    if problem:
        pytest.skip(f"Numba cannot load {layer} here: {problem.splitlines()[-1]}")
    got = run_python(PROGRAM.format(layer=layer), NUMBA_NUM_THREADS="2", **LIBRARIES)
    assert got.split()[-1] == layer


@pytest.mark.exhaustive
def test_the_lock_is_for_workqueue_alone(run_python):
    program = (
        "import numba; numba.config.THREADING_LAYER = 'omp'\n"
        "from kernbridge._src.numba_cpu import entry\n"
        "print(entry.pool_functions())\n"
    )
    get, set_, exclusive = eval(run_python(program).splitlines()[-1])
    assert get
    assert set_
    assert exclusive is False
    program = program.replace("'omp'", "'workqueue'")
    assert eval(run_python(program).splitlines()[-1])[2] is True


def test_number_of_threads_is_checked():
    from kernbridge import config

    for wrong in (0, -1, numba.config.NUMBA_NUM_THREADS + 1):
        with pytest.raises(ValueError, match=r"\[KB8001\]"):
            config.set_numba_num_threads(wrong)
    with pytest.raises(TypeError, match=r"\[KB8001\]"):
        config.set_numba_num_threads("two")
    config.set_numba_num_threads(1)
    assert config.get_numba_num_threads() == 1
    config.set_numba_num_threads(None)
    assert config.get_numba_num_threads() is None
