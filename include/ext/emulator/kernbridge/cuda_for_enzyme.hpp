/* CUDA C++ for the clang of Enzyme, which compiles for a GPU without CUDA's own headers. The names
 * are the ones of the headers for the CPU; this is what they need of the machine in place of
 * threads.hpp, atomics.hpp and host.hpp, and comes before the source. */
#ifndef KERNBRIDGE_CUDA_FOR_ENZYME_HPP
#define KERNBRIDGE_CUDA_FOR_ENZYME_HPP

#define KERNBRIDGE_CUDA_ON_CPU_RUNTIME_H
#define KERNBRIDGE_CUDA_ON_CPU_HOST_DEFINES_H

#include <cfloat>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <math.h> /* its functions need no std:: */
#include <utility>

#define __host__        __attribute__((host))
#define __device__      __attribute__((device))
#define __global__      __attribute__((global))
#define __shared__      __attribute__((shared))
#define __constant__    __attribute__((constant))
#define __forceinline__ __attribute__((always_inline)) inline
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

#include "kernbridge/cuda_on_cpu/math.hpp"

/* Macros, so that lines in messages are the source's. */
#define sincosf(a, s, c)     __sincosf(a, s, c)
#define sincos(a, s, c)      (*(s) = sin(a), *(c) = cos(a), (void)0)
#define KB_THREE(read)       dim3(read##_x(), read##_y(), read##_z())
#define threadIdx            KB_THREE(__nvvm_read_ptx_sreg_tid)
#define blockIdx             KB_THREE(__nvvm_read_ptx_sreg_ctaid)
#define blockDim             KB_THREE(__nvvm_read_ptx_sreg_ntid)
#define gridDim              KB_THREE(__nvvm_read_ptx_sreg_nctaid)
#define atomicAdd(at, value) __atomic_fetch_add(at, value, __ATOMIC_RELAXED)
#define atomicSub(at, value) __atomic_fetch_sub(at, value, __ATOMIC_RELAXED)
#define atomicMin(at, value) __atomic_fetch_min(at, value, __ATOMIC_RELAXED)
#define atomicMax(at, value) __atomic_fetch_max(at, value, __ATOMIC_RELAXED)
#define atomicAnd(at, value) __atomic_fetch_and(at, value, __ATOMIC_RELAXED)
#define atomicOr(at, value)  __atomic_fetch_or(at, value, __ATOMIC_RELAXED)
#define atomicXor(at, value) __atomic_fetch_xor(at, value, __ATOMIC_RELAXED)
static constexpr int warpSize = 32;

/* What threads of a warp pass to each other; warps.py has the derivatives. A thread reads the
 * number of lane `source`; only lane `back` may read from it, if there is such a lane. */
namespace kernbridge
{
float shuffled(unsigned mask, float x, unsigned source, unsigned back) __asm__("kb.shfl.float");
double shuffled(unsigned mask, double x, unsigned source, unsigned back) __asm__("kb.shfl.double");
template <typename T>
static inline typename std::enable_if<std::is_integral<T>::value, T>::type
shuffled(unsigned mask, T x, unsigned source, unsigned)
{
    const int low = __nvvm_shfl_sync_idx_i32(mask, x, source, 31);
    if (sizeof x < 8)
        return static_cast<T>(low);
    const unsigned long long high = __nvvm_shfl_sync_idx_i32(mask, x >> (4 * sizeof x), source, 31);
    return static_cast<T>(high << 32 | static_cast<unsigned>(low));
}
} // namespace kernbridge
#define KB_SHUFFLE(name, type, from, is_in_range, to)                                              \
    template <typename T, typename = decltype(kernbridge::shuffled(0, T(), 0, 0))>                 \
    static inline T name(unsigned mask, T value, type distance, int width = 32)                    \
    {                                                                                              \
        const unsigned lane = __nvvm_read_ptx_sreg_laneid(), by = distance & 31;                   \
        const unsigned first = lane & -width, last = first + width - 1, source = from, back = to;  \
        return kernbridge::shuffled(mask, value, is_in_range ? source : lane,                      \
                                    back < 32 ? back : lane);                                      \
    }
KB_SHUFFLE(__shfl_sync, int, first + (by & (width - 1)), source <= last, lane)
KB_SHUFFLE(__shfl_up_sync, unsigned, lane - by, first + by <= lane, lane + by)
KB_SHUFFLE(__shfl_down_sync, unsigned, lane + by, source <= last, lane - by)
KB_SHUFFLE(__shfl_xor_sync, int, lane ^ by, source <= last, source)
#define __all_sync(mask, is)    static_cast<int>(__nvvm_vote_all_sync(mask, (is) != 0))
#define __any_sync(mask, is)    static_cast<int>(__nvvm_vote_any_sync(mask, (is) != 0))
#define __uni_sync(mask, is)    static_cast<int>(__nvvm_vote_uni_sync(mask, (is) != 0))
#define __ballot_sync(mask, is) __nvvm_vote_ballot_sync(mask, (is) != 0)
unsigned __activemask() __asm__("kb.active_mask");

/* The parameters of a kernel, and a function of the words of a launch that calls it. */
namespace kernbridge
{
template <typename P> static inline P parameter(const long long *words)
{
    alignas(P) unsigned char value[sizeof(P)];
    __builtin_memcpy(value, words, sizeof value);
    return *reinterpret_cast<P *>(value);
}
template <typename F> struct Parameters;
template <typename... P> struct Parameters<void (*)(P...)> {
    static constexpr int codes[] = {kernbridge_signature::code<P>::value..., 0};
    static constexpr int sizes[] = {sizeof(P)..., 0};
    static constexpr int before(size_t parameter)
    {
        int n = 0;
        for (size_t i = 0; i < parameter; i++)
            n += (sizes[i] + 7) / 8;
        return n;
    }
    /* The kernel, which only a launch may call in CUDA C++: the name is replaced. */
    static void kernel(P...) __asm__("kb.kernel");
    template <size_t... i>
    static void call(const long long *words, const std::index_sequence<i...> &)
    {
        kernel(parameter<P>(words + before(i))...);
    }
    static void entry(const long long *words)
    {
        call(words, std::index_sequence_for<P...>());
    }
};
struct Described {
    const void *kernel, *entry, *codes, *sizes;
};
} // namespace kernbridge

#define KB_KERNEL(...)                                                                             \
    using kb_parameters = kernbridge::Parameters<decltype(&__VA_ARGS__)>;                          \
    extern "C" __device__ const kernbridge::Described kb_description = {                           \
        reinterpret_cast<const void *>(&__VA_ARGS__),                                              \
        reinterpret_cast<const void *>(&kb_parameters::entry), kb_parameters::codes,               \
        kb_parameters::sizes};
#endif
