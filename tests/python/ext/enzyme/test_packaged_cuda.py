"""Derivatives of CUDA C++ kernels of packages, on the CPU."""

import jax
import pytest
from needs_enzyme import needs_enzyme
from packaged_cuda import CASES, assert_central_differences, assert_jax

pytestmark = [
    pytest.mark.once,
    pytest.mark.exhaustive,  # which installs the packages
    needs_enzyme,
    pytest.mark.usefixtures("without_fake_gpu"),
    pytest.mark.filterwarnings("ignore:.*KB7002"),
]


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("key", CASES)
def test_central_differences(key, dtype):
    assert_central_differences(key, dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("key", [key for key, case in CASES.items() if case.reference])
def test_derivatives_agree_with_jax(key, dtype):
    assert_jax(key, dtype)
