"""What the other functions of libdevice give: by NumPy's long doubles, by decimals of sixty digits,
and by SciPy.

A reference takes the arrays of the arguments and gives a list of results, each of them iterable.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import scipy.special
from libdevice_exact import ROUNDED, away, to_integer

L = np.longdouble
PI = L(4) * np.arctan(L(1))


def decimals(function):
    """Of each element, with sixty digits; what it raises or cannot be is NaN."""

    def of(*arrays):
        with localcontext() as context:
            context.prec = 60
            return np.array([one(*row) for row in zip(*arrays, strict=True)], L)

    def one(*row):
        if not all(map(math.isfinite, row)):
            return function(*map(float, row))
        return L(str(function(*(Decimal(float(x)) for x in row))))

    return of


def pi():
    """By Machin's formula."""

    def arctan(inverse):
        total, power, k = Decimal(0), Decimal(1) / inverse, 1
        while abs(power) > Decimal(10) ** -62:
            total += power / k * (1 if k % 4 == 1 else -1)
            power /= inverse * inverse
            k += 2
        return total

    return 4 * (4 * arctan(Decimal(5)) - arctan(Decimal(239)))


def erf_series(x):
    term, total, k = x, x, 0
    while abs(term) > abs(total) * Decimal(10) ** -60:
        k += 1
        term *= -x * x / k
        total += term / (2 * k + 1)
    return 2 / pi().sqrt() * total


def erfcx_fraction(x):
    below = x
    for k in range(400, 0, -1):
        below = x + Decimal(k) / 2 / below
    return 1 / (pi().sqrt() * below)


def erfc(x):
    if isinstance(x, float):
        return math.erfc(x)
    if x < 3:
        return 1 - erf_series(x) if x > -3 else 2 - erfc(-x)
    return erfcx_fraction(x) * (-x * x).exp()


def erfcx(x):
    if isinstance(x, float):
        return x if math.isnan(x) else 0.0 if x > 0 else math.inf
    return erfcx_fraction(x) if x > 3 else erfc(x) * (x * x).exp()


def erf(x):
    if isinstance(x, float):
        return math.erf(x)
    return erf_series(x) if abs(x) < 3 else 1 - erfc(x)


def normcdf(x):
    return erfc(-x / Decimal(2).sqrt()) / 2 if isinstance(x, Decimal) else math.erfc(-x) / 2


def inverse(forward, slope, guess):
    """Of one element: what SciPy gives, and one step of Newton's with sixty digits."""

    def one(y):
        start = float(guess(float(y)))
        if not isinstance(y, Decimal) or not math.isfinite(start) or start == 0:
            return start
        x = Decimal(start)
        for _ in range(2):
            x -= (forward(x) - y) / slope(x)
        return x

    return lambda y: [decimals(one)(y)]


def bell(x):
    return 2 / pi().sqrt() * (-x * x).exp()


def half_turns(function, odd):
    """sin or cos of pi times x."""

    def of(x):
        out = []
        for value in map(float, x):
            if not math.isfinite(value):
                out.append(L(math.nan))
                continue
            r = Fraction(value) % 2
            zero = r % 1 == (0 if odd else Fraction(1, 2))
            r = r - 2 if r > 1 else r
            r = Fraction(value) if abs(value) <= 1 else r
            exact = L(r.numerator) / L(r.denominator) if abs(value) > 1e-300 else L(value)
            out.append(
                L(math.copysign(0, value) if odd else 0) if zero else turned(function, exact)
            )
        return [np.array(out)]

    return of


def turned(function, r):
    """Near zeros of the function, of the distance to them."""
    if function is np.sin:
        r = r if abs(r) <= 0.5 else np.copysign(1, r) - r
        return np.sin(PI * r)
    return np.sin(PI * (L(0.5) - abs(r)))


def frexp(x):
    mantissas, exponents = np.frexp(x)
    return [mantissas, np.where(np.isfinite(x), exponents, 0)]


def quotient(x, y):
    """Its last three bits, with its sign."""
    n = round(Fraction(x) / Fraction(y))
    return abs(n) % 8 * (1 if n > 0 else -1)


def remquo(x, y):
    results, quotients = [], []
    for a, b in zip(map(float, x), map(float, y), strict=True):
        exact = math.isfinite(a) and math.isfinite(b) and b != 0
        whole = a if math.isfinite(a) and math.isinf(b) else math.nan
        results.append(math.remainder(a, b) if exact else whole)
        quotients.append(quotient(a, b) if exact else 0)
    return [results, quotients]


def ilogb(x):
    least, most = -(2**31), 2**31 - 1
    ordinary = np.isfinite(x) & (x != 0)
    others = np.where(np.isinf(x), most, least)
    return [np.where(ordinary, np.frexp(x)[1].astype(np.int64) - 1, others)]


def logb(x):
    ordinary = np.isfinite(x) & (x != 0)
    return [np.where(ordinary, np.frexp(x)[1] - 1.0, np.where(x == 0, -np.inf, abs(x)))]


def smaller(x, y):
    return [np.where(x == y, np.where(np.signbit(x), x, y), np.fmin(x, y))]


def larger(x, y):
    return [np.where(x == y, np.where(np.signbit(x), y, x), np.fmax(x, y))]


def each(function):
    """Of a function of Python's, which raises what is NaN or infinite."""

    def of(x):
        out = []
        for value in map(float, x):
            try:
                out.append(function(value))
            except ValueError:
                out.append(math.copysign(math.inf, value) if value == 0 else math.nan)
            except OverflowError:
                out.append(math.copysign(math.inf, value))
        return [out]

    return of


def log_gamma(x):
    return math.inf if (x <= 0 and x % 1 == 0) or x == -math.inf else math.lgamma(x)


def nearest(x):
    return math.copysign(away(x), x) if math.isfinite(x) else x


def wide(function):
    """By long doubles."""

    def of(*rows):
        with np.errstate(all="ignore"):
            result = function(*(x.astype(L) if x.dtype.kind == "f" else x for x in rows))
        return list(result) if isinstance(result, tuple) else [result]

    return of


def bessel(function):
    """SciPy's has no values at infinity."""

    def of(*rows):
        *orders, x = rows
        values = function(*orders, x.astype(np.float64))
        negative = (orders[0] < 0) if orders else False
        at_infinity = np.isinf(x) & ~np.isnan(function(*orders, np.sign(x) * 1.0))
        values = np.where(at_infinity, 0.0, values)
        return [np.where(negative, np.nan, values)]

    return of


def sixty(function):
    return lambda x: [decimals(function)(x)]


def fdim(x, y):
    return np.where(x <= y, L(0), x - y)


def ldexp(x, n):
    return np.ldexp(x, np.clip(n, -5000, 5000))


ndtri_slope = {"slope": lambda x: bell(x / Decimal(2).sqrt()) / Decimal(8).sqrt()}
IN_NUMPY = """
acos arccos 2 2, acosh arccosh 3 4, asin arcsin 2 4, asinh arcsinh 3 3, atan arctan 2 2,
atan2 arctan2 2 3, atanh arctanh 2 3, cbrt cbrt 1 1, ceil ceil 0 0, copysign copysign 0 0,
cos cos 2 2, cosh cosh 1 2, exp exp 1 2, exp2 exp2 1 2, expm1 expm1 1 1, fabs fabs 0 0,
floor floor 0 0, fmod fmod 0 0, hypot hypot 2 3, log log 1 1, log10 log10 1 2, log1p log1p 1 1,
log2 log2 1 1, nearbyint rint 0 0, rint rint 0 0, sin sin 2 2, sinh sinh 2 3, sqrt sqrt 0.5 0.5,
tan tan 2 4, tanh tanh 1 2, trunc trunc 0 0, pow power 2 4, powi power 2 4
"""

VALUES = {  # of doubles: reference, greatest error, greatest error of floats
    **{
        name: (wide(getattr(np, function)), float(d), float(f))
        for name, function, d, f in (row.split() for row in IN_NUMPY.split(","))
    },
    "erf": (sixty(erf), 2, 2),
    "erfc": (sixty(erfc), 5, 4),
    "erfcx": (sixty(erfcx), 4, 4),
    "normcdf": (sixty(normcdf), 5, 5),
    "erfinv": (inverse(erf, bell, scipy.special.erfinv), 5, 2),
    "erfcinv": (inverse(erfc, lambda x: -bell(x), scipy.special.erfcinv), 6, 4),
    "normcdfinv": (inverse(normcdf, guess=scipy.special.ndtri, **ndtri_slope), 8, 5),
    "sinpi": (half_turns(np.sin, True), 2, 2),
    "cospi": (half_turns(np.cos, False), 2, 2),
    "sincospi": (lambda x: half_turns(np.sin, True)(x) + half_turns(np.cos, False)(x), 2, 2),
    "sincos": (wide(lambda x: (np.sin(x), np.cos(x))), 2, 2),
    "exp10": (wide(lambda x: np.power(L(10), x)), 1, 2),
    "fdim": (wide(fdim), 0.5, 0.5),
    "fma": (ROUNDED["fma_rn"], 0, 0),
    "fmaf": (ROUNDED["fmaf_rn"], 0, 0),
    "fmax": (larger, 0, 0),
    "fmin": (smaller, 0, 0),
    "frexp": (frexp, 0, 0),
    "modf": (lambda x: list(np.modf(x)), 0, 0),
    "remquo": (remquo, 0, 0),
    "remainder": (lambda x, y: remquo(x, y)[:1], 0, 0),
    "ilogb": (ilogb, 0, 0),
    "logb": (logb, 0, 0),
    "ldexp": (wide(ldexp), 0.5, 0.5),
    "scalbn": (wide(ldexp), 0.5, 0.5),
    "llrint": (to_integer("", 64, "rn"), 0, 0),
    "llround": (to_integer("", 64, "away"), 0, 0),
    "nextafter": (lambda x, y: [np.nextafter(x, y)], 0, 0),
    "rcbrt": (wide(lambda x: 1 / np.cbrt(x)), 1, 1),
    "rsqrt": (wide(lambda x: 1 / np.sqrt(x)), 1, 2),
    "round": (each(nearest), 0, 0),
    "isnand": (lambda x: [np.isnan(x)], 0, 0),
    "isinfd": (lambda x: [np.isinf(x)], 0, 0),
    "isfinited": (lambda x: [np.isfinite(x)], 0, 0),
    "signbitd": (lambda x: [np.signbit(x)], 0, 0),
    # SciPy and Python are not that exact themselves: what is allowed besides, near zeros of the
    # function absolutely, is the fourth number.
    "j0": (bessel(scipy.special.j0), 7, 2, 4e-15),
    "j1": (bessel(scipy.special.j1), 7, 2, 4e-15),
    "y0": (bessel(scipy.special.y0), 7, 2, 4e-15),
    "y1": (bessel(scipy.special.y1), 7, 2, 4e-15),
    "jn": (bessel(scipy.special.jv), 7, 2, 4e-14),
    "yn": (bessel(scipy.special.yn), 7, 2, 4e-14),
    "lgamma": (each(log_gamma), 4, 2, 4e-15),
    "tgamma": (each(math.gamma), 10, 2, 1e-14),
}
