/* Mathematical functions and intrinsics of CUDA C++ on the CPU. Approximate ones are exact here. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_MATH_HPP
#define KERNBRIDGE_CUDA_ON_CPU_MATH_HPP

#include "cuda/vector_types.h"

/* The larger and the smaller of two numbers, of which NaN loses. g++ would call the C library, which
 * takes several times as long. This comes before <cmath>, whose std::fmax has __builtin_fmaxf. */
#if defined(__SSE2__) && !defined(__clang__)
#define KB_INLINED(T, name, instruction)                                                           \
    extern "C" inline __attribute__((gnu_inline, always_inline)) T name(T a, T b) noexcept         \
    {                                                                                              \
        T r = a; /* or b, where the two are equal or one is NaN */                                 \
        __asm__("%v" instruction " %1, %d0" : "+x"(r) : "x"(b)); /* %v, %d: as AVX writes it */    \
        return b != b ? a : r;                                                                     \
    }
KB_INLINED(float, fmaxf, "maxss")
KB_INLINED(float, fminf, "minss")
KB_INLINED(double, fmax, "maxsd")
KB_INLINED(double, fmin, "minsd")
#undef KB_INLINED
#define __builtin_fmaxf fmaxf
#define __builtin_fminf fminf
#include <cmath>
#undef __builtin_fmaxf
#undef __builtin_fminf
#endif

#include "kernbridge/cuda_on_cpu/special.h"

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

/* Functions of CUDA that C23 has too, and the C library from glibc 2.41 and 2.42 on. */
#if __GLIBC_PREREQ(2, 41)
#define sinpi  kernbridge_sinpi
#define sinpif kernbridge_sinpif
#define cospi  kernbridge_cospi
#define cospif kernbridge_cospif
#endif
#if __GLIBC_PREREQ(2, 42)
#define rsqrt  kernbridge_rsqrt
#define rsqrtf kernbridge_rsqrtf
#endif

namespace kernbridge::cuda_on_cpu
{
template <typename T, typename U>
using common = typename std::enable_if<
    std::is_arithmetic<T>::value && std::is_arithmetic<U>::value,
    std::common_type<T, U>>::type::type;

/* As PTX's cvt: what does not fit becomes the nearest number, NaN becomes 0 (or, from or to 64 bits,
 * the highest bit alone). */
template <typename I, typename F> static inline I integer(F value)
{
    const F low = static_cast<F>(std::numeric_limits<I>::min());
    const F high = std::ldexp(static_cast<F>(1), std::numeric_limits<I>::digits);
    if (value != value)
        return sizeof(I) + sizeof(F) == 8 ? 0 : static_cast<I>(static_cast<I>(1) << (8 * sizeof(I) - 1));
    return value <= low    ? std::numeric_limits<I>::min()
           : value >= high ? std::numeric_limits<I>::max()
                           : static_cast<I>(value);
}
} // namespace kernbridge::cuda_on_cpu

/* Functions that are one expression, also in the headers that follow. */
#define KB_GIVES(T, function, expression)                                                          \
    T function                                                                                     \
    {                                                                                              \
        return expression;                                                                         \
    }
#define KB_IS(T, name, parameters, expression)                                                     \
    static inline KB_GIVES(T, name parameters, expression)
#define KB_IS_BOTH(name, parameters, expression)                                                   \
    KB_IS(float, name##f, parameters(float), static_cast<float>(expression))                       \
    KB_IS(double, name, parameters(double), static_cast<double>(expression))

/* min and max of two types have the type that C++ gives to `true ? a : b`. NaN loses. */
#define KB_EXTREME(name, second_wins)                                                              \
    template <typename T, typename U>                                                              \
    static inline kernbridge::cuda_on_cpu::common<T, U> name(T a, U b)                             \
    {                                                                                              \
        typedef kernbridge::cuda_on_cpu::common<T, U> type;                                        \
        type v = static_cast<type>(a), w = static_cast<type>(b);                                   \
        return second_wins || v != v ? w : v;                                                      \
    }                                                                                              \
    KB_IS(float, name, (float a, float b), f##name##f(a, b))                                       \
    KB_IS(double, name, (double a, double b), f##name(a, b))
KB_EXTREME(min, w < v)
KB_EXTREME(max, v < w)
#undef KB_EXTREME

/* Names that the C library declares, too, are macros. */
#define __expf(a)    expf(a)
#define __exp10f(a)  powf(10.0f, (a))
#define __logf(a)    logf(a)
#define __log2f(a)   log2f(a)
#define __log10f(a)  log10f(a)
#define __sinf(a)    sinf(a)
#define __cosf(a)    cosf(a)
#define __tanf(a)    tanf(a)
#define __tanhf(a)   tanhf(a)
#define __powf(a, b) powf((a), (b))
#define __sincosf(a, s, c) (*(s) = sinf(a), *(c) = cosf(a), (void)0)
KB_IS_BOTH(rsqrt, KB_TAKES_1, 1 / std::sqrt(x))
KB_IS_BOTH(rcbrt, KB_TAKES_1, 1 / std::cbrt(x))
KB_IS_BOTH(rhypot, KB_TAKES_2, 1 / std::hypot(x, y))
KB_IS(float, __saturatef, (float a), a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f)
KB_IS(float, __frsqrt_rn, (float a), static_cast<float>(1.0 / sqrt(static_cast<double>(a))))
KB_IS(float, __fdividef, (float a, float b), a / b)
KB_IS(float, fdividef, (float a, float b), a / b)
#define KB_TO_NEAREST(n, name, result, type, value)                                                \
    static inline result __##name##_rn KB_TAKES_##n(type)                                          \
    {                                                                                              \
        KB_ROUNDED_COPY_##n(type);                                                                 \
        return value;                                                                              \
    }
KB_ROUNDED(KB_TO_NEAREST)
#undef KB_TO_NEAREST
KB_IS(float, rsqrt, (float a), rsqrtf(a))
KB_IS_BOTH(sinpi, KB_TAKES_1, kb_sinpi(static_cast<double>(x)))
KB_IS_BOTH(cospi, KB_TAKES_1, kb_cospi(static_cast<double>(x)))
KB_IS_BOTH(normcdf, KB_TAKES_1, 0.5 * erfc(-0.7071067811865476 * static_cast<double>(x)))
KB_IS(void, sincospif, (float a, float *s, float *c), (void)(*s = sinpif(a), *c = cospif(a)))
KB_IS(void, sincospi, (double a, double *s, double *c), (void)(*s = sinpi(a), *c = cospi(a)))
KB_IS_BOTH(erfinv, KB_TAKES_1, kb_erfinv(static_cast<double>(x)))
KB_IS_BOTH(erfcinv, KB_TAKES_1, kb_erfcinv(static_cast<double>(x)))
KB_IS_BOTH(normcdfinv, KB_TAKES_1,
           -1.4142135623730951 * kb_erfcinv(2.0 * static_cast<double>(x)))

/* Bits. */
KB_IS(int, __float_as_int, (float a), __builtin_bit_cast(int, a))
KB_IS(unsigned, __float_as_uint, (float a), __builtin_bit_cast(unsigned, a))
KB_IS(float, __int_as_float, (int a), __builtin_bit_cast(float, a))
KB_IS(float, __uint_as_float, (unsigned a), __builtin_bit_cast(float, a))
KB_IS(long long, __double_as_longlong, (double a), __builtin_bit_cast(long long, a))
KB_IS(double, __longlong_as_double, (long long a), __builtin_bit_cast(double, a))
KB_IS(int, __double2hiint, (double a), static_cast<int>(__double_as_longlong(a) >> 32))
KB_IS(int, __double2loint, (double a), static_cast<int>(__double_as_longlong(a)))
KB_IS(double, __hiloint2double, (int high, int low),
      __longlong_as_double(static_cast<long long>(
          static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 |
          static_cast<unsigned>(low))))
KB_IS(int, __popc, (unsigned a), __builtin_popcount(a))
KB_IS(int, __popcll, (unsigned long long a), __builtin_popcountll(a))
KB_IS(int, __clz, (int a), a ? __builtin_clz(static_cast<unsigned>(a)) : 32)
KB_IS(int, __clzll, (long long a), a ? __builtin_clzll(static_cast<unsigned long long>(a)) : 64)
KB_IS(int, __ffs, (int a), __builtin_ffs(a))
KB_IS(int, __ffsll, (long long a), __builtin_ffsll(a))
static inline unsigned __brev(unsigned a)
{
    unsigned r = 0;
    for (int i = 0; i < 32; i++)
        r |= (a >> i & 1) << (31 - i);
    return r;
}
KB_IS(unsigned long long, __brevll, (unsigned long long a),
      static_cast<unsigned long long>(__brev(static_cast<unsigned>(a))) << 32 |
          __brev(static_cast<unsigned>(a >> 32)))
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) {
        unsigned s = selector >> 4 * i & 0xf, byte = bytes >> 8 * (s & 7) & 0xff;
        r |= (s & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << 8 * i;
    }
    return r;
}
KB_IS(unsigned, __funnelshift_l, (unsigned low, unsigned high, unsigned n),
      static_cast<unsigned>(((static_cast<uint64_t>(high) << 32 | low) << (n & 31)) >> 32))
KB_IS(unsigned, __funnelshift_r, (unsigned low, unsigned high, unsigned n),
      static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) >> (n & 31)))
KB_IS(int, __mulhi, (int a, int b), static_cast<int>(static_cast<long long>(a) * b >> 32))
KB_IS(unsigned, __umulhi, (unsigned a, unsigned b),
      static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32))
KB_IS(long long, __mul64hi, (long long a, long long b),
      static_cast<long long>(static_cast<__int128>(a) * b >> 64))
KB_IS(unsigned long long, __umul64hi, (unsigned long long a, unsigned long long b),
      static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64))
static inline int __mul24(int a, int b)
{
    long long v = static_cast<int>(static_cast<unsigned>(a) << 8) >> 8;
    return static_cast<int>(v * (static_cast<int>(static_cast<unsigned>(b) << 8) >> 8));
}
KB_IS(unsigned, __umul24, (unsigned a, unsigned b), (a & 0xffffffu) * (b & 0xffffffu))
KB_IS(unsigned, __sad, (int a, int b, unsigned c),
      (a > b ? static_cast<unsigned>(a) - static_cast<unsigned>(b)
             : static_cast<unsigned>(b) - static_cast<unsigned>(a)) + c)

/* Conversions: to the nearest (rn), to zero (rz), down (rd) and up (ru). */
#define KB_CONVERSIONS(name, F, I)                                                                 \
    KB_IS(I, name##_rn, (F a), kernbridge::cuda_on_cpu::integer<I>(std::nearbyint(a)))             \
    KB_IS(I, name##_rz, (F a), kernbridge::cuda_on_cpu::integer<I>(a))                             \
    KB_IS(I, name##_rd, (F a), kernbridge::cuda_on_cpu::integer<I>(std::floor(a)))                 \
    KB_IS(I, name##_ru, (F a), kernbridge::cuda_on_cpu::integer<I>(std::ceil(a)))
KB_CONVERSIONS(__float2int, float, int)
KB_CONVERSIONS(__float2uint, float, unsigned)
KB_CONVERSIONS(__float2ll, float, long long)
KB_CONVERSIONS(__float2ull, float, unsigned long long)
KB_CONVERSIONS(__double2int, double, int)
KB_CONVERSIONS(__double2uint, double, unsigned)
KB_CONVERSIONS(__double2ll, double, long long)
KB_CONVERSIONS(__double2ull, double, unsigned long long)
#undef KB_CONVERSIONS
KB_IS(double, __int2double_rn, (int a), a)
KB_IS(double, __uint2double_rn, (unsigned a), a)

/* Loads and stores that say how they are cached. */
#define KB_LOAD(name) template <typename T> KB_IS(T, name, (const T *at), *at)
KB_LOAD(__ldg)
KB_LOAD(__ldca)
KB_LOAD(__ldcg)
KB_LOAD(__ldcs)
KB_LOAD(__ldlu)
KB_LOAD(__ldcv)
#undef KB_LOAD
#define KB_STORE(name)                                                                             \
    template <typename T, typename U> KB_IS(void, name, (T * at, U value), (void)(*at = value))
KB_STORE(__stwb)
KB_STORE(__stcg)
KB_STORE(__stcs)
KB_STORE(__stwt)
#undef KB_STORE

#endif
