"""Functions that return values, in a module that another process can import."""

import math
from importlib.util import find_spec

import kernbridge
import numba
import numpy as np

# None: the extension is deleted, see tests/alone.
ENZYME = "enzyme" if find_spec("kernbridge._ext.enzyme") else None


@kernbridge.elementwise(derivatives=ENZYME)
@numba.njit
def damped(x, k, w):
    """A damped oscillation."""
    return math.exp(-k * x) * math.cos(w * x)


@kernbridge.elementwise
@numba.vectorize
def mixed(x, y):
    return x * x + y


@kernbridge.elementwise
def polar(x, y=1.0):
    return math.hypot(x, y), math.atan2(y, x)


@numba.guvectorize(["(f4[:], f4[:], f4[:])", "(f8[:], f8[:], f8[:])"], "(n),(m)->(n)")
def filtered(x, w, out):
    for i in range(x.size):
        out[i] = 0
        for j in range(w.size):
            if i >= j:
                out[i] += w[j] * x[i - j]


@numba.guvectorize(["(f8[:], f8, f8[:])"], "(n),()->()", nopython=True)
def quantile(x, q, out):
    out[0] = np.sort(x)[int(q * (x.size - 1))]


@kernbridge.kernel
@numba.njit
def summary(x, scale):
    return np.sort(x) * scale, x.mean(), x.size


@kernbridge.kernel()
@numba.njit
def positive(x):
    return x[x >= 0]
