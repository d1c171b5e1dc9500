/* Proves that memory which kernels take from Numba's runtime is given back once, with its
 * destructor, is aligned, keeps its contents when it grows, and that there is none without an
 * error.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif
#include "core/kb_host.h"
#include "kb_test.h"
#include "object/kb_nrt.h"
#include "object/kb_provided.h"
#include "object/kb_reshape.h"
#include "torture.h"

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>

static void test_plain(void)
{
    kb_nrt_memory *m = kb_nrt_new(100);
    if (!CHECK(m != NULL))
        return;
    CHECK_INT(m->references, 1);
    CHECK_INT(m->size, 100);
    CHECK_PTR(m->external, NULL);
    memset(m->data, 1, 100); /* all of it: AddressSanitizer watches */
    kb_nrt_destroy(m);
    char *bytes = torture_malloc(3);
    if (CHECK(bytes != NULL))
        memset(bytes, 1, 3);
    torture_free(bytes);
    torture_free(NULL);
}

static void test_aligned(void)
{
    for (unsigned alignment = 1; alignment <= 4096; alignment += alignment < 70 ? 1 : 671) {
        kb_nrt_memory *m = kb_nrt_new_aligned(33, alignment);
        if (!CHECK(m != NULL))
            return;
        CHECK_INT((uintptr_t)m->data % alignment, 0);
        CHECK_INT(m->size, 33);
        memset(m->data, 1, 33);
        kb_nrt_destroy(m);
    }
}

static struct {
    int calls;
    void *data, *info;
    size_t size;
} seen;

static void destructor(void *data, size_t size, void *info)
{
    seen.calls++;
    seen.data = data;
    seen.size = size;
    seen.info = info;
}

static void of_element(void *data, size_t size, void *info)
{
    (void)size, (void)info;
    seen.calls++;
    seen.data = data;
}

static void test_destructors(void)
{
    seen.calls = 0;
    kb_nrt_memory *m = kb_nrt_new_with(8, destructor);
    void *data = m ? m->data : NULL;
    kb_nrt_destroy(m);
    CHECK_INT(seen.calls, 1);
    CHECK_PTR(seen.data, data);
    CHECK_INT(seen.size, 8);
    CHECK_PTR(seen.info, NULL);
    kb_nrt_destroy(kb_nrt_new_with(8, NULL));
    m = kb_nrt_new_varsize_with(8, of_element);
    data = m ? m->data : NULL;
    kb_nrt_destroy(m);
    CHECK_INT(seen.calls, 2);
    CHECK_PTR(seen.data, data);
}

static void test_varsize(void)
{
    kb_nrt_memory *m = kb_nrt_new_varsize(4);
    if (!CHECK(m != NULL))
        return;
    memcpy(m->data, "abc", 4);
    void *grown = kb_nrt_varsize_resize(m, 1000);
    CHECK_PTR(grown, m->data);
    CHECK_INT(m->size, 1000);
    CHECK_TEXT(m->data, "abc");
    CHECK(kb_nrt_varsize_resize(m, 2) != NULL);
    CHECK(memcmp(m->data, "ab", 2) == 0);
    void *before = m->data;
    CHECK(kb_nrt_varsize_allocate(m, 50) != NULL); /* the code frees the other one itself */
    CHECK(m->data != before);
    CHECK_INT(m->size, 50);
    kb_nrt_varsize_free(m, before);
    CHECK(m->data != NULL);
    kb_nrt_varsize_free(m, m->data);
    CHECK_PTR(m->data, NULL);
    grown = kb_nrt_varsize_resize(m, 10); /* of nothing: there is nothing to keep */
    CHECK(grown != NULL);
    CHECK_PTR(m->data, grown);
    CHECK_INT(m->size, 10);
    kb_nrt_destroy(m);
}

static void test_no_memory(void)
{
    CHECK(!kb_nrt_new(SIZE_MAX));
    CHECK(!kb_nrt_new(SIZE_MAX - 8));
    CHECK(!kb_nrt_new_aligned(SIZE_MAX - 8, 64));
    CHECK(!kb_nrt_new_aligned(8, 0));
    torture_fail_nth(1);
    CHECK(!kb_nrt_new_aligned(8, 16));
    torture_fail_nth(0);
    kb_nrt_memory *m = kb_nrt_new_varsize(4);
    for (long n = 1; n <= 2; n++) {
        torture_fail_nth(n);
        CHECK(!kb_nrt_new_varsize(4));
    }
    torture_fail_nth(1);
    CHECK(!kb_nrt_varsize_resize(m, 8));
    CHECK_INT(m->size, 4); /* as before */
    kb_nrt_varsize_free(m, m->data);
    torture_fail_nth(1);
    CHECK(!kb_nrt_varsize_allocate(m, 8));
    CHECK_PTR(m->data, NULL);
    CHECK_INT(m->size, 4); /* as before */
    torture_fail_nth(0);
    kb_nrt_destroy(m);
}

static bool never(kb_numba_exception *record, char *text, size_t capacity)
{
    (void)record, (void)text, (void)capacity;
    return false;
}

/* A process with Python. */
__attribute__((visibility("default"))) void *PyFloat_FromDouble(double value);

void *PyFloat_FromDouble(double value)
{
    (void)value;
    return NULL;
}

#define FUNCTION(function) ((void *)(uintptr_t)(function))

/* Each name stands for its own function. */
static void test_own_names(void)
{
    const struct {
        const char *name;
        void *address;
    } own[] = {
        {"NRT_Allocate", FUNCTION(torture_malloc)},
        {"NRT_Free", FUNCTION(torture_free)},
        {"NRT_MemInfo_alloc", FUNCTION(kb_nrt_new)},
        {"NRT_MemInfo_alloc_aligned", FUNCTION(kb_nrt_new_aligned)},
        {"NRT_MemInfo_alloc_dtor", FUNCTION(kb_nrt_new_with)},
        {"NRT_MemInfo_call_dtor", FUNCTION(kb_nrt_destroy)},
        {"NRT_MemInfo_new_varsize", FUNCTION(kb_nrt_new_varsize)},
        {"NRT_MemInfo_new_varsize_dtor", FUNCTION(kb_nrt_new_varsize_with)},
        {"NRT_MemInfo_varsize_alloc", FUNCTION(kb_nrt_varsize_allocate)},
        {"NRT_MemInfo_varsize_free", FUNCTION(kb_nrt_varsize_free)},
        {"NRT_MemInfo_varsize_realloc", FUNCTION(kb_nrt_varsize_resize)},
        {"numba_attempt_nocopy_reshape", FUNCTION(kb_reshape)},
    };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        CHECK_PTR(kb_provided_find(own[i].name), own[i].address);
    void *nothing = kb_provided_find("kb_PyFloat_FromDouble");
    CHECK(nothing && ((void *(*)(double))(uintptr_t)nothing)(1.0));
    CHECK_PTR(kb_provided_find("kb_PyExc_RuntimeError"), nothing);
    CHECK(kb_provided_find("kb_PyLong_AsLong") == NULL);
    kb_failures_write = never;
    CHECK_PTR(kb_provided_find("kb_PyFloat_FromDouble"), FUNCTION(PyFloat_FromDouble));
    CHECK_PTR(kb_provided_find("kb_PyTuple_New"), nothing);
    kb_failures_write = NULL;
}

#if defined(__x86_64__) && defined(__FLT16_MAX__)
#define HAS_HALVES
__extension__ typedef _Float16 float16;

/* The compiler's own conversions are the referee. A NaN stays one, with its sign. */
static void test_half_precision(void)
{
    void *widen = kb_provided_find("__extendhfsf2");
    void *narrow = kb_provided_find("__truncsfhf2");
    void *narrow_double = kb_provided_find("__truncdfhf2");
    CHECK(widen && narrow && narrow_double);
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t bits = (uint16_t)i, back;
        float16 half, got;
        memcpy(&half, &bits, sizeof half);
        float wide = ((float (*)(float16))(uintptr_t)widen)(half), want = half;
        CHECK(isnan(want) ? isnan(wide) && !signbit(wide) == !signbit(want)
                          : memcmp(&wide, &want, sizeof want) == 0);
        got = ((float16(*)(float))(uintptr_t)narrow)(wide);
        memcpy(&back, &got, sizeof back);
        CHECK(isnan(want) ? isnan((float)got) && back >> 15 == bits >> 15 : back == bits);
        if (isnan(want) || isinf(want))
            continue;
        double between = (double)want * (1 + ldexp(1, -11)); /* halfway, or nearly so */
        for (int step = -1; step <= 1; step++) {
            double x = between + step * fabs(between) * 0x1p-40;
            half = (float16)x;
            got = ((float16(*)(double))(uintptr_t)narrow_double)(x);
            CHECK(memcmp(&got, &half, sizeof half) == 0);
            half = (float16)(float)x;
            got = ((float16(*)(float))(uintptr_t)narrow)((float)x);
            CHECK(memcmp(&got, &half, sizeof half) == 0);
        }
    }
}
#endif

/* Of the C library, what is for double and for float, and what loops become; not all that it has.
 */
static void test_names_of_c(void)
{
    static const char *const names[] = {
        "acos",   "acosh",  "asin",  "asinh",     "atan",  "atan2",     "atanh",     "cbrt",
        "ceil",   "cos",    "cosh",  "copysign",  "erf",   "erfc",      "exp",       "exp10",
        "exp2",   "expm1",  "fabs",  "fdim",      "floor", "fma",       "fmax",      "fmin",
        "fmod",   "frexp",  "hypot", "ilogb",     "j0",    "j1",        "ldexp",     "lgamma",
        "log",    "log10",  "log1p", "log2",      "logb",  "modf",      "nearbyint", "nextafter",
        "pow",    "remquo", "rint",  "remainder", "round", "roundeven", "scalbn",    "sin",
        "sincos", "sinh",   "sqrt",  "tan",       "tanh",  "tgamma",    "trunc",     "y0",
        "y1"};
    static const char *const memory[] = {"bcmp",   "calloc",  "free",   "malloc",  "memcmp",
                                         "memcpy", "memmove", "memset", "realloc", "strlen"};
    static const char *const refused[] = {"NRT_MemInfo_alloc_safe",
                                          "system",
                                          "",
                                          "sinl",
                                          "f",
                                          "si",
                                          "sinff",
                                          "strlenf",
                                          "memcp",
                                          "j",
                                          "jn"};
    void *math = dlopen("libm.so.6", RTLD_LAZY);
    for (size_t i = 0; math && i < sizeof names / sizeof *names; i++) {
        char single[16];
        snprintf(single, sizeof single, "%sf", names[i]);
        CHECK_INT(kb_provided_find(names[i]) != NULL, dlsym(math, names[i]) != NULL);
        CHECK_INT(kb_provided_find(single) != NULL, dlsym(math, single) != NULL);
    }
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        CHECK(kb_provided_find(memory[i]) != NULL);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK_PTR(kb_provided_find(refused[i]), NULL);
    if (math)
        dlclose(math);
}

/* A function that the process has under a name of no library. */
#define HAS(function, name)                                                                        \
    __attribute__((visibility("default"), used)) int function(void) __asm__(name);                 \
    int function(void)                                                                             \
    {                                                                                              \
        return 0;                                                                                  \
    }

HAS(has_wide, "_ZGVbN99v_exp")
HAS(has_three, "_ZGVcN4vvv_powf")
HAS(has_digits, "_ZGVeN0123456789v_y1")
HAS(has_least, "_ZGVdN1v_j0f")
HAS(has_other_start, "XZGVbN4v_exp")
HAS(has_other_last, "_ZGWbN4v_exp")
HAS(has_only_start, "_ZGV")
HAS(has_other_letter, "_ZGVfN4v_exp")
HAS(has_first_letter, "_ZGVaN4v_exp")
HAS(has_mask, "_ZGVbM4v_exp")
HAS(has_no_digits, "_ZGVbNv_exp")
HAS(has_no_operands, "_ZGVbN4_exp")
HAS(has_linear, "_ZGVbN4vl_exp")
HAS(has_no_name, "_ZGVbN4v_")
HAS(has_no_line, "_ZGVbN4vexp")
HAS(has_other_name, "_ZGVbN4v_nothing")
HAS(has_other_suffix, "_ZGVbN4v_expl")
HAS(has_memory, "_ZGVbN4v_memcpy")
HAS(has_two_suffixes, "sinff")
HAS(has_third_letter, "sinfx")
HAS(has_longer, "memcpyf")
HAS(has_any, "kb_test_nrt")

/* What is offered is told by its name alone, whatever else the process has. */
static void test_names_of_the_process(void)
{
    static const char *const refused[] = {
        "XZGVbN4v_exp", "_ZGWbN4v_exp",     "_ZGV",          "_ZGVfN4v_exp",    "_ZGVaN4v_exp",
        "_ZGVbM4v_exp", "_ZGVbNv_exp",      "_ZGVbN4_exp",   "_ZGVbN4vl_exp",   "_ZGVbN4v_",
        "_ZGVbN4vexp",  "_ZGVbN4v_nothing", "_ZGVbN4v_expl", "_ZGVbN4v_memcpy", "sinff",
        "sinfx",        "memcpyf",          "kb_test_nrt",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        CHECK(dlsym(RTLD_DEFAULT, refused[i]) != NULL);
        CHECK_PTR(kb_provided_find(refused[i]), NULL);
        CHECK_PTR(kb_provided_of_c(refused[i]), NULL);
    }
    CHECK_PTR(kb_provided_find("_ZGVbN99v_exp"), FUNCTION(has_wide));
    CHECK_PTR(kb_provided_find("_ZGVcN4vvv_powf"), FUNCTION(has_three));
    CHECK_PTR(kb_provided_of_c("_ZGVeN0123456789v_y1"), FUNCTION(has_digits));
    CHECK_PTR(kb_provided_of_c("_ZGVdN1v_j0f"), FUNCTION(has_least));
    CHECK_PTR(kb_provided_of_c("NRT_Free"), NULL); /* it is our own */
}

int main(void)
{
    test_plain();
    test_aligned();
    test_destructors();
    test_varsize();
    test_no_memory();
    test_own_names();
    test_names_of_c();
#ifdef HAS_HALVES
    test_half_precision();
#endif
    test_names_of_the_process();
    return kb_test_end("test_nrt");
}
