// Escape times of z -> z^2 + c, with std::complex; and the same map with a parameter (Julia).
#include <complex>
#include "brainevent/common.h"

using c128 = std::complex<double>;

static int32_t escape(c128 z, c128 c, int limit, double *modulus)
{
    int32_t n = 0;
    while (n < limit && std::norm(z) <= 4.0) {
        z = z * z + c;
        ++n;
    }
    *modulus = std::abs(z);
    return n;
}

// @BE mandelbrot arg ret ret attr.limit:uint16
void mandelbrot(const BE::Tensor c, BE::Tensor times, BE::Tensor modulus, uint16_t limit)
{
    const c128 *points = static_cast<const c128 *>(c.data_ptr());
    BE_CHECK(c.dtype() == BE::DType::Complex128) << "points are " << c.dtype();
    for (int64_t i = 0; i < c.numel(); i++)
        times.data_ptr<int32_t>()[i] =
            escape(0, points[i], limit, modulus.data_ptr<double>() + i);
}

// @BE julia arg ret ret attr.c:complex128 attr.limit:int16
void julia(const BE::Tensor z, BE::Tensor times, BE::Tensor modulus, BE::complex128_t c, int16_t limit)
{
    auto *points = z.data_ptr<BE::complex128_t>();
    for (int64_t i = 0; i < z.numel(); i++)
        times.data_ptr<int32_t>()[i] =
            escape(c128(points[i].real(), points[i].y), c, limit, modulus.data_ptr<double>() + i);
}
