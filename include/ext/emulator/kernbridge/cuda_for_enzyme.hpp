/* CUDA C++ for the clang of Enzyme, which compiles for a GPU without CUDA's own headers. The names
 * are the ones of the headers for the CPU; this is what they need of the machine in place of
 * threads.hpp, atomics.hpp and host.hpp, and comes before the source. */
#ifndef KERNBRIDGE_CUDA_FOR_ENZYME_HPP
#define KERNBRIDGE_CUDA_FOR_ENZYME_HPP

#define KERNBRIDGE_CUDA_ON_CPU_RUNTIME_H

#include <new>
#include <tuple>
#include <type_traits>
#include <utility> /* the C++ library belongs to the host, but for constants */

/* Functions of the C library are known to Enzyme. */
#pragma clang force_cuda_host_device begin
#include <cfloat>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <math.h> /* its functions need no std:: */

#define __host__     __attribute__((host))
#define __device__   __attribute__((device))
#define __global__   __attribute__((global))
#define __shared__   __attribute__((shared))
#define __constant__ __attribute__((constant))

#include "cuda/host_defines.h"
#include "kernbridge/cuda_on_cpu/math.hpp"

/* Where a thread is. A structure of the host may have members of these names. */
#define KB_INDEX(name, read)                                                                       \
    struct kb_##name {                                                                             \
        __declspec(property(get = x_)) unsigned x;                                                 \
        __declspec(property(get = y_)) unsigned y;                                                 \
        __declspec(property(get = z_)) unsigned z;                                                 \
        static __device__ unsigned x_() { return read##_x(); }                                     \
        static __device__ unsigned y_() { return read##_y(); }                                     \
        static __device__ unsigned z_() { return read##_z(); }                                     \
        __device__ operator dim3() const { return dim3(x, y, z); }                                 \
    };                                                                                             \
    extern const __device__ __attribute__((weak)) kb_##name name;
KB_INDEX(threadIdx, __nvvm_read_ptx_sreg_tid)
KB_INDEX(blockIdx, __nvvm_read_ptx_sreg_ctaid)
KB_INDEX(blockDim, __nvvm_read_ptx_sreg_ntid)
KB_INDEX(gridDim, __nvvm_read_ptx_sreg_nctaid)

template <typename T> KB_IS(T *, kb_number, (T * at), at)
#define sincosf(a, s, c)     __sincosf(a, s, c)
#define sincos(a, s, c)      (*(s) = sin(a), *(c) = cos(a), (void)0)
#define atomicAdd(at, value) __atomic_fetch_add(kb_number(at), value, __ATOMIC_RELAXED)
#define atomicSub(at, value) __atomic_fetch_sub(at, value, __ATOMIC_RELAXED)
#define atomicMin(at, value) __atomic_fetch_min(at, value, __ATOMIC_RELAXED)
#define atomicMax(at, value) __atomic_fetch_max(at, value, __ATOMIC_RELAXED)
#define atomicAnd(at, value) __atomic_fetch_and(at, value, __ATOMIC_RELAXED)
#define atomicOr(at, value)  __atomic_fetch_or(at, value, __ATOMIC_RELAXED)
#define atomicXor(at, value) __atomic_fetch_xor(at, value, __ATOMIC_RELAXED)
#define __trap()             __builtin_trap()
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
    template <typename T, typename = decltype(kernbridge::shuffled(0, +T(), 0, 0))>                \
    static inline T name(unsigned mask, T value, type distance, int width = 32)                    \
    {                                                                                              \
        const unsigned lane = __nvvm_read_ptx_sreg_laneid(), by = distance & 31;                   \
        const unsigned first = lane & -width, last = first + width - 1, source = from, back = to;  \
        return kernbridge::shuffled(mask, +value, is_in_range ? source : lane,                     \
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
#pragma clang force_cuda_host_device end

/* Launchers are read, and not compiled. */
#include "kernbridge/cuda_on_cpu/host.hpp"
extern "C" int cudaConfigureCall(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t = nullptr);
template <typename F>
cudaError_t cudaLaunchKernel(F, dim3, dim3, void **, size_t = 0, cudaStream_t = nullptr);
template <typename F>
cudaError_t cudaLaunchCooperativeKernel(F, dim3, dim3, void **, size_t = 0, cudaStream_t = nullptr);
template <typename F, typename... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *, F, A &&...);
#endif
