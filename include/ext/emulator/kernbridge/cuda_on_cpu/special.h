/* What C lacks, for kernels on the CPU in C++ and for the core in C: special functions, most of
 * them computed as long doubles and rounded once, and functions with a direction of rounding. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_SPECIAL_H
#define KERNBRIDGE_CUDA_ON_CPU_SPECIAL_H

#include <fenv.h>
#include <math.h>

/* Functions with a direction of rounding: X(n, name, result, type, value). `value` is said of a, b
 * and c, which are the n arguments. */
#define KB_ROUNDED(X)                                                                              \
    X(2, dadd, double, double, a + b)                                                              \
    X(2, dsub, double, double, a - b)                                                              \
    X(2, dmul, double, double, (a * b))                                                            \
    X(2, ddiv, double, double, a / b)                                                              \
    X(1, drcp, double, double, 1.0 / a)                                                            \
    X(1, dsqrt, double, double, sqrt(a))                                                           \
    X(3, fma, double, double, fma(a, b, c))                                                        \
    X(2, fadd, float, float, a + b)                                                                \
    X(2, fsub, float, float, a - b)                                                                \
    X(2, fmul, float, float, (a * b))                                                              \
    X(2, fdiv, float, float, a / b)                                                                \
    X(1, frcp, float, float, 1.0F / a)                                                             \
    X(1, fsqrt, float, float, sqrtf(a))                                                            \
    X(3, fmaf, float, float, fmaf(a, b, c))                                                        \
    X(1, double2float, float, double, (float)a)                                                    \
    X(1, int2float, float, int, (float)a)                                                          \
    X(1, uint2float, float, unsigned, (float)a)                                                    \
    X(1, ll2float, float, long long, (float)a)                                                     \
    X(1, ull2float, float, unsigned long long, (float)a)                                           \
    X(1, ll2double, double, long long, (double)a)                                                  \
    X(1, ull2double, double, unsigned long long, (double)a)

// NOLINTBEGIN(bugprone-macro-parentheses): types take none
#define KB_TAKES_1(type)        (type x)
#define KB_TAKES_2(type)        (type x, type y)
#define KB_TAKES_3(type)        (type x, type y, type z)
#define KB_ROUNDED_COPY_1(type) type a = x
#define KB_ROUNDED_COPY_2(type)                                                                    \
    KB_ROUNDED_COPY_1(type);                                                                       \
    type b = y
#define KB_ROUNDED_COPY_3(type)                                                                    \
    KB_ROUNDED_COPY_2(type);                                                                       \
    type c = z

/* The direction is a state of the processor. What is computed under it goes through volatile
 * variables: a compiler that knows nothing of directions moves no access to them over a call. */
#define KB_ROUNDED_TO(name, direction, n, result, type, value)                                     \
    static inline result name KB_TAKES_##n(type)                                                   \
    {                                                                                              \
        KB_ROUNDED_COPY_##n(volatile type);                                                        \
        int before = fegetround();                                                                 \
        (void)fesetround(direction);                                                               \
        volatile result r = value;                                                                 \
        (void)fesetround(before);                                                                  \
        return r;                                                                                  \
    }
/* Downwards, upwards and towards zero. */
#define KB_ROUNDED_EACH(name, n, result, type, value)                                              \
    KB_ROUNDED_TO(name##_rd, FE_DOWNWARD, n, result, type, value)                                  \
    KB_ROUNDED_TO(name##_ru, FE_UPWARD, n, result, type, value)                                    \
    KB_ROUNDED_TO(name##_rz, FE_TOWARDZERO, n, result, type, value)
// NOLINTEND(bugprone-macro-parentheses)

/* sin(pi (x + quarters / 2)). Nothing is rounded before the product with pi, of two parts. */
static inline double kb_sine_of_turns(double x, int quarters)
{
    const double pi = 3.141592653589793, low_pi = 1.2246467991473532e-16;
    double r = x - 2 * rint(x / 2), n = rint(2 * r);
    double y = r - n / 2, p = pi * y, rest = fma(pi, y, -p) + low_pi * y;
    quarters += r == r ? (int)n : 0;
    double s = quarters & 1 ? cos(p) - rest * sin(p) : sin(p) + rest * cos(p);
    return quarters & 2 ? -s : s;
}

static inline double kb_sinpi(double x)
{
    return copysign(1, x) * (kb_sine_of_turns(fabs(x), 0) + 0.0); /* 0 has the sign of x */
}

static inline double kb_cospi(double x)
{
    return kb_sine_of_turns(x, 1) + 0.0; /* no -0 */
}

/* Steps of Halley's method, from an approximation by Winitzki. Near 1, erfc has no digits of the
 * inverse; for large x it has too few, and its logarithm by the asymptotic series replaces it. */
static inline double kb_erfinv(double y);
static inline double kb_erfcinv(double q)
{
    if (!(q > 0 && q < 2))
        return q == 0 ? INFINITY : q == 2 ? -INFINITY : NAN;
    if (q > 0.5)
        return q < 1.5 ? kb_erfinv(1 - q) : -kb_erfcinv(2 - q);
    double l = log(q * (2 - q)), t = 4.330746750799873 + 0.5 * l;
    double x = sqrt(sqrt(t * t - 6.802721088435374 * l) - t);
    for (int i = 0; i < 4; i++) {
        double step = (q - erfc(x)) / (1.1283791670955126 * exp(-x * x)), s = 0.5 / (x * x);
        double y = x / (1 - s * (1 - 3 * s * (1 - 5 * s * (1 - 7 * s * (1 - 9 * s)))));
        x -= x > 25 ? (x * x + log(1.772453850905516 * y) + log(q)) / (2 * y)
                    : step / (1 + x * step);
    }
    return x;
}
static inline double kb_erfinv(double y)
{
    if (!(fabs(y) < 0.5))
        return copysign(kb_erfcinv(1 - fabs(y)), y);
    double x = 0.886226925452758 * y;
    for (int i = 0; i < 5; i++) {
        double step = (erf(x) - y) / (1.1283791670955126 * exp(-x * x));
        x -= step / (1 + x * step);
    }
    return x;
}

static inline double kb_erfcx(double x)
{
    if (x >= 8) { /* the continued fraction of Laplace */
        const long double sqrt_pi = 1.772453850905516027298167483341145183L;
        long double below = x;
        for (int k = 24; k > 0; k--)
            below = x + (long double)k / 2 / below;
        return (double)(1 / (sqrt_pi * below));
    }
    double square = x * x;
    if (square > 1e300)
        return square * square; /* infinity */
    double rest = fma(x, x, -square);
    return (double)(expl(square) * erfcl(x) * (1 + (long double)rest));
}

/* The modified Bessel function of order 0 or 1, of x >= 0. */
static inline long double kb_bessel_i(int order, long double x)
{
    const long double enough = 1e-21L, pi = 3.141592653589793238462643383279502884L;
    if (x > 30) { /* Hankel's expansion */
        long double term = 1, sum = 1;
        for (int k = 1; fabsl(term) > enough; k++) {
            long double odd = 2 * k - 1;
            term *= (odd * odd - 4 * order) / (8 * k * x);
            sum += term;
        }
        return x > 1e300L ? x * x : expl(x) / sqrtl(2 * pi * x) * sum;
    }
    long double term = order ? x / 2 : 1, sum = term;
    for (int k = 1; term > enough * sum; k++) {
        term *= x * x / 4 / (long double)(k * (k + order));
        sum += term;
    }
    return sum;
}

#endif
