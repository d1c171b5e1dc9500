"""CUB's primitives of blocks and warps on the CPU, from the headers that NVIDIA publishes."""

import importlib.util

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

pytestmark = [
    pytest.mark.usefixtures("without_fake_gpu"),
    pytest.mark.once,
    pytest.mark.skipif(
        importlib.util.find_spec("nvidia") is None, reason="nvidia-cuda-cccl is not installed"
    ),
]

S = jax.ShapeDtypeStruct
THREADS, EACH, BLOCKS = 96, 3, 4
LETTERS = {"i": ("int", "int32"), "f": ("float", "float32"), "d": ("double", "float64")}
LETTERS |= {"u": ("unsigned long long", "uint64")}

SOURCE = r"""
#include "kernbridge/kernbridge.hpp"
#include <cub/cub.cuh>
using kernbridge::Tensor;

struct Max {
    template <typename T> __device__ T operator()(T a, T b) const { return a < b ? b : a; }
};
struct Less {
    template <typename T> __device__ bool operator()(T a, T b) const { return a < b; }
};
struct Unlike {
    template <typename T> __device__ bool operator()(T a, T b) const { return a != b; }
};

constexpr int B = 96, N = 3;

template <typename T, cub::BlockReduceAlgorithm how>
__global__ void reduce(const T *x, T *out) {
    using Reduce = cub::BlockReduce<T, B, how>;
    __shared__ typename Reduce::TempStorage storage[2];
    const T *mine = x + blockIdx.x * B * N + threadIdx.x * N;
    T v[N] = {mine[0], mine[1], mine[2]};
    T sum = Reduce(storage[0]).Sum(v);
    T most = Reduce(storage[1]).Reduce(mine[0], Max(), 50);
    if (threadIdx.x == 0) { out[2 * blockIdx.x] = sum; out[2 * blockIdx.x + 1] = most; }
}

template <typename T, cub::BlockScanAlgorithm how>
__global__ void scan(const T *x, T *inclusive, T *exclusive, T *total) {
    using Load = cub::BlockLoad<T, B, N, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
    using Store = cub::BlockStore<T, B, N, cub::BLOCK_STORE_TRANSPOSE>;
    using Scan = cub::BlockScan<T, B, how>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
        typename Scan::TempStorage scan;
    } storage;
    int begin = blockIdx.x * B * N;
    T v[N], w[N];
    Load(storage.load).Load(x + begin, v);
    __syncthreads();
    T sum;
    Scan(storage.scan).ExclusiveSum(v, w, sum);
    __syncthreads();
    Store(storage.store).Store(exclusive + begin, w);
    __syncthreads();
    Scan(storage.scan).InclusiveScan(v, w, Max());
    __syncthreads();
    Store(storage.store).Store(inclusive + begin, w);
    if (threadIdx.x == 0) total[blockIdx.x] = sum;
}

template <typename T> __global__ void sort(const T *x, T *keys, int *places) {
    using Radix = cub::BlockRadixSort<T, B, N, int>;
    __shared__ typename Radix::TempStorage radix;
    int begin = blockIdx.x * B * N + threadIdx.x * N;
    T v[N];
    int at[N];
    for (int i = 0; i < N; i++) { v[i] = x[begin + i]; at[i] = threadIdx.x * N + i; }
    Radix(radix).SortDescending(v, at);
    for (int i = 0; i < N; i++) { keys[begin + i] = v[i]; places[begin + i] = at[i]; }
}
template <typename T> __global__ void merge(const T *x, T *out) {
    using Merge = cub::BlockMergeSort<T, 32, B * N / 32>;
    __shared__ typename Merge::TempStorage storage;
    const int M = B * N / 32, begin = blockIdx.x * B * N + threadIdx.x * M;
    T v[M];
    for (int i = 0; i < M; i++) v[i] = x[begin + i];
    Merge(storage).Sort(v, Less());
    for (int i = 0; i < M; i++) out[begin + i] = v[i];
}

__global__ void rest(const int *x, int *out, int n) {
    using Histogram = cub::BlockHistogram<unsigned char, B, 1, 16>;
    using Atomic = cub::BlockHistogram<unsigned char, B, 1, 16, cub::BLOCK_HISTO_ATOMIC>;
    using Exchange = cub::BlockExchange<int, B, 2>;
    using Difference = cub::BlockAdjacentDifference<int, B>;
    using Heads = cub::BlockDiscontinuity<int, B>;
    using Shuffle = cub::BlockShuffle<int, B>;
    __shared__ typename Histogram::TempStorage histogram;
    __shared__ typename Atomic::TempStorage atomic;
    __shared__ typename Exchange::TempStorage exchange;
    __shared__ typename Difference::TempStorage difference;
    __shared__ typename Heads::TempStorage heads;
    __shared__ typename Shuffle::TempStorage shuffle;
    __shared__ int counts[16], more[16];
    int t = threadIdx.x, v = x[t];
    unsigned char byte[1] = {(unsigned char)(v & 15)};
    Histogram(histogram).Histogram(byte, counts);
    Atomic(atomic).Histogram(byte, more);
    __syncthreads();
    out[t] = t < 16 ? counts[t] * 1000 + more[t] : 0;
    int both[2] = {v, v + 1};
    Exchange(exchange).StripedToBlocked(both, both);
    out[n + 2 * t] = both[0]; out[n + 2 * t + 1] = both[1];
    int one[1] = {v}, left[1], head[1];
    Difference(difference).SubtractLeft(one, left, [](int a, int b) { return a - b; });
    out[3 * n + t] = left[0];
    Heads(heads).FlagHeads(head, one, Unlike());
    out[4 * n + t] = head[0];
    int next = 0;
    Shuffle(shuffle).Offset(v, next, 1);
    out[5 * n + t] = next;
}

template <typename T> __global__ void warps(const T *x, T *out, int n) {
    using Reduce = cub::WarpReduce<T, 8>;
    using Scan = cub::WarpScan<T>;
    using Sort = cub::WarpMergeSort<T, 1, 32>;
    __shared__ typename Reduce::TempStorage reduce[B / 8];
    __shared__ typename Scan::TempStorage scan[B / 32];
    __shared__ typename Sort::TempStorage sort[B / 32];
    int t = threadIdx.x;
    T v = x[t], sum, a, b;
    out[t] = Reduce(reduce[t / 8]).Sum(v);
    Scan(scan[t / 32]).InclusiveSum(v, a);
    Scan(scan[t / 32]).ExclusiveSum(v, b);
    out[n + t] = a;
    out[2 * n + t] = b;
    out[3 * n + t] = Reduce(reduce[t / 8]).HeadSegmentedReduce(v, t % 3 == 0, Max());
    T one[1] = {v};
    Sort(sort[t / 32]).Sort(one, Less());
    out[4 * n + t] = one[0];
    Scan(scan[t / 32]).ExclusiveScan(v, a, T(1), Max(), sum);
    out[5 * n + t] = a;
    out[6 * n + t] = sum;
    out[7 * n + t] = cub::ThreadLoad<cub::LOAD_LDG>(x + t);
    cub::ThreadStore<cub::STORE_CG>(out + 8 * n + t, v);
    out[9 * n + t] = Scan(scan[t / 32]).Broadcast(v, 5);
}

#define ALL(T, letter)                                                                             \
    void reduce_##letter(const Tensor x, Tensor out, cudaStream_t s) {                             \
        int blocks = x.numel() / (B * N);                                                          \
        T *o = out.data_ptr<T>();                                                                  \
        reduce<T, cub::BLOCK_REDUCE_WARP_REDUCTIONS><<<blocks, B, 0, s>>>(x.data_ptr<T>(), o);     \
        reduce<T, cub::BLOCK_REDUCE_RAKING><<<blocks, B, 0, s>>>(x.data_ptr<T>(), o + 2 * blocks); \
        reduce<T, cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY><<<blocks, B, 0, s>>>(                 \
            x.data_ptr<T>(), o + 4 * blocks);                                                      \
    }                                                                                              \
    void scan_##letter(const Tensor x, Tensor in, Tensor ex, Tensor total, cudaStream_t s) {       \
        int blocks = x.numel() / (B * N);                                                          \
        T *i = in.data_ptr<T>(), *e = ex.data_ptr<T>(), *t = total.data_ptr<T>();                  \
        int n = x.numel();                                                                         \
        scan<T, cub::BLOCK_SCAN_RAKING><<<blocks, B, 0, s>>>(x.data_ptr<T>(), i, e, t);            \
        scan<T, cub::BLOCK_SCAN_RAKING_MEMOIZE><<<blocks, B, 0, s>>>(                              \
            x.data_ptr<T>(), i + n, e + n, t + blocks);                                            \
        scan<T, cub::BLOCK_SCAN_WARP_SCANS><<<blocks, B, 0, s>>>(                                  \
            x.data_ptr<T>(), i + 2 * n, e + 2 * n, t + 2 * blocks);                                \
    }                                                                                              \
    void sort_##letter(const Tensor x, Tensor keys, Tensor places, Tensor merged, cudaStream_t s) {\
        sort<T><<<x.numel() / (B * N), B, 0, s>>>(x.data_ptr<T>(), keys.data_ptr<T>(),             \
                                                  places.data_ptr<int>());                         \
        merge<T><<<x.numel() / (B * N), 32, 0, s>>>(x.data_ptr<T>(), merged.data_ptr<T>());        \
    }                                                                                              \
    void warps_##letter(const Tensor x, Tensor out, cudaStream_t s) {                              \
        warps<T><<<1, B, 0, s>>>(x.data_ptr<T>(), out.data_ptr<T>(), B);                           \
    }
void of_rest(const Tensor x, Tensor out, cudaStream_t s) {
    rest<<<1, B, 0, s>>>(x.data_ptr<int>(), out.data_ptr<int>(), B);
}
"""


def load(letters):
    functions = {"of_rest": ["arg", "ret", "stream"]}
    for letter in letters:
        functions |= {
            f"reduce_{letter}": ["arg", "ret", "stream"],
            f"scan_{letter}": ["arg", "ret", "ret", "ret", "stream"],
            f"sort_{letter}": ["arg", "ret", "ret", "ret", "stream"],
            f"warps_{letter}": ["arg", "ret", "stream"],
        }
    lines = "".join(f"ALL({LETTERS[letter][0]}, {letter})\n" for letter in letters)
    return kernbridge.load_cuda_inline(
        f"cub_{letters}",
        SOURCE.replace("void of_rest", lines + "void of_rest"),
        functions=functions,
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("letters", ["i", "fdu"])
def test_primitives_of_blocks_and_warps(letters):
    with jax.enable_x64(True):
        module = load(letters)
        for letter in letters:
            check(module, letter, np.dtype(LETTERS[letter][1]))
        check_rest(module)


def check(module, letter, dtype):
    rng = np.random.default_rng(0)
    low = 0 if letter == "u" else -1000
    x = rng.integers(low, 1000, BLOCKS * THREADS * EACH).astype(dtype)
    if letter == "u":
        x <<= np.uint64(40)
    rows = x.reshape(BLOCKS, -1)
    whole, each = S((3, *rows.shape), dtype), S(rows.shape, dtype)

    def call(name, x, *outs):
        found = getattr(module, f"{name}_{letter}")(x, outs=outs)
        return [np.asarray(f) for f in found]

    (found,) = call("reduce", x, S((3, BLOCKS, 2), dtype))
    firsts = x.reshape(BLOCKS, THREADS, EACH)[:, :50, 0]
    assert (found == np.stack([rows.sum(1), firsts.max(1)], axis=1)).all()

    inclusive, exclusive, total = call("scan", x, whole, whole, S((3, BLOCKS), dtype))
    assert (inclusive == np.maximum.accumulate(rows, 1)).all()
    assert (exclusive == rows.cumsum(1) - rows).all()
    assert (total == rows.sum(1)).all()

    keys, places, merged = call("sort", x, each, S(rows.shape, jnp.int32), each)
    assert (merged == np.sort(rows, 1)).all()
    assert (keys == np.sort(rows, 1)[:, ::-1]).all()
    assert (np.take_along_axis(rows, places, 1) == keys).all()
    assert (np.sort(places, 1) == np.arange(THREADS * EACH)).all()

    v = x[:THREADS]
    warps = v.reshape(-1, 32)
    (found,) = call("warps", v, S((10, THREADS), dtype))
    assert (found[0, ::8] == v.reshape(-1, 8).sum(1)).all()
    assert (found[1] == warps.cumsum(1).ravel()).all()
    assert (found[2] == (warps.cumsum(1) - warps).ravel()).all()
    heads = [i for i in range(THREADS) if i % 8 == 0 or i % 3 == 0]
    for begin, end in zip(heads, [*heads[1:], THREADS], strict=True):
        assert found[3, begin] == v[begin:end].max()
    assert (found[4] == np.sort(warps, 1).ravel()).all()
    most = np.maximum.accumulate(np.c_[np.ones((len(warps), 1), dtype), warps], 1)
    assert (found[5] == most[:, :-1].ravel()).all()
    assert (found[6].reshape(-1, 32) == warps.max(1, keepdims=True)).all()
    assert (found[7] == v).all()
    assert (found[8] == v).all()
    assert (found[9].reshape(-1, 32) == warps[:, 5:6]).all()


def check_rest(module):
    x = np.random.default_rng(1).integers(0, 200, THREADS).astype(np.int32)
    found = np.asarray(module.of_rest(x, outs=S((6 * THREADS,), jnp.int32)))
    assert (found[:16] == 1001 * np.bincount(x & 15, minlength=16)).all()
    exchanged, found = found[THREADS : 3 * THREADS], found[3 * THREADS :].reshape(3, -1)
    assert (exchanged == np.r_[x, x + 1]).all()
    assert (found[0] == np.r_[x[0], np.diff(x)]).all()
    assert (found[1] == np.r_[1, np.diff(x) != 0]).all()
    assert (found[2, :-1] == x[1:]).all()


def test_algorithms_of_the_whole_device_are_refused():
    source = """#include "kernbridge/kernbridge.hpp"
#include <cub/cub.cuh>
// @BE f arg ret stream
void f(const kernbridge::Tensor x, kernbridge::Tensor out, cudaStream_t stream) {
    size_t bytes = 0;
    cub::DeviceReduce::Sum(nullptr, bytes, x.data_ptr<int>(), out.data_ptr<int>(), 3, stream);
}
"""
    message = r"whole\.cu:6: the source uses cub::DeviceReduce \(an algorithm of CUB .*KB4005"
    with pytest.raises(kernbridge.KernelCompilationError, match=message):
        kernbridge.load_cuda_inline("whole", source)
