/* What CUDA's libdevice has and the C library has not, or not as exactly: `kb_nv_x` is `__nv_x`.
 *
 * Functions of floats alone are not here where rounding the double's result gives them. Errors are
 * at most those that CUDA's documentation states. Any thread may call; errno may change. */
#ifndef KB_LIBDEVICE_H
#define KB_LIBDEVICE_H

#include "core/kb_extension.h"
#include "kernbridge/cuda_on_cpu/special.h"

#include <stdint.h>

/* name, type of the result, types of the parameters, and the value, in the words of the C file */
#define KB_LIBDEVICE_SPECIAL(X)                                                                    \
    X(cbrt, double, (double x), cbrtl(x))                                                          \
    X(rcbrt, double, (double x), 1 / cbrtl(x))                                                     \
    X(cosh, double, (double x), coshl(x))                                                          \
    X(tanh, double, (double x), tanhl(x))                                                          \
    X(exp10, double, (double x), exp10l(x))                                                        \
    X(log10, double, (double x), log10l(x))                                                        \
    X(lgamma, double, (double x), lgamma_r(x, &(int){0}))                                          \
    X(erfcx, double, (double x), kb_erfcx(x))                                                      \
    X(erfinv, double, (double x), erfinv(x))                                                       \
    X(erfcinv, double, (double x), erfcinv(x))                                                     \
    X(normcdf, double, (double x), erfcl(-x / sqrt_2) / 2)                                         \
    X(normcdfinv, double, (double x), erfcinv(2 * (long double)x) * -sqrt_2)                       \
    X(sinpi, double, (double x), sine_pi(x))                                                       \
    X(cospi, double, (double x), cosine_pi(x))                                                     \
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

// NOLINTBEGIN(bugprone-macro-parentheses): types and lists of parameters take none
#define KB_LIBDEVICE_DECLARE(name, result, parameters, value) result kb_nv_##name parameters;
#define KB_LIBDEVICE_DECLARE_ROUNDED(n, name, result, type, value)                                 \
    result kb_nv_##name##_rd KB_TAKES_##n(type);                                                   \
    result kb_nv_##name##_ru KB_TAKES_##n(type);                                                   \
    result kb_nv_##name##_rz KB_TAKES_##n(type);
// NOLINTEND(bugprone-macro-parentheses)

KB_LIBDEVICE_SPECIAL(KB_LIBDEVICE_DECLARE)
/* Each of special.h downwards (_rd), upwards (_ru) and towards zero (_rz). */
KB_ROUNDED(KB_LIBDEVICE_DECLARE_ROUNDED)

/* All of the above. */
extern const kb_symbol kb_libdevice_symbols[];

#endif
