"""Enzyme's derivatives of kernels from packages, against central differences in double precision.

`packages.txt` lists the packages.
"""

import importlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from kernbridge import numba_kernel
from needs_enzyme import needs_enzyme

pytestmark = [pytest.mark.once, pytest.mark.exhaustive, needs_enzyme]
BOUNDS = {"float32": 2e-4, "float64": 1e-9}  # of the largest element, relative to 1 + its size
WEIGHTS = (3 / 4, -3 / 20, 1 / 60)  # of central differences of order 6


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


class Case(NamedTuple):
    """A kernel of a package: how it is called, the shapes of its outputs, and its arguments."""

    adapter: object  # (the package's function) -> a kernel
    outs: tuple
    arguments: tuple
    zeroed: bool = False
    step: float = 1e-3
    single: bool = False  # whether it computes in single precision in any case


def of_pair(f):
    @numba.njit
    def kernel(u, v, out):
        out[0] = f(u, v)

    return kernel


def of_elements(f):
    """A function that returns an array, of one array and three numbers."""

    @numba.njit
    def kernel(x, a, b, c, out):
        out[:] = f(x, a[0], b[0], c[0])

    return kernel


def of_two_parameters(f):
    @numba.njit
    def kernel(x, a, b, out):
        out[:] = f(x, a[0], b[0])

    return kernel


def of_four_parameters(f):
    @numba.njit
    def kernel(x, a, b, c, d, out):
        out[:] = f(x, a[0], b[0], c[0], d[0])

    return kernel


def in_the_last(f):
    """A function that writes to its second array, and overwrites its first."""

    @numba.njit
    def kernel(x, out):
        f(x.copy(), out)

    return kernel


def of_curve(f):
    @numba.njit
    def kernel(y, people, income):
        people[:], income[:] = f(y)

    return kernel


def of_array(f):
    @numba.njit
    def kernel(y, out):
        out[0] = f(y)

    return kernel


def of_tauchen(f):
    @numba.njit
    def kernel(x, rho, sigma, out):
        f(x, out, x.size, rho[0], sigma[0], 0.5 * (x[1] - x[0]))

    return kernel


def of_simulation(f):
    @numba.njit
    def kernel(a, x0, v, out):
        out[:] = f(a, x0, v, v.shape[1] + 1)

    return kernel


def of_root(f):
    @numba.njit
    def value(x, a, b):
        return x * x * x + a * x - b

    @numba.njit
    def slope(x, a, b):
        return 3 * x * x + a

    @numba.njit
    def kernel(a, b, out):
        for i in range(a.size):
            out[i] = f(value, 1.0, slope, (a[i], b[i]))[0]

    return kernel


def of_program(f):
    @numba.njit
    def kernel(c, a, b, out):
        out[:] = f(c, a, b).x

    return kernel


def of_pivot(f):
    @numba.njit
    def kernel(tableau, out):
        out[:] = tableau
        f(out, 0, 1)
        f(out, 1, 1)

    return kernel


def of_resampling(f):
    @numba.njit
    def kernel(x, times, window, out):
        difference = np.zeros_like(window)
        difference[:-1] = window[1:] - window[:-1]
        f(x, times, window, difference, 1.0, 4, out)

    return kernel


def of_spline(f):
    @numba.njit
    def kernel(coefficients, points, out):
        low, high, orders = np.zeros(2), np.ones(2), np.array([4, 5])
        for i in range(points.shape[0]):
            out[i] = f(low, high, orders, coefficients, points[i])

    return kernel


def of_filter(f):
    @numba.njit
    def kernel(data, out):
        out[:] = f(np.full(2, 3.0), data)

    return kernel


def of_hermite(f):
    @numba.njit
    def kernel(at, x, y, slopes, out):
        for i in range(at.size):
            out[i] = f(at[i], x, y, slopes)

    return kernel


def of_sparse(f):
    """A function of two sparse vectors, each as indices and values."""

    @numba.njit
    def kernel(u, v, out):
        at = np.arange(u.size + 1).astype(np.int32)
        out[0] = f(at[:-1], u.astype(np.float32), at[1:], v.astype(np.float32))

    return kernel


rng = np.random.default_rng(5)
u, v = (rng.permutation(np.linspace(low, low + 0.78, 6)) for low in (0.13, 0.18))
x = rng.normal(size=5)
SCALAR = ((1,),)
PAIR = Case(of_pair, SCALAR, (u, v))


def elementwise(*parameters, of=of_elements, x=x):
    return Case(of, (x.shape,), (x, *np.reshape(parameters, (-1, 1))))


CASES = {
    **{
        f"fastdist.fastdist:{name}": PAIR
        for name in ("braycurtis", "canberra", "chebyshev", "correlation", "cosine", "euclidean")
    },
    "fastdist.fastdist:jensenshannon": PAIR,
    "fastdist.fastdist:mean_squared_log_error": PAIR,
    **{
        f"pynndescent.distances:{name}": PAIR
        for name in (
            "standardised_euclidean",
            "tsss",
            "correlation",
            "jensen_shannon_divergence",
            "wasserstein_1d",
            "circular_kantorovich",
            "symmetric_kl_divergence",
        )
    },
    "pynndescent.distances:haversine": PAIR._replace(arguments=(u[:2], v[:2])),
    "pynndescent.distances:hellinger": PAIR._replace(step=0.02, single=True),
    "pynndescent.sparse:sparse_cosine": PAIR._replace(adapter=of_sparse, step=0.02, single=True),
    "numba_stats.norm:_pdf": elementwise(0.3, 1.7, of=of_two_parameters),
    "numba_stats.norm:_cdf": elementwise(0.3, 1.7, of=of_two_parameters),
    "numba_stats.expon:_ppf": elementwise(0.3, 1.7, of=of_two_parameters, x=u),
    "numba_stats.truncnorm:_logpdf": elementwise(-3.0, 3.0, 0.3, 1.7, of=of_four_parameters),
    "numba_stats.truncexpon:_cdf": elementwise(0.0, 2.0, 0.1, 1.7, of=of_four_parameters, x=u),
    "numba_stats.crystalball:_pdf": elementwise(0.7, 2.5, 0.3, 1.7, of=of_four_parameters),
    "numba_stats.tsallis:_pdf": elementwise(1.2, 0.5, 7.0, x=u),
    "numba_stats.novosibirsk:_pdf": elementwise(0.4, 0.3, 1.7, x=u),
    "quantecon.markov.gth_solve:_gth_solve_jit": Case(
        in_the_last, ((4,),), (rng.uniform(0.1, 1, (4, 4)),), zeroed=True
    ),
    "quantecon._inequality:lorenz_curve": Case(of_curve, ((7,), (7,)), (u,)),
    "quantecon._inequality:gini_coefficient": Case(of_array, SCALAR, (u,)),
    "quantecon.markov.approximation:_fill_tauchen": Case(
        of_tauchen, ((5, 5),), (np.linspace(-2, 2, 5), np.array([0.6]), np.array([0.7]))
    ),
    "quantecon._lss:simulate_linear_model": Case(
        of_simulation,
        ((3, 6),),
        (rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=(3, 5))),
    ),
    "quantecon.optimize.root_finding:newton": Case(of_root, ((6,),), (u, v)),
    "quantecon.optimize.linprog_simplex:linprog_simplex": Case(
        of_program,
        ((2,),),
        (np.array([4.0, 3.0]), np.array([[1.0, 1], [2, 1]]), np.array([10.0, 16])),
    ),
    "quantecon.optimize.pivoting:_pivoting": Case(
        of_pivot, ((3, 4),), (rng.uniform(0.5, 1, (3, 4)) + np.eye(3, 4),)
    ),
    "resampy.interpn:_resample_loop_s": Case(
        of_resampling,
        ((4,),),
        (rng.normal(size=9), np.array([1.3, 2.8, 4.1, 6.6]), rng.normal(size=13)),
        zeroed=True,
    ),
    "interpolation.splines.eval_cubic_numba:eval_cubic_spline_2": Case(
        of_spline, ((4,),), (rng.normal(size=(6, 7)), rng.uniform(0.1, 0.9, (4, 2)))
    ),
    "interpolation.splines.filter_cubic:filter_coeffs_2d": Case(
        of_filter, ((6, 7),), (rng.normal(size=(4, 5)),)
    ),
    "interpolation.splines.hermite:HermiteInterpolation": Case(
        of_hermite,
        ((4,),),
        (np.array([0.3, 1.1, 2.6, 3.2]), np.arange(5.0), *rng.normal(size=(2, 5))),
    ),
}


def found(place):
    module, name = place.split(":")
    pytest.importorskip(module.partition(".")[0])
    return getattr(importlib.import_module(module), name)


def differences(kernel, case, weights):
    """The gradient of the weighted sum of the outputs, by calls of the kernel itself."""
    given = [a.astype(np.float64) for a in case.arguments]

    def total():
        outs = [(np.zeros if case.zeroed else np.empty)(shape) for shape in case.outs]
        kernel(*given, *outs)
        return sum((w * out).sum() for w, out in zip(weights, outs, strict=True))

    result = [np.empty(a.shape) for a in given]
    for a, slopes in zip(given, result, strict=True):
        for at in np.ndindex(a.shape):
            middle, slope = a[at], 0.0
            for k, weight in enumerate(WEIGHTS, 1):
                for sign in (1, -1):
                    a[at] = middle + sign * k * case.step
                    slope += sign * weight * total()
            a[at] = middle
            slopes[at] = slope / case.step
    return result


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("place", CASES)
def test_the_derivatives_of_a_kernel(place, dtype):
    case = CASES[place]
    if place.endswith("jensenshannon") and dtype == "float32":
        pytest.skip("Numba does not compile it for float32")
    kernel = case.adapter(found(place))
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=shape) for shape in case.outs]
    expected = differences(kernel, case, weights)
    op = numba_kernel(
        kernel,
        lambda first, *_: tuple(jax.ShapeDtypeStruct(s, first.dtype) for s in case.outs),
        derivatives="enzyme",
        zero_outputs=case.zeroed,
    )

    def loss(*given):
        return sum((w * out).sum() for w, out in zip(weights, op(*given), strict=True))

    given = [jnp.asarray(a, dtype) for a in case.arguments]
    gradient = jax.grad(loss, tuple(range(len(given))))(*given)
    bound = BOUNDS["float32" if case.single else dtype]
    largest = 1 + max(np.abs(e).max() for e in expected)
    for ours, theirs in zip(gradient, expected, strict=True):
        assert np.abs(ours - theirs).max() <= bound * largest, (ours, theirs)
    directions = [rng.normal(size=a.shape) for a in given]
    along = jax.jvp(loss, given, [jnp.asarray(d, dtype) for d in directions])[1]
    slope = sum((d * e).sum() for d, e in zip(directions, expected, strict=True))
    assert abs(along - slope) <= bound * largest * 10
