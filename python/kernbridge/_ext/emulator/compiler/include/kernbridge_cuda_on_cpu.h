/* What nvcc defines before the first line of a source in CUDA C++, for device functions that clang
 * compiles for the CPU. Functions named kb.* are defined by the .ll files of this package. What is
 * missing here does not compile, and the kernel is refused with clang's words. */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#if __has_include(<new>)
#include <new>
#endif

#if __has_include(<vector_types.h>) && __has_include(<vector_functions.h>)
#define KB_HAS_CUDA_HEADERS
#include <vector_functions.h> /* with the host's meaning of __device__ and its like */
#include <vector_types.h>
#endif

#undef __device__
#undef __host__
#undef __global__
#undef __constant__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#undef __grid_constant__
#undef __align__
#undef __shared__
#define __device__
#define __host__
#define __global__ __attribute__((unused))
#define __constant__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ _Static_assert(0, "shared memory in CUDA C++ does not run on CPUs");

extern "C" {
unsigned kb_tid_x() __asm__("kb.tid.x");
unsigned kb_tid_y() __asm__("kb.tid.y");
unsigned kb_tid_z() __asm__("kb.tid.z");
unsigned kb_ntid_x() __asm__("kb.ntid.x");
unsigned kb_ntid_y() __asm__("kb.ntid.y");
unsigned kb_ntid_z() __asm__("kb.ntid.z");
unsigned kb_ctaid_x() __asm__("kb.ctaid.x");
unsigned kb_ctaid_y() __asm__("kb.ctaid.y");
unsigned kb_ctaid_z() __asm__("kb.ctaid.z");
unsigned kb_nctaid_x() __asm__("kb.nctaid.x");
unsigned kb_nctaid_y() __asm__("kb.nctaid.y");
unsigned kb_nctaid_z() __asm__("kb.nctaid.z");
void __syncthreads() __asm__("kb.barrier0");
void kb_syncwarp(unsigned) __asm__("kb.bar.warp.sync");
void __threadfence() __asm__("kb.membar.gl");
void __threadfence_block() __asm__("kb.membar.cta");
void __threadfence_system() __asm__("kb.membar.sys");
}

static inline void __syncwarp(unsigned mask = 0xffffffff) { kb_syncwarp(mask); }

#ifndef KB_HAS_CUDA_HEADERS
struct uint3 { unsigned x, y, z; };
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

#define KB_VECTORS(type, name)                                                                     \
  struct __align__(2 * sizeof(type)) name##2 { type x, y; };                                       \
  struct __align__(4 * sizeof(type) > 16 ? 16 : 4 * sizeof(type)) name##4 { type x, y, z, w; };    \
  static inline name##2 make_##name##2(type x, type y) { return {x, y}; }                          \
  static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
KB_VECTORS(int, int)
KB_VECTORS(unsigned, uint)
KB_VECTORS(float, float)
KB_VECTORS(double, double)
#undef KB_VECTORS
struct int3 { int x, y, z; };
struct float3 { float x, y, z; };
struct double3 { double x, y, z; };
static inline int3 make_int3(int x, int y, int z) { return {x, y, z}; }
static inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
static inline double3 make_double3(double x, double y, double z) { return {x, y, z}; }
#endif

/* No macros, since programs have parameters of these names. */
#define KB_PLACE(name, kind, place)                                                                \
  static const struct name##_type {                                                                \
    __declspec(property(get = get_x)) unsigned x;                                                  \
    __declspec(property(get = get_y)) unsigned y;                                                  \
    __declspec(property(get = get_z)) unsigned z;                                                  \
    static inline unsigned get_x() { return kb_##place##_x(); }                                    \
    static inline unsigned get_y() { return kb_##place##_y(); }                                    \
    static inline unsigned get_z() { return kb_##place##_z(); }                                    \
    operator kind() const { return kind{get_x(), get_y(), get_z()}; }                              \
  } name = {};
KB_PLACE(threadIdx, uint3, tid)
KB_PLACE(blockIdx, uint3, ctaid)
KB_PLACE(blockDim, dim3, ntid)
KB_PLACE(gridDim, dim3, nctaid)
#undef KB_PLACE
static const int warpSize = 32;

template <class T, class U> static inline auto min(T a, U b) -> decltype(a + b) {
  decltype(a + b) v = a, w = b;
  return w < v ? w : v;
}
template <class T, class U> static inline auto max(T a, U b) -> decltype(a + b) {
  decltype(a + b) v = a, w = b;
  return v < w ? w : v;
}
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
template <class T> static inline T __ldg(const T *at) { return *at; }
static inline float rsqrtf(float v) { return 1 / sqrtf(v); }
static inline double rsqrt(double v) { return 1 / sqrt(v); }
#define __expf(v) expf(v) /* a name of the C library, too */
#define __logf(v) logf(v)
#define __sinf(v) sinf(v)
#define __cosf(v) cosf(v)
#define __powf(v, w) powf(v, w)
static inline float __fdividef(float v, float w) { return v / w; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline int __float_as_int(float v) { int n; __builtin_memcpy(&n, &v, sizeof n); return n; }
static inline float __int_as_float(int n) { float v; __builtin_memcpy(&v, &n, sizeof v); return v; }
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
static inline int __ffs(int v) { return __builtin_ffs(v); }

/* The type of an argument that does not say what T is. */
template <class T> struct kb_same { typedef T type; };

/* Other threads of the grid may run at the same time. */
template <class T, class F> static inline T kb_atomic(T *at, F change) {
  T old, wanted;
  __atomic_load(at, &old, __ATOMIC_RELAXED);
  do
    wanted = change(old);
  while (!__atomic_compare_exchange(at, &old, &wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
  return old;
}

#define KB_ATOMIC(name, expression)                                                                \
  template <class T> static inline T name(T *at, typename kb_same<T>::type v) {                    \
    return kb_atomic(at, [v](T old) -> T { return expression; });                                  \
  }
KB_ATOMIC(atomicAdd, old + v)
KB_ATOMIC(atomicSub, old - v)
KB_ATOMIC(atomicExch, v)
KB_ATOMIC(atomicMin, v < old ? v : old)
KB_ATOMIC(atomicMax, old < v ? v : old)
KB_ATOMIC(atomicAnd, old & v)
KB_ATOMIC(atomicOr, old | v)
KB_ATOMIC(atomicXor, old ^ v)
#undef KB_ATOMIC
template <class T>
static inline T atomicCAS(T *at, typename kb_same<T>::type expected,
                          typename kb_same<T>::type v) {
  return kb_atomic(at, [=](T old) -> T { return old == expected ? v : old; });
}
