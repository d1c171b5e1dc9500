// Sums and prefix sums by CUB; its temporary storage is an output.
#include <cuda_runtime.h>
#include <cub/cub.cuh>
#include "brainevent/common.h"

// @BE cub_sum arg ret ret stream
void cub_sum(const BE::Tensor x, BE::Tensor out, BE::Tensor storage, int64_t stream)
{
    auto s = (cudaStream_t)stream;
    const int n = x.numel_checked_int();
    size_t needed = 0;
    BE_CUDA_CHECK(cub::DeviceReduce::Sum(nullptr, needed, x.data_ptr<int>(), out.data_ptr<int>(), n, s));
    BE_CHECK(needed <= storage.nbytes()) << "CUB needs " << needed << " bytes, and has " << storage.nbytes();
    size_t bytes = storage.nbytes();
    BE_CUDA_CHECK(cub::DeviceReduce::Sum(storage.data_ptr(), bytes, x.data_ptr<int>(), out.data_ptr<int>(), n, s));
}

// @BE cub_exclusive_sum arg ret ret stream
void cub_exclusive_sum(const BE::Tensor x, BE::Tensor out, BE::Tensor storage, int64_t stream)
{
    auto s = (cudaStream_t)stream;
    const int n = x.numel_checked_int();
    size_t bytes = storage.nbytes();
    BE_CUDA_CHECK(cub::DeviceScan::ExclusiveSum(storage.data_ptr(), bytes, x.data_ptr<int>(), out.data_ptr<int>(), n, s));
}
