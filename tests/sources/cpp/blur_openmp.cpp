// A separable box blur of an image with channels; rows in parallel with OpenMP.
#include "brainevent/common.h"
#include <omp.h>
#include <vector>

// @BE box_blur arg ret ret attr.radius:int32
void box_blur(const BE::Tensor image, BE::Tensor out, BE::Tensor threads, int32_t radius)
{
    const int64_t h = image.size(0), w = image.size(1), c = image.size(2);
    const double *in = image.data_ptr<double>();
    double *result = out.data_ptr<double>();
    std::vector<double> between(h * w * c);
    int32_t used = 0;
#pragma omp parallel num_threads(2)
    {
#pragma omp single
        used = omp_get_num_threads();
#pragma omp for collapse(2)
        for (int64_t y = 0; y < h; y++)
            for (int64_t x = 0; x < w; x++)
                for (int64_t k = 0; k < c; k++) {
                    double sum = 0;
                    int n = 0;
                    for (int64_t d = -radius; d <= radius; d++)
                        if (x + d >= 0 && x + d < w) {
                            sum += in[(y * w + x + d) * c + k];
                            n++;
                        }
                    between[(y * w + x) * c + k] = sum / n;
                }
#pragma omp for schedule(dynamic, 4)
        for (int64_t y = 0; y < h; y++)
            for (int64_t i = 0; i < w * c; i++) {
                double sum = 0;
                int n = 0;
                for (int64_t d = -radius; d <= radius; d++)
                    if (y + d >= 0 && y + d < h) {
                        sum += between[(y + d) * w * c + i];
                        n++;
                    }
                result[y * w * c + i] = sum / n;
            }
    }
    threads.data_ptr<int32_t>()[0] = used > 0;
}
