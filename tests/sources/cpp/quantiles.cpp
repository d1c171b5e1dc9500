// Order statistics with the standard library, which throws what it likes.
#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "brainevent/common.h"

// Quantile of each row, interpolated; rows of no number are refused.
// @BE quantile arg ret attr.q:float64
void quantile(const BE::Tensor x, BE::Tensor out, double q) {
    if (q < 0 || q > 1)
        throw std::invalid_argument("q is " + std::to_string(q) + ", expected one from 0 to 1");
    const int64_t n = x.size(x.ndim() - 1);
    const double* in = x.data_ptr<double>();
    for (int64_t r = 0; r < out.numel(); ++r) {
        std::vector<double> row;
        row.reserve(n);
        std::copy_if(in + r * n, in + (r + 1) * n, std::back_inserter(row),
                     [](double v) { return !std::isnan(v); });
        if (row.empty())
            throw static_cast<int>(r);
        std::sort(row.begin(), row.end());
        double at = q * (row.size() - 1);
        size_t low = static_cast<size_t>(at);
        double part = at - low;
        // vector::at checks its bound
        double high = row.at(std::min(low + 1, row.size() - 1));
        out.data_ptr<double>()[r] = row.at(low) * (1 - part) + high * part;
    }
}

// The most frequent value of each row, the smallest of several; and how often it occurs.
// @BE mode arg ret ret
void mode(const BE::Tensor x, BE::Tensor value, BE::Tensor count) {
    const int64_t n = x.size(1);
    for (int64_t r = 0; r < x.size(0); ++r) {
        std::map<int64_t, int32_t> seen;
        for (int64_t i = 0; i < n; ++i)
            ++seen[x.data_ptr<int64_t>()[r * n + i]];
        auto most = std::max_element(seen.begin(), seen.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
        value.data_ptr<int64_t>()[r] = most->first;
        count.data_ptr<int32_t>()[r] = most->second;
    }
}

// Refuses indices that std::vector would.
// @BE pick arg ret attr.index:uint64
void pick(const BE::Tensor x, BE::Tensor out, uint64_t index) {
    std::vector<float> all(x.data_ptr<float>(), x.data_ptr<float>() + x.numel());
    out.data_ptr<float>()[0] = all.at(index);
}
