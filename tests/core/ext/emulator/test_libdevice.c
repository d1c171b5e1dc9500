/* Proves libdevice's functions by value: of zeros, infinities, NaN, subnormal and extreme numbers,
 * and of exact results that lie between two numbers, in each direction. */
#include "ext/emulator/kb_hostcuda.h"
#include "kb_test.h"
#include "kernbridge/cuda_on_cpu/special.h"

#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define OF_ONE   (double)
#define OF_TWO   (double, double)
#define OF_THREE (double, double, double)
#define OF_FOUR  (double, double, double, double)

/* The functions with one value: name, types of the result and of the parameters. */
#define SPECIAL(X)                                                                                 \
    X(cbrt, double, OF_ONE)                                                                        \
    X(rcbrt, double, OF_ONE)                                                                       \
    X(cosh, double, OF_ONE)                                                                        \
    X(tanh, double, OF_ONE)                                                                        \
    X(exp10, double, OF_ONE)                                                                       \
    X(log10, double, OF_ONE)                                                                       \
    X(lgamma, double, OF_ONE)                                                                      \
    X(erfcx, double, OF_ONE)                                                                       \
    X(erfinv, double, OF_ONE)                                                                      \
    X(erfcinv, double, OF_ONE)                                                                     \
    X(normcdf, double, OF_ONE)                                                                     \
    X(normcdfinv, double, OF_ONE)                                                                  \
    X(sinpi, double, OF_ONE)                                                                       \
    X(cospi, double, OF_ONE)                                                                       \
    X(cyl_bessel_i0, double, OF_ONE)                                                               \
    X(cyl_bessel_i1, double, OF_ONE)                                                               \
    X(jn, double, (int32_t, double))                                                               \
    X(yn, double, (int32_t, double))                                                               \
    X(rhypot, double, OF_TWO)                                                                      \
    X(norm3d, double, OF_THREE)                                                                    \
    X(rnorm3d, double, OF_THREE)                                                                   \
    X(norm4d, double, OF_FOUR)                                                                     \
    X(rnorm4d, double, OF_FOUR)                                                                    \
    X(norm, double, (int32_t, const double *))                                                     \
    X(rnorm, double, (int32_t, const double *))                                                    \
    X(normf, float, (int32_t, const float *))                                                      \
    X(rnormf, float, (int32_t, const float *))

/* As compiled kernels find them. */
#define POINTER(name, result, parameters) static result(*kb_nv_##name) parameters;
#define POINTERS(n, name, result, type, value)                                                     \
    POINTER(name##_rd, result, KB_TAKES_##n(type))                                                 \
    POINTER(name##_ru, result, KB_TAKES_##n(type))                                                 \
    POINTER(name##_rz, result, KB_TAKES_##n(type))
SPECIAL(POINTER)
KB_ROUNDED(POINTERS)

static void *found(const char *name)
{
    void *address = kb_symbol_find(kb_libdevice_symbols, name);
    if (!CHECK(address != NULL))
        exit(1);
    return address;
}

static void find_all(void)
{
#define FIND(name, result, parameters)                                                             \
    kb_nv_##name = (result(*) parameters)(uintptr_t)found("kb_nv_" #name);
#define FINDS(n, name, result, type, value)                                                        \
    FIND(name##_rd, result, KB_TAKES_##n(type))                                                    \
    FIND(name##_ru, result, KB_TAKES_##n(type))                                                    \
    FIND(name##_rz, result, KB_TAKES_##n(type))
    SPECIAL(FIND)
    KB_ROUNDED(FINDS)
}

static uint64_t bits_of(double x)
{
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The very number, so that 0 is not -0; or both NaN. */
static bool same(double a, double b)
{
    if (bits_of(a) == bits_of(b) || (isnan(a) && isnan(b)))
        return true;
    fprintf(stderr, "got %a, expected %a\n", a, b);
    return false;
}

/* At most one number lies between. */
static bool near(double got, double expected)
{
    if (fabs(got - expected) <= 2 * (nextafter(fabs(expected), INFINITY) - fabs(expected)))
        return true;
    fprintf(stderr, "got %.17g, expected %.17g\n", got, expected);
    return false;
}

#define SAME(got, expected) CHECK(same((double)(got), (double)(expected)))
#define NEAR(got, expected) CHECK(near((got), (expected)))

static void test_roots(void)
{
    NEAR(kb_nv_cbrt(27), 3);
    NEAR(kb_nv_cbrt(2), 1.2599210498948732);
    NEAR(kb_nv_cbrt(-DBL_MAX), -5.643803094122362e102);
    NEAR(kb_nv_cbrt(4.9406564584124654e-324), 1.7031839360032603e-108);
    SAME(kb_nv_cbrt(-0.0), -0.0);
    SAME(kb_nv_cbrt(-INFINITY), -INFINITY);
    NEAR(kb_nv_rcbrt(-8), -0.5);
    NEAR(kb_nv_rcbrt(10), 0.46415888336127786);
    SAME(kb_nv_rcbrt(-0.0), -INFINITY);
    SAME(kb_nv_rcbrt(INFINITY), 0.0);
    SAME(kb_nv_rcbrt(NAN), NAN);
}

static void test_exponentials(void)
{
    SAME(kb_nv_exp10(3), 1000);
    SAME(kb_nv_exp10(-INFINITY), 0.0);
    SAME(kb_nv_exp10(309), INFINITY);
    NEAR(kb_nv_exp10(-323.3), 4.9406564584124654e-324);
    SAME(kb_nv_log10(1e15), 15);
    SAME(kb_nv_log10(-0.0), -INFINITY);
    SAME(kb_nv_log10(-1), NAN);
    NEAR(kb_nv_log10(DBL_MAX), 308.25471555991674);
    SAME(kb_nv_cosh(0), 1);
    SAME(kb_nv_cosh(-INFINITY), INFINITY);
    SAME(kb_nv_cosh(711), INFINITY);
    NEAR(kb_nv_cosh(-2), 3.7621956910836314);
    SAME(kb_nv_tanh(-0.0), -0.0);
    SAME(kb_nv_tanh(-INFINITY), -1);
    NEAR(kb_nv_tanh(0.5), 0.46211715726000976);
    SAME(kb_nv_lgamma(3), log(2));
    SAME(kb_nv_lgamma(-4), INFINITY);
    SAME(kb_nv_lgamma(INFINITY), INFINITY);
}

static void test_errors(void)
{
    SAME(kb_nv_erfcx(0), 1);
    NEAR(kb_nv_erfcx(-1), 5.0089800807622833);
    NEAR(kb_nv_erfcx(5), 0.11070463773306863);
    NEAR(kb_nv_erfcx(8), 0.06998516620088093);
    NEAR(kb_nv_erfcx(1e300), 5.6418958354775627e-301);
    SAME(kb_nv_erfcx(INFINITY), 0.0);
    SAME(kb_nv_erfcx(-27), INFINITY);
    SAME(kb_nv_erfcx(-INFINITY), INFINITY);
    SAME(kb_nv_erfcx(NAN), NAN);
    NEAR(kb_nv_erfinv(0.5), 0.47693627620446987);
    NEAR(kb_nv_erfinv(-0.9), -1.1630871536766743);
    NEAR(kb_nv_erfinv(1 - DBL_EPSILON / 2), 5.8635847487551676);
    NEAR(kb_nv_erfinv(1e-310), 8.862269254527580e-311);
    SAME(kb_nv_erfinv(-0.0), -0.0);
    SAME(kb_nv_erfinv(1), INFINITY);
    SAME(kb_nv_erfinv(-1), -INFINITY);
    SAME(kb_nv_erfinv(1.5), NAN);
    SAME(kb_nv_erfinv(NAN), NAN);
    NEAR(kb_nv_erfcinv(0.25), 0.8134198475976185);
    NEAR(kb_nv_erfcinv(1.75), -0.8134198475976185);
    NEAR(kb_nv_erfcinv(1e-300), 26.209469960516124);
    NEAR(kb_nv_erfcinv(4.9406564584124654e-324), 27.213293210812948);
    SAME(kb_nv_erfcinv(1), 0.0);
    SAME(kb_nv_erfcinv(0), INFINITY);
    SAME(kb_nv_erfcinv(2), -INFINITY);
    SAME(kb_nv_erfcinv(-0.5), NAN);
    SAME(kb_nv_erfcinv(-0.5), NAN);
    SAME(kb_nv_erfcinv(-1), NAN);
    SAME(kb_nv_erfcinv(2.25), NAN);
    SAME(kb_nv_erfcinv(3), NAN);
    NEAR(kb_nv_erfcinv(1.25), -0.22531205501217808);
    NEAR(kb_nv_erfcinv(0.75), 0.22531205501217808);
    SAME(kb_nv_normcdf(0), 0.5);
    NEAR(kb_nv_normcdf(-1), 0.15865525393145705);
    NEAR(kb_nv_normcdf(-37), 5.725571222524577e-300);
    SAME(kb_nv_normcdf(-INFINITY), 0.0);
    SAME(kb_nv_normcdf(INFINITY), 1);
    NEAR(kb_nv_normcdfinv(0.975), 1.9599639845400543);
    NEAR(kb_nv_normcdfinv(0.25), -0.67448975019608174);
    NEAR(kb_nv_normcdfinv(1e-300), -37.0470962993612);
    SAME(kb_nv_normcdfinv(0), -INFINITY);
    SAME(kb_nv_normcdfinv(1), INFINITY);
    SAME(kb_nv_normcdfinv(2), NAN);
}

/* The double nearest to the exact result, computed with 300 bits (mpmath), which lies well off the
 * middle between two doubles: at both sides of where one way of computing ends and another begins,
 * and where a term left out changes the last bit. */
static void test_nearest(void)
{
    const struct {
        double (*function)(double);
        double x, nearest;
    } rows[] = {
        {kb_nv_cbrt, 0.5000000000000001, 0.7937005259840998},
        {kb_nv_rcbrt, 0.5, 1.2599210498948732},
        {kb_nv_cosh, 0.5, 1.1276259652063807},
        {kb_nv_cosh, 700.0, 5.0711602736750225e+303},
        {kb_nv_tanh, 0.5, 0.46211715726000974},
        {kb_nv_tanh, 2.0, 0.9640275800758169},
        {kb_nv_exp10, 0.5, 3.1622776601683795},
        {kb_nv_log10, 0.5, -0.3010299956639812},
        {kb_nv_erfcx, 1.5000000000000002, 0.3215854164543175},
        {kb_nv_erfcx, 8.0, 0.06998516620088092},
        {kb_nv_erfcx, 8.000000000000002, 0.06998516620088091},
        {kb_nv_erfcx, 7.999999999999999, 0.06998516620088094},
        {kb_nv_erfcx, 700.0, 0.0008059842969226599},
        {kb_nv_erfcx, -1.0, 5.008980080762283},
        {kb_nv_erfcx, 7.5, 0.07457369306287669},
        {kb_nv_erfcx, 9.0, 0.06230772403777468},
        {kb_nv_erfcx, 26.0, 0.021683584850562907},
        {kb_nv_normcdf, 0.5, 0.6914624612740131},
        {kb_nv_normcdf, 2.0, 0.9772498680518208},
        {kb_nv_normcdf, -1.0, 0.15865525393145705},
        {kb_nv_sinpi, 873642.9415456841, 0.18260922575040317},
        {kb_nv_sinpi, -890045.6305155797, 0.917110145172403},
        {kb_nv_cospi, 0.7500000000000001, -0.7071067811865478},
        {kb_nv_cospi, 0.7499999999999999, -0.7071067811865472},
        {kb_nv_cospi, -744666.2438206535, 0.7206997380802475},
        {kb_nv_cyl_bessel_i0, 0.5, 1.0634833707413236},
        {kb_nv_cyl_bessel_i0, 30.0, 781672297823.9775},
        {kb_nv_cyl_bessel_i0, 30.000000000000004, 781672297823.9802},
        {kb_nv_cyl_bessel_i0, 29.999999999999996, 781672297823.9747},
        {kb_nv_cyl_bessel_i0, 29.0, 292520631785.69086},
        {kb_nv_cyl_bessel_i0, 31.0, 2089962966491.9038},
        {kb_nv_cyl_bessel_i0, 518.829718999951, 3.7015735798707996e+223},
        {kb_nv_cyl_bessel_i1, 0.5, 0.2578943053908963},
        {kb_nv_cyl_bessel_i1, 8.0, 399.8731367825601},
        {kb_nv_cyl_bessel_i1, 30.0, 768532038938.957},
        {kb_nv_cyl_bessel_i1, 30.000000000000004, 768532038938.9597},
        {kb_nv_cyl_bessel_i1, 29.999999999999996, 768532038938.9543},
        {kb_nv_cyl_bessel_i1, 29.0, 287432108126.2548},
        {kb_nv_cyl_bessel_i1, 31.0, 2055972795294.5647},
        {kb_nv_cyl_bessel_i1, 541.6855182273712, 3.0532826750084664e+233},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!CHECK(same(rows[i].function(rows[i].x), rows[i].nearest)))
            fprintf(stderr, "in row %zu, of %a\n", i, rows[i].x);
}

/* Inverses are within 3 units in the last place of the exact result, which is computed as above. */
static void test_inverses(void)
{
    const struct {
        double (*function)(double);
        double x, nearest;
    } rows[] = {
        {kb_nv_erfcinv, 0.5, 0.4769362762044699},
        {kb_nv_erfcinv, 0.5000000000000001, 0.47693627620446977},
        {kb_nv_erfcinv, 0.49999999999999994, 0.47693627620446993},
        {kb_nv_erfcinv, 1.5, -0.4769362762044699},
        {kb_nv_erfcinv, 1.5000000000000002, -0.4769362762044701},
        {kb_nv_erfcinv, 1.4999999999999998, -0.4769362762044696},
        {kb_nv_erfcinv, 0.25, 0.8134198475976185},
        {kb_nv_erfcinv, 0.75, 0.2253120550121781},
        {kb_nv_erfcinv, 1.25, -0.2253120550121781},
        {kb_nv_erfcinv, 1.75, -0.8134198475976185},
        {kb_nv_erfinv, 0.5, 0.4769362762044699},
        {kb_nv_erfinv, 0.5000000000000001, 0.47693627620447},
        {kb_nv_erfinv, 0.49999999999999994, 0.4769362762044698},
        {kb_nv_erfinv, 0.9999999999999999, 5.8635847487551676},
        {kb_nv_erfinv, 0.25, 0.2253120550121781},
        {kb_nv_erfinv, -0.5, -0.4769362762044699},
        {kb_nv_erfinv, 0.75, 0.8134198475976185},
        {kb_nv_normcdfinv, 0.5000000000000001, 2.782916424671767e-16},
        {kb_nv_normcdfinv, 0.25, -0.6744897501960817},
        {kb_nv_normcdfinv, 0.75, 0.6744897501960817},
        {kb_nv_normcdfinv, 6.832310028388554e-147, -25.783257486446},
        {kb_nv_normcdfinv, 0.9683262330053706, 1.8567443536385273},
        {kb_nv_erfcinv, 4.9406564584124654e-324, 27.21329321081295},
        {kb_nv_erfcinv, 2.2250738585072014e-308, 26.54325845425098},
        {kb_nv_erfcinv, 2e-274, 25.028423734446495},
        {kb_nv_erfcinv, 8.3e-274, 25.000000415498015},
        {kb_nv_erfcinv, 1e-273, 24.996276521236876},
        {kb_nv_erfcinv, 0.9999999, 8.862269249862897e-08},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double unit = nextafter(fabs(rows[i].nearest), INFINITY) - fabs(rows[i].nearest);
        double error = fabs(rows[i].function(rows[i].x) - rows[i].nearest);
        if (!CHECK(error <= 3 * unit))
            fprintf(stderr, "in row %zu, of %a\n", i, rows[i].x);
    }
}

static void test_turns(void)
{
    SAME(kb_nv_sinpi(0.5), 1);
    SAME(kb_nv_sinpi(-1.5), 1);
    SAME(kb_nv_sinpi(-0.0), -0.0);
    SAME(kb_nv_sinpi(3), 0.0);
    SAME(kb_nv_sinpi(-4), -0.0);
    SAME(kb_nv_sinpi(-DBL_MAX), -0.0);
    NEAR(kb_nv_sinpi(1e-310), 3.1415926535897931e-310);
    NEAR(kb_nv_sinpi(0.25), 0.70710678118654757);
    NEAR(kb_nv_sinpi(1e15 + 0.125), 0.38268343236508978);
    SAME(kb_nv_sinpi(INFINITY), NAN);
    SAME(kb_nv_cospi(0), 1);
    SAME(kb_nv_cospi(1), -1);
    SAME(kb_nv_cospi(-2), 1);
    SAME(kb_nv_cospi(0.5), 0.0);
    SAME(kb_nv_cospi(-2.5), 0.0);
    SAME(kb_nv_cospi(DBL_MAX), 1);
    NEAR(kb_nv_cospi(1.0 / 3), 0.5);
    NEAR(kb_nv_cospi(-0.75), -0.70710678118654757);
    SAME(kb_nv_cospi(NAN), NAN);
}

/* Rounded once, nearly: with pi in two parts few results differ from those of long double. */
static void test_turns_are_exact(void)
{
    int n_sines = 0, n_cosines = 0;
    for (int i = 1; i <= 1000; i++) {
        double x = i / 4001.0;
        long double angle = 3.14159265358979323846264338327950288L * x;
        n_sines += kb_nv_sinpi(x) != (double)sinl(angle);
        n_cosines += kb_nv_cospi(x) != (double)cosl(angle);
        NEAR(kb_nv_sinpi(x), (double)sinl(angle));
        NEAR(kb_nv_cospi(x), (double)cosl(angle));
    }
    CHECK(n_sines <= 300);
    CHECK(n_cosines <= 200);
    SAME(kb_nv_sinpi(1e10 + 0.5), 1);
    SAME(kb_nv_sinpi(1e15 + 1.5), -1);
    SAME(kb_nv_cospi(1e15 + 1), -1);
    SAME(kb_nv_cospi(-1e15 - 2), 1);
}

static void test_bessel(void)
{
    NEAR(kb_nv_jn(2, 3), 0.48609126058589108);
    NEAR(kb_nv_jn(0, 3), -0.26005195490193344);
    SAME(kb_nv_jn(-1, 3), NAN);
    NEAR(kb_nv_yn(2, 3), -0.16040039348492374);
    SAME(kb_nv_yn(-1, 3), NAN);
    SAME(kb_nv_yn(0, 0), -INFINITY);
    SAME(kb_nv_cyl_bessel_i0(0), 1);
    NEAR(kb_nv_cyl_bessel_i0(-1), 1.2660658777520084);
    NEAR(kb_nv_cyl_bessel_i0(40), 14894774793419899.0);
    SAME(kb_nv_cyl_bessel_i0(-INFINITY), INFINITY);
    SAME(kb_nv_cyl_bessel_i0(800), INFINITY);
    SAME(kb_nv_cyl_bessel_i0(NAN), NAN);
    SAME(kb_nv_cyl_bessel_i1(-0.0), -0.0);
    NEAR(kb_nv_cyl_bessel_i1(-1), -0.56515910399248503);
    NEAR(kb_nv_cyl_bessel_i1(40), 14707396163259352.0);
    NEAR(kb_nv_cyl_bessel_i1(1e-300), 5e-301);
}

static void test_norms(void)
{
    const double large[] = {3e300, 4e300, NAN};
    const float floats[] = {2.0F, -3.0F, 6.0F};
    NEAR(kb_nv_norm(2, large), 5e300);
    SAME(kb_nv_norm(3, large), NAN);
    SAME(kb_nv_norm(0, large), 0);
    NEAR(kb_nv_rnorm(2, large), 2e-301);
    SAME(kb_nv_normf(3, floats), 7);
    SAME(kb_nv_rnormf(3, floats), 1.0F / 7);
    SAME(kb_nv_normf(2, (const float[]){NAN, -INFINITY}), INFINITY);
    SAME(kb_nv_normf(2, (const float[]){INFINITY, NAN}), INFINITY);
    SAME(kb_nv_norm(2, (const double[]){INFINITY, NAN}), INFINITY);
    SAME(kb_nv_rhypot(-INFINITY, NAN), 0.0);
    SAME(kb_nv_rhypot(0, -0.0), INFINITY);
    SAME(kb_nv_rhypot(3e-310, 4e-310), INFINITY);
    NEAR(kb_nv_rhypot(3e-300, 4e-300), 2e299);
    SAME(kb_nv_norm3d(2, -3, 6), 7);
    SAME(kb_nv_norm3d(NAN, INFINITY, 0), INFINITY);
    NEAR(kb_nv_rnorm3d(1, 2, 2), 1.0 / 3);
    SAME(kb_nv_norm4d(1, 1, -1, 1), 2);
    SAME(kb_nv_rnorm4d(1, 1, -1, 1), 0.5);
}

/* What a function gives in each direction. */
#define DIRECTED(name, down, up, zero, ...)                                                        \
    SAME(kb_nv_##name##_rd(__VA_ARGS__), down);                                                    \
    SAME(kb_nv_##name##_ru(__VA_ARGS__), up);                                                      \
    SAME(kb_nv_##name##_rz(__VA_ARGS__), zero)

static const double least = 4.9406564584124654e-324;

static void test_doubles(void)
{
    const double above = 1 + DBL_EPSILON, below = 1 - DBL_EPSILON / 2;
    DIRECTED(dadd, 1, above, 1, 1, least);
    DIRECTED(dadd, -above, -1, -1, -1, -least);
    DIRECTED(dadd, below, 1, below, 1, -least);
    DIRECTED(dadd, DBL_MAX, INFINITY, DBL_MAX, DBL_MAX, 1);
    DIRECTED(dadd, -INFINITY, -DBL_MAX, -DBL_MAX, -DBL_MAX, -DBL_MAX);
    DIRECTED(dadd, -0.0, 0.0, 0.0, 1, -1);
    DIRECTED(dadd, NAN, NAN, NAN, INFINITY, -INFINITY);
    DIRECTED(dsub, below, 1, below, 1, least);
    DIRECTED(dmul, 0.0, least, 0.0, least, 0.5);
    DIRECTED(dmul, -least, -0.0, -0.0, least, -0.5);
    DIRECTED(dmul, 1 + 2 * DBL_EPSILON, 1 + 3 * DBL_EPSILON, 1 + 2 * DBL_EPSILON, above, above);
    DIRECTED(ddiv, 0x1.5555555555555p-2, 0x1.5555555555556p-2, 0x1.5555555555555p-2, 1, 3);
    DIRECTED(ddiv, -0x1.5555555555556p-2, -0x1.5555555555555p-2, -0x1.5555555555555p-2, -1, 3);
    DIRECTED(ddiv, -INFINITY, -INFINITY, -INFINITY, 1, -0.0);
    DIRECTED(drcp, 0x1.5555555555555p-2, 0x1.5555555555556p-2, 0x1.5555555555555p-2, 3);
    DIRECTED(drcp, DBL_MAX, INFINITY, DBL_MAX, least);
    DIRECTED(dsqrt, 0x1.6a09e667f3bccp0, 0x1.6a09e667f3bcdp0, 0x1.6a09e667f3bccp0, 2);
    DIRECTED(dsqrt, 3, 3, 3, 9);
    DIRECTED(dsqrt, -0.0, -0.0, -0.0, -0.0);
    DIRECTED(dsqrt, NAN, NAN, NAN, -1);
    DIRECTED(fma, 1, above, 1, least, least, 1);
    DIRECTED(fma, -1, -below, -below, least, least, -1);
    DIRECTED(fma, DBL_EPSILON * DBL_EPSILON, DBL_EPSILON * DBL_EPSILON, DBL_EPSILON * DBL_EPSILON,
             above, above, -(1 + 2 * DBL_EPSILON));
}

static void test_floats(void)
{
    const float above = 1 + FLT_EPSILON, below = 1 - FLT_EPSILON / 2, tiny = 0x1p-149F;
    DIRECTED(fadd, 1.0F, above, 1.0F, 1.0F, tiny);
    DIRECTED(fadd, -0.0F, 0.0F, 0.0F, 2.0F, -2.0F);
    DIRECTED(fadd, FLT_MAX, INFINITY, FLT_MAX, FLT_MAX, 1.0F);
    DIRECTED(fsub, below, 1.0F, below, 1.0F, tiny);
    DIRECTED(fmul, -tiny, -0.0F, -0.0F, tiny, -0.5F);
    DIRECTED(fdiv, 0x1.555554p-2F, 0x1.555556p-2F, 0x1.555554p-2F, 1.0F, 3.0F);
    DIRECTED(frcp, -0x1.555556p-2F, -0x1.555554p-2F, -0x1.555554p-2F, -3.0F);
    DIRECTED(fsqrt, 0x1.6a09e6p0F, 0x1.6a09e8p0F, 0x1.6a09e6p0F, 2.0F);
    DIRECTED(fmaf, 1.0F, above, 1.0F, tiny, tiny, 1.0F);
    DIRECTED(fmaf, -above, -1.0F, -1.0F, tiny, -tiny, -1.0F);
}

static void test_conversions(void)
{
    DIRECTED(double2float, 1.0F, 1 + FLT_EPSILON, 1.0F, 1 + DBL_EPSILON);
    DIRECTED(double2float, -0x1p-149F, -0.0F, -0.0F, -least);
    DIRECTED(double2float, FLT_MAX, INFINITY, FLT_MAX, DBL_MAX);
    DIRECTED(double2float, INFINITY, INFINITY, INFINITY, INFINITY);
    DIRECTED(int2float, 0x1p24F, 0x1p24F + 2, 0x1p24F, (1 << 24) + 1);
    DIRECTED(int2float, -0x1p24F - 2, -0x1p24F, -0x1p24F, -(1 << 24) - 1);
    DIRECTED(uint2float, 0x1.fffffep31F, 0x1p32F, 0x1.fffffep31F, UINT32_MAX);
    DIRECTED(ll2float, 0x1.fffffep62F, 0x1p63F, 0x1.fffffep62F, INT64_MAX);
    DIRECTED(ll2float, -0x1p63F, -0x1p63F, -0x1p63F, INT64_MIN);
    DIRECTED(ull2float, 0x1.fffffep63F, 0x1p64F, 0x1.fffffep63F, UINT64_MAX);
    DIRECTED(ll2double, 0x1p53, 0x1p53 + 2, 0x1p53, (INT64_C(1) << 53) + 1);
    DIRECTED(ll2double, -0x1p53 - 2, -0x1p53, -0x1p53, -(INT64_C(1) << 53) - 1);
    DIRECTED(ull2double, 0x1.fffffffffffffp63, 0x1p64, 0x1.fffffffffffffp63, UINT64_MAX);
}

/* The caller's direction is as it was. */
static void test_direction_stays(void)
{
    CHECK_INT(fegetround(), FE_TONEAREST);
    CHECK_INT(fesetround(FE_UPWARD), 0);
    SAME(kb_nv_dadd_rd(1, least), 1);
    CHECK_INT(fegetround(), FE_UPWARD);
    CHECK_INT(fesetround(FE_TONEAREST), 0);
}

static void test_table(void)
{
    int n = 0;
    const kb_symbol *cbrt_symbol = NULL, *last = NULL;
    for (const kb_symbol *s = kb_libdevice_symbols; s->name; s++, n++) {
        CHECK(s->address != NULL);
        CHECK_INT(strncmp(s->name, "kb_nv_", 6), 0);
        for (const kb_symbol *t = kb_libdevice_symbols; t != s; t++)
            CHECK(strcmp(s->name, t->name) != 0);
        if (strcmp(s->name, "kb_nv_cbrt") == 0)
            cbrt_symbol = s;
        if (strcmp(s->name, "kb_nv_ull2double_rz") == 0)
            last = s;
    }
    CHECK_INT(n, 27 + 3 * 21);
    CHECK(cbrt_symbol && cbrt_symbol->address == (void (*)(void))kb_nv_cbrt);
    CHECK(last && last->address == (void (*)(void))kb_nv_ull2double_rz);
}

int main(void)
{
    find_all();
    test_roots();
    test_exponentials();
    test_errors();
    test_nearest();
    test_inverses();
    test_turns();
    test_turns_are_exact();
    test_bessel();
    test_norms();
    test_doubles();
    test_floats();
    test_conversions();
    test_direction_stays();
    test_table();
    return kb_test_end("test_libdevice");
}
