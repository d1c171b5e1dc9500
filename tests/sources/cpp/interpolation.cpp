// Interpolation of a table: linear with constant ends, and Catmull-Rom on a regular grid.
#include "brainevent/common.h"

#include <algorithm>
#include <cmath>

namespace
{
template <typename real> real linear(const real *xs, const real *ys, int64_t n, real x)
{
    if (!(x > xs[0]))
        return ys[0];
    if (x >= xs[n - 1])
        return ys[n - 1];
    int64_t right = std::upper_bound(xs, xs + n, x) - xs;
    real t = (x - xs[right - 1]) / (xs[right] - xs[right - 1]);
    return ys[right - 1] + t * (ys[right] - ys[right - 1]);
}
} // namespace

// @BE interp arg arg arg ret
void interp(const BE::Tensor xs, const BE::Tensor ys, const BE::Tensor at, BE::Tensor out)
{
    BE_CHECK(xs.numel() == ys.numel())
        << "a table of " << xs.numel() << " places and " << ys.numel() << " values";
    BE_DISPATCH_FLOATING(xs.dtype(), real, {
        for (int64_t i = 0; i < at.numel(); ++i)
            out.data_ptr<real>()[i] = linear(xs.data_ptr<real>(), ys.data_ptr<real>(), xs.numel(),
                                             at.data_ptr<real>()[i]);
    });
}

// Values of columns at `at`, in steps of the grid; `wrap` makes the grid a ring.
// @BE catmull_rom arg arg ret attr.wrap:bool
void catmull_rom(const BE::Tensor grid, const BE::Tensor at, BE::Tensor out, bool wrap)
{
    const int64_t n = grid.size(0), columns = grid.size(1);
    const float *g = grid.data_ptr<float>();
    auto index = [=](int64_t i) {
        return wrap ? ((i % n) + n) % n : std::min(std::max<int64_t>(i, 0), n - 1);
    };
    for (int64_t i = 0; i < at.numel(); ++i) {
        const float x = at.data_ptr<float>()[i];
        const int64_t k = static_cast<int64_t>(std::floor(x));
        const float t = x - static_cast<float>(k);
        for (int64_t c = 0; c < columns; ++c) {
            const float p0 = g[index(k - 1) * columns + c], p1 = g[index(k) * columns + c];
            const float p2 = g[index(k + 1) * columns + c], p3 = g[index(k + 2) * columns + c];
            out.data_ptr<float>()[i * columns + c] =
                p1 + 0.5f * t * (p2 - p0 + t * (2 * p0 - 5 * p1 + 4 * p2 - p3 + t * (3 * (p1 - p2) + p3 - p0)));
        }
    }
}
