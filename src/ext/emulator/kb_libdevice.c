/* Owns the table of libdevice's functions: functions that the C library lacks or computes less
 * exactly, and functions with a rounding direction. `kb_nv_x` is `__nv_x`.
 *
 * Most of the former are computed as long doubles, of 64 bits or more on Linux, and rounded once.
 * Functions of floats alone are not here where rounding the double's result gives them. Errors are
 * at most what CUDA's documentation states. Any thread may call; errno may change. */
#include "ext/emulator/kb_hostcuda.h"

#include "kernbridge/cuda_on_cpu/special.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#define DIRECTIONS(n, name, result, type, value)                                                   \
    KB_ROUNDED_EACH(kb_nv_##name, n, result, type, value)
KB_ROUNDED(DIRECTIONS)

static const long double sqrt_2 = 1.414213562373095048801688724209698079L;

/* Of n numbers of a type, whose squares are added up in a wider one. */
// NOLINTBEGIN(bugprone-macro-parentheses): types take none
#define NORM_OF_MANY(type, suffix, wide, root)                                                     \
    static wide norm_of##suffix(int32_t n, const type *x)                                          \
    {                                                                                              \
        wide sum = 0;                                                                              \
        bool infinite = false;                                                                     \
        for (int32_t i = 0; i < n; i++) {                                                          \
            sum += (wide)x[i] * (wide)x[i];                                                        \
            infinite = infinite || isinf(x[i]);                                                    \
        }                                                                                          \
        return infinite ? (wide)INFINITY : root(sum);                                              \
    }
NORM_OF_MANY(double, , long double, sqrtl)
NORM_OF_MANY(float, f, double, sqrt)
#define NORM_OF(n, ...) norm_of(n, (const double[]){__VA_ARGS__})

/* name, type of the result, parameters, value */
#define SPECIAL(X)                                                                                 \
    X(cbrt, double, (double x), cbrtl(x))                                                          \
    X(rcbrt, double, (double x), 1 / cbrtl(x))                                                     \
    X(cosh, double, (double x), coshl(x))                                                          \
    X(tanh, double, (double x), tanhl(x))                                                          \
    X(exp10, double, (double x), exp10l(x))                                                        \
    X(log10, double, (double x), log10l(x))                                                        \
    X(lgamma, double, (double x), lgamma_r(x, &(int){0}))                                          \
    X(erfcx, double, (double x), kb_erfcx(x))                                                      \
    X(erfinv, double, (double x), kb_erfinv(x))                                                    \
    X(erfcinv, double, (double x), kb_erfcinv(x))                                                  \
    X(normcdf, double, (double x), erfcl(-x / sqrt_2) / 2)                                         \
    X(normcdfinv, double, (double x), kb_erfcinv(2 * x) * -sqrt_2)                                 \
    X(sinpi, double, (double x), kb_sinpi(x))                                                      \
    X(cospi, double, (double x), kb_cospi(x))                                                      \
    X(jn, double, (int32_t n, double x), n < 0 ? (double)NAN : jn(n, x))                           \
    X(yn, double, (int32_t n, double x), n < 0 ? (double)NAN : yn(n, x))                           \
    X(cyl_bessel_i0, double, (double x), kb_bessel_i(0, fabsl(x)))                                 \
    X(cyl_bessel_i1, double, (double x), copysign((double)kb_bessel_i(1, fabsl(x)), x))            \
    X(rhypot, double, (double x, double y), 1 / NORM_OF(2, x, y))                                  \
    X(norm3d, double, (double x, double y, double z), NORM_OF(3, x, y, z))                         \
    X(rnorm3d, double, (double x, double y, double z), 1 / NORM_OF(3, x, y, z))                    \
    X(norm4d, double, (double x, double y, double z, double w), NORM_OF(4, x, y, z, w))            \
    X(rnorm4d, double, (double x, double y, double z, double w), 1 / NORM_OF(4, x, y, z, w))       \
    X(norm, double, (int32_t n, const double *x), norm_of(n, x))                                   \
    X(rnorm, double, (int32_t n, const double *x), 1 / norm_of(n, x))                              \
    X(normf, float, (int32_t n, const float *x), norm_off(n, x))                                   \
    X(rnormf, float, (int32_t n, const float *x), 1 / norm_off(n, x))

#define DEFINE(name, result, parameters, value)                                                    \
    static result kb_nv_##name parameters                                                          \
    {                                                                                              \
        return (result)(value);                                                                    \
    }
SPECIAL(DEFINE)
// NOLINTEND(bugprone-macro-parentheses)

#define SYMBOL(name, result, parameters, value) {"kb_nv_" #name, (void (*)(void))kb_nv_##name},
#define SYMBOLS(n, name, result, type, value)                                                      \
    {"kb_nv_" #name "_rd", (void (*)(void))kb_nv_##name##_rd},                                     \
        {"kb_nv_" #name "_ru", (void (*)(void))kb_nv_##name##_ru},                                 \
        {"kb_nv_" #name "_rz", (void (*)(void))kb_nv_##name##_rz},

const kb_symbol kb_libdevice_symbols[] = {
    // clang-format off
    SPECIAL(SYMBOL)
    KB_ROUNDED(SYMBOLS)
    // clang-format on
    {NULL, NULL},
};
