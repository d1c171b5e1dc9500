"""Enzyme's derivatives of CUDA C++ kernels on a GPU, against JAX's own of equal functions."""

import sys
from pathlib import Path

import jax
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "python/ext/enzyme"))
import cuda_cpp_warps  # noqa: F401
import cuda_halves
import cuda_modules
import drawn_cuda
from cuda_cpp import KERNELS, assert_members_of_a_structure, operation
from needs_enzyme import assert_derivatives, needs_enzyme
from packaged_cuda import CASES, assert_central_differences, assert_jax

pytestmark = [needs_enzyme, pytest.mark.filterwarnings("ignore:.*KB(2108|7002)")]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", KERNELS)
def test_derivatives_agree_with_jax(name, dtype):
    with jax.enable_x64(True):
        op, reference, arguments = operation(name, dtype)
        # One slice of the batch has the opposite signs, of which prices have no logarithm.
        assert_derivatives(op, reference, *arguments, batched=name != "options")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("key", CASES)
def test_kernels_of_packages(key, dtype):
    with jax.enable_x64(True):
        assert_central_differences(key, dtype)
        if CASES[key].reference:
            assert_jax(key, dtype)


@pytest.mark.parametrize("seed", range(30))
def test_drawn_kernels(seed):
    drawn_cuda.compare(seed)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", cuda_modules.CASES)
def test_derivatives_of_functions_agree_with_jax(name, dtype):
    with jax.enable_x64(True):
        op, reference, arguments = cuda_modules.case(name, cuda_modules.module(dtype), dtype)
        assert_derivatives(op, reference, *arguments, batched=name in ("energy", "scattered"))


@pytest.mark.parametrize("dtype", cuda_halves.C)
@pytest.mark.parametrize("name", cuda_halves.KERNELS)
def test_derivatives_of_half_precision_agree_with_jax(name, dtype):
    op, reference, arguments = cuda_halves.operation(name, dtype)
    assert_derivatives(op, reference, *arguments, batched=True)


@pytest.mark.parametrize("dtype", cuda_halves.C)
def test_functions_of_half_precision_agree_with_jax(dtype):
    assert_derivatives(*cuda_halves.energy(cuda_halves.module(dtype), dtype), batched=True)


def test_members_of_a_structure():
    assert_members_of_a_structure()
