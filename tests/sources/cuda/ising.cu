// The Ising model on a torus, by Metropolis: black sites, then white ones, in place. Chances of
// acceptance come as a table, so that numbers are exact.
#include <cuda_runtime.h>
#include "brainevent/common.h"

__global__ void sweep(int8_t *spin, const float *uniform, const float *chance, int h, int w, int colour)
{
    int x = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    x += (y + colour) & 1;
    if (x >= w || y >= h)
        return;
    const int up = spin[(y + h - 1) % h * w + x], down = spin[(y + 1) % h * w + x];
    const int left = spin[y * w + (x + w - 1) % w], right = spin[y * w + (x + 1) % w];
    const int8_t s = spin[y * w + x];
    const int gain = s * (up + down + left + right); // -4, -2, 0, 2, 4
    if (uniform[y * w + x] < chance[(gain + 4) / 2])
        spin[y * w + x] = -s;
}

// @BE metropolis arg arg arg ret ret stream
void metropolis(const BE::Tensor spin_in, const BE::Tensor uniform, const BE::Tensor chance,
                BE::Tensor &spin, BE::Tensor magnetisation, int64_t stream);

__global__ void sum_spins(const int8_t *spin, int32_t *sum, int n)
{
    __shared__ int total;
    if (threadIdx.x == 0)
        total = 0;
    __syncthreads();
    int mine = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        mine += spin[i];
    atomicAdd(&total, mine);
    __syncthreads();
    if (threadIdx.x == 0)
        *sum = total;
}

void metropolis(const BE::Tensor spin_in, const BE::Tensor uniform, const BE::Tensor chance,
                BE::Tensor &spin, BE::Tensor magnetisation, int64_t stream)
{
    const int h = spin.size(0), w = spin.size(1);
    BE_CHECK(h % 2 == 0 && w % 2 == 0) << "a torus of " << h << " by " << w;
    BE_CHECK(uniform.size(0) == 2) << "uniform numbers for both colours";
    auto s = (cudaStream_t)stream;
    if (spin_in.data_ptr() != spin.data_ptr())
        BE_CUDA_CHECK(cudaMemcpyAsync(spin.data_ptr(), spin_in.data_ptr(), spin.nbytes(), cudaMemcpyDefault, s));
    const dim3 block(16, 8), grid((w / 2 + 15) / 16, (h + 7) / 8);
    for (int colour = 0; colour < 2; ++colour)
        sweep<<<grid, block, 0, s>>>(spin.data_ptr<int8_t>(), uniform.data_ptr<float>() + colour * uniform.stride(0),
                                     chance.data_ptr<float>(), h, w, colour);
    sum_spins<<<1, 128, 0, s>>>(spin.data_ptr<int8_t>(), magnetisation.data_ptr<int32_t>(), h * w);
    BE_CHECK_KERNEL_LAUNCH();
}
