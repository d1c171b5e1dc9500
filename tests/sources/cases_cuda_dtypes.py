"""CUDA: families over element types, halves, complex numbers, attributes of every type."""

from __future__ import annotations

import numpy as np
import scipy.special
from corpus import (
    BF16,
    C64,
    C128,
    F16,
    F32,
    F64,
    I32,
    I64,
    INTEGERS,
    U8,
    U16,
    U64,
    anything,
    call,
    case,
    complex_normal,
    integers,
    normal,
)


def added(dtype):
    if np.dtype(dtype).kind == "f":
        return normal((9, 67), (9, 67), dtype=dtype)
    limits = np.iinfo(dtype)
    return integers(limits.min // 2, limits.max // 2, 603, 603, dtype=dtype)


case(
    "add_family",
    "cuda",
    "macro-family template grid-stride int64-stream",
    [
        call(f"add_{s}", added(t), lambda a, b: a + b)
        for t, s in ((F32, "f32"), (F64, "f64"), (I32, "i32"), (U8, "u8"))
    ],
    ("out[i] = a[i] + b[i];", "out[i] = a[i] - b[i];", "every function of the family"),
    ("DEFINE_ADD(int32_t, i32)", "DEFINE_ADD(int16_t, i32)", "one function has the wrong type"),
    ("i += blockDim.x * gridDim.x", "i += n", "elements beyond the grid"),
    ("i < n; i +=", "i < n - 1; i +=", "the last element"),
)

case(
    "activations",
    "cuda",
    "functor-parameter namespace dispatch-floating float64-attribute bare-attribute tail",
    [
        *(
            call(
                "gelu",
                normal((7, 41), dtype=t),
                lambda x: (x * scipy.special.ndtr(x)).astype(x.dtype),
                rtol=1e-5 if t is F32 else 1e-11,
            )
            for t in (F32, F64)
        ),
        call(
            "softplus",
            lambda rng: rng.normal(size=200) * 20,
            lambda x: np.logaddexp(0, 1.5 * x) / 1.5,
            beta=1.5,
            rtol=1e-8,
        ),
        call(
            "leaky_relu", normal((3, 5, 7)), lambda x: np.where(x > 0, x, F32(0.05) * x), slope=0.05
        ),
        call("leaky_relu", normal((0, 7)), lambda x: x, slope=0.05),
    ],
    ("erf(x * T(0.7071067811865476))", "erf(x)", "the argument of erf"),
    ("log1p(exp(bx)) / T(beta)", "log1p(exp(bx))", "an attribute is ignored"),
    ("x > T(0) ? x : T(slope) * x", "x > T(0) ? x : -T(slope) * x", "a sign"),
    ("if (i < n) y[i]", "if (i < n - n % 96) y[i]", "the tail, which is not written"),
)


def axpy(h, dtype):
    def reference(x, y):
        return (F32(dtype(h)) * x.astype(F32) + y.astype(F32)).astype(x.dtype)

    return reference


def bits(h, dtype):
    return np.asarray(dtype(h)).view(U16)[()]


case(
    "half_axpy",
    "cuda",
    "float16 bfloat16 dispatch-half float16-attribute-as-bits bfloat16-attribute check",
    [
        *(
            call(
                "axpy_f16",
                normal((5, 51), (5, 51), dtype=t),
                axpy(0.3, F16),
                h=bits(0.3, F16),
                rtol={2: 1e-2, 4: 1e-6, 8: 1e-6}[np.dtype(t).itemsize],
            )
            for t in (F16, BF16, F32, F64)
        ),
        call("axpy_f16", normal(40, 40), axpy(-7.0, F16), h=-7.0, rtol=1e-6),
        call(
            "axpy_bf16", normal(99, 99, dtype=BF16), axpy(-1.7, BF16), h=bits(-1.7, BF16), rtol=2e-2
        ),
    ],
    ("__half2float(__ushort_as_half(h))", "float(h)", "bits of a float16 taken for a number"),
    (
        "__bfloat162float(__ushort_as_bfloat16(h))",
        "-__bfloat162float(__ushort_as_bfloat16(h))",
        "the factor of the second function",
    ),
    (
        "out[i] = T(factor * float(x[i]) + float(y[i]))",
        "out[i] = T(factor * float(x[i]))",
        "one of the inputs",
    ),
)


def mixed(x):
    values = attributes(True)
    total = 3 * x.astype(object) + values["i8"] + 10 * values["u8"] + 100 * values["i16"]
    total += 1000 * values["u16"] + 5 * values["i32"] + 7 * values["u32"] + 11 * values["i64"]
    total += 13 * values["u64"]
    wrapped = [int(v) % 2**64 for v in -total]
    return np.array(wrapped, U64).view(I64)


def attributes(negate):
    return {
        "negate": negate,
        "i8": -101,
        "u8": 250,
        "i16": -30000,
        "u16": 65000,
        "i32": -2_000_000_000,
        "u32": 4_000_000_000,
        "i64": -(2**60) - 1,
        "u64": 2**63 + 5,
    }


def pairs(dtype):
    if dtype is bool:
        return lambda rng: (rng.random(70) < 0.4, rng.random(70) < 0.4)
    return integers(0, min(np.iinfo(dtype).max, 30000), 203, 203, dtype=dtype)


case(
    "integer_mix",
    "cuda",
    "dispatch-integral specialisation every-integer-attribute name-only default-arguments "
    "comments-between-parameters cudaStream_t",
    [
        *(
            call("gcds", pairs(t), np.logical_or if t is bool else np.gcd)
            for t in (bool, *INTEGERS)
        ),
        call("mix", integers(-(2**62), 2**62, 77, dtype=I64), mixed, **attributes(True)),
        call(
            "mix", integers(-(2**62), 2**62, 7, dtype=I64), lambda x: -mixed(x), **attributes(False)
        ),
    ],
    ("return a || b;", "return a && b;", "bool, which has a case of its own"),
    ("T r = a % b;", "T r = T(int8_t(a)) % b;", "numbers that a byte with a sign does not hold"),
    ("10 * t.u8", "10 * int8_t(t.u8)", "an attribute with the wrong sign"),
    ("7 * uint64_t(t.u32)", "7 * uint64_t(uint16_t(t.u32))", "an attribute cut to 16 bits"),
    ("negate ? 0 - sum : sum", "sum", "a bool that is ignored"),
)


case(
    "roll_any",
    "cuda",
    "dispatch-all ctx-stream int64-attribute int32-attribute negative-axis 3d",
    [
        call("roll", anything(t, *s), lambda x, a=a, k=k: np.roll(x, k, a), axis=a, shift=k)
        for (a, k, s), t in zip(
            [
                (0, 1, (5, 7)),
                (1, -2, (5, 7)),
                (-1, 3, (4, 3, 11)),
                (1, 5, (4, 3, 11)),
                (0, 40, (291,)),
            ]
            * 3,
            (F32, F64, F16, BF16, bool, *INTEGERS, C64, C128),
            strict=True,
        )
    ],
    ("(k + shift) % extent;", "(k + shift + 1) % extent;", "one too far"),
    ("(to - k) * inner", "(to - k)", "the stride of the axis"),
    (
        "shift = (shift % extent + extent) % extent;",
        "shift = shift < 0 ? 0 : shift;",
        "negative shifts",
    ),
    ("i += (int64_t)gridDim.x * blockDim.x", "i += total", "elements beyond the grid"),
)


def twisted(factor, real):
    def reference(z):
        w = z.conj() * factor
        return (w / (z + 3)).astype(z.dtype), abs(w).astype(real)

    return reference


case(
    "complex_ops",
    "cuda",
    "dispatch-complex complex64-attribute complex128-attribute complex-tensors division "
    "args-rets-aliases",
    [
        *(
            call(
                "polynomial",
                complex_normal(t, (3, 35), 6),
                lambda z, c: np.polynomial.polynomial.polyval(
                    z.astype(C128), c.astype(C128)
                ).astype(z.dtype),
                rtol=r,
            )
            for t, r in ((C64, 1e-4), (C128, 1e-10))
        ),
        call(
            "twist_c64", complex_normal(C64, 70), twisted(0.3 - 2j, F32), factor=0.3 - 2j, rtol=1e-4
        ),
        call(
            "twist_c128",
            complex_normal(C128, 70),
            twisted(1 + 0.5j, F64),
            factor=1 + 0.5j,
            rtol=1e-10,
        ),
    ],
    ("k = degree - 1; k >= 0", "k = degree - 1; k > 0", "the constant coefficient"),
    ("conj(z[i]) * factor;", "z[i] * factor;", "not conjugated"),
    ("w / (z[i] + C(R(3)))", "w * (z[i] + C(R(3)))", "a product for a quotient"),
    ("w.imag() * w.imag()", "w.imag() * w.real()", "the modulus"),
)
