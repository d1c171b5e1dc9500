"""Tests that need a GPU which JAX can use; without one they are skipped, with the reason."""

import sys
from pathlib import Path

import jax
import numpy
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))  # shared helpers

if not hasattr(numpy, "row_stack"):  # numba-cuda 0.30 reads it; numpy 2.5 removed it
    numpy.row_stack = numpy.vstack

try:
    GPUS = jax.devices("gpu")
    WHY = ""
except RuntimeError as e:
    GPUS, WHY = [], f"no GPU that JAX can use: {e}"


def pytest_collection_modifyitems(items):
    for item in items:
        if WHY:
            item.add_marker(pytest.mark.skip(reason=WHY))


@pytest.fixture
def x64():
    """JAX holds 64-bit types."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)
