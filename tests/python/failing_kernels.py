"""Kernels that fail in the line that says so: not in a file whose assertions pytest rewrites."""

import numpy as np


def shape_mismatch(x, out):
    out[:] = x + x[1:]  # fails


def reshape(x, out):
    out[:6] = x.reshape(3, 3)[0, 0]  # fails


def singular(x, out):
    out[0] = np.linalg.inv(np.zeros((2, 2), np.float32))[0, 0]  # fails


def empty(x, out):
    out[0] = x[8:].max()  # fails


def overflow(x, out):
    out[0] = np.zeros(int(x[1]) * 2**62, np.float64)[0]  # fails


def assertion(x, out):
    assert x[0] == 1  # fails


def key(x, out):
    table = {1: 2.0}
    out[0] = table[np.int64(x[7])]  # fails


def modulo(x, out):
    out[0] = 5 % np.int64(x[0])  # fails


def float_division(x, out):
    out[0] = 5.0 / x[0]  # fails


def choice(x, out):
    out[0] = np.random.choice(x[8:])  # fails


def raised(x, out):
    raise ValueError("my own")  # fails


def broadcast(x, out):
    out[:] = np.ones((2, 3)) @ np.ones((2, 3))[:, 0]  # fails


def unpacking(x, out):
    values = [1.0, 2.0, 3.0]
    a, b = values  # fails
    out[0] = a + b
