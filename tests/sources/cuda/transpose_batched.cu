// The last two axes of a batch of matrices change places: tiles, a batch for each z of the grid.
// Elements are moved by their width, whatever they are.
#include <cuda_runtime.h>
#include "brainevent/common.h"

constexpr int kTile = 32;
constexpr int kRows = 8;

template <typename Bits>
__global__ void transpose(const Bits *in, Bits *out, int rows, int columns)
{
    __shared__ Bits tile[kTile][kTile + 1];
    const int64_t base = (int64_t)blockIdx.z * rows * columns;
    int x = blockIdx.x * kTile + threadIdx.x;
    for (int k = threadIdx.y; k < kTile; k += kRows) {
        int y = blockIdx.y * kTile + k;
        if (x < columns && y < rows)
            tile[k][threadIdx.x] = in[base + (int64_t)y * columns + x];
    }
    __syncthreads();
    x = blockIdx.y * kTile + threadIdx.x;
    for (int k = threadIdx.y; k < kTile; k += kRows) {
        int y = blockIdx.x * kTile + k;
        if (x < rows && y < columns)
            out[base + (int64_t)y * rows + x] = tile[threadIdx.x][k];
    }
}

// @BE transpose_last arg ret stream
void transpose_last(const BE::Tensor in, BE::Tensor out, int64_t stream)
{
    const int rows = in.size(-2), columns = in.size(-1);
    const int batch = in.ndim() > 2 ? int(in.numel() / (rows * columns)) : 1;
    const dim3 grid((columns + kTile - 1) / kTile, (rows + kTile - 1) / kTile, batch);
    const dim3 block(kTile, kRows, 1);
    auto s = (cudaStream_t)stream;
    switch (in.element_size()) {
#define MOVE(bytes, Bits)                                                                \
    case bytes:                                                                          \
        transpose<Bits><<<grid, block, 0, s>>>(static_cast<const Bits *>(in.data_ptr()), \
                                               static_cast<Bits *>(out.data_ptr()), rows, columns); \
        break;
        MOVE(1, uint8_t)
        MOVE(2, uint16_t)
        MOVE(4, uint32_t)
        MOVE(8, uint64_t)
        MOVE(16, ulonglong2)
#undef MOVE
    default:
        throw BE::Error(BE::Message() << "elements of " << in.element_size() << " bytes",
                        KB_UNIMPLEMENTED);
    }
    BE_CHECK_KERNEL_LAUNCH();
}
