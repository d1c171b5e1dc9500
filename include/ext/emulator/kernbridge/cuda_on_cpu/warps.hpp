/* Operations of warps in CUDA C++ on the CPU. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_WARPS_HPP
#define KERNBRIDGE_CUDA_ON_CPU_WARPS_HPP

#include "kernbridge/cuda_on_cpu/threads.hpp"

#include <cstring>

namespace kernbridge::cuda_on_cpu
{

enum { SHUFFLE_INDEX, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR }; /* PTX: shfl.sync */
enum { VOTE_ALL, VOTE_ANY, VOTE_EQUAL, VOTE_BALLOT };

/* Shuffles each of the words of 32 bits of a value; whether the lane that is read is in range. */
template <typename T>
static inline bool shuffle_words(T &value, unsigned mask, unsigned mode, unsigned b, unsigned c,
                                 uint32_t site)
{
    static_assert(std::is_trivially_copyable<T>::value, "a shuffled value is a number");
    uint32_t words[(sizeof value + 3) / 4] = {};
    memcpy(words, &value, sizeof value);
    uint64_t word = 0;
    {
        Away away("a warp shuffle");
        for (uint32_t &each : words) {
            word = host().shuffle(away.self, mask, mode, each, b, c, site);
            each = static_cast<uint32_t>(word);
        }
    }
    memcpy(static_cast<void *>(&value), words, sizeof value);
    return word >> 32 & 1;
}

KB_IS(unsigned, segments, (int width), static_cast<unsigned>(32 - width) << 8)

} // namespace kernbridge::cuda_on_cpu

static inline void __syncwarp(unsigned mask = 0xffffffffu, KB_SITE)
{
    kernbridge::cuda_on_cpu::Away away("__syncwarp");
    kernbridge::cuda_on_cpu::host().warp_barrier(away.self, mask, site);
}
static inline unsigned __activemask(KB_SITE)
{
    kernbridge::cuda_on_cpu::Away away("__activemask");
    return kernbridge::cuda_on_cpu::host().active_mask(away.self, site);
}

#define KB_SHUFFLE(name, mode, type, edge)                                                         \
    template <typename T>                                                                          \
    static inline T name(unsigned mask, T value, type by, int width = 32, KB_SITE)                 \
    {                                                                                              \
        using namespace kernbridge::cuda_on_cpu;                                                   \
        shuffle_words(value, mask, mode, static_cast<unsigned>(by), segments(width) | edge, site); \
        return value;                                                                              \
    }
KB_SHUFFLE(__shfl_sync, SHUFFLE_INDEX, int, 31)
KB_SHUFFLE(__shfl_up_sync, SHUFFLE_UP, unsigned, 0)
KB_SHUFFLE(__shfl_down_sync, SHUFFLE_DOWN, unsigned, 31)
KB_SHUFFLE(__shfl_xor_sync, SHUFFLE_XOR, int, 31)
#undef KB_SHUFFLE

#define KB_VOTE(name, type, mode, result)                                                          \
    static inline type name(unsigned mask, int predicate, KB_SITE)                                 \
    {                                                                                              \
        using namespace kernbridge::cuda_on_cpu;                                                   \
        Away away("a warp vote");                                                                  \
        uint64_t votes = host().vote(away.self, mask, mode, predicate != 0, site);                 \
        return static_cast<type>(result);                                                          \
    }
KB_VOTE(__ballot_sync, unsigned, VOTE_BALLOT, votes)
KB_VOTE(__all_sync, int, VOTE_ALL, votes >> 32 & 1)
KB_VOTE(__any_sync, int, VOTE_ANY, votes >> 32 & 1)
KB_VOTE(__uni_sync, int, VOTE_EQUAL, votes >> 32 & 1)
#undef KB_VOTE

#define KB_MATCH(all)                                                                              \
    static_assert(sizeof value <= 8, "a word of 32 or 64 bits is compared");                       \
    uint64_t bits = 0;                                                                             \
    memcpy(&bits, &value, sizeof value);                                                           \
    kernbridge::cuda_on_cpu::Away away(__func__);                                                  \
    const uint64_t found = kernbridge::cuda_on_cpu::host().match(away.self, mask, all, bits, site)
template <typename T> static inline unsigned __match_any_sync(unsigned mask, T value, KB_SITE)
{
    KB_MATCH(0);
    return static_cast<unsigned>(found);
}
template <typename T>
static inline unsigned __match_all_sync(unsigned mask, T value, int *is_same, KB_SITE)
{
    KB_MATCH(1);
    *is_same = found >> 32 & 1;
    return static_cast<unsigned>(found);
}
#undef KB_MATCH

/* Reductions: each lane reads all of the mask, in the same order. */
#define KB_REDUCE(name, T, expression)                                                             \
    static inline T name(unsigned mask, T value, KB_SITE)                                          \
    {                                                                                              \
        unsigned left = mask & (mask - 1);                                                         \
        T a = __shfl_sync(mask, value, __builtin_ctz(mask), 32, site);                             \
        for (; left; left &= left - 1) {                                                           \
            T b = __shfl_sync(mask, value, __builtin_ctz(left), 32, site);                         \
            a = expression;                                                                        \
        }                                                                                          \
        return a;                                                                                  \
    }
KB_REDUCE(__reduce_add_sync, unsigned, a + b)
KB_REDUCE(__reduce_min_sync, unsigned, b < a ? b : a)
KB_REDUCE(__reduce_max_sync, unsigned, a < b ? b : a)
KB_REDUCE(__reduce_and_sync, unsigned, a &b)
KB_REDUCE(__reduce_or_sync, unsigned, a | b)
KB_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
KB_REDUCE(__reduce_add_sync, int,
          static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b)))
KB_REDUCE(__reduce_min_sync, int, b < a ? b : a)
KB_REDUCE(__reduce_max_sync, int, a < b ? b : a)
#undef KB_REDUCE

/* Lanes before this one, it included or not, and after it. */
KB_IS(unsigned, __lanemask_eq, (), 1u << (kernbridge::cuda_on_cpu::index_of_thread() & 31))
KB_IS(unsigned, __lanemask_lt, (), __lanemask_eq() - 1)
KB_IS(unsigned, __lanemask_le, (), __lanemask_lt() | __lanemask_eq())
KB_IS(unsigned, __lanemask_ge, (), ~__lanemask_lt())
KB_IS(unsigned, __lanemask_gt, (), ~__lanemask_le())

#endif
