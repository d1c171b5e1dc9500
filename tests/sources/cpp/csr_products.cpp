// Products of a CSR matrix on the CPU: with a vector, with a matrix, and transposed.
#include "brainevent/common.h"
#include <algorithm>

// Homogeneous weights are one number for all.
template <typename W> struct Weights {
    const W *w;
    bool one;
    W operator[](int64_t k) const { return w[one ? 0 : k]; }
};

// @BE csr_matmat
void csr_matmat(const BE::Tensor weights, const BE::Tensor indices, const BE::Tensor indptr,
                const BE::Tensor b, BE::Tensor out)
{
    const int64_t rows = out.size(0), columns = out.size(1);
    BE_DISPATCH_FLOATING(weights.dtype(), weight_t, {
        BE_DISPATCH_SIGNED_INDEX_PAIR(indptr.dtype(), indices.dtype(), offset_t, index_t, {
            const Weights<weight_t> w{weights.data_ptr<weight_t>(), weights.numel() == 1};
            const auto *p = indptr.data_ptr<offset_t>();
            const auto *j = indices.data_ptr<index_t>();
            for (int64_t r = 0; r < rows; ++r) {
                weight_t *y = out.data_ptr<weight_t>() + r * out.stride(0);
                std::fill(y, y + columns, weight_t(0));
                for (offset_t k = p[r]; k < p[r + 1]; ++k)
                    for (int64_t c = 0; c < columns; ++c)
                        y[c] += w[k] * b.data_ptr<weight_t>()[j[k] * columns + c];
            }
        });
    });
}

// out = A^T v, where v are spikes: any number above 0 is one.
// @BE csr_transposed_events
void csr_transposed_events(const BE::Tensor weights, const BE::Tensor indices,
                           const BE::Tensor indptr, const BE::Tensor spikes, BE::Tensor out)
{
    BE_CHECK_CSR_INDICES_INT32(indices);
    const Weights<float> w{weights.data_ptr<float>(), weights.numel() == 1};
    float *y = out.data_ptr<float>();
    std::fill(y, y + out.numel(), 0.0f);
    BE_DISPATCH_CSR_INDPTR(indptr.dtype(), offset_t, {
        const offset_t *p = indptr.data_ptr<offset_t>();
        BE_DISPATCH_ALL_TYPES(spikes.dtype(), spike_t, {
            for (int64_t r = 0; r < spikes.numel(); ++r)
                if (spikes.data_ptr<spike_t>()[r] > spike_t(0))
                    for (offset_t k = p[r]; k < p[r + 1]; ++k)
                        y[indices.data_ptr<int32_t>()[k]] += w[k];
        });
    });
}
