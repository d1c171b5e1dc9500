// Elementwise sums: one function per type, made by a macro.
#include <cuda_runtime.h>
#include "brainevent/common.h"

template <typename T>
__global__ void add_kernel(const T* a, const T* b, T* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        out[i] = a[i] + b[i];
}

#define DEFINE_ADD(T, S)                                                                       \
    void add_##S(const BE::Tensor a, const BE::Tensor b, BE::Tensor out, int64_t stream) {     \
        int n = a.numel();                                                                     \
        add_kernel<T><<<4, 64, 0, (cudaStream_t)stream>>>(                                     \
            static_cast<const T*>(a.data_ptr()), static_cast<const T*>(b.data_ptr()),          \
            static_cast<T*>(out.data_ptr()), n);                                               \
        BE_CHECK_KERNEL_LAUNCH();                                                              \
    }

// @BE add_f32 arg arg ret stream
DEFINE_ADD(float, f32)

// @BE add_f64 arg arg ret stream
DEFINE_ADD(double, f64)

// @BE add_i32 arg arg ret stream
DEFINE_ADD(int32_t, i32)

// @BE add_u8 arg arg ret stream
DEFINE_ADD(uint8_t, u8)
