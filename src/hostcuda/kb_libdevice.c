/* Owns the table of libdevice's functions, and those of them that have a rounding direction.
 *
 * The direction is a state of the processor. What is computed under it goes through volatile
 * variables: a compiler that knows nothing of directions moves no access to them over a call. */
#include "hostcuda/kb_libdevice.h"

#include <fenv.h>
#include <math.h>
#include <stddef.h>

#define ENTER(direction)                                                                           \
    int before = fegetround();                                                                     \
    (void)fesetround(direction)

#define LEAVE()                                                                                    \
    (void)fesetround(before);                                                                      \
    return r

// NOLINTBEGIN(bugprone-macro-parentheses): types and lists of parameters take none
#define DIRECTIONS(name, result, parameters, arguments)                                            \
    result kb_nv_##name##_rd parameters                                                            \
    {                                                                                              \
        return name##_towards(FE_DOWNWARD, arguments);                                             \
    }                                                                                              \
    result kb_nv_##name##_ru parameters                                                            \
    {                                                                                              \
        return name##_towards(FE_UPWARD, arguments);                                               \
    }                                                                                              \
    result kb_nv_##name##_rz parameters                                                            \
    {                                                                                              \
        return name##_towards(FE_TOWARDZERO, arguments);                                           \
    }

#define COMMA ,

/* `value` is said of a, b and c. */
#define OF_1(name, result, type, value)                                                            \
    static result name##_towards(int direction, type x)                                            \
    {                                                                                              \
        volatile type a = x;                                                                       \
        ENTER(direction);                                                                          \
        volatile result r = value;                                                                 \
        LEAVE();                                                                                   \
    }                                                                                              \
    DIRECTIONS(name, result, (type x), x)

#define OF_2(name, type, value)                                                                    \
    static type name##_towards(int direction, type x, type y)                                      \
    {                                                                                              \
        volatile type a = x, b = y;                                                                \
        ENTER(direction);                                                                          \
        volatile type r = value;                                                                   \
        LEAVE();                                                                                   \
    }                                                                                              \
    DIRECTIONS(name, type, (type x, type y), x COMMA y)

#define OF_3(name, type, value)                                                                    \
    static type name##_towards(int direction, type x, type y, type z)                              \
    {                                                                                              \
        volatile type a = x, b = y, c = z;                                                         \
        ENTER(direction);                                                                          \
        volatile type r = value;                                                                   \
        LEAVE();                                                                                   \
    }                                                                                              \
    DIRECTIONS(name, type, (type x, type y, type z), x COMMA y COMMA z)
// NOLINTEND(bugprone-macro-parentheses)

OF_2(dadd, double, a + b)
OF_2(dsub, double, a - b)
OF_2(dmul, double, (a * b))
OF_2(ddiv, double, a / b)
OF_1(drcp, double, double, 1.0 / a)
OF_1(dsqrt, double, double, sqrt(a))
OF_3(fma, double, fma(a, b, c))
OF_2(fadd, float, a + b)
OF_2(fsub, float, a - b)
OF_2(fmul, float, (a * b))
OF_2(fdiv, float, a / b)
OF_1(frcp, float, float, 1.0F / a)
OF_1(fsqrt, float, float, sqrtf(a))
OF_3(fmaf, float, fmaf(a, b, c))
OF_1(double2float, float, double, (float)a)
OF_1(int2float, float, int32_t, (float)a)
OF_1(uint2float, float, uint32_t, (float)a)
OF_1(ll2float, float, int64_t, (float)a)
OF_1(ull2float, float, uint64_t, (float)a)
OF_1(ll2double, double, int64_t, (double)a)
OF_1(ull2double, double, uint64_t, (double)a)

#define SYMBOL(name, result, parameters) {"kb_nv_" #name, (void (*)(void))kb_nv_##name},
#define SYMBOLS(name, result, parameters)                                                          \
    {"kb_nv_" #name "_rd", (void (*)(void))kb_nv_##name##_rd},                                     \
        {"kb_nv_" #name "_ru", (void (*)(void))kb_nv_##name##_ru},                                 \
        {"kb_nv_" #name "_rz", (void (*)(void))kb_nv_##name##_rz},

const kb_hostcuda_symbol kb_libdevice_symbols[] = {
    // clang-format off
    KB_LIBDEVICE_SPECIAL(SYMBOL)
    KB_LIBDEVICE_ROUNDED(SYMBOLS)
    // clang-format on
    {NULL, NULL},
};
