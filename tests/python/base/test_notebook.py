"""Errors and warnings in a notebook name the cells that IPython shows, not its files."""

import re

import pytest

pytest.importorskip("IPython", reason="IPython is not installed")

CELLS = [
    """
import jax.numpy as jnp, numba
from kernbridge import numba_kernel
@numba.njit
def positive(x, out):
    for i in range(x.size):
        if x[i] < 0:
            raise ValueError("negative")
        out[i] = x[i]
op = numba_kernel(positive, lambda x: x)
""",
    "op(-jnp.arange(3.0))",
    """
@numba.njit
def untyped(x, out):
    out[:] = x.missing
numba_kernel(untyped, lambda x: x)(jnp.arange(3.0))
""",
    """
@numba.njit
def unwritten(x, out):
    out = x
numba_kernel(unwritten, lambda x: x)(jnp.arange(3.0))
""",
    "print(numba_kernel(unwritten, lambda x: x).__doc__)",
]
PROGRAM = f"""
import sys
from IPython.core.interactiveshell import InteractiveShell
sys.stderr = sys.stdout
shell = InteractiveShell.instance(colors="NoColor")
for number, cell in enumerate({CELLS!r}, 1):
    print("=====")
    shell.run_cell(cell.strip(), store_history=True)
"""


@pytest.mark.once
def test_cells_are_named(run_python):
    _, defined, failed, uncompiled, unwritten, help_of_it = re.split("=====\n", run_python(PROGRAM))
    assert "Error" not in defined
    assert re.search(
        r"negative .*\[KB3001\](.*\n)+.*Cell In\[1\], line 7: raise ValueError", failed
    )
    assert re.search(r"\[KB4001\](.*\n)+.*Cell In\[3\], line 3: out\[:\] = x.missing", uncompiled)
    assert re.search(r"\[KB1008\]\n *Cell In\[4\], line 3: out = x\n", unwritten)
    assert "\nCell In[4], line 1: @numba.njit\nCell In[5], line 1: print(numba_kern" in help_of_it
