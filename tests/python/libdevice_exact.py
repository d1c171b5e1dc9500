"""What the exact functions of libdevice give: integers, conversions, and arithmetic that has a
rounding direction, by Python's integers and fractions.

A reference takes the arrays of the arguments and gives a list of results, each of them iterable.
"""

import math
import operator
from fractions import Fraction

import numpy as np

FLOATS = {"d": np.float64, "f": np.float32}


def precision(float_type):
    info = np.finfo(float_type)
    return info.nmant + 1, int(info.minexp) - info.nmant, float(info.max)


def directed(exact, float_type, direction):
    """The neighbour of a fraction among the numbers of a type."""
    if not isinstance(exact, Fraction):
        return exact
    bits, least, largest = precision(float_type)
    size = abs(exact)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - bits - 1, least)
    while size / Fraction(2) ** exponent >= 1 << bits:
        exponent += 1
    scaled = exact / Fraction(2) ** exponent
    rounded = {"rd": math.floor, "ru": math.ceil, "rz": math.trunc, "rn": round}[direction](scaled)
    value = rounded * Fraction(2) ** exponent
    if abs(value) <= Fraction(largest):
        return math.copysign(float(value), -1 if exact < 0 else 1)
    beyond = {"rn": True, "rz": False, "ru": exact > 0, "rd": exact < 0}[direction]
    size = math.inf if beyond else largest
    return size if exact > 0 else -size


def root(x):
    """With a hundred bits more than any type has, and one that tells whether others are left."""
    n = x * 4**1200
    whole = n.numerator // n.denominator
    floor = math.isqrt(whole)
    return Fraction(2 * floor + (floor * floor != n), 2 * 2**1200)


def arithmetic(operation, float_type, direction):
    """Of finite arguments whose result is not 0 / 0 and the like; NaN where NumPy has that."""

    def one(*row):
        if all(map(math.isfinite, row)):
            try:
                exact = operation(*(Fraction(float(x)) for x in row))
            except (ZeroDivisionError, ValueError):
                exact = None
            if exact is not None and exact != 0:
                return directed(exact, float_type, direction)
        if direction == "rd" and operation in (operator.add, operator.sub, fused):
            return -plain(operation, -row[0], *row[1:-1], -row[-1])  # 1 - 1 is -0
        return plain(operation, *row)

    return lambda *arrays: [[one(*row) for row in zip(*arrays, strict=True)]]


def plain(operation, *row):
    with np.errstate(all="ignore"):
        if operation is root:
            return np.sqrt(row[0])
        return operation(*map(np.float64, row))


def inverse_root(x):
    return 1 / (root(x) if isinstance(x, Fraction) else np.sqrt(x))


def reciprocal(x):
    return 1 / x


def fused(x, y, z):
    return x * y + z


def from_integer(float_type, direction, bits):
    """Of integers that have no sign but bits, unless these are 0."""

    def one(x):
        return directed(Fraction(int(x) % 2**bits if bits else int(x)), float_type, direction)

    return lambda x: [[one(v) for v in x]]


def to_integer(kind, bits, direction):
    """Saturated; what PTX says of NaN."""
    low, high = (0, 2**bits - 1) if kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    whole = {"rd": math.floor, "ru": math.ceil, "rz": math.trunc, "rn": round, "away": away}

    def one(x):
        if math.isnan(x):
            return 0 if bits == 32 and x.dtype == np.float32 else 2 ** (bits - 1)
        if math.isinf(x):
            return high if x > 0 else low
        return min(max(whole[direction](float(x)), low), high)

    return lambda x: [[one(v) for v in x]]


def away(x):
    return math.floor(Fraction(x) + Fraction(1, 2)) if x > 0 else -away(-x) if x else 0


def integers(function, unsigned=False, bits=32):
    """Of numbers without sign, or with one."""

    def of(*arrays):
        lists = [[int(v) % 2**bits if unsigned else int(v) for v in a] for a in arrays]
        return [[function(*row) for row in zip(*lists, strict=True)]]

    return of


def byte_perm(x, y, z):
    source = x.to_bytes(4, "little") + y.to_bytes(4, "little")
    return int.from_bytes(bytes(source[z >> 4 * i & 7] for i in range(4)), "little")


def low_24(x):
    return (x + 2**23) % 2**24 - 2**23


def reversed_bits(bits):
    return lambda x: int(format(x, f"0{bits}b")[::-1], 2)


def first_bit(x):
    return (x & -x).bit_length()


INTEGERS = {
    "abs": integers(abs),
    "llabs": integers(abs),
    "brev": integers(reversed_bits(32), True),
    "brevll": integers(reversed_bits(64), True, 64),
    "byte_perm": integers(byte_perm, True),
    "clz": integers(lambda x: 32 - x.bit_length(), True),
    "clzll": integers(lambda x: 64 - x.bit_length(), True, 64),
    "ffs": integers(first_bit, True),
    "ffsll": integers(first_bit, True, 64),
    "popc": integers(int.bit_count, True),
    "popcll": integers(int.bit_count, True, 64),
    "hadd": integers(lambda x, y: (x + y) >> 1),
    "uhadd": integers(lambda x, y: (x + y) >> 1, True),
    "rhadd": integers(lambda x, y: (x + y + 1) >> 1),
    "urhadd": integers(lambda x, y: (x + y + 1) >> 1, True),
    "max": integers(max),
    "min": integers(min),
    "umax": integers(max, True),
    "umin": integers(min, True),
    "llmax": integers(max),
    "llmin": integers(min),
    "ullmax": integers(max, True, 64),
    "ullmin": integers(min, True, 64),
    "mul24": integers(lambda x, y: low_24(x) * low_24(y)),
    "umul24": integers(lambda x, y: (x % 2**24) * (y % 2**24), True),
    "mulhi": integers(lambda x, y: x * y >> 32),
    "umulhi": integers(lambda x, y: x * y >> 32, True),
    "mul64hi": integers(lambda x, y: x * y >> 64),
    "umul64hi": integers(lambda x, y: x * y >> 64, True, 64),
    "sad": integers(lambda x, y, z: abs(x - y) + z),
    "usad": integers(lambda x, y, z: abs(x - y) + z, True),
}

OPERATIONS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "rcp": reciprocal,
    "sqrt": root,
}


def rounded():
    """Functions that have a rounding direction in their names."""
    found = {}
    for d in ("rn", "rz", "ru", "rd"):
        for t, float_type in FLOATS.items():
            for name, operation in OPERATIONS.items():
                found[f"{t}{name}_{d}"] = arithmetic(operation, float_type, d)
            found[f"fma{'' if t == 'd' else 'f'}_{d}"] = arithmetic(fused, float_type, d)
            of = "double" if t == "d" else "float"
            for u in ("", "u"):
                found[f"{of}2{u}int_{d}"] = to_integer(u, 32, d)
                found[f"{of}2{u}ll_{d}"] = to_integer(u, 64, d)
                found[f"{u}int2{of}_{d}"] = from_integer(float_type, d, 32 if u else 0)
                found[f"{u}ll2{of}_{d}"] = from_integer(float_type, d, 64 if u else 0)
        found[f"double2float_{d}"] = arithmetic(operator.pos, np.float32, d)
    found["frsqrt_rn"] = arithmetic(inverse_root, np.float32, "rn")
    return found


ROUNDED = rounded()
