"""Numerical C++: vectors, systems of equations, images, half precision, sparse products."""

from __future__ import annotations

import numpy as np
import scipy.integrate
import scipy.ndimage
import scipy.sparse as sp
import scipy.special
from corpus import BF16, C128, F16, F32, F64, I8, I16, I32, I64, U16, call, case, integers, normal


def wrapped(dtype, alpha):
    def reference(x, y):
        return (I64(alpha) * x.astype(I64) + y.astype(I64)).astype(dtype)

    return reference


case(
    "axpy_simd",
    "c++",
    "macro-family restrict simd-tail int8-attribute uint16-attribute",
    [
        call("axpy_f32", normal((3, 7), (3, 7)), lambda x, y: F32(1.5) * x + y, alpha=1.5),
        call("axpy_f64", normal(33, 33, dtype=F64), lambda x, y: -0.1 * x + y, alpha=-0.1),
        call("axpy_i8", integers(-99, 99, 50, 50, dtype=I8), wrapped(I8, -3), alpha=-3),
        call("axpy_u16", integers(0, 65535, 51, 51, dtype=U16), wrapped(U16, 60000), alpha=60000),
        call("dot", normal(43, 43), lambda x, y: np.dot(x, y)[None], rtol=1e-4),
    ],
    (
        "c[i] = static_cast<T>(alpha * a[i] + b[i])",
        "c[i] = static_cast<T>(a[i] + b[i])",
        "the attribute is ignored in every function of the family",
    ),
    ("for (; i < n; i++)", "for (; i + 1 < n; i++)", "the last element of the tail is left out"),
    (
        "const int64_t n = x.numel();      ",
        "const int64_t n = x.shape(0);     ",
        "only as many elements as there are rows",
    ),
    ("(sum[2] + sum[3])", "sum[2]", "a lane is lost"),
)


def escape(z, c, limit):
    n = np.zeros(z.shape, I32)
    for _ in range(limit):
        going = (z.real**2 + z.imag**2 <= 4) & (n < limit)
        z = np.where(going, z * z + c, z)
        n += going
    return n, abs(z)


def plane(rng):
    x, y = np.meshgrid(np.linspace(-2.1, 0.7, 13), np.linspace(-1.2, 1.2, 9))
    return (x + 1j * y + rng.normal(size=x.shape) * 0.02).astype(C128)


case(
    "mandelbrot",
    "c++",
    "std-complex complex128-attribute uint16-attribute int16-attribute complex-tensor",
    [
        call("mandelbrot", plane, lambda c: escape(np.zeros_like(c), c, 25), limit=25, rtol=1e-6),
        call(
            "julia", plane, lambda z: escape(z, -0.4 + 0.6j, 18), c=-0.4 + 0.6j, limit=18, rtol=1e-6
        ),
    ],
    ("z = z * z + c;", "z = z * z - c;", "the map"),
    ("points[i].y), c, limit", "0), c, limit", "the imaginary part of the points"),
    ("std::norm(z) <= 4.0", "std::abs(z) <= 4.0", "the bound"),
    ("n < limit", "n < limit - 1", "one step too few"),
)


def row_softmax(x):
    x = x.astype(F64)
    return scipy.special.logsumexp(x, 1).astype(F32), scipy.special.softmax(x, 1).astype(F32)


case(
    "logsumexp_parallel",
    "c++",
    "parallel-for scratch unique-ptr exception-in-thread own-headers",
    [
        call("logsumexp", lambda rng: (rng.normal(size=(67, 9)) * 600).astype(F32), row_softmax),
        call("roots", lambda rng: rng.random(1000).astype(F32), np.sqrt),
    ],
    (
        "for (int64_t i = 1; i < n; ++i)\n                maxima",
        "for (int64_t i = 1; i < 1; ++i)\n                maxima",
        "the maximum is that of the first column: overflow",
    ),
    ("maxima[r] + std::log(sum)", "std::log(sum)", "the maximum is not added again"),
    (
        "p[r * n + i] = static_cast<float>(e[i] / sum)",
        "p[r * n + i] = static_cast<float>(e[i])",
        "not divided by the sum",
    ),
    (
        "for (int64_t i = begin; i < end; ++i) {",
        "for (int64_t i = begin + 1; i < end; ++i) {",
        "the first of each part is left out",
    ),
)


def solved(f, h, steps, width):
    def reference(start):
        t = np.arange(steps) * h
        found = scipy.integrate.solve_ivp(
            f, (0, t[-1]), start, "DOP853", t_eval=t, rtol=1e-12, atol=1e-12
        )
        return found.y.T.reshape(steps, width)

    return reference


def lorenz(t, s):
    x, y, z = s
    return [9.0 * (y - x), x * (21.0 - z) - y, x * y - 2.5 * z]


def driven(t, s):
    return [s[1], 1.2 * (1 - s[0] ** 2) * s[1] - s[0] + 0.4 * np.sin(2.5 * t)]


case(
    "rk4",
    "c++",
    "functor template shared-header namespace default-with-parentheses name-only",
    [
        call(
            "lorenz",
            normal(3, dtype=F64),
            solved(lorenz, 2e-3, 80, 3),
            h=2e-3,
            sigma=9.0,
            rho=21.0,
            beta=2.5,
            rtol=1e-6,
        ),
        call(
            "van_der_pol",
            normal(2, dtype=F64),
            solved(driven, 5e-3, 150, 2),
            h=5e-3,
            mu=1.2,
            amplitude=0.4,
            omega=2.5,
            rtol=1e-6,
        ),
    ],
    ("along(x, h, k3)", "along(x, h / 2, k3)", "in the header: the last stage is at half a step"),
    ("2 * k2[i] + 2 * k3[i]", "k2[i] + 2 * k3[i]", "in the header: a weight"),
    ("rk4_step<N>(system, k * h, x, h)", "rk4_step<N>(system, 0, x, h)", "time stands still"),
    ("x * y - beta * z", "x * y - z", "an attribute is ignored"),
)


def table(dtype):
    def make(rng):
        xs = np.sort(rng.uniform(0, 10, 12)).astype(dtype)
        at = np.concatenate([rng.uniform(-1, 11, 40), xs[[0, 5, 11]]]).astype(dtype)
        return xs, rng.normal(size=12).astype(dtype), at

    return make


def catmull(wrap):
    def reference(grid, at):
        n, k = len(grid), np.floor(at).astype(int)
        t = (at - k)[:, None].astype(F64)
        p = [
            grid[(k + d) % n if wrap else np.clip(k + d, 0, n - 1)].astype(F64)
            for d in range(-1, 3)
        ]
        m1, m2 = (p[2] - p[0]) / 2, (p[3] - p[1]) / 2
        h = (1 + 2 * t) * (1 - t) ** 2 * p[1] + t * (1 - t) ** 2 * m1
        return (h + t**2 * (3 - 2 * t) * p[2] + t**2 * (t - 1) * m2).astype(F32)

    return reference


def places(rng):
    return rng.normal(size=(9, 3)).astype(F32), rng.uniform(-2, 11, 31).astype(F32)


case(
    "interpolation",
    "c++",
    "anonymous-namespace upper-bound lambda bool-attribute dispatch-floating",
    [
        *(
            call("interp", table(t), lambda x, y, a: np.interp(a, x, y).astype(x.dtype), rtol=r)
            for t, r in ((F32, 2e-4), (F64, 1e-9))
        ),
        *(call("catmull_rom", places, catmull(w), wrap=w, rtol=1e-4) for w in (False, True)),
    ],
    ("return ys[n - 1];", "return ys[0];", "values beyond the end"),
    ("(x - xs[right - 1]) /", "(xs[right] - x) /", "the weight is that of the other end"),
    ("((i % n) + n) % n", "(i % n < 0 ? 0 : i % n)", "negative places do not wrap"),
    ("p3 = g[index(k + 2)", "p3 = g[index(k + 1)", "the fourth point"),
)


def dense(x, w, b):
    y = x.astype(F32) @ w.astype(F32) + b.astype(F32)
    return np.where(y < 0, F32(F16(0.1)) * y, y).astype(x.dtype)


def layer(dtype):
    return call(
        "dense_layer",
        normal((5, 17), (17, 6), 6, dtype=dtype),
        dense,
        slope=0.1,
        rtol=1e-2 if np.dtype(dtype).itemsize == 2 else 1e-4,
    )


def through(x):
    return x.astype(BF16).astype(F32) * F32(BF16(0.3))


case(
    "half_dense",
    "c++",
    "float16 bfloat16 float16-attribute bfloat16-attribute-as-bits dispatch-floating-and-half",
    [
        *map(layer, (F32, F64, F16, BF16)),
        call(
            "through_bfloat16",
            normal(40),
            through,
            scale=np.asarray(BF16(0.3)).view(U16)[()],
            rtol=1e-7,
            atol=0,
        ),
    ],
    ("float sum = bias[o];", "float sum = 0;", "no bias"),
    ("slope * sum : sum", "sum : sum", "an attribute is ignored"),
    ("w[i * out + o]", "w[o * in + i]", "weights are transposed"),
    (
        "BE::bfloat16_t(x.data_ptr<float>()[i]) * float(factor)",
        "BE::float16_t(x.data_ptr<float>()[i]) * float(factor)",
        "rounds to the other type",
    ),
)


def box(radius):
    def reference(image):
        def mean(x, axis):
            size = [2 * radius + 1 if a == axis else 1 for a in range(3)]
            total = scipy.ndimage.convolve(x, np.ones(size), mode="constant")
            return total / scipy.ndimage.convolve(np.ones_like(x), np.ones(size), mode="constant")

        return mean(mean(image, 1), 0), np.ones(1, I32)

    return call("box_blur", normal((17, 12, 3), dtype=F64), reference, radius=radius, rtol=1e-10)


case(
    "blur_openmp",
    "c++",
    "openmp extra-cflags 3d int32-attribute vector",
    [box(1), box(3)],
    ("in[(y * w + x + d) * c + k]", "in[(y * w + x + d) * c]", "every channel is the first"),
    (
        "if (y + d >= 0 && y + d < h)",
        "if (y + d >= 0 && y + d < h && d < radius)",
        "the last row of the window",
    ),
    (
        "between[(y * w + x) * c + k] = sum / n",
        "between[(y * w + x) * c + k] = sum",
        "not divided by the count",
    ),
    extra_cflags=["-fopenmp"],
    extra_ldflags=["-fopenmp"],
)


def csr(rng, rows, columns, nnz, offset=I32):
    per_row = rng.multinomial(nnz, np.full(rows, 1 / rows))
    indptr = np.concatenate([[0], np.cumsum(per_row)]).astype(offset)
    return indptr, rng.integers(0, columns, nnz)


def product(dtype, index, offset, one=False):
    def make(rng):
        indptr, indices = csr(rng, 20, 15, 60, offset)
        w = rng.normal(size=1 if one else 60).astype(dtype)
        return w, indices.astype(index), indptr, rng.normal(size=(15, 4)).astype(dtype)

    def reference(w, indices, indptr, b):
        a = sp.csr_matrix((np.broadcast_to(w, 60), indices, indptr), (20, 15))
        return (a @ b).astype(dtype)

    return call("csr_matmat", make, reference, rtol=1e-4 if dtype == F32 else None)


def events(dtype, one):
    def make(rng):
        indptr, indices = csr(rng, 20, 15, 60, I64)
        w = rng.normal(size=1 if one else 60).astype(F32)
        spikes = rng.integers(0, 2, 20) * (1 if dtype is bool else 3) - (dtype == F32)
        return w, indices.astype(I32), indptr, spikes.astype(dtype)

    def reference(w, indices, indptr, spikes):
        a = sp.csr_matrix((np.broadcast_to(w, 60).astype(F64), indices, indptr), (20, 15))
        return (a.T @ (spikes > 0)).astype(F32)

    return call("csr_transposed_events", make, reference, rtol=1e-4)


case(
    "csr_products",
    "c++",
    "dispatch-index-pair nested-dispatch csr-indptr csr-check-int32 name-only events",
    [
        product(F32, I32, I32),
        product(F64, I64, I32),
        product(F32, I32, I64, True),
        product(F64, I64, I64),
        events(bool, False),
        events(F32, True),
        events(I16, False),
    ],
    ("w[one ? 0 : k]", "w[0]", "every weight is the first"),
    (
        "std::fill(y, y + out.numel(), 0.0f);",
        "std::fill(y, y + out.numel(), 1.0f);",
        "sums do not begin with 0",
    ),
    ("> spike_t(0))", "!= spike_t(0))", "negative numbers are spikes"),
    (
        "k < p[r + 1]; ++k)\n                    for",
        "k + 1 < p[r + 1]; ++k)\n                    for",
        "the last of each row",
    ),
)
