// Measures of spike trains: the distance of Victor and Purpura, and statistics of intervals.
// A train is a row of times, ascending, of which `count` are valid.
#include "brainevent/common.h"
#include <cmath>
#include <vector>

namespace spikes
{
namespace
{
double victor_purpura(const double *a, int n, const double *b, int m, double cost)
{
    std::vector<std::vector<double>> d(n + 1, std::vector<double>(m + 1));
    for (int i = 0; i <= n; i++)
        d[i][0] = i;
    for (int j = 0; j <= m; j++)
        d[0][j] = j;
    for (int i = 1; i <= n; i++)
        for (int j = 1; j <= m; j++) {
            double shift = d[i - 1][j - 1] + cost * std::fabs(a[i - 1] - b[j - 1]);
            d[i][j] = std::fmin(shift, std::fmin(d[i - 1][j], d[i][j - 1]) + 1);
        }
    return d[n][m];
}
} // namespace

// @BE distances arg arg ret attr.cost:float64
void distances(const BE::Tensor &trains, const BE::Tensor &count, BE::Tensor &out, double cost)
{
    const int64_t n = trains.size(0), width = trains.stride(0);
    const double *t = trains.data_ptr<double>();
    const int32_t *c = count.data_ptr<int32_t>();
    double *d = out.data_ptr<double>();
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++)
            d[i * n + j] = d[j * n + i] =
                victor_purpura(t + i * width, c[i], t + j * width, c[j], cost);
}

// Mean rate, and CV of the intervals (population); trains of fewer than 3 spikes have CV 0.
// @BE interval_statistics
void interval_statistics(const BE::Tensor &trains, const BE::Tensor &count, BE::Tensor &rate,
                         BE::Tensor &cv, double duration)
{
    for (int64_t i = 0; i < trains.size(0); i++) {
        const double *t = trains.data_ptr<double>() + i * trains.stride(0);
        const int n = count.data_ptr<int32_t>()[i];
        double sum = 0, squares = 0;
        for (int k = 1; k < n; k++) {
            double interval = t[k] - t[k - 1];
            sum += interval;
            squares += interval * interval;
        }
        const double mean = sum / (n - 1), variance = squares / (n - 1) - mean * mean;
        rate.data_ptr<double>()[i] = n / duration;
        cv.data_ptr<double>()[i] = n < 3 ? 0.0 : std::sqrt(variance) / mean;
    }
}
} // namespace spikes
