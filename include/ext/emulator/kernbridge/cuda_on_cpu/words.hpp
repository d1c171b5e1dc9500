/* Intrinsics of CUDA C++ on the CPU that are defined by tables: arithmetic with a direction of
 * rounding, operations on the halves and bytes of a word, and what else math.hpp has not. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_WORDS_HPP
#define KERNBRIDGE_CUDA_ON_CPU_WORDS_HPP

#include "kernbridge/cuda_on_cpu/atomics.hpp"
#include "kernbridge/cuda_on_cpu/math.hpp"

namespace kernbridge::cuda_on_cpu
{

/* f(x, y, lowest, highest) of each lane of two words, whose results keep the lane's bits. */
template <typename Lane, typename F>
static inline unsigned lanes(unsigned a, unsigned b, const F &f)
{
    using limits = std::numeric_limits<Lane>;
    unsigned result = 0;
    for (int i = 0; i < 32; i += 8 * static_cast<int>(sizeof(Lane))) {
        int value = f(static_cast<Lane>(a >> i), static_cast<Lane>(b >> i), limits::min(),
                      limits::max());
        result |= static_cast<unsigned>(static_cast<std::make_unsigned_t<Lane>>(value)) << i;
    }
    return result;
}
KB_IS(int, clamped, (int value, int low, int high), value < low ? low : value > high ? high : value)
KB_IS(unsigned, sum_of, (int bits, unsigned a),
      bits == 16 ? (a & 0xffff) + (a >> 16)
                 : (a & 0xff) + (a >> 8 & 0xff) + (a >> 16 & 0xff) + (a >> 24))
template <typename T>
KB_IS(T, wrapped_sum, (T a, T b),
      static_cast<T>(static_cast<unsigned>(a) + static_cast<unsigned>(b)))
template <typename T> static inline T norm_of(int n, const T *values)
{
    T sum = 0;
    for (int i = 0; i < n; i++)
        sum = std::hypot(sum, values[i]);
    return sum;
}

} // namespace kernbridge::cuda_on_cpu

#define KB_DIRECTIONS(n, name, result, type, value)                                                \
    KB_ROUNDED_EACH(__##name, n, result, type, value)
KB_ROUNDED(KB_DIRECTIONS)
#undef KB_DIRECTIONS

#define KB_LANES_OF(name, lane, expression)                                                        \
    KB_IS(unsigned, name, (unsigned a, unsigned b),                                                \
          kernbridge::cuda_on_cpu::lanes<lane>(a, b, [](int x, int y, int low, int high) -> int {  \
              return (void)y, (void)low, (void)high, expression;                                   \
          }))
#define KB_LANES(name, type, expression)                                                           \
    KB_LANES_OF(name##2, type##16_t, expression) KB_LANES_OF(name##4, type##8_t, expression)
#define KB_LANES_OF_ONE(name, expression)                                                          \
    KB_LANES(kb_##name, int, expression)                                                           \
    KB_IS(unsigned, __##name##2, (unsigned a), kb_##name##2(a, 0))                                 \
    KB_IS(unsigned, __##name##4, (unsigned a), kb_##name##4(a, 0))
#define KB_COMPARED(name, type, expression)                                                        \
    KB_LANES(__vcmp##name, type, expression ? -1 : 0)                                              \
    KB_LANES(__vset##name, type, expression ? 1 : 0)
#define KB_CLAMPED(value) kernbridge::cuda_on_cpu::clamped(value, low, high)
KB_LANES_OF_ONE(vabs, x < 0 ? -x : x)
KB_LANES_OF_ONE(vabsss, KB_CLAMPED(x < 0 ? -x : x))
KB_LANES_OF_ONE(vneg, -x)
KB_LANES_OF_ONE(vnegss, KB_CLAMPED(-x))
KB_LANES(__vadd, uint, x + y)
KB_LANES(__vaddss, int, KB_CLAMPED(x + y))
KB_LANES(__vaddus, uint, KB_CLAMPED(x + y))
KB_LANES(__vsub, uint, x - y)
KB_LANES(__vsubss, int, KB_CLAMPED(x - y))
KB_LANES(__vsubus, uint, KB_CLAMPED(x - y))
KB_LANES(__vavgs, int, (x + y + (x + y >= 0)) >> 1)
KB_LANES(__vavgu, uint, (x + y + 1) >> 1)
KB_LANES(__vhaddu, uint, (x + y) >> 1)
KB_LANES(__vabsdiffs, int, x < y ? y - x : x - y)
KB_LANES(__vabsdiffu, uint, x < y ? y - x : x - y)
KB_LANES(__vmaxs, int, x < y ? y : x)
KB_LANES(__vmaxu, uint, x < y ? y : x)
KB_LANES(__vmins, int, y < x ? y : x)
KB_LANES(__vminu, uint, y < x ? y : x)
KB_COMPARED(eq, uint, x == y)
KB_COMPARED(ne, uint, x != y)
KB_COMPARED(ges, int, x >= y)
KB_COMPARED(geu, uint, x >= y)
KB_COMPARED(gts, int, x > y)
KB_COMPARED(gtu, uint, x > y)
KB_COMPARED(les, int, x <= y)
KB_COMPARED(leu, uint, x <= y)
KB_COMPARED(lts, int, x < y)
KB_COMPARED(ltu, uint, x < y)
KB_IS(unsigned, __vsads2, (unsigned a, unsigned b),
      kernbridge::cuda_on_cpu::sum_of(16, __vabsdiffs2(a, b)))
KB_IS(unsigned, __vsads4, (unsigned a, unsigned b),
      kernbridge::cuda_on_cpu::sum_of(8, __vabsdiffs4(a, b)))
KB_IS(unsigned, __vsadu2, (unsigned a, unsigned b),
      kernbridge::cuda_on_cpu::sum_of(16, __vabsdiffu2(a, b)))
KB_IS(unsigned, __vsadu4, (unsigned a, unsigned b),
      kernbridge::cuda_on_cpu::sum_of(8, __vabsdiffu4(a, b)))

/* The larger or smaller of sums and of three numbers, of words and of their halves. */
#define KB_EXTREME(T, name, max, min, sum)                                                         \
    KB_IS(T, __vimax3_##name, (T a, T b, T c), max(max(a, b), c))                                  \
    KB_IS(T, __vimin3_##name, (T a, T b, T c), min(min(a, b), c))                                  \
    KB_IS(T, __viaddmax_##name, (T a, T b, T c), max(sum(a, b), c))                                \
    KB_IS(T, __viaddmin_##name, (T a, T b, T c), min(sum(a, b), c))
#define KB_EXTREME_RELU(T, name, max, min, sum)                                                    \
    KB_EXTREME(T, name, max, min, sum)                                                             \
    KB_IS(T, __vimax_##name##_relu, (T a, T b), max(max(a, b), 0))                                 \
    KB_IS(T, __vimin_##name##_relu, (T a, T b), max(min(a, b), 0))                                 \
    KB_IS(T, __vimax3_##name##_relu, (T a, T b, T c), max(__vimax3_##name(a, b, c), 0))            \
    KB_IS(T, __vimin3_##name##_relu, (T a, T b, T c), max(__vimin3_##name(a, b, c), 0))            \
    KB_IS(T, __viaddmax_##name##_relu, (T a, T b, T c), max(__viaddmax_##name(a, b, c), 0))        \
    KB_IS(T, __viaddmin_##name##_relu, (T a, T b, T c), max(__viaddmin_##name(a, b, c), 0))
KB_EXTREME_RELU(int, s32, max, min, kernbridge::cuda_on_cpu::wrapped_sum)
KB_EXTREME_RELU(unsigned, s16x2, __vmaxs2, __vmins2, __vadd2)
KB_EXTREME(unsigned, u32, max, min, kernbridge::cuda_on_cpu::wrapped_sum)
KB_EXTREME(unsigned, u16x2, __vmaxu2, __vminu2, __vadd2)
#undef KB_EXTREME
#undef KB_EXTREME_RELU
#undef KB_LANES_OF
#undef KB_LANES
#undef KB_LANES_OF_ONE
#undef KB_COMPARED
#undef KB_CLAMPED

#define KB_OF_4(T) (T x, T y, T z, T w)
#define KB_OF_N(T) (int n, const T *x)
KB_IS_BOTH(norm3d, KB_TAKES_3, std::hypot(std::hypot(x, y), z))
KB_IS_BOTH(rnorm3d, KB_TAKES_3, 1 / std::hypot(std::hypot(x, y), z))
KB_IS_BOTH(norm4d, KB_OF_4, std::hypot(std::hypot(x, y), std::hypot(z, w)))
KB_IS_BOTH(rnorm4d, KB_OF_4, 1 / std::hypot(std::hypot(x, y), std::hypot(z, w)))
KB_IS_BOTH(norm, KB_OF_N, kernbridge::cuda_on_cpu::norm_of(n, x))
KB_IS_BOTH(rnorm, KB_OF_N, 1 / kernbridge::cuda_on_cpu::norm_of(n, x))
KB_IS_BOTH(erfcx, KB_TAKES_1, kb_erfcx(static_cast<double>(x)))
KB_IS_BOTH(cyl_bessel_i0, KB_TAKES_1, kb_bessel_i(0, std::fabs(x)))
KB_IS_BOTH(cyl_bessel_i1, KB_TAKES_1, std::copysign(kb_bessel_i(1, std::fabs(x)), x))
KB_IS(int, __hadd, (int a, int b), static_cast<int>((static_cast<long long>(a) + b) >> 1))
KB_IS(int, __rhadd, (int a, int b), static_cast<int>((static_cast<long long>(a) + b + 1) >> 1))
KB_IS(unsigned, __uhadd, (unsigned a, unsigned b), (a & b) + ((a ^ b) >> 1))
KB_IS(unsigned, __urhadd, (unsigned a, unsigned b), (a | b) - ((a ^ b) >> 1))
KB_IS(unsigned, __usad, (unsigned a, unsigned b, unsigned c), (a < b ? b - a : a - b) + c)
KB_IS(unsigned, __funnelshift_lc, (unsigned low, unsigned high, unsigned n),
      n >= 32 ? low : __funnelshift_l(low, high, n))
KB_IS(unsigned, __funnelshift_rc, (unsigned low, unsigned high, unsigned n),
      n >= 32 ? high : __funnelshift_r(low, high, n))
KB_IS(unsigned, umin, (unsigned a, unsigned b), b < a ? b : a)
KB_IS(unsigned, umax, (unsigned a, unsigned b), a < b ? b : a)
KB_IS(long long, llmin, (long long a, long long b), b < a ? b : a)
KB_IS(long long, llmax, (long long a, long long b), a < b ? b : a)
KB_IS(unsigned long long, ullmin, (unsigned long long a, unsigned long long b), b < a ? b : a)
KB_IS(unsigned long long, ullmax, (unsigned long long a, unsigned long long b), a < b ? b : a)
#undef KB_OF_4
#undef KB_OF_N

/* Parts of a word times bytes of another: all four, or two halves times the lower (lo) or higher
 * two. */
#define KB_DOT(name, T, parts, part, byte, first)                                                  \
    static inline T name(T a, T b, T c)                                                            \
    {                                                                                              \
        unsigned sum = static_cast<unsigned>(c);                                                   \
        for (int i = 0; i < parts; i++)                                                            \
            sum += static_cast<unsigned>(                                                          \
                static_cast<T>(static_cast<part>(a >> 32 / parts * i)) *                           \
                static_cast<T>(static_cast<byte>(b >> (8 * i + first))));                          \
        return static_cast<T>(sum);                                                                \
    }
KB_DOT(__dp4a, int, 4, int8_t, int8_t, 0)
KB_DOT(__dp4a, unsigned, 4, uint8_t, uint8_t, 0)
KB_DOT(__dp2a_lo, int, 2, int16_t, int8_t, 0)
KB_DOT(__dp2a_hi, int, 2, int16_t, int8_t, 16)
KB_DOT(__dp2a_lo, unsigned, 2, uint16_t, uint8_t, 0)
KB_DOT(__dp2a_hi, unsigned, 2, uint16_t, uint8_t, 16)
#undef KB_DOT

/* The place of the bit that is set and is the `offset`th from `base` on, counted from 1, downwards
 * if it is negative; ~0 if there is none. */
static inline unsigned __fns(unsigned mask, unsigned base, int offset)
{
    int left = offset < 0 ? -offset : offset, n = left ? 32 : 1;
    for (unsigned at = base; n-- && at < 32; at += offset < 0 ? ~0u : 1u)
        if (mask >> at & 1 && --left <= 0)
            return at;
    return ~0u;
}

/* All address spaces are the address space of the process. */
#define KB_ADDRESS(space)                                                                          \
    KB_IS(size_t, __cvta_generic_to_##space, (const void *at), reinterpret_cast<size_t>(at))       \
    KB_IS(void *, __cvta_##space##_to_generic, (size_t at), reinterpret_cast<void *>(at))
KB_ADDRESS(shared)
KB_ADDRESS(global)
KB_ADDRESS(local)
KB_ADDRESS(constant)
#undef KB_ADDRESS

/* Each number is added atomically, and not all at once, as on a GPU. */
KB_IS(float2, atomicAdd, (float2 * to, float2 value),
      (float2{atomicAdd(&to->x, value.x), atomicAdd(&to->y, value.y)}))
KB_IS(float4, atomicAdd, (float4 * to, float4 value),
      (float4{atomicAdd(&to->x, value.x), atomicAdd(&to->y, value.y), atomicAdd(&to->z, value.z),
              atomicAdd(&to->w, value.w)}))

/* Which memory an address belongs to: shared memory is the system thread's, and dynamic_shared. */
static inline unsigned __isShared(const void *at)
{
    using namespace kernbridge::cuda_on_cpu;
    if (KB_CUDA_IS_CHECKED)
        fail("__isShared and __isGlobal are not known in the checked mode");
    const ThreadMemory memory = memory_of_thread();
    size_t fixed = static_cast<size_t>(static_cast<const char *>(at) - memory.begin);
    size_t dynamic = static_cast<size_t>(static_cast<const unsigned char *>(at) - dynamic_shared);
    return fixed < memory.size || (threads && dynamic < threads->dynamic_shared);
}
static inline unsigned __isLocal(const void *at)
{
    const char *here = static_cast<const char *>(__builtin_frame_address(0)) - (64 << 10);
    return static_cast<size_t>(static_cast<const char *>(at) - here) < 1u << 20;
}
KB_IS(unsigned, __isGlobal, (const void *at), !__isShared(at) && !__isLocal(at))

#ifndef __clang__
#define __builtin_assume(condition) static_cast<void>(0)
#endif

#endif
