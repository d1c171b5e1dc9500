/* Special functions that C lacks, for kernels on the CPU in C++ and for the core in C: computed as
 * long doubles and rounded once. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_SPECIAL_H
#define KERNBRIDGE_CUDA_ON_CPU_SPECIAL_H

#include <math.h>

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
