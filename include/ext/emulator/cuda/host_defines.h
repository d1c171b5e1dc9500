/* What CUDA's words for functions and variables mean on the CPU. kernbridge itself translates
 * __shared__, __noinline__ and launches after the preprocessor: see emulator/cuda_source.py. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_HOST_DEFINES_H
#define KERNBRIDGE_CUDA_ON_CPU_HOST_DEFINES_H
#define __HOST_DEFINES_H__

#ifndef __host__ /* unless cuda_for_enzyme.hpp has defined it */
#define __host__
#define __device__
#define __global__ __attribute__((always_inline)) __inline__ /* so translations know kernels */
#define __constant__
#endif
#define __managed__
#define __forceinline__ __attribute__((always_inline)) inline
#define __inline_hint__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __nv_pure__
#define __align__(n)         __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __device_builtin__
#define __cudart_builtin__
#define __CUDA_HOSTDEVICE__
#define CUDARTAPI

#endif
