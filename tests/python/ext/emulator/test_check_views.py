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


WEIGHTS = np.arange(1, 4, dtype=np.float32)


@cuda.jit
def formed_and_not_used(a, out):
    """Addresses of wrong indices and what is no access by them, in every way that comes to mind."""
    own = cuda.local.array(3, np.float32)
    part = cuda.shared.array((4, 3), np.float32)
    weights = cuda.const.array_like(WEIGHTS)
    i = cuda.grid(1)
    n = a.shape[0]
    last = i + 1 >= n
    row, flat, turned, column = a[i + 1], a.reshape(12)[3 * i :], a[::-1, ::-1], a[:, i + 3]
    part_row, above = part[i + 1], turned[i - 5]
    for k in range(3):
        own[k] = a[i, k]
        part[i, k] = flat[k]
        out[i, k] = 0
    cuda.syncthreads()
    k = i + 1 if not last else 0
    other = part[k, 0] if last else part_row[0]
    nearest = a[min(i + 1, n - 1), 0]
    if not last and column.size > 99:
        out[i, 0] = row[0] + above[0] + column[0] + own[k] + weights[k + 3]
    if i + 1 < n:
        cuda.atomic.add(out, (i, 1), row[1])
        cuda.atomic.max(out[i], 2, turned[n - 1 - i, 2 - 2])
    else:
        cuda.atomic.add(out, (i, 1), own[2] * weights[2])
    out[i, 0] = other + nearest


@cuda.jit
def left_to_the_next_block(a, out):
    i = cuda.blockIdx.x
    formed = a[i + 1]
    for k in range(3):
        out[i, k] = a[i, k] if formed.size == 3 else 0


def report():
    """Print what the kernels give, or the text of their errors, as JSON."""
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    found = [
        _call(formed_and_not_used, x).tolist(),
        _call(left_to_the_next_block, x, threads_per_block=1).tolist(),
    ]
    for kernel in (rows_below, rows_below_unguarded, columns):
        try:
            found.append(_call(kernel, x).tolist())
        except jax.errors.JaxRuntimeError as e:
            found.append(str(e))
    print(json.dumps(found))


@pytest.mark.exhaustive
def test_wrong_indices_are_reported_where_their_views_are_read(run_python, tmp_path):
    printed = run_python(
        "import test_check_views; test_check_views.report()",
        KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so",
        KERNBRIDGE_CACHE_DIR=str(tmp_path / "cache"),
    )
    unused, by_blocks, formed, unguarded, column = json.loads(printed.splitlines()[-1])
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(by_blocks, x)
    expected = np.zeros((4, 3), np.float32)
    below = np.minimum(np.arange(4) + 1, 3)
    expected[:, 0] = x[(np.arange(4) + 1) % 4, 0] + x[below, 0]
    expected[:, 1] = [*x[1:, 1], x[3, 2] * 3]
    expected[:3, 2] = x[:3, 2]
    np.testing.assert_array_equal(unused, expected)
    x[:-1] += x[1:].copy()
    np.testing.assert_array_equal(formed, x)
    words = "reads 'a' (f32[2d]) out of bounds: index 4 of axis 0, whose extent is 4"
    assert words in unguarded
    assert "launch of rows_below_unguarded, grid (" in unguarded
    assert "test_check_views.py:" in unguarded
    assert not re.search(r"_ZN|cuLaunchKernelEx|9001", unguarded)
    assert "index 3 of axis 1, whose extent is 3" in column
