"""Functions of packages as operations, each wrapped in one line and compared with the package.

`tests/python/ext/enzyme/packages.txt` lists the packages.
"""

import importlib
import importlib.util
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

pytestmark = [pytest.mark.once, pytest.mark.exhaustive]
rng = np.random.default_rng(5)
u, v = rng.uniform(0.1, 0.9, (2, 8))
x = rng.normal(size=9)
first, second = rng.integers(0, 2, (2, 8)).astype(bool)
stochastic = rng.dirichlet(np.ones(4), 4)
images = rng.uniform(0.1, 0.9, (3, 6, 7))
starts = np.array([0, 2, 5], np.uint32)  # of ragged rows
CASES = {
    **{
        f"fastdist.fastdist:{name}": (u, v)
        for name in (
            *("braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine"),
            *("euclidean", "sqeuclidean", "jensenshannon", "max_error", "mean_absolute_error"),
            *("mean_squared_error", "mean_squared_log_error", "median_absolute_error", "r2_score"),
        )
    },
    **{
        f"fastdist.fastdist:{name}": (first, second)
        for name in ("dice", "hamming", "jaccard", "kulsinski", "rogerstanimoto")
    },
    "fastdist.fastdist:minkowski": (u, v, 3.0),
    "fastdist.fastdist:seuclidean": (u, v, u + v),
    "fastdist.fastdist:variance": (u,),
    **{
        f"pynndescent.distances:{name}": (u.astype("f4"), v.astype("f4"))
        for name in (
            *("euclidean", "manhattan", "chebyshev", "canberra", "bray_curtis", "correlation"),
            *("hellinger", "tsss", "jensen_shannon_divergence", "symmetric_kl_divergence"),
        )
    },
    "numba_stats.norm:_pdf": (x, 0.3, 1.7),
    "numba_stats.norm:_cdf": (x, 0.3, 1.7),
    "numba_stats.norm:_ppf": (u, 0.3, 1.7),
    "numba_stats.expon:_ppf": (u, 0.3, 1.7),
    "numba_stats.expon:_logpdf": (x, -3.0, 1.7),
    "numba_stats.truncnorm:_logpdf": (x, -3.0, 3.0, 0.3, 1.7),
    "numba_stats.truncexpon:_cdf": (u, 0.0, 2.0, 0.1, 1.7),
    "numba_stats.crystalball:_pdf": (x, 0.7, 2.5, 0.3, 1.7),
    "numba_stats.tsallis:_pdf": (u, 1.2, 0.5, 7.0),
    "quantecon._inequality:lorenz_curve": (u,),
    "quantecon._inequality:gini_coefficient": (u,),
    "quantecon._lss:simulate_linear_model": (stochastic, u[:4], rng.normal(size=(4, 5)), 6),
    "quantecon.util.array:searchsorted": (np.sort(u), 0.5),
    "quantecon.util.combinatorics:k_array_rank_jit": (np.array([1, 3, 4]),),
    "librosa.util.utils:_cabs2": (u + 1j * v,),
    "librosa.util.utils:_phasor_angles": (x,),
    "librosa.util.utils:_localmax": (x,),
    "librosa.util.utils:_localmin": (x,),
    "xrspatial.slope:_cpu": (images[0], 1.0, 2.0),
    "xrspatial.aspect:_run_numpy": (images[0],),
    "xrspatial.curvature:_cpu": (images[0], 2.0),
    "xrspatial.convolution:_convolve_2d_numpy": (images[0], images[1, :3, :3]),
    "xrspatial.multispectral:_evi_cpu": (*images, 6.0, 7.5, 1.0, 2.5),
    "xrspatial.multispectral:_savi_cpu": (*images[:2], 0.5),
    **{
        f"xrspatial.multispectral:_{name}_cpu": tuple(images[:n])
        for name, n in (("arvi", 3), ("gci", 2), ("normalized_ratio", 2), ("sipi", 3), ("ebbi", 3))
    },
    "datashader.datatypes:_lexograph_lt": (u, v),
    "datashader.datatypes:_eq_ragged_ragged": (starts, u, starts, v),
    "datashader.datatypes:_eq_ragged_ndarray2d": (starts, u, images[0, :3, :2]),
    # of tvb: the numbers of states, of couplings and of parameters
    **{
        f"tvb.simulator.models.{place}": (*(rng.uniform(0.1, 0.9, n) for n in arrays), *constants)
        for place, arrays, n_constants in (
            ("epileptor:_numba_dfun", (6, 2), 17),
            ("epileptor:_numba_dfun_epi2d", (2, 1), 12),
            ("epileptor_rs:_numba_dfun", (8, 3), 28),
            ("jansen_rit:_numba_dfun_jr", (6, 1), 14),
            ("oscillator:_numba_dfun_g2d", (2, 1), 13),
            ("oscillator:_numba_dfun_supHopf", (2, 2), 3),
            ("wilson_cowan:_numba_dfun", (2, 1, 2), 23),
            ("wong_wang:_numba_dfun", (1, 1), 8),
            ("wong_wang_exc_inh:_numba_dfun", (2, 1), 19),
            ("wong_wang_exc_inh:_numba_dfun_bei", (2, 1), 20),
        )
        for constants in [rng.uniform(0.2, 0.8, n_constants)]
    },
}
STATIC = {"quantecon._lss:simulate_linear_model": {"ts_length": 6}}
OUTS = {"numba_stats.tsallis:_pdf": lambda x, m, t, n: x}


def operation(place):
    """The function of a package, the operation of it, and its inputs."""
    module, name = place.split(":")
    f = getattr(importlib.import_module(module), name)
    given = [a for a in CASES[place] if place not in STATIC or np.ndim(a)]
    return f, kernbridge.kernel(OUTS.get(place), static=STATIC.get(place))(f), given


@pytest.mark.parametrize("place", CASES)
def test_a_function(x64, place):
    pytest.importorskip(place.partition(".")[0])
    f, op, given = operation(place)
    arrays = [jnp.asarray(a) for a in given]
    expected = jax.tree.map(np.asarray, f(*CASES[place]))

    def check(found, expected):
        def same(a, b):
            assert a.shape == b.shape
            assert a.dtype == b.dtype or not a.shape  # Python's float is a double
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-12)

        jax.tree.map(same, tuple(found) if isinstance(found, tuple) else found, expected)

    check(jax.jit(op)(*given), expected)
    _, scanned = jax.lax.scan(lambda c, _: (c, op(*c)), tuple(arrays), length=2)
    check(jax.tree.map(lambda a: a[1], scanned), expected)
    turned = [jnp.stack([a, a[::-1]]) if np.ndim(a) else a for a in arrays]
    batch = jax.vmap(op, [0 if np.ndim(a) else None for a in arrays])(*turned)
    again = [np.asarray(t[1]) if np.ndim(a) else a for t, a in zip(turned, given, strict=True)]
    rest = CASES[place][len(given) :]
    check(jax.tree.map(lambda a: a[0], batch), expected)
    check(jax.tree.map(lambda a: a[1], batch), jax.tree.map(np.asarray, f(*again, *rest)))


def run_all(package):
    """Compare every function of a package, and print their number."""
    n = 0
    for place in CASES:
        if not place.startswith(package):
            continue
        f, op, given = operation(place)
        expected = jax.tree.leaves(jax.tree.map(np.asarray, f(*CASES[place])))
        for a, b in zip(jax.tree.leaves(jax.jit(op)(*given)), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-12)
        n += 1
    print(n, "functions")


@pytest.mark.parametrize("package", sorted({place.split(".")[0] for place in CASES}))
def test_in_a_second_process(package):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    here = {**os.environ, "JAX_ENABLE_X64": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    program = f"import test_functions_of_packages as t; t.run_all({package!r})"
    for _ in range(2):  # the second one loads what the first one has compiled
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, env=here, timeout=900)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.endswith(" functions\n")
