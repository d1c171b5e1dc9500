/* Proves of each function of libmvec that kernels may call that it is within 4 ulp of the exact
 * value, and is what the function for single numbers is for infinities, NaN, zeros, subnormal
 * numbers, and results that are none or too large.
 *
 *   KB_VECTOR_MATH_SAMPLES  numbers that each function is tried with (20000) */
#include "kb_test.h"
#include "object/kb_provided.h"

#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __x86_64__

static const double ULPS = 4;

typedef long double exact_1(long double);
typedef long double exact_2(long double, long double);

static const struct {
    const char *name;
    exact_1 *one;
    exact_2 *two;
} functions[] = {
    {"acos", acosl, NULL},   {"acosh", acoshl, NULL}, {"asin", asinl, NULL},
    {"asinh", asinhl, NULL}, {"atan", atanl, NULL},   {"atanh", atanhl, NULL},
    {"cbrt", cbrtl, NULL},   {"cos", cosl, NULL},     {"cosh", coshl, NULL},
    {"erf", erfl, NULL},     {"erfc", erfcl, NULL},   {"exp", expl, NULL},
    {"exp10", NULL, NULL},   {"exp2", exp2l, NULL},   {"expm1", expm1l, NULL},
    {"log", logl, NULL},     {"log10", log10l, NULL}, {"log1p", log1pl, NULL},
    {"log2", log2l, NULL},   {"sin", sinl, NULL},     {"sinh", sinhl, NULL},
    {"tan", tanl, NULL},     {"tanh", tanhl, NULL},   {"atan2", NULL, atan2l},
    {"hypot", NULL, hypotl}, {"pow", NULL, powl},
};

/* Of numba_common/vector_math.py. */
static const char left_out[] = "_ZGVeN16v_erff";

static long double exp10_exact(long double x)
{
    return powl(10, x);
}

typedef void runner(void *function, const void *x, const void *y, void *out, size_t n);

/* `y` is NULL for functions of one argument; `n` is a multiple of `count`. */
#define RUNNER(letter, type, count, features)                                                      \
    typedef type vector_##letter##_##type __attribute__((vector_size(count * sizeof(type))));      \
    static __attribute__((target(features))) void run_##letter##_##type(                           \
        void *function, const void *x, const void *y, void *out, size_t n)                         \
    {                                                                                              \
        typedef vector_##letter##_##type vector;                                                   \
        for (size_t i = 0; i < n * sizeof(type); i += sizeof(vector)) {                            \
            vector a, b, result;                                                                   \
            memcpy(&a, (const char *)x + i, sizeof a);                                             \
            if (y) {                                                                               \
                memcpy(&b, (const char *)y + i, sizeof b);                                         \
                result = ((vector(*)(vector, vector))(uintptr_t)function)(a, b);                   \
            } else {                                                                               \
                result = ((vector(*)(vector))(uintptr_t)function)(a);                              \
            }                                                                                      \
            memcpy((char *)out + i, &result, sizeof result);                                       \
        }                                                                                          \
    }

RUNNER(b, float, 4, "sse2")
RUNNER(b, double, 2, "sse2")
RUNNER(d, float, 8, "avx2")
RUNNER(d, double, 4, "avx2")
RUNNER(e, float, 16, "avx512f")
RUNNER(e, double, 8, "avx512f")

static bool has_b(void)
{
    return true;
}

static bool has_d(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_e(void)
{
    return has_d() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
}

static const struct {
    char letter;
    bool (*is_here)(void);
    runner *of_float, *of_double;
    int n_floats;
} widths[] = {
    {'b', has_b, run_b_float, run_b_double, 4},
    {'d', has_d, run_d_float, run_d_double, 8},
    {'e', has_e, run_e_float, run_e_double, 16},
};

static uint64_t state = 1;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static const double specials[] = {
    0.0,      -0.0,    INFINITY, -INFINITY, NAN,      1.0,   -1.0,   FLT_MIN, -FLT_MIN, DBL_MIN,
    -DBL_MIN, FLT_MAX, -FLT_MAX, DBL_MAX,   -DBL_MAX, 1e-45, -1e-45, 5e-324,  -5e-324,  2.0,
    -2.0,     3.0,     -3.0,     0.5,       -0.5,     2.5,   -2.5,   88.7,    -87.5,    -103.0,
    -104.0,   709.7,   -708.5,   -745.0,    -746.0,   308.2, -308.0, -323.5,  38.5,     -44.5,
    1e-40,    -1e-40,  1e-310,   -1e-310,   27.2,     10.1,  1e22,   -1e300,
};
enum { SPECIALS = sizeof specials / sizeof *specials };

/* Numbers of every exponent; every second one between 2^-12 and 2^8. */
static double draw_double(void)
{
    uint64_t bits = draw();
    if (bits & 1)
        bits = (bits & ~((uint64_t)0x7FF << 52)) | (uint64_t)(1023 - 12 + draw() % 20) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float draw_float(void)
{
    uint32_t bits = (uint32_t)draw();
    if (bits & 1)
        bits = (bits & ~((uint32_t)0xFF << 23)) | (uint32_t)(127 - 12 + draw() % 20) << 23;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The numbers that a function is tried with, and the exact values. */
typedef struct trial {
    bool is_double;
    size_t n;
    void *x, *y, *out; /* of float or double */
    long double *exact;
} trial;

static void put(const trial *t, void *list, size_t i, double value)
{
    if (t->is_double)
        ((double *)list)[i] = value;
    else
        ((float *)list)[i] = (float)value;
}

static double get(const trial *t, const void *list, size_t i)
{
    return t->is_double ? ((const double *)list)[i] : (double)((const float *)list)[i];
}

static double draw_number(const trial *t)
{
    return t->is_double ? draw_double() : (double)draw_float();
}

/* The second of two: related to the first as often as not, so that results are numbers. */
static double draw_second(const trial *t, double first)
{
    switch (draw() % 3) {
    case 0:
        return first * ldexp(1 + (double)(draw() % 1000) / 1000, (int)(draw() % 24) - 12);
    case 1:
        return (double)(draw() % 40000) / 1000 - 20;
    default:
        return draw_number(t);
    }
}

static void fill(trial *t, size_t f)
{
    size_t pairs = (size_t)SPECIALS * SPECIALS;
    for (size_t i = 0; i < t->n; i++) {
        double x = i < pairs ? specials[i % SPECIALS] : draw_number(t);
        if (i >= pairs && functions[f].two == powl && draw() % 4)
            x = fabs(x);
        put(t, t->x, i, x);
        put(t, t->y, i, i < pairs ? specials[i / SPECIALS] : draw_second(t, x));
        long double a = get(t, t->x, i), b = get(t, t->y, i);
        t->exact[i] = functions[f].two   ? functions[f].two(a, b)
                      : functions[f].one ? functions[f].one(a)
                                         : exp10_exact(a);
    }
}

/* The distance of a result from the exact value, in units of the last place; infinite where it is
 * another special value, or a zero of the other sign. */
static double ulps(const trial *t, double got, long double exact)
{
    double rounded = t->is_double ? (double)exact : (double)(float)exact;
    if (isnan(rounded) || isnan(got))
        return isnan(rounded) && isnan(got) ? 0 : INFINITY;
    if (isinf(rounded) || isinf(got))
        return got == rounded ? 0 : INFINITY;
    if (got == 0 && rounded == 0)
        return signbit(got) == signbit(rounded) ? 0 : INFINITY;
    int digits = t->is_double ? DBL_MANT_DIG : FLT_MANT_DIG;
    int least = t->is_double ? DBL_MIN_EXP : FLT_MIN_EXP;
    int exponent = exact == 0 ? least : ilogbl(exact) + 1;
    return (double)fabsl(
        ldexpl((long double)got - exact, digits - (exponent > least ? exponent : least)));
}

static void check(const trial *t, const char *name)
{
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < t->n; i++) {
        double distance = ulps(t, get(t, t->out, i), t->exact[i]);
        if (distance > worst) {
            worst = distance;
            at = i;
        }
    }
    if (!CHECK(worst <= ULPS))
        fprintf(stderr, "%s(%a, %a) is %a, exactly %La: %g ulp\n", name, get(t, t->x, at),
                get(t, t->y, at), get(t, t->out, at), t->exact[at], worst);
    if (getenv("KB_VECTOR_MATH_SAMPLES"))
        printf("%s: %.2f ulp\n", name, worst);
}

static int n_tried;

static void try_widths(trial *t, size_t f)
{
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        char name[64];
        int count = widths[w].n_floats >> t->is_double;
        (void)snprintf(name, sizeof name, "_ZGV%cN%d%s_%s%s", widths[w].letter, count,
                       functions[f].two ? "vv" : "v", functions[f].name, t->is_double ? "" : "f");
        void *function = kb_provided_find(name);
        if (!function || !widths[w].is_here() || strcmp(name, left_out) == 0)
            continue;
        (t->is_double ? widths[w].of_double : widths[w].of_float)(
            function, t->x, functions[f].two ? t->y : NULL, t->out, t->n);
        check(t, name);
        n_tried++;
    }
}

static void test_values(void)
{
    const char *given = getenv("KB_VECTOR_MATH_SAMPLES");
    size_t n = given ? strtoul(given, NULL, 10) : 20000;
    n = (n + (size_t)SPECIALS * SPECIALS) / 16 * 16;
    trial t = {.n = n};
    t.x = malloc(n * sizeof(double));
    t.y = malloc(n * sizeof(double));
    t.out = malloc(n * sizeof(double));
    t.exact = malloc(n * sizeof *t.exact);
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
        for (int is_double = 0; is_double < 2; is_double++) {
            t.is_double = is_double;
            fill(&t, f);
            try_widths(&t, f);
        }
    free(t.x);
    free(t.y);
    free(t.out);
    free(t.exact);
}

static void test_names(void)
{
    static const char *const refused[] = {
        "_ZGV",         "_ZGVb",           "_ZGVbN",          "_ZGVbN4",         "_ZGVbN4v",
        "_ZGVbN4v_",    "_ZGVbM4v_expf",   "_ZGVxN4v_expf",   "_ZGWbN4v_expf",   "XZGVbN4v_expf",
        "_ZGVbN4_expf", "_ZGVbNv_expf",    "_ZGVbN4v_system", "_ZGVbN4v_getenv", "_ZGVbN4vl4_expf",
        "expf_ZGV",     "_ZGVbN4v_memcpy",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK(kb_provided_find(refused[i]) == NULL);
}

int main(void)
{
    test_names();
    if (!kb_provided_find("_ZGVbN2v_exp")) {
        CHECK(!dlopen("libmvec.so.1", RTLD_LAZY));
        printf("test_vector_math: skipped, because there is no libmvec\n");
        return atomic_load(&kb_test_failures) ? KB_TEST_FAIL : KB_TEST_SKIP;
    }
    test_values();
    CHECK(n_tried > 0);
    return kb_test_end("test_vector_math");
}

#else

int main(void)
{
    printf("test_vector_math: skipped, because only x86-64 has libmvec's functions here\n");
    return KB_TEST_SKIP;
}

#endif
