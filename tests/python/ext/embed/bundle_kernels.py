"""Numba kernels for the tests of bundles."""


def decay(v, out):
    for i in range(v.size):
        if v[i] < 0:
            raise ValueError("negative rate", v[i])
        out[i] = 0.5 * v[i]


def mix(x, n, y, total):
    total[0] = 0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] * n[i]
            total[0] += x[i, j]
