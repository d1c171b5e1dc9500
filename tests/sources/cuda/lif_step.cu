// Leaky integrate-and-fire neurons: one step of exponential Euler, with reset and a refractory time.
#include <cuda_runtime.h>
#include "brainevent/common.h"

struct Neuron {
    float decay, rest, reset, threshold, resistance;
    int refractory;
};

__global__ void __launch_bounds__(128) lif_kernel(
    const float *__restrict__ v, const int32_t *__restrict__ wait, const float *__restrict__ current,
    float *__restrict__ v_next, int32_t *__restrict__ wait_next, bool *__restrict__ spike, int n, Neuron p)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    if (wait[i] > 0) {
        v_next[i] = p.reset;
        wait_next[i] = wait[i] - 1;
        spike[i] = false;
        return;
    }
    const float target = p.rest + p.resistance * current[i];
    const float u = target + (v[i] - target) * p.decay;
    const bool fires = u >= p.threshold;
    spike[i] = fires;
    v_next[i] = fires ? p.reset : u;
    wait_next[i] = fires ? p.refractory : 0;
}

// The arguments are read off the signature.
// @BE lif_step
void lif_step(const BE::Tensor v, const BE::Tensor wait, const BE::Tensor current,
              BE::Tensor v_next, BE::Tensor wait_next, BE::Tensor spike,
              float dt, float tau = 20.0f, float rest = -65.0f, float reset = -70.0f,
              float threshold = -50.0f, float resistance = 1.0f, int refractory = 2,
              cudaStream_t stream = 0)
{
    const int n = v.numel_checked_int();
    const Neuron p{expf(-dt / tau), rest, reset, threshold, resistance, refractory};
    lif_kernel<<<(n + 127) / 128, 128, 0, stream>>>(
        v.data_ptr<float>(), wait.data_ptr<int32_t>(), current.data_ptr<float>(),
        v_next.data_ptr<float>(), wait_next.data_ptr<int32_t>(), spike.data_ptr<bool>(), n, p);
    BE_CHECK_KERNEL_LAUNCH();
}
