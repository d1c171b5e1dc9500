"""Libraries as they are: GSL and FFTW, which are built, and Eigen, which is in headers."""

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("x64")]
Error = (jax.errors.JaxRuntimeError, ValueError)
ROOT = Path(__file__).parents[3]
HEADERS = ("gsl/gsl_sf_bessel.h", "fftw3.h", "eigen3/Eigen/Core")

GSL = r"""
#include <gsl/gsl_cblas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_fit.h>
#include <gsl/gsl_poly.h>
#include <gsl/gsl_sf_bessel.h>
#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>

// @BE gsl_stats_variance data: f64[n], 1, n -> f64
// @BE gsl_sf_bessel_J0 x: f64 -> f64
// @BE gsl_fit_mul x: f64[n], 1, y: f64[n], 1, n -> c1: f64[], cov11: f64[], sumsq: f64[]
// @BE gsl_sort data: f64[n], 1, n -> data
// @BE gsl_poly_solve_quadratic a: f64, b: f64, c: f64 -> x0: f64[], x1: f64[], return: i32
// @BE cblas_dgemm 101, 111, 111, m, n, k, f64, f64[m, k], k, f64[k, n], n, \
    f64, C: f64[m, n], n -> C
// @BE gsl_sf_bessel_y0_checked x: f64 -> y: f64[]
int gsl_sf_bessel_y0_checked(double x, double *y)
{
    gsl_sf_result result;
    int code = gsl_sf_bessel_Y0_e(x, &result);
    *y = result.val;
    return code;
}

__attribute__((constructor)) static void return_codes(void) { gsl_set_error_handler_off(); }
"""
FFTW = r"""
#include <fftw3.h>
// @BE fft x: c128[n], n, sign=-1 -> y: c128[n]
// @BE ifft x: c128[n], n, sign=1 -> y: c128[n]
int fft(fftw_complex *x, int n, int sign, fftw_complex *y)
{
    fftw_plan plan = fftw_plan_dft_1d(n, x, y, sign, FFTW_ESTIMATE);
    if (!plan)
        return 1;
    fftw_execute(plan);
    fftw_destroy_plan(plan);
    return 0;
}
int ifft(fftw_complex *x, int n, int sign, fftw_complex *y) { return fft(x, n, sign, y); }
"""
EIGEN = r"""
#include <Eigen/Cholesky>
using namespace Eigen;

// @BE solve a: f64[n, n], b: f64[n], n -> x: f64[n]
const char *solve(const double *a, const double *b, Index n, double *x)
{
    LLT<MatrixXd> factor(Map<const MatrixXd>(a, n, n));
    if (factor.info() != Success)
        return "the matrix is not positive definite";
    Map<VectorXd>(x, n) = factor.solve(Map<const VectorXd>(b, n));
    return nullptr;
}
"""


@pytest.fixture(scope="module")
def found():
    """The folders of headers and of libraries: the system's, or what Debian's packages have."""
    for root in (Path("/"), ROOT / "build/libraries"):
        if root != Path("/"):
            script = [str(ROOT / "tests/debian_libraries"), str(root)]
            done = subprocess.run(script, capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"GSL, FFTW and Eigen are not installed: {done.stderr[-300:]}")
        include = root / "usr/include"
        if all((include / header).is_file() for header in HEADERS):
            (gsl,) = root.glob("usr/lib/*/libgsl.so")
            return include, gsl.parent
    return pytest.skip("GSL, FFTW and Eigen are not installed")


def linked(found, *names):
    include, folder = found
    return {
        "extra_include_paths": [str(include)],
        "extra_ldflags": [f"-L{folder}", f"-Wl,-rpath,{folder}", *(f"-l{name}" for name in names)],
        "carry": True,
    }


@pytest.fixture(scope="module")
def gsl(found):
    options = linked(found, "gsl", "gslcblas")
    return kernbridge.load_c_inline("gsl", GSL, errors="gsl_strerror", **options)


@pytest.fixture(scope="module")
def fftw(found):
    return kernbridge.load_c_inline("fftw", FFTW, **linked(found, "fftw3"))


@pytest.fixture(scope="module")
def eigen(found):
    folder = found[0] / "eigen3"
    options = {"extra_include_paths": [str(folder)], "optimization_level": 0, "carry": True}
    return kernbridge.load_cpp_inline("eigen", EIGEN, **options)


@pytest.mark.exhaustive
def test_functions_of_gsl_need_no_wrapper(gsl):
    x = jnp.linspace(0.5, 4, 8)
    np.testing.assert_allclose(gsl.gsl_stats_variance(x), np.var(x, ddof=1))
    values = jax.jit(jax.vmap(gsl.gsl_sf_bessel_J0))(x)
    np.testing.assert_allclose(values, jax.scipy.special.bessel_jn(x, v=0)[0], rtol=1e-6)
    slope, _, rest = gsl.gsl_fit_mul(x, 3 * x)
    np.testing.assert_allclose(slope, 3)
    np.testing.assert_allclose(rest, 0, atol=1e-12)
    shuffled = jax.random.permutation(jax.random.key(0), x)
    np.testing.assert_array_equal(gsl.gsl_sort(shuffled), x)
    low, high, count = gsl.gsl_poly_solve_quadratic(1, -3, 2)
    assert (low, high, count) == (1, 2, 2)
    a, b = jnp.arange(6.0).reshape(2, 3), jnp.arange(12.0).reshape(3, 4)
    product = jax.vmap(gsl.cblas_dgemm, in_axes=(None, 0, None, None, None))
    many = product(2, jnp.stack([a, -a]), b, 0, jnp.zeros((2, 4)))
    np.testing.assert_allclose(many, 2 * jnp.stack([a @ b, -a @ b]))


def test_codes_of_gsl_have_their_texts(gsl):
    with pytest.raises(Error, match=r"input domain error \(the function returned 1\)"):
        jax.block_until_ready(gsl.gsl_sf_bessel_y0_checked(-1))


def test_a_transform_of_fftw_is_that_of_jax(fftw):
    x = jax.random.normal(jax.random.key(0), (3, 12), jnp.complex128)
    found = jax.jit(jax.vmap(fftw.fft))(x)
    np.testing.assert_allclose(found, jnp.fft.fft(x), rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(fftw.ifft)(found) / 12, x, rtol=1e-12)


@pytest.mark.exhaustive
def test_eigen_solves_many_systems_and_says_why_it_cannot(eigen):
    a = jax.random.normal(jax.random.key(0), (4, 5, 5))
    a = a @ a.transpose(0, 2, 1) + 5 * jnp.eye(5)
    b = jnp.ones((4, 5))
    solve = jax.vmap(eigen.solve.operation(sharding_rule=True, vmap_threads=True))
    np.testing.assert_allclose(solve(a, b), jnp.linalg.solve(a, b[..., None])[..., 0])
    with pytest.raises(Error, match="solve': the matrix is not positive definite"):
        jax.block_until_ready(eigen.solve(-a[0], b[0]))


@pytest.mark.exhaustive
def test_one_program_carries_all_of_them(gsl, fftw, eigen, tmp_path):
    def combined(x):
        spectrum = jnp.abs(fftw.fft(x + 0j))
        return eigen.solve(jnp.diag(spectrum + 1), gsl.gsl_sort(x))

    x = jnp.linspace(1.0, 0.0, 6)
    program = jax.export.export(jax.jit(combined))(jax.ShapeDtypeStruct(x.shape, x.dtype))
    (tmp_path / "program").write_bytes(program.serialize())
    script = """
import jax, jax.numpy as jnp, kernbridge
jax.config.update("jax_enable_x64", True)
program = jax.export.deserialize(open("program", "rb").read())
print(*program.call(jnp.linspace(1.0, 0.0, 6)).tolist())
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = np.sort(x) / (np.abs(np.fft.fft(x)) + 1)
    np.testing.assert_allclose(list(map(float, done.stdout.split())), expected, rtol=1e-12)
