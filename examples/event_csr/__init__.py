"""Kernels of an event-driven sparse product and its cotangents, in four languages.

They are of weights w[k], spikes s and cotangents c; synapse k goes from neuron i to j:
  product          out[b, j] = sum of s[b, i] w[k]     spikes @ W; b is the batch
  weight_gradient  out[k]    = sum of s[b, i] c[b, j]  cotangent of W; event-driven too
  row_product      out[i, b] = sum of w[k] c[j, b]     cotangent of the spikes; each row has one,
                   as the surrogate is nowhere zero. The batch is last: it fills vector units.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np


@functools.cache
def in_numba() -> dict[str, Any]:
    import numba  # it checks the sign of signed indices, hence the unsigned ones

    @numba.njit
    def product(weights, indices, indptr, spikes, out):
        out[:] = 0
        for b in range(spikes.shape[0]):
            for i in range(spikes.shape[1]):
                s = spikes[b, i]
                if s != 0:
                    for k in range(np.uint32(indptr[i]), np.uint32(indptr[i + 1])):
                        out[b, np.uint32(indices[k])] += s * weights[k]

    @numba.njit
    def weight_gradient(spikes, indices, indptr, ct, out):
        out[:] = 0
        for b in range(spikes.shape[0]):
            for i in range(spikes.shape[1]):
                s = spikes[b, i]
                if s != 0:
                    for k in range(np.uint32(indptr[i]), np.uint32(indptr[i + 1])):
                        out[k] += s * ct[b, np.uint32(indices[k])]

    @numba.njit
    def row_product(weights, indices, indptr, ct, out):
        out[:] = 0
        for i in range(out.shape[0]):
            row = out[i]
            for k in range(indptr[i], indptr[i + 1]):
                w, c = weights[k], ct[indices[k]]
                for b in range(row.size):
                    row[b] += w * c[b]

    return {"product": product, "weight_gradient": weight_gradient, "row_product": row_product}


CPP = r"""
#include "kernbridge/kernbridge.hpp"
#include <cstring>
using kernbridge::Tensor;
const float *f32(const Tensor x) { return x.data_ptr<float>(); }
const int32_t *i32(const Tensor x) { return x.data_ptr<int32_t>(); }
float *zeroed(Tensor x) { return (float *)memset(x.data_ptr<float>(), 0, 4 * x.numel()); }
template <class F> void for_events(const Tensor spikes, const int32_t *begin, F add) {
    const float *s = f32(spikes);
    for (int64_t b = 0; b < spikes.shape(0); b++)
        for (int64_t i = 0; i < spikes.shape(1); i++, s++)
            if (*s != 0)
                for (int32_t k = begin[i]; k < begin[i + 1]; k++) add(b, k, *s);
}
// @BE product arg:f32[nnz] arg:i32[nnz] arg:i32[ends] arg:f32[b, pre] ret:f32[b, post]
void product(const Tensor w, const Tensor j, const Tensor row, const Tensor s, Tensor out) {
    auto add = [w = f32(w), j = i32(j), o = zeroed(out), post = out.shape(1)](
        int64_t b, int32_t k, float s) { o[b * post + j[k]] += s * w[k]; };
    for_events(s, i32(row), add);
}
// @BE weight_gradient arg:f32[b, pre] arg:i32[nnz] arg:i32[ends] arg:f32[b, post] ret:f32[nnz]
void weight_gradient(const Tensor s, const Tensor j, const Tensor row, const Tensor c, Tensor out) {
    auto add = [c = f32(c), j = i32(j), o = zeroed(out), post = c.shape(1)](
        int64_t b, int32_t k, float s) { o[k] += s * c[b * post + j[k]]; };
    for_events(s, i32(row), add);
}
// @BE row_product arg:f32[nnz] arg:i32[nnz] arg:i32[ends] arg:f32[post, b] ret:f32[pre, b]
void row_product(const Tensor w, const Tensor j, const Tensor row, const Tensor c, Tensor out) {
    float *o = zeroed(out);
    int64_t batch = out.shape(1);
    for (int64_t i = 0; i < out.shape(0); i++, o += batch)
        for (int32_t k = i32(row)[i]; k < i32(row)[i + 1]; k++) {
            const float weight = f32(w)[k], *ct = f32(c) + i32(j)[k] * batch;
            for (int64_t b = 0; b < batch; b++) o[b] += weight * ct[b];
        }
}
"""


# On GPUs, threads along x share the synapses of a row, or the batch; along y are the rows.
@functools.cache
def in_numba_cuda() -> dict[str, Any]:
    from numba import cuda

    @cuda.jit
    def product(weights, indices, indptr, spikes, out):
        x, y = cuda.grid(2)
        if y < spikes.size:
            b, i = y // spikes.shape[1], y % spikes.shape[1]
            s = spikes[b, i]
            if s != 0:
                for k in range(indptr[i] + x, indptr[i + 1], cuda.gridsize(2)[0]):
                    cuda.atomic.add(out, (b, indices[k]), s * weights[k])

    @cuda.jit
    def weight_gradient(spikes, indices, indptr, ct, out):
        x, i = cuda.grid(2)
        if i < spikes.shape[1]:
            for k in range(indptr[i] + x, indptr[i + 1], cuda.gridsize(2)[0]):
                total = np.float32(0)
                for b in range(spikes.shape[0]):
                    s = spikes[b, i]
                    if s != 0:
                        total += s * ct[b, indices[k]]
                out[k] = total

    @cuda.jit
    def row_product(weights, indices, indptr, ct, out):
        b, i = cuda.grid(2)
        if i < out.shape[0] and b < out.shape[1]:
            total = np.float32(0)
            for k in range(indptr[i], indptr[i + 1]):
                total += weights[k] * ct[indices[k], b]
            out[i, b] = total

    return {"product": product, "weight_gradient": weight_gradient, "row_product": row_product}


CUDA = r"""
#define X (blockIdx.x * blockDim.x + threadIdx.x)
#define Y (blockIdx.y * blockDim.y + threadIdx.y)
#define FOR_MY_SYNAPSES(i) \
    for (int k = indptr[i] + X; k < indptr[i + 1]; k += gridDim.x * blockDim.x)
__global__ void product(const float *weights, const int *indices, const int *indptr,
                        const float *spikes, float *out, int batch, int pre, int post) {
    size_t b = Y / pre, i = Y % pre;
    if (float s = b < batch ? spikes[b * pre + i] : 0)
        FOR_MY_SYNAPSES(i) atomicAdd(&out[b * post + indices[k]], s * weights[k]);
}
__global__ void weight_gradient(const float *spikes, const int *indices, const int *indptr,
                                const float *ct, float *out, int batch, int pre, int post) {
    size_t i = Y;
    if (i >= pre) return;
    FOR_MY_SYNAPSES(i) {
        float total = 0;
        for (size_t b = 0; b < batch; b++)
            if (float s = spikes[b * pre + i]) total += s * ct[b * post + indices[k]];
        out[k] = total;
    }
}
__global__ void row_product(const float *weights, const int *indices, const int *indptr,
                            const float *ct, float *out, int batch, int pre, int post) {
    size_t b = X, i = Y;
    if (i >= pre || b >= batch) return;
    float total = 0;
    for (int k = indptr[i]; k < indptr[i + 1]; k++)
        total += weights[k] * ct[size_t(indices[k]) * batch + b];
    out[i * batch + b] = total;
}
"""
