/* CUB's block and warp primitives on the CPU. CUB's own headers, which follow, are compiled as
 * plain C++; kernbridge translates their shared memory and their PTX (emulator/cuda_source.py). */
#ifndef KERNBRIDGE_CUDA_ON_CPU_CUB_CONFIG_CUH
#define KERNBRIDGE_CUDA_ON_CPU_CUB_CONFIG_CUH

#pragma push_macro("__CUDACC__")
#pragma push_macro("__NVCC__")
#undef __CUDACC__
#undef __NVCC__
#ifndef CCCL_DISABLE_NVFP8_SUPPORT
#define CCCL_DISABLE_NVFP8_SUPPORT
#endif
#ifndef THRUST_DEVICE_SYSTEM
#define THRUST_DEVICE_SYSTEM 4 /* C++, since CUDA's system needs its runtime */
#endif
#include_next <cub/config.cuh>
#pragma pop_macro("__NVCC__")
#pragma pop_macro("__CUDACC__")

/* What CUB's headers need that CCCL defines for GPUs alone, and the meaning of their PTX. */
#include "kernbridge/cuda_on_cpu/warps.hpp"
#include "kernbridge/cuda_on_cpu/words.hpp"

enum cudaSharedMemConfig {
    cudaSharedMemBankSizeDefault,
    cudaSharedMemBankSizeFourByte,
    cudaSharedMemBankSizeEightByte
};

namespace kernbridge::cuda_on_cpu
{

/* An instruction without a meaning here: a call of it that remains is an error of the compiler. */
__attribute__((error("this part of CUB uses PTX that CPUs do not have"))) void no_instruction();

/* shfl.sync of 32 bits or more, with its predicate: whether the lane that is read is in range. */
template <typename T> struct Shuffled {
    T data;
    bool pred;
    template <typename U = T, std::enable_if_t<!std::is_array<U>::value, int> = 0>
    operator U() const
    {
        return data;
    }
};
template <typename T>
static inline Shuffled<T> shuffle_in_range(unsigned mode, const T &value, unsigned b, unsigned c,
                                           unsigned mask, KB_SITE)
{
    Shuffled<T> found;
    memcpy(static_cast<void *>(&found.data), &value, sizeof value);
    found.pred = shuffle_words(found.data, mask, mode, b, c, site);
    return found;
}

/* A step of a reduction or of a prefix sum: what another lane has, and `addend` if there is one. */
template <typename T>
static inline T add_shuffled(unsigned mode, const T &value, unsigned b, unsigned c, T addend,
                             unsigned mask, KB_SITE)
{
    Shuffled<T> other = shuffle_in_range(mode, value, b, c, mask, site);
    using Sum = typename std::conditional_t<std::is_integral<T>::value, std::make_unsigned<T>,
                                            std::decay<T>>::type;
    if (!other.pred)
        return other.data;
    return static_cast<T>(static_cast<Sum>(other.data) + static_cast<Sum>(addend));
}

/* Shifts by 32 bits and more leave nothing, as in PTX. */
KB_IS(uint32_t, shifted_left, (uint32_t value, uint32_t n), n < 32 ? value << n : 0)
KB_IS(uint32_t, shifted_right, (uint32_t value, uint32_t n), n < 32 ? value >> n : 0)
static inline uint32_t bits_of(uint32_t value, uint32_t first, uint32_t n)
{
    n &= 255;
    return shifted_right(value, first & 255) & (n < 32 ? (1u << n) - 1 : ~0u);
}

/* The lanes that have the same bit as this one. */
static inline uint32_t lanes_that_agree(uint32_t bits, uint32_t bit, KB_SITE)
{
    uint32_t ballot = __ballot_sync(0xffffffffu, (bits & bit) != 0, site);
    return bits & bit ? ballot : ~ballot;
}

} // namespace kernbridge::cuda_on_cpu

namespace cuda::ptx
{
KB_IS(uint32_t, get_sreg_laneid, (), ::kernbridge::cuda_on_cpu::index_of_thread() & 31)
KB_IS(uint32_t, get_sreg_lanemask_lt, (), ::__lanemask_lt())
KB_IS(uint32_t, get_sreg_lanemask_le, (), ::__lanemask_le())
KB_IS(uint32_t, get_sreg_lanemask_ge, (), ::__lanemask_ge())
KB_IS(uint32_t, get_sreg_lanemask_gt, (), ::__lanemask_gt())
} // namespace cuda::ptx

namespace cuda::device
{
#define KB_SHUFFLE(name, mode, bound)                                                              \
    template <int width = 32, typename T>                                                          \
    static inline auto name(const T &value, int lane, uint32_t mask = 0xffffffffu, KB_SITE)        \
    {                                                                                              \
        return ::kernbridge::cuda_on_cpu::shuffle_in_range(                                        \
            ::kernbridge::cuda_on_cpu::mode, value, static_cast<unsigned>(lane),                   \
            ::kernbridge::cuda_on_cpu::segments(width) | (bound), mask, site);                     \
    }
KB_SHUFFLE(warp_shuffle_idx, SHUFFLE_INDEX, width - 1)
KB_SHUFFLE(warp_shuffle_up, SHUFFLE_UP, 0)
KB_SHUFFLE(warp_shuffle_down, SHUFFLE_DOWN, width - 1)
KB_SHUFFLE(warp_shuffle_xor, SHUFFLE_XOR, width - 1)
#undef KB_SHUFFLE
} // namespace cuda::device

#endif
