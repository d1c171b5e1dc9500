"""Enzyme's derivatives of drawn CUDA C++ kernels, on the CPU, against JAX's own."""

import drawn_cuda
import pytest
from needs_enzyme import needs_enzyme

pytestmark = [pytest.mark.once, needs_enzyme, pytest.mark.usefixtures("without_fake_gpu")]


@pytest.mark.brief
@pytest.mark.parametrize("seed", range(6))
def test_a_kernel(seed):
    drawn_cuda.compare(seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(50))
def test_five_hundred_kernels(block):
    for seed in range(10 * block, 10 * block + 10):
        drawn_cuda.compare(seed)
