// Random numbers: Philox 4x32-10 by counters, and xorshift with a state for each thread.
#include <cuda_runtime.h>
#include "brainevent/common.h"

namespace philox {

__device__ inline uint4 round(uint4 c, uint2 key) {
    const uint64_t a = uint64_t(0xD2511F53u) * c.x, b = uint64_t(0xCD9E8D57u) * c.z;
    return make_uint4(uint32_t(b >> 32) ^ c.y ^ key.x, uint32_t(b), uint32_t(a >> 32) ^ c.w ^ key.y,
                      uint32_t(a));
}

__device__ inline uint4 generate(uint4 counter, uint2 key) {
    for (int r = 0; r < 10; r++) {
        counter = round(counter, key);
        key.x += 0x9E3779B9u;
        key.y += 0xBB67AE85u;
    }
    return counter;
}

}  // namespace philox

__global__ void philox_kernel(uint32_t* out, int64_t n, uint64_t seed, uint32_t offset) {
    const int64_t block = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (4 * block >= n) return;
    const uint4 v = philox::generate(make_uint4(uint32_t(block), offset, 0, 0),
                                     make_uint2(uint32_t(seed), uint32_t(seed >> 32)));
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
    for (int k = 0; k < 4 && 4 * block + k < n; k++)
        out[4 * block + k] = words[k];
}

// No input: numbers depend on attributes alone.
// @BE philox_bits ret attr.seed:uint64 attr.offset:uint32 stream
void philox_bits(BE::Tensor out, uint64_t seed, uint32_t offset, int64_t stream) {
    const int64_t n = out.numel(), blocks = (n + 3) / 4;
    philox_kernel<<<(blocks + 63) / 64, 64, 0, (cudaStream_t)stream>>>(out.data_ptr<uint32_t>(), n, seed,
                                                                       offset);
    BE_CHECK_KERNEL_LAUNCH();
}

__global__ void xorshift_kernel(const uint32_t* state, uint32_t* next, float* uniform, int streams, int draws) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= streams) return;
    uint32_t s = state[t];
    for (int k = 0; k < draws; k++) {
        s ^= s << 13;
        s ^= s >> 17;
        s ^= s << 5;
        uniform[k * streams + t] = (s >> 8) * (1.0f / 16777216.0f);
    }
    next[t] = s;
}

// @BE xorshift arg ret ret stream
void xorshift(const BE::Tensor state, BE::Tensor next, BE::Tensor uniform, int64_t stream) {
    const int streams = state.numel_checked_int(), draws = (int)uniform.size(0);
    xorshift_kernel<<<(streams + 31) / 32, 32, 0, (cudaStream_t)stream>>>(
        state.data_ptr<uint32_t>(), next.data_ptr<uint32_t>(), uniform.data_ptr<float>(), streams, draws);
    BE_CHECK_KERNEL_LAUNCH();
}
