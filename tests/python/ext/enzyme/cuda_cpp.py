"""CUDA C++ kernels that are differentiated, with JAX's functions of the same values.

The second half computes, in the way in which CUDA's samples and libraries do, what these are known
for: sums by halves, tiles of matrices, scans, options, bodies.
"""

import collections
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from kernbridge import cuda_kernel
from needs_enzyme import assert_derivatives

S = jax.ShapeDtypeStruct


class Kernel(NamedTuple):
    """A kernel of arrays of `T`, which stands for float or double in its source."""

    source: str
    name: str
    reference: Any
    arguments: Any  # of a function that draws arrays of reals
    options: dict[str, Any]
    is_fast: bool = False  # in `make test`


KERNELS = {}


def kernel(source, arguments, *, is_fast=False, name=None, **options):
    """Add the kernel of a source, whose values the decorated function computes."""

    def added(reference):
        named = name or reference.__name__
        KERNELS[reference.__name__] = Kernel(source, named, reference, arguments, options, is_fast)
        return reference

    return added


def operation(name, dtype):
    """The operation and arguments for it."""
    made, rng = KERNELS[name], np.random.default_rng(0)
    c = {"float32": "float", "float64": "double"}[dtype]

    def real(*shape, low=None, high=1.0):
        drawn = rng.normal(size=shape) if low is None else rng.uniform(low, high, shape)
        return drawn.astype(dtype)

    arguments = made.arguments(real, rng)
    values = jax.eval_shape(made.reference, *arguments)
    outs = jax.tree.map(lambda y: S(y.shape, y.dtype), values)
    options = {"derivatives": "enzyme", **made.options}
    if "grid" not in options:
        options.setdefault("launch_dims", arguments[0].size)
    source = f"typedef {c} T;\n{made.source}"
    op = cuda_kernel(source, made.name.replace("T", c), outs, **options)
    return op, made.reference, arguments


def integers(rng, high, *shape):
    return rng.integers(0, high, shape).astype(np.int32)


@kernel(
    r"""
template <int block>
__global__ void stencil(const T *u, const T *w, T *out, int n)
{
    __shared__ T s[block + 2];
    int t = threadIdx.x, i = blockIdx.x * block + t;
    s[t + 1] = u[i];
    if (t == 0)
        s[0] = u[(i + n - 1) % n];
    if (t == block - 1)
        s[block + 1] = u[(i + 1) % n];
    __syncthreads();
    out[i] = w[0] * s[t] + w[1] * s[t + 1] * s[t + 1] + w[2] * exp(s[t + 2]);
}
""",
    lambda real, rng: (real(96), real(3)),
    name="stencil<32>",
    threads_per_block=32,
    attrs={"n": 96},
)
def stencil(u, w):
    return w[0] * jnp.roll(u, 1) + w[1] * u * u + w[2] * jnp.exp(jnp.roll(u, -1))


@kernel(
    r"""
__global__ void scatter(const T *x, const int *at, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&out[at[i]], x[i] * exp(-x[i] * x[i]));
}
""",
    lambda real, rng: (real(100), integers(rng, 7, 100)),
    attrs={"n": 100},
    zero_outputs=True,
    is_fast=True,
)
def scatter(x, at):
    return jnp.zeros(7, x.dtype).at[at].add(x * jnp.exp(-x * x))


ROWS = np.array([0, 2, 2, 5, 9], np.int32)


@kernel(
    r"""
__global__ void csr(const T *v, const int *column, const int *begin, const T *x, T *y, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    T sum = 0;
    for (int k = begin[r]; k < begin[r + 1]; k++)
        sum += v[k] * x[column[k]];
    y[r] = sum;
}
""",
    lambda real, rng: (real(9), integers(rng, 6, 9), ROWS, real(6)),
    attrs={"rows": 4},
)
def csr(v, column, begin, x):
    rows = np.repeat(np.arange(4), np.diff(ROWS))
    return jnp.zeros(4, v.dtype).at[rows].add(v * x[column])


PARAMETERS = np.array([(1.5, 50, 0.25)], [("a", "f4"), ("n", "i4"), ("b", "f8")])[0]


@kernel(
    r"""
struct Curve { float a; int n; double b; };
template <typename U> __device__ U bent(U x, const Curve &c) { return c.a * x * x + (U)c.b; }
template <typename U> __global__ void curved(const U *x, U *y, Curve c)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < c.n)
        y[i] = bent(x[i], c) * x[(i + 1) % c.n];
}
""",
    lambda real, rng: (real(50),),
    name="curved<T>",
    attrs={"c": PARAMETERS},
)
def curved(x):
    return (1.5 * x * x + 0.25) * jnp.roll(x, -1)


@kernel(
    r"""
__global__ void neurons(const T *v, const T *current, T *next, T *spikes, int n, T tau)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T u = v[i];
    for (int s = 0; s < 4; s++)
        u += (current[i] - u) / tau;
    bool fires = u > T(1);
    spikes[i] = fires ? T(1) : T(0);
    next[i] = fires ? T(0) : u;
}
""",
    lambda real, rng: (real(33), 3 * real(33)),
    attrs={"n": 33, "tau": 10.0},
)
def neurons(v, current):
    u = v
    for _ in range(4):
        u = u + (current - u) / 10
    return jnp.where(u > 1, 0, u), jnp.where(u > 1, 1, 0).astype(v.dtype) + 0 * u


@kernel(
    r"""
template <typename U> __device__ U softened(U x) { return log1p(exp(x)); }
__global__ void softplus(const T *x, T *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = softened(x[i]);
}
""",
    lambda real, rng: (real(70),),
    attrs={"n": 70},
)
def softplus(x):
    return jnp.log1p(jnp.exp(x))


@kernel(
    r"""
extern __shared__ unsigned char memory[];
__global__ void sums(const T *x, T *out, int n)
{
    T *s = reinterpret_cast<T *>(memory);
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    s[t] = i < n ? sin(x[i]) : T(0);
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k >>= 1) {
        if (t < k)
            s[t] += s[t + k];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = s[0] * s[0];
}
""",
    lambda real, rng: (real(110),),
    grid=4,
    block=32,
    shared_mem=256,
    attrs={"n": 110},
)
def sums(x):
    s = jnp.sin(jnp.pad(x, (0, 18))).reshape(4, 32).sum(1)
    return s * s


@kernel(
    r"""
struct alignas(4 * sizeof(T)) Four { T x, y, z, w; };
__global__ void fours(const T *x, const T *w, T *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    Four v = reinterpret_cast<const Four *>(x)[i];
    T d = v.x * v.y + v.z * v.w;
    reinterpret_cast<Four *>(y)[i] = Four{d * w[i], v.x, rsqrt(T(1) + v.y * v.y), d};
}
""",
    lambda real, rng: (real(10, 4), real(10)),
    attrs={"n": 10},
)
def fours(x, w):
    d = x[:, 0] * x[:, 1] + x[:, 2] * x[:, 3]
    return jnp.stack([d * w, x[:, 0], 1 / jnp.sqrt(1 + x[:, 1] ** 2), d], 1)


@kernel(
    r"""
__constant__ T weights[3] = {0.25, 0.5, 0.25};
__device__ const int offsets[3] = {-1, 0, 1};
__global__ void filtered(const T *x, T *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T sum = 0;
#pragma unroll
    for (int k = 0; k < 3; k++) {
        int j = min(max(i + offsets[k], 0), n - 1);
        sum += weights[k] * pow(fabs(x[j]) + T(1), T(1.5));
    }
    y[i] = sum;
}
""",
    lambda real, rng: (real(40),),
    attrs={"n": 40},
)
def filtered(x):
    p = (jnp.abs(jnp.pad(x, 1, mode="edge")) + 1) ** 1.5
    return 0.25 * p[:-2] + 0.5 * p[1:-1] + 0.25 * p[2:]


@kernel(
    r"""
__global__ void special(const T *x, T *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T a = x[i], s, c;
    if (sizeof(T) == 4)
        sincosf(a, (float *)&s, (float *)&c);
    else
        sincos(a, (double *)&s, (double *)&c);
    y[i] = s * c + erf(a) + normcdf(a) + cbrt(T(2) + a * a) + hypot(a, T(3)) + atan2(a, T(2)) +
           expm1(a) + tanh(a) * floor(a) + fma(a, a, s) + lgamma(T(3) + a * a) + fdim(a, T(0.1)) +
           fmod(a, T(3)) + asinh(a) + log2(T(2) + a * a);
}
""",
    lambda real, rng: (real(31),),
    attrs={"n": 31},
)
def special(x):
    s, c = jnp.sin(x), jnp.cos(x)
    y = s * c + jax.lax.erf(x) + 0.5 * jax.lax.erfc(-x / np.sqrt(2)) + jnp.cbrt(2 + x * x)
    y += jnp.sqrt(x * x + 9) + jnp.arctan2(x, 2) + jnp.expm1(x) + jnp.tanh(x) * jnp.floor(x)
    y += x * x + s + jax.lax.lgamma(3 + x * x) + jnp.maximum(x - 0.1, 0)
    return (y + jnp.fmod(x, 3) + jnp.arcsinh(x) + jnp.log2(2 + x * x)).astype(x.dtype)


@kernel(
    r"""
#define TILE 8
__global__ void product(const T *A, const T *B, T *C, int M, int N, int K)
{
    __shared__ T As[TILE][TILE], Bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    T sum = 0;
    for (int m = 0; m < (K + TILE - 1) / TILE; ++m) {
        int a = m * TILE + threadIdx.x, b = m * TILE + threadIdx.y;
        As[threadIdx.y][threadIdx.x] = row < M && a < K ? A[row * K + a] : T(0);
        Bs[threadIdx.y][threadIdx.x] = col < N && b < K ? B[b * N + col] : T(0);
        __syncthreads();
        for (int k = 0; k < TILE; ++k)
            sum += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = sum;
}
""",
    lambda real, rng: (real(10, 20), real(20, 12)),
    grid=(2, 2),
    block=(8, 8),
    attrs={"M": 10, "N": 12, "K": 20},
)
def product(a, b):
    return jnp.dot(a, b, precision="highest")


@kernel(
    r"""
template <unsigned int blockSize>
__global__ void reduction(const T *in, T *out, unsigned int n)
{
    __shared__ T data[blockSize];
    unsigned int tid = threadIdx.x;
    T mine = 0;
    for (unsigned int i = blockIdx.x * blockSize * 2 + tid; i < n; i += blockSize * 2 * gridDim.x) {
        mine += in[i] * in[i];
        if (i + blockSize < n)
            mine += in[i + blockSize] * in[i + blockSize];
    }
    data[tid] = mine;
    __syncthreads();
    if (blockSize >= 64) { if (tid < 32) data[tid] += data[tid + 32]; __syncthreads(); }
    if (blockSize >= 32) { if (tid < 16) data[tid] += data[tid + 16]; __syncthreads(); }
    if (blockSize >= 16) { if (tid < 8) data[tid] += data[tid + 8]; __syncthreads(); }
    if (tid < 4) data[tid] += data[tid + 4];
    __syncthreads();
    if (tid == 0) {
        T sum = 0;
        for (int k = 0; k < 4; k++)
            sum += data[k];
        out[blockIdx.x] = sum;
    }
}
""",
    lambda real, rng: (real(250),),
    name="reduction<64>",
    grid=2,
    block=64,
    attrs={"n": 250},
)
def reduction(x):
    return (jnp.pad(x, (0, 6)) ** 2).reshape(2, 128).sum(1)


@kernel(
    r"""
#define TILE_DIM 8
#define BLOCK_ROWS 2
__global__ void transposed(T *odata, const T *idata, int width, int height)
{
    __shared__ T tile[TILE_DIM][TILE_DIM + 1];
    int x = blockIdx.x * TILE_DIM + threadIdx.x;
    int y = blockIdx.y * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE_DIM + threadIdx.x;
    y = blockIdx.x * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        odata[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}
""",
    lambda real, rng: (real(16, 24),),
    grid=(3, 2),
    block=(8, 2),
    attrs={"width": 24, "height": 16},
)
def transposed(x):
    return x.T


@kernel(
    r"""
#define IDX(i, j) ((i) * nx + (j))
__global__ void jacobi(const T *__restrict__ a, const T *__restrict__ f, T *__restrict__ anew,
                       const int nx, const int ny, const T h2)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x;
    const int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= ny || j >= nx)
        return;
    if (i == 0 || j == 0 || i == ny - 1 || j == nx - 1) {
        anew[IDX(i, j)] = a[IDX(i, j)];
        return;
    }
    anew[IDX(i, j)] = T(0.25) * (a[IDX(i, j + 1)] + a[IDX(i, j - 1)] + a[IDX(i + 1, j)] +
                                 a[IDX(i - 1, j)] - h2 * f[IDX(i, j)] * a[IDX(i, j)]);
}
""",
    lambda real, rng: (real(9, 11), real(9, 11)),
    grid=(2, 2),
    block=(8, 8),
    attrs={"nx": 11, "ny": 9, "h2": 0.5},
)
def jacobi(a, f):
    inner = a[1:-1, 2:] + a[1:-1, :-2] + a[2:, 1:-1] + a[:-2, 1:-1]
    inner -= 0.5 * f[1:-1, 1:-1] * a[1:-1, 1:-1]
    return a.at[1:-1, 1:-1].set(0.25 * inner)


@kernel(
    r"""
struct Vec3 { T x, y, z; };
struct Vec4 { T x, y, z, w; };
__device__ Vec3 interact(Vec4 bi, Vec4 bj, Vec3 ai, T eps2)
{
    Vec3 r = {bj.x - bi.x, bj.y - bi.y, bj.z - bi.z};
    T dist2 = r.x * r.x + r.y * r.y + r.z * r.z + eps2;
    T inv = rsqrt(dist2);
    T s = bj.w * inv * inv * inv;
    ai.x += r.x * s;
    ai.y += r.y * s;
    ai.z += r.z * s;
    return ai;
}
__global__ void bodies(const T *positions, T *accelerations, int n, T eps2)
{
    extern __shared__ T tile[];
    const Vec4 *all = reinterpret_cast<const Vec4 *>(positions);
    Vec4 *sh = reinterpret_cast<Vec4 *>(tile);
    int gtid = blockIdx.x * blockDim.x + threadIdx.x;
    Vec4 mine = all[gtid];
    Vec3 acc = {0, 0, 0};
    for (int i = 0; i < n; i += blockDim.x) {
        sh[threadIdx.x] = all[i + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < blockDim.x; j++)
            acc = interact(mine, sh[j], acc, eps2);
        __syncthreads();
    }
    accelerations[3 * gtid] = acc.x;
    accelerations[3 * gtid + 1] = acc.y;
    accelerations[3 * gtid + 2] = acc.z;
}
""",
    lambda real, rng: (real(16, 4),),
    grid=2,
    block=8,
    shared_mem=256,
    attrs={"n": 16, "eps2": 0.1},
)
def bodies(p):
    r = p[None, :, :3] - p[:, None, :3]
    inverse = ((r * r).sum(-1) + 0.1) ** -0.5
    return (r * (p[None, :, 3] * inverse**3)[..., None]).sum(1)


@kernel(
    r"""
__device__ inline T normal(T d)
{
    const T a1 = 0.31938153, a2 = -0.356563782, a3 = 1.781477937, a4 = -1.821255978;
    const T a5 = 1.330274429, scale = 0.39894228040143267793994605993438;
    T k = T(1) / (T(1) + T(0.2316419) * fabs(d));
    T c = scale * exp(T(-0.5) * d * d) * (k * (a1 + k * (a2 + k * (a3 + k * (a4 + k * a5)))));
    return d > 0 ? T(1) - c : c;
}
__device__ inline void price(T &call, T &put, T s, T x, T t, T r, T v)
{
    T root = sqrt(t);
    T d1 = (log(s / x) + (r + T(0.5) * v * v) * t) / (v * root), d2 = d1 - v * root;
    T n1 = normal(d1), n2 = normal(d2), discount = exp(-r * t);
    call = s * n1 - x * discount * n2;
    put = x * discount * (T(1) - n2) - s * (T(1) - n1);
}
__launch_bounds__(128) __global__ void options(const T *__restrict s, const T *__restrict x,
                                               const T *__restrict t, T *__restrict call,
                                               T *__restrict put, T r, T v, int n)
{
    const int opt = blockDim.x * blockIdx.x + threadIdx.x;
    if (opt < n)
        price(call[opt], put[opt], s[opt], x[opt], t[opt], r, v);
}
""",
    lambda real, rng: (real(20, low=5, high=30), real(20, low=1, high=99), real(20, low=0.25)),
    attrs={"r": 0.02, "v": 0.3, "n": 20},
)
def options(s, x, t):
    def normal(d):
        k = 1 / (1 + 0.2316419 * jnp.abs(d))
        a = (0.31938153, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
        c = k * (a[0] + k * (a[1] + k * (a[2] + k * (a[3] + k * a[4]))))
        c *= 0.39894228040143267794 * jnp.exp(-0.5 * d * d)
        return jnp.where(d > 0, 1 - c, c)

    root = jnp.sqrt(t)
    d1 = (jnp.log(s / x) + (0.02 + 0.5 * 0.3 * 0.3) * t) / (0.3 * root)
    n1, n2, discount = normal(d1), normal(d1 - 0.3 * root), jnp.exp(-0.02 * t)
    return s * n1 - x * discount * n2, x * discount * (1 - n2) - s * (1 - n1)


@kernel(
    r"""
#define RADIUS 3
#define BLOCK_SIZE 16
__global__ void conv1d(const T *in, const T *mask, T *out, int n)
{
    __shared__ T temp[BLOCK_SIZE + 2 * RADIUS];
    int gindex = threadIdx.x + blockIdx.x * blockDim.x;
    int lindex = threadIdx.x + RADIUS;
    temp[lindex] = gindex < n ? in[gindex] : T(0);
    if (threadIdx.x < RADIUS) {
        int left = gindex - RADIUS, right = gindex + BLOCK_SIZE;
        temp[lindex - RADIUS] = left >= 0 ? in[left] : T(0);
        temp[lindex + BLOCK_SIZE] = right < n ? in[right] : T(0);
    }
    __syncthreads();
    T result = 0;
    for (int offset = -RADIUS; offset <= RADIUS; offset++)
        result += temp[lindex + offset] * mask[offset + RADIUS];
    if (gindex < n)
        out[gindex] = result;
}
""",
    lambda real, rng: (real(45), real(7)),
    threads_per_block=16,
    attrs={"n": 45},
)
def conv1d(x, mask):
    return jnp.convolve(x, mask[::-1], mode="same", precision="highest")


@kernel(
    r"""
#define BINS 8
__global__ void histogram(const int *keys, const T *weights, T *bins, int n)
{
    __shared__ T local[BINS];
    if (threadIdx.x < BINS)
        local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(&local[keys[i] % BINS], weights[i] * weights[i]);
    __syncthreads();
    if (threadIdx.x < BINS)
        atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
""",
    lambda real, rng: (integers(rng, 99, 120), real(120)),
    grid=3,
    block=32,
    attrs={"n": 120},
    zero_outputs=True,
)
def histogram(keys, weights):
    return jnp.zeros(8, weights.dtype).at[keys % 8].add(weights**2)


@kernel(
    r"""
__global__ void scan(T *g_odata, const T *g_idata, int n)
{
    extern __shared__ T temp[];
    int thid = threadIdx.x, offset = 1;
    temp[2 * thid] = g_idata[2 * thid];
    temp[2 * thid + 1] = g_idata[2 * thid + 1];
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (thid < d) {
            int ai = offset * (2 * thid + 1) - 1, bi = offset * (2 * thid + 2) - 1;
            temp[bi] += temp[ai];
        }
        offset *= 2;
    }
    if (thid == 0)
        temp[n - 1] = 0;
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (thid < d) {
            int ai = offset * (2 * thid + 1) - 1, bi = offset * (2 * thid + 2) - 1;
            T t = temp[ai];
            temp[ai] = temp[bi];
            temp[bi] += t;
        }
    }
    __syncthreads();
    g_odata[2 * thid] = temp[2 * thid];
    g_odata[2 * thid + 1] = temp[2 * thid + 1];
}
""",
    lambda real, rng: (real(32),),
    grid=1,
    block=16,
    shared_mem=256,
    attrs={"n": 32},
)
def scan(x):
    return jnp.cumsum(x) - x


@kernel(
    r"""
#define LANES 8
__global__ void spmv(const int num_rows, const int *row_ptr, const int *col_idx, const T *values,
                     const T *x, T *y)
{
    __shared__ T vals[4 * LANES];
    const int lane = threadIdx.x % LANES, row = (blockIdx.x * blockDim.x + threadIdx.x) / LANES;
    T sum = 0;
    if (row < num_rows)
        for (int jj = row_ptr[row] + lane; jj < row_ptr[row + 1]; jj += LANES)
            sum += __ldg(&values[jj]) * __ldg(&x[col_idx[jj]]);
    vals[threadIdx.x] = sum;
    for (int half = LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half)
            vals[threadIdx.x] += vals[threadIdx.x + half];
    }
    if (lane == 0 && row < num_rows)
        y[row] += vals[threadIdx.x];
}
""",
    lambda real, rng: (ROWS * 5, integers(rng, 13, 45), real(45), real(13)),
    grid=1,
    block=32,
    attrs={"num_rows": 4},
    zero_outputs=True,
)
def spmv(row_ptr, col_idx, values, x):
    rows = np.repeat(np.arange(4), np.diff(ROWS * 5))
    return jnp.zeros(4, x.dtype).at[rows].add(values * x[col_idx])


@kernel(
    r"""
__global__ void softmax(const T *in, T *out, int rows, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows)
        return;
    const T *x = in + i * n;
    T *y = out + i * n;
    T largest = x[0], sum = 0;
    for (int j = 1; j < n; j++)
        if (x[j] > largest)
            largest = x[j];
    for (int j = 0; j < n; j++) {
        y[j] = exp(x[j] - largest);
        sum += y[j];
    }
    for (int j = 0; j < n; j++)
        y[j] /= sum;
}
""",
    lambda real, rng: (real(5, 9),),
    launch_dims=5,
    attrs={"rows": 5, "n": 9},
)
def softmax(x):
    return jax.nn.softmax(x, axis=1)


def assert_members_of_a_structure():
    """A sparse matrix by value: the product, its derivatives and batches, against JAX."""
    source = """struct csr { const int *ends, *columns; const float *data; };
    __global__ void k(csr m, const float *x, int n, float *out) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        float sum = 0;
        for (int k = m.ends[i]; k < m.ends[i + 1]; k++)
            sum += m.data[k] * m.data[k] * x[m.columns[k]];
        out[i] = sum;
    }"""
    signature = "m.data: f32[nnz], m.columns: i32[nnz], m.ends: i32[n + 1], x: f32[k] -> f32[n]"
    options = {"launch_dims": "n", "threads_per_block": 32, "derivatives": "enzyme"}
    op = cuda_kernel(source, "k", signature=signature, **options)
    Csr = collections.namedtuple("Csr", ["data", "columns", "ends"])
    columns, ends = np.int32([0, 2, 3, 1, 0, 1, 2]), np.int32([0, 3, 3, 4, 7, 7])
    rows = np.repeat(np.arange(5), np.diff(ends))

    def by_jax(data, x):
        return jnp.zeros(5).at[rows].add(data**2 * x[columns])

    rng = np.random.default_rng(3)
    data, x = (rng.normal(size=n).astype(np.float32) for n in (7, 4))
    assert_derivatives(
        lambda d, x: op(Csr(d, columns, ends), x), by_jax, data, x, second=True, batched=True
    )
