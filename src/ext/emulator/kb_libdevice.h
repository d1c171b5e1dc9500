/* What CUDA's libdevice has and the C library has not, or not as exactly: `kb_nv_x` is `__nv_x`.
 *
 * Functions of floats alone are not here where rounding the double's result gives them. Errors are
 * at most those that CUDA's documentation states. Any thread may call; errno may change. */
#ifndef KB_LIBDEVICE_H
#define KB_LIBDEVICE_H

#include "core/kb_extension.h"
#include "kernbridge/cuda_on_cpu/special.h"

#include <stdint.h>

/* name, type of the result, types of the parameters */
#define KB_LIBDEVICE_SPECIAL(X)                                                                    \
    X(cbrt, double, (double x))                                                                    \
    X(rcbrt, double, (double x))                                                                   \
    X(cosh, double, (double x))                                                                    \
    X(tanh, double, (double x))                                                                    \
    X(exp10, double, (double x))                                                                   \
    X(log10, double, (double x))                                                                   \
    X(lgamma, double, (double x))                                                                  \
    X(erfcx, double, (double x))                                                                   \
    X(erfinv, double, (double x))                                                                  \
    X(erfcinv, double, (double x))                                                                 \
    X(normcdf, double, (double x))                                                                 \
    X(normcdfinv, double, (double x))                                                              \
    X(sinpi, double, (double x))                                                                   \
    X(cospi, double, (double x))                                                                   \
    X(jn, double, (int32_t n, double x))                                                           \
    X(yn, double, (int32_t n, double x))                                                           \
    X(cyl_bessel_i0, double, (double x))                                                           \
    X(cyl_bessel_i1, double, (double x))                                                           \
    X(rhypot, double, (double x, double y))                                                        \
    X(norm3d, double, (double x, double y, double z))                                              \
    X(rnorm3d, double, (double x, double y, double z))                                             \
    X(norm4d, double, (double x, double y, double z, double w))                                    \
    X(rnorm4d, double, (double x, double y, double z, double w))                                   \
    X(norm, double, (int32_t n, const double *x))                                                  \
    X(rnorm, double, (int32_t n, const double *x))                                                 \
    X(normf, float, (int32_t n, const float *x))                                                   \
    X(rnormf, float, (int32_t n, const float *x))

// NOLINTBEGIN(bugprone-macro-parentheses): types and lists of parameters take none
#define KB_LIBDEVICE_DECLARE(name, result, parameters) result kb_nv_##name parameters;
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
