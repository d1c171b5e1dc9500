// Spike-timing dependent plasticity, in place: weights and traces are aliased to the outputs.
#include <cuda_runtime.h>
#include "kernbridge/kernbridge.hpp"

namespace plasticity
{

// w[pre, post] grows by the trace of pre where post spikes, and shrinks by that of post where pre does.
__global__ void update_weights(float *w, const bool *pre, const bool *post, const float *trace_pre,
                               const float *trace_post, int n_pre, int n_post, float grow, float shrink,
                               float most)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= n_pre || j >= n_post)
        return;
    float x = w[i * n_post + j];
    if (post[j])
        x += grow * trace_pre[i];
    if (pre[i])
        x -= shrink * trace_post[j];
    w[i * n_post + j] = fminf(fmaxf(x, 0.0f), most);
}

__global__ void update_trace(float *trace, const bool *spike, int n, float decay)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        trace[i] = trace[i] * decay + (spike[i] ? 1.0f : 0.0f);
}

// Weights first, with the traces of before; then the traces.
// @BE stdp arg arg arg arg arg ret ret ret attr.grow:float32 attr.shrink:float32 attr.most:float32 attr.decay_pre:float32 attr.decay_post:float32 stream
void stdp(const kernbridge::Tensor &w_in, const kernbridge::Tensor &trace_pre_in,
          const kernbridge::Tensor &trace_post_in, const kernbridge::Tensor &pre,
          const kernbridge::Tensor &post, kernbridge::Tensor &w, kernbridge::Tensor &trace_pre,
          kernbridge::Tensor &trace_post, float grow, float shrink, float most, float decay_pre,
          float decay_post, int64_t stream)
{
    KB_CHECK(w_in.data_ptr() == w.data_ptr() && trace_pre_in.data_ptr() == trace_pre.data_ptr() &&
             trace_post_in.data_ptr() == trace_post.data_ptr())
        << "weights and traces are to be aliased";
    const int n_pre = int(w.size(0)), n_post = int(w.size(1));
    auto s = reinterpret_cast<cudaStream_t>(stream);
    dim3 block(32, 4), grid((n_post + 31) / 32, (n_pre + 3) / 4);
    update_weights<<<grid, block, 0, s>>>(
        w.data_ptr<float>(), pre.data_ptr<bool>(), post.data_ptr<bool>(), trace_pre.data_ptr<float>(),
        trace_post.data_ptr<float>(), n_pre, n_post, grow, shrink, most);
    update_trace<<<(n_pre + 31) / 32, 32, 0, s>>>(trace_pre.data_ptr<float>(), pre.data_ptr<bool>(), n_pre, decay_pre);
    update_trace<<<(n_post + 31) / 32, 32, 0, s>>>(trace_post.data_ptr<float>(), post.data_ptr<bool>(), n_post, decay_post);
    KB_CHECK_KERNEL_LAUNCH();
}

} // namespace plasticity
