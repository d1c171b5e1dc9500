// Synaptic delays: a ring of future currents, (slots, neurons). Spikes are added to the slots that
// their synapses' delays name; the slot of now is read, and cleared for later.
#include <cuda_runtime.h>
#include "brainevent/common.h"

void exchange(const BE::Tensor ring_before, const BE::Tensor spikes, const BE::Tensor targets,
              const BE::Tensor delays, const BE::Tensor weights, BE::Tensor ring, BE::Tensor now,
              int64_t step, int64_t stream);

namespace {

__global__ void deliver(int32_t *ring, const uint8_t *spikes, const int32_t *targets,
                        const uint8_t *delays, const int16_t *weights, int n, int fan_out, int slots,
                        int slot)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n * fan_out)
        return;
    int source = k / fan_out;
    if (!spikes[source])
        return;
    int to = (slot + delays[k]) % slots;
    atomicAdd(ring + to * n + targets[k], int(weights[k]));
}

__global__ void take(int32_t *ring, int32_t *now, int n, int slot)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        now[i] = ring[slot * n + i];
        ring[slot * n + i] = 0;
    }
}

}  // namespace

// @BE exchange arg arg arg arg arg ret ret attr.step stream
void exchange(const BE::Tensor ring_before, const BE::Tensor spikes, const BE::Tensor targets,
              const BE::Tensor delays, const BE::Tensor weights, BE::Tensor ring, BE::Tensor now,
              int64_t step, int64_t stream)
{
    auto s = (cudaStream_t)stream;
    const int slots = (int)ring.size(0), n = (int)ring.size(1), fan_out = (int)targets.size(1);
    const int slot = (int)(step % slots);
    if (ring_before.data_ptr() != ring.data_ptr())
        BE_CUDA_CHECK(cudaMemcpyAsync(ring.data_ptr(), ring_before.data_ptr(), ring.nbytes(),
                                      cudaMemcpyDeviceToDevice, s));
    deliver<<<(n * fan_out + 63) / 64, 64, 0, s>>>(
        ring.data_ptr<int32_t>(), spikes.data_ptr<uint8_t>(), targets.data_ptr<int32_t>(),
        delays.data_ptr<uint8_t>(), weights.data_ptr<int16_t>(), n, fan_out, slots, slot);
    take<<<(n + 63) / 64, 64, 0, s>>>(ring.data_ptr<int32_t>(), now.data_ptr<int32_t>(), n, slot);
    BE_CHECK_KERNEL_LAUNCH_SYNC();
}
