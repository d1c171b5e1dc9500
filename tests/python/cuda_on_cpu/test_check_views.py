"""The checked mode: a wrong index is reported where its address is used, and nowhere else."""

import json
import re

import jax
import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

from kernbridge import numba_cuda_kernel
from numba import cuda

pytestmark = pytest.mark.once


def _call(kernel, x, **options):
    op = numba_cuda_kernel(
        kernel,
        jax.ShapeDtypeStruct(x.shape, x.dtype),
        launch_dims=x.shape[0],
        check=True,
        **options,
    )
    return np.asarray(jax.jit(op)(x))


@cuda.jit
def rows_below(a, out):
    i = cuda.grid(1)
    if i < a.shape[0]:
        below = a[i + 1]  # of the last row, formed and not read
        for k in range(a.shape[1]):
            out[i, k] = a[i, k]
            if i + 1 < a.shape[0]:
                out[i, k] += below[k]


@cuda.jit
def rows_below_unguarded(a, out):
    i = cuda.grid(1)
    if i < a.shape[0]:
        below = a[i + 1]
        out[i, 0] = a[i, 0]
        out[i, 1] = below[1]


@cuda.jit
def columns(a, out):
    i = cuda.grid(1)
    if i < a.shape[0]:
        column = a[:, i + 2]
        out[i, 0] = column[0]


def report():
    """Print what the kernels give, or the text of their errors, as JSON."""
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    found = []
    for kernel in (rows_below, rows_below_unguarded, columns):
        try:
            found.append(_call(kernel, x).tolist())
        except jax.errors.JaxRuntimeError as e:
            found.append(str(e))
    print(json.dumps(found))


def test_wrong_indices_are_reported_where_their_views_are_read(run_python, tmp_path):
    printed = run_python(
        "import test_check_views; test_check_views.report()",
        KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so",
        KERNBRIDGE_CACHE_DIR=str(tmp_path / "cache"),
    )
    formed, unguarded, column = json.loads(printed.splitlines()[-1])
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    x[:-1] += x[1:].copy()
    np.testing.assert_array_equal(formed, x)
    expected = "reads 'a' (float32[2d]) out of bounds: index 4 of axis 0, whose extent is 4"
    assert expected in unguarded
    assert "launch of rows_below_unguarded, grid (" in unguarded
    assert "test_check_views.py:" in unguarded
    assert not re.search(r"_ZN|cuLaunchKernelEx|9001", unguarded)
    assert "index 3 of axis 1, whose extent is 3" in column
