/* Owns the list of functions for machine code without a compiler. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif
#include "object/kb_provided.h"

#include "core/kb_extension.h"
#include "core/kb_host.h"
#include "object/kb_nrt.h"
#include "object/kb_reshape.h"

#include <dlfcn.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Half precision on x86-64 processors without F16C, for which LLVM calls the compiler's runtime. A
 * half is in the lower bits of the register that passes a float. */
typedef union half_bits {
    float passed;
    uint32_t bits;
} half_bits;

static float half_to_float(float half)
{
    uint32_t bits = ((half_bits){half}).bits, digits = bits & 0x3ff, exponent = bits >> 10 & 31;
    double size = exponent ? ldexp(digits + 1024, (int)exponent - 25) : ldexp(digits, -24);
    if (exponent == 31)
        size = digits ? NAN : INFINITY;
    return (float)copysign(size, bits & 0x8000 ? -1 : 1);
}

static float double_to_half(double x)
{
    int exponent;
    (void)frexp(fmax(fabs(x), 0x1p-14), &exponent);
    int unit = exponent - 11; /* halves around x are 2^unit apart */
    half_bits half = {.bits = isnan(x) ? 0x7e00 : 0x7c00};
    if (fabs(x) < 65520) /* the next ones are rounded to infinity */
        half.bits = (uint32_t)rint(ldexp(fabs(x), -unit)) + ((uint32_t)(unit + 24) << 10);
    half.bits |= signbit(x) ? 0x8000 : 0;
    return half.passed;
}

static float float_to_half(float x)
{
    return double_to_half((double)x);
}

/* What Numba's runtime does where Numba is, and more. */
static const kb_symbol OWN[] = {
    KB_SYMBOL("NRT_Allocate", malloc),
    KB_SYMBOL("NRT_Free", free),
    KB_SYMBOL("NRT_MemInfo_alloc", kb_nrt_new),
    KB_SYMBOL("NRT_MemInfo_alloc_aligned", kb_nrt_new_aligned),
    KB_SYMBOL("NRT_MemInfo_alloc_dtor", kb_nrt_new_with),
    KB_SYMBOL("NRT_MemInfo_call_dtor", kb_nrt_destroy),
    KB_SYMBOL("NRT_MemInfo_new_varsize", kb_nrt_new_varsize),
    KB_SYMBOL("NRT_MemInfo_new_varsize_dtor", kb_nrt_new_varsize_with),
    KB_SYMBOL("NRT_MemInfo_varsize_alloc", kb_nrt_varsize_allocate),
    KB_SYMBOL("NRT_MemInfo_varsize_free", kb_nrt_varsize_free),
    KB_SYMBOL("NRT_MemInfo_varsize_realloc", kb_nrt_varsize_resize),
    KB_SYMBOL("numba_attempt_nocopy_reshape", kb_reshape),
    KB_SYMBOL("__extendhfsf2", half_to_float),
    KB_SYMBOL("__truncsfhf2", float_to_half),
    KB_SYMBOL("__truncdfhf2", double_to_half),
    {0},
};

/* Of Python, without "Py": code that makes objects of an exception's values calls them kb_Py... */
static const char *const PYTHON[] = {
    "Bool_FromLong",
    "Err_SetString",
    "Exc_RuntimeError",
    "Float_FromDouble",
    "Long_FromLongLong",
    "Long_FromUnsignedLongLong",
    "Object_Hash",
    "Tuple_New",
    "Tuple_Pack",
    "Tuple_SetItem",
    "Unicode_FromKindAndData",
};

/* In place of each of them where Python is not. Its result is only compared with NULL. */
static const void *make_nothing(void)
{
    return PYTHON;
}

/* Of libm, for double; those for float have an f at their end. LLVM calls them for intrinsics, and
 * Numba for `math` and NumPy's functions. */
static const char *const MATH[] = {
    "acos",   "acosh",     "asin",   "asinh", "atan",  "atan2",     "atanh",     "cbrt",
    "ceil",   "copysign",  "cos",    "cosh",  "erf",   "erfc",      "exp",       "exp10",
    "exp2",   "expm1",     "fabs",   "fdim",  "floor", "fma",       "fmax",      "fmin",
    "fmod",   "frexp",     "hypot",  "ilogb", "j0",    "j1",        "ldexp",     "lgamma",
    "log",    "log10",     "log1p",  "log2",  "logb",  "modf",      "nearbyint", "nextafter",
    "pow",    "remainder", "remquo", "rint",  "round", "roundeven", "scalbn",    "sin",
    "sincos", "sinh",      "sqrt",   "tan",   "tanh",  "tgamma",    "trunc",     "y0",
    "y1",
};

/* Of libc: LLVM turns loops into calls of them, and derivatives keep what they need again. */
static const char *const MEMORY[] = {
    "bcmp",    "calloc", "free",    "malloc", "memcmp",  "memcpy",
    "memmove", "memset", "realloc", "strlen", "_setjmp",
};

static int is_math(const char *name)
{
    size_t size = strlen(name);
    for (size_t i = 0; i < sizeof MATH / sizeof *MATH; i++) {
        size_t own = strlen(MATH[i]);
        if (strncmp(name, MATH[i], own) == 0 &&
            (size == own || (size == own + 1 && name[own] == 'f')))
            return 1;
    }
    return 0;
}

static int is_among(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, list[i]) == 0)
            return 1;
    return 0;
}

/* Of libmvec, by the rules of the vector function ABI: one of MATH for vectors without a mask. */
static int is_vector_math(const char *name)
{
    static const char prefix[] = "_ZGV";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return 0;
    name += sizeof prefix - 1;
    if (!*name || !strchr("bcde", *name) || name[1] != 'N')
        return 0;
    name += 2;
    size_t n_digits = strspn(name, "0123456789"), n_operands = strspn(name + n_digits, "v");
    name += n_digits + n_operands;
    return n_digits && n_operands && *name == '_' && is_math(name + 1);
}

/* The process may have a library for some parts alone, or not at all. */
static void *find_in(const char *library, const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found)
        return found;
    void *opened = dlopen(library, RTLD_LAZY);
    return opened ? dlsym(opened, name) : NULL;
}

void *kb_provided_of_c(const char *name)
{
    if (is_math(name) || is_among(name, MEMORY, sizeof MEMORY / sizeof *MEMORY))
        return find_in("libm.so.6", name);
    return is_vector_math(name) ? find_in("libmvec.so.1", name) : NULL;
}

void *kb_provided_find(const char *name)
{
    void *own = kb_symbol_find(OWN, name);
    for (const kb_extension *const *e = kb_extensions; *e && !own; e++)
        own = kb_symbol_find((*e)->symbols, name);
    if (own)
        return own;
    if (strncmp(name, "kb_Py", 5) == 0 &&
        is_among(name + 5, PYTHON, sizeof PYTHON / sizeof *PYTHON)) {
        void *found = kb_failures_write ? dlsym(RTLD_DEFAULT, name + 3) : NULL;
        return found ? found : (void *)(uintptr_t)make_nothing;
    }
    return kb_provided_of_c(name);
}
