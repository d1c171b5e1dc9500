// Rows in parallel on XLA's threads; each part has its own scratch memory.
#include <cmath>
#include <memory>
#include <stdexcept>
#include "kernbridge/kernbridge.hpp"

namespace kb = kernbridge;

// The logarithm of the sum of exponentials of each row, and the softmax.
// @BE logsumexp arg ret ret
void logsumexp(const kb::Tensor x, kb::Tensor lse, kb::Tensor softmax)
{
    const int64_t rows = x.size(0), n = x.size(1);
    float *maxima = static_cast<float *>(kb::scratch(rows * sizeof(float)));
    const float *in = x.data_ptr<float>();
    kb::parallel_for(rows, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            maxima[r] = in[r * n];
            for (int64_t i = 1; i < n; ++i)
                maxima[r] = std::fmax(maxima[r], in[r * n + i]);
        }
    });
    float *p = softmax.data_ptr<float>();
    kb::parallel_for(rows, [=](int64_t begin, int64_t end) {
        std::unique_ptr<double[]> e(new double[n]);
        for (int64_t r = begin; r < end; ++r) {
            double sum = 0;
            for (int64_t i = 0; i < n; ++i)
                sum += e[i] = std::exp(double(in[r * n + i]) - maxima[r]);
            lse.data_ptr<float>()[r] = static_cast<float>(maxima[r] + std::log(sum));
            for (int64_t i = 0; i < n; ++i)
                p[r * n + i] = static_cast<float>(e[i] / sum);
        }
    });
}

// Fails in one of the threads where a value is negative.
// @BE roots arg ret
void roots(const kb::Tensor x, kb::Tensor out)
{
    kb::parallel_for(x.numel(), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            if (x.data_ptr<float>()[i] < 0)
                throw std::domain_error("a negative number has no root");
            out.data_ptr<float>()[i] = std::sqrt(x.data_ptr<float>()[i]);
        }
    });
}
