"""Functions of packages as operations, each wrapped in one line and compared with the package.

`tests/python/enzyme/packages.txt` lists the packages.
"""

import importlib

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
}
STATIC = {"quantecon._lss:simulate_linear_model": {"ts_length": 6}}
OUTS = {"numba_stats.tsallis:_pdf": lambda x, m, t, n: x}


@pytest.mark.parametrize("place", CASES)
def test_a_function(x64, place):
    module, name = place.split(":")
    pytest.importorskip(module.partition(".")[0])
    f = getattr(importlib.import_module(module), name)
    op = kernbridge.kernel(OUTS.get(place), static=STATIC.get(place))(f)
    given = [a for a in CASES[place] if place not in STATIC or np.ndim(a)]
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
