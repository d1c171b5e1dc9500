// The wave equation in three dimensions, several steps; two buffers take turns.
#include <cuda_runtime.h>
#include "brainevent/common.h"

#define INDEX(z, y, x) (((z) * ny + (y)) * nx + (x))

// next holds u(t - dt), and then u(t + dt). Walls are fixed at 0.
__global__ void wave_step(const float *__restrict__ u, float *__restrict__ next, int nz, int ny, int nx, float c2)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= nx || y >= ny || z >= nz)
        return;
    const float centre = u[INDEX(z, y, x)];
    float laplacian = -6.0f * centre;
    if (x > 0) laplacian += u[INDEX(z, y, x - 1)];
    if (x < nx - 1) laplacian += u[INDEX(z, y, x + 1)];
    if (y > 0) laplacian += u[INDEX(z, y - 1, x)];
    if (y < ny - 1) laplacian += u[INDEX(z, y + 1, x)];
    if (z > 0) laplacian += u[INDEX(z - 1, y, x)];
    if (z < nz - 1) laplacian += u[INDEX(z + 1, y, x)];
    next[INDEX(z, y, x)] = 2.0f * centre - next[INDEX(z, y, x)] + c2 * laplacian;
}

// `u` and `before` are aliased to the outputs: u(t + steps dt), and u of the step before that.
// @BE wave arg arg ret ret attr.steps:uint32 attr.c2:float32 stream
void wave(const BE::Tensor u, const BE::Tensor before, BE::Tensor out, BE::Tensor last,
          uint32_t steps, float c2, int64_t stream)
{
    auto s = (cudaStream_t)stream;
    const int nz = out.size(0), ny = out.size(1), nx = out.size(2);
    float *a = out.data_ptr<float>(), *b = last.data_ptr<float>();
    if (u.data_ptr() != out.data_ptr())
        BE_CUDA_CHECK(cudaMemcpyAsync(a, u.data_ptr(), u.nbytes(), cudaMemcpyDeviceToDevice, s));
    if (before.data_ptr() != last.data_ptr())
        BE_CUDA_CHECK(cudaMemcpyAsync(b, before.data_ptr(), u.nbytes(), cudaMemcpyDeviceToDevice, s));
    const dim3 block(8, 4, 2);
    const dim3 grid((nx + 7) / 8, (ny + 3) / 4, (nz + 1) / 2);
    BE_CHECK(steps % 2 == 0) << "an even number of steps, not " << steps;
    for (uint32_t k = 0; k < steps; k += 2) {
        wave_step<<<grid, block, 0, s>>>(a, b, nz, ny, nx, c2);
        wave_step<<<grid, block, 0, s>>>(b, a, nz, ny, nx, c2);
    }
    BE_CHECK_KERNEL_LAUNCH();
}
