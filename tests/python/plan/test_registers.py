"""A block whose threads need more registers than a multiprocessor has is refused when lowered."""

import jax
import jax.numpy as jnp
import kernbridge
import pytest
from kernbridge._ext.nvrtc import nvrtc

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("gpu")]
OUT = jax.ShapeDtypeStruct((2048,), jnp.float32)
SOURCE = r"""
#define KEPT 120
extern "C" __global__ void %s crowded(const float *x, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float kept[KEPT], sum = 0;
    #pragma unroll
    for (int k = 0; k < KEPT; k++) kept[k] = x[(i + 97 * k) %% 2048];
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < KEPT; k++) sum = kept[k] * (sum + kept[KEPT - 1 - k]);
    out[i] = sum;
}
"""


@pytest.fixture(autouse=True)
def compiler():
    try:
        nvrtc.library()
    except kernbridge.KernelToolchainError as e:
        pytest.skip(str(e))


def lower(block, bounds=""):
    op = kernbridge.cuda_kernel(SOURCE % bounds, "crowded", OUT, grid=2048 // block, block=block)
    jax.jit(op).trace(jax.ShapeDtypeStruct((2048,), jnp.float32)).lower(
        lowering_platforms=("cuda",)
    )
    return op.inspect(OUT)[0].registers


def threads_with(registers):
    """How many threads have room in a multiprocessor: a quarter of its registers for a warp's."""
    return 4 * (16384 // (-(-registers * 32 // 256) * 256)) * 32


def test_more_threads_than_registers():
    used = lower(256)
    assert used > 64
    with pytest.raises(ValueError, match=r"of 1024 threads.*\[KB1102\]") as caught:
        lower(1024)
    text = str(caught.value)
    assert (
        f"'crowded' needs {used} registers per thread, but each of 1024 threads can have only 64"
        in text
    )
    assert f"Use at most {threads_with(used)} threads per block" in text
    assert "__launch_bounds__(1024)" in text
    assert lower(1024, "__launch_bounds__(1024)") <= 64


@pytest.mark.parametrize("threads", [800, 992])
def test_a_block_has_room_for_the_registers_that_are_named(threads):
    room = max(n for n in range(1, 256) if threads_with(n) >= threads)
    with pytest.raises(ValueError, match=rf"{threads} threads can have only {room}\b.*KB1102\]"):
        lower(threads)
