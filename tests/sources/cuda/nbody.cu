// Gravity among all bodies: positions and masses (x, y, z, m) by tiles of shared memory, and a step
// of kick and drift.
#include <cuda_runtime.h>
#include "kernbridge/kernbridge.hpp"

static const int TILE = 64;

__device__ float3 operator+(float3 a, float3 b) { return make_float3(a.x + b.x, a.y + b.y, a.z + b.z); }
__device__ float3 operator*(float s, float3 a) { return make_float3(s * a.x, s * a.y, s * a.z); }

__device__ float3 attraction(float4 from, float4 to, float softening)
{
    float3 d = make_float3(to.x - from.x, to.y - from.y, to.z - from.z);
    float r2 = d.x * d.x + d.y * d.y + d.z * d.z + softening;
    float inverse = rsqrtf(r2);
    return to.w * inverse * inverse * inverse * d;
}

__global__ void __launch_bounds__(TILE, 4)
    nbody_kernel(const float4 *body, const float *velocity, float4 *body_out, float *velocity_out, int n,
                 float dt, float softening)
{
    __shared__ float4 tile[TILE];
    const int i = blockIdx.x * TILE + threadIdx.x;
    const float4 me = body[i < n ? i : n - 1];
    float3 a = make_float3(0, 0, 0);
    for (int first = 0; first < n; first += TILE) {
        tile[threadIdx.x] = body[min(first + (int)threadIdx.x, n - 1)];
        __syncthreads();
        const int count = min(TILE, n - first);
        for (int j = 0; j < count; ++j)
            a = a + attraction(me, tile[j], softening);
        __syncthreads();
    }
    if (i >= n)
        return;
    const float3 v = make_float3(velocity[3 * i], velocity[3 * i + 1], velocity[3 * i + 2]) + dt * a;
    velocity_out[3 * i] = v.x;
    velocity_out[3 * i + 1] = v.y;
    velocity_out[3 * i + 2] = v.z;
    body_out[i] = make_float4(me.x + dt * v.x, me.y + dt * v.y, me.z + dt * v.z, me.w);
}

// @BE nbody_step arg arg ret ret attr.dt:float32 attr.softening:float32 stream
int nbody_step(const kernbridge::Tensor body, const kernbridge::Tensor velocity, kernbridge::Tensor body_out,
               kernbridge::Tensor velocity_out, float dt, float softening, int64_t stream)
{
    const int n = (int)body.size(0);
    KB_CHECK(body.size(1) == 4 && velocity.size(1) == 3) << "bodies are (x, y, z, mass)";
    nbody_kernel<<<(n + TILE - 1) / TILE, TILE, 0, (cudaStream_t)stream>>>(
        reinterpret_cast<const float4 *>(body.data_ptr<float>()), velocity.data_ptr<float>(),
        reinterpret_cast<float4 *>(body_out.data_ptr<float>()), velocity_out.data_ptr<float>(), n, dt, softening);
    return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
