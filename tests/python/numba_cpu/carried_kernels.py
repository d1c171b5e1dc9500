"""Kernels that are exported as machine code, and those that cannot be; not in a file whose
assertions pytest rewrites."""

import math

import numba
import numpy as np

TABLE = np.arange(5.0, dtype=np.float32)
LARGE = np.arange(300000.0)


def double(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]


def mathematics(x, out):
    for i in range(x.size):
        out[i] = np.exp(np.sin(x[i])) + x[i] ** 1.5 + math.erf(x[i]) + np.hypot(x[i], TABLE[i])


def matrix(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[j, i] = x[i, j]


def writes(x, out):
    x[0] = 7
    out[:] = x[0]


def adds(x, out):
    for i in range(x.size):
        out[i] += x[i]


def local_arrays(x, out):
    y = x * 2 + 1
    z = np.where(y > 3, y, 0.0)
    z.sort()
    for i in range(x.size):
        out[i] = z[i] + y.mean()


def array_expression(x, out):
    out[:] = x * 2 + 1


def reshapes(x, out):
    turned = np.repeat(x, 2).reshape(2, x.size).T
    for i, value in enumerate(np.cumsum(turned[:, 1])):
        out[i] = value + turned.ravel()[i]


@numba.njit
def square(v):
    return v * v


@numba.njit
def many_sums(f, x):
    found = 0.0
    for i in range(x.size):
        for j in range(x.size):
            found += f(x[i]) + math.sin(x[j]) + math.exp(-x[i]) * math.cos(found)
        for j in range(x.size):
            found -= f(x[j]) * math.sin(x[i]) + math.log(1 + abs(found)) * math.erf(x[j])
    return found


def passes_a_function(x, out):
    for i in range(x.size):
        out[i] = many_sums(square, x[i:]) - many_sums(square, x[:i])


def lists(x, out):
    rows = [[x[0]]]
    for i in range(100):
        rows.append([x[i % x.size]] * (i % 7))
    total = 0.0
    for row in rows:
        for value in row:
            total += value
    out[:] = np.float32(total)


def strings(x, out):
    text = "a€"
    for i in range(200):
        text += str(i)
    out[:] = np.float32(len(text) + len({1, 2, 3, x.size}))


@numba.njit
def root(v):
    if v < 0:
        raise ValueError("negative, €\n\0 and \udce9")  # fails
    return math.sqrt(v)


def of_a_callee(x, out):
    for i in range(x.size):
        out[i] = root(-x[i])


@numba.njit
def fill(x, out):
    out[:] = x[0]


def returns_a_call(x, out):
    return fill(x, out)


def bare(x, out):
    if x[0] == 0:
        raise StopIteration  # fails


def division(x, out):
    out[0] = 5 // np.int64(x[0])  # fails


def assertion(x, out):
    assert x[0] == 1, "not one"  # fails


def values(x, out):
    if x[0] == 0:
        raise ValueError("bad €", x[1] / 3, x.size, -x.size, np.uint64(2**63), x[1] > 5)  # fails


def text(x, out):
    if x[0] == 0:
        raise KeyError("it's " + str(x.size) + " €")  # fails


def shapes(x, out):
    out[:] = x[1:] * 2  # fails


def index(x, out):
    out[0] = x[int(x[1]) + 9]  # fails, in checked mode


class OwnError(Exception):
    def __init__(self, what, number):
        super().__init__(what, number)
        self.what, self.number = what, number

    def __str__(self):
        return f"{self.what} and {self.number}"


def own_error(x, out):
    if x[0] == 0:
        raise OwnError("own", 3)  # fails


@numba.njit(cache=True)
def of_numbas_cache(v):
    return v + 1


def calls_cached(x, out):
    out[0] = of_numbas_cache(x[0])


@numba.njit
def draws():
    return np.random.random()


def calls_random(x, out):
    out[0] = draws()


def axis(x, out):
    out[0] = x.reshape(1, x.size).sum(axis=int(x.size))[0]  # fails


def own_error_of_values(x, out):
    if x[0] == 0:
        raise OwnError("own", x.size)


def threads(x, out):
    for i in numba.prange(x.size):
        out[i] = x[i]


def random(x, out):
    out[0] = np.random.random()


def blas(x, out):
    out[0] = np.dot(x, x)


def large(x, out):
    out[0] = LARGE[int(x[0])]


def object_mode(x, out):
    with numba.objmode():
        pass
    out[0] = x[0]


def printing(x, out):
    print(x[0])
