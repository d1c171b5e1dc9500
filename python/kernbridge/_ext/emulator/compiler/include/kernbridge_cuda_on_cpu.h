/* What nvcc defines before the first line of a source in CUDA C++, for device functions that clang
 * compiles for the CPU. Functions named kb.* are defined by the .ll files of this package. What is
 * missing here does not compile, and the kernel is refused with clang's words. */
#pragma once

#include "kernbridge/cuda_on_cpu/math.hpp"

#include <new>
#include <stddef.h>
#include <stdint.h>

#undef __global__
#undef __forceinline__
#define __global__ __attribute__((unused))
#define __forceinline__ inline
#define __noinline__
#define __shared__ _Static_assert(0, "shared memory in CUDA C++ does not run on CPUs");

extern "C" {
void __syncthreads() __asm__("kb.barrier0");
void __syncwarp(unsigned mask = 0xffffffff) __asm__("kb.bar.warp.sync");
void __threadfence() __asm__("kb.membar.gl");
void __threadfence_block() __asm__("kb.membar.cta");
void __threadfence_system() __asm__("kb.membar.sys");
}

/* No macros, since programs have parameters of these names. */
#define KB_PLACE(name, kind, place)                                                                \
  static const struct name##_type {                                                                \
    __declspec(property(get = get_x)) unsigned x;                                                  \
    __declspec(property(get = get_y)) unsigned y;                                                  \
    __declspec(property(get = get_z)) unsigned z;                                                  \
    static unsigned get_x() __asm__("kb." #place ".x");                                            \
    static unsigned get_y() __asm__("kb." #place ".y");                                            \
    static unsigned get_z() __asm__("kb." #place ".z");                                            \
    operator kind() const { return kind{get_x(), get_y(), get_z()}; }                              \
  } name = {};
KB_PLACE(threadIdx, uint3, tid)
KB_PLACE(blockIdx, uint3, ctaid)
KB_PLACE(blockDim, dim3, ntid)
KB_PLACE(gridDim, dim3, nctaid)
#undef KB_PLACE
static const int warpSize = 32;

/* What threads.hpp has for the atomic functions. They are instructions that ir.py sees, so that
 * a loop which waits for another thread needs no call here. */
#define KERNBRIDGE_CUDA_ON_CPU_THREADS_HPP
#define KB_SITE uint32_t site = 0
namespace kernbridge::cuda_on_cpu {
static inline void wait_to_poll(uint32_t) {}
static inline void unchanged(uint32_t) {}
} // namespace kernbridge::cuda_on_cpu
#include "kernbridge/cuda_on_cpu/atomics.hpp"
