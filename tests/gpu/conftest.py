"""Tests that need a GPU which JAX can use; without one they are skipped, with the reason.

With --on-cpu they run on the CPU, see tests/python/ext/emulator/test_gpu_tests_on_cpu.py.
"""

import os
import sys
from pathlib import Path

import jax
import numpy
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))  # shared helpers

import session_cache

session_cache.install()

# compute-sanitizer sets this. It does not watch the programs that tests start, and one that uses
# CUDA would wait for it without end.
os.environ.pop("NVTX_INJECTION64_PATH", None)

if not hasattr(numpy, "row_stack"):  # numba-cuda 0.30 reads it; numpy 2.5 removed it
    numpy.row_stack = numpy.vstack

try:
    GPUS = jax.devices("gpu")
    WHY = ""
except RuntimeError as e:
    GPUS, WHY = [], f"no GPU that JAX can use: {e}"


def pytest_addoption(parser):
    parser.addoption(
        "--on-cpu", action="store_true", help="run these tests on the CPU, but those for GPUs alone"
    )


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu_only(why): says nothing about kernels on CPUs")


def pytest_collection_modifyitems(config, items):
    on_cpu = config.getoption("--on-cpu")
    for item in items:
        alone = item.get_closest_marker("gpu_only")
        if on_cpu and alone:
            item.add_marker(pytest.mark.skip(reason=alone.args[0]))
        elif WHY and not on_cpu:
            item.add_marker(pytest.mark.skip(reason=WHY))


@pytest.fixture(scope="session")
def on_cpu(request):
    """Whether these tests run on the CPU."""
    return request.config.getoption("--on-cpu")


@pytest.fixture
def x64():
    """JAX holds 64-bit types."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)
