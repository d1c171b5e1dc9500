"""Writes out of bounds, without the checked mode, to arrays that are no plain arguments.

The program is a process of its own, since this process has a fake driver that takes GPU calls.
"""

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

pytestmark = [pytest.mark.once, pytest.mark.exhaustive]

PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
from kernbridge import numba_cuda_callable, numba_cuda_kernel
from numba import cuda, int32
S = jax.ShapeDtypeStruct
CELL = np.dtype([("matrix", np.float32, (2, 3)), ("n", np.int32)], align=True)

def check(kernel, *words, tuples=False):
    def launch(at, out, stream):
        memory = cuda.device_array(256, np.uint32)
        memory[:] = 7
        cells = memory[64 : 64 + 7 * 4].view(CELL)
        kernel[1, 1, stream]((out, cells) if tuples else cells, at)
        out[:] = memory[:1].view(np.int32)
        watch[1, 256, stream](memory, out)

    op = numba_cuda_callable(launch, S((1,), jnp.int32), record="always")
    assert op(jnp.int32([1, 2]))[0] <= 28
    for bad in ([1, 3000], [1, -3000], [3000, 1], [1 << 30, 0]):
        try:
            found = op(jnp.int32(bad))
        except (jax.errors.JaxRuntimeError, ValueError) as e:
            assert "out of bounds" in str(e) and "pass check=True" in str(e), e
            assert all(w in str(e) for w in words), e
        else:
            raise SystemExit(f"{kernel} may write to {bad}: {found}")

@cuda.jit
def watch(memory, out):
    # Counts the words that are not what they were.
    if memory[cuda.grid(1)] != 7:
        cuda.atomic.add(out, 0, 1)

@cuda.jit
def nested(cells, at):
    cells[at[0]].matrix[1, at[1]] = 1

@cuda.jit
def nested_by_name(cells, at):
    cells[at[0]]["matrix"][1][at[1]] = 1

@cuda.jit
def in_a_tuple(arrays, at):
    arrays[1][at[0]].matrix[0, at[1]] = 1
    arrays[0][at[1] - 2] = 7

@cuda.jit(device=True)
def deeper(cells, at, levels):
    if levels > 0:
        deeper(cells, at, int32(levels - 1))
    else:
        cells[at[0]].matrix[1, at[1]] = 1

@cuda.jit
def recursive(cells, at):
    deeper(cells, at, int32(3))

@cuda.jit
def made(cells, at):
    new = np.zeros(4)
    new[at[0]] = 1
    new[at[1]] = 1
    cells[0].n = int32(new[0])

check(nested)
check(nested_by_name)
check(in_a_tuple, tuples=True)
check(recursive)
check(made, "'new' (f64[1d])")
print("held")
"""


def test_nested_arrays_members_of_tuples_recursions_and_new_arrays(run_python):
    printed = run_python(
        PROGRAM, KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so", NUMBA_CUDA_ENABLE_NRT="1"
    )
    assert "held" in printed
