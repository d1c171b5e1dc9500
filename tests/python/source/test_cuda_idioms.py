"""CUDA C++ as people write it, on the CPU: what nvcc takes compiles, and its values are right."""

import shutil
from fractions import Fraction

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
import scipy.special
from kernbridge._src.plan import targets

pytestmark = pytest.mark.once

F32, I32 = jnp.float32, jnp.int32
S = jax.ShapeDtypeStruct
COMPILERS = [
    pytest.param("g++", False),
    pytest.param("g++", True, marks=pytest.mark.exhaustive),
    pytest.param("clang++", False, marks=pytest.mark.exhaustive),
    pytest.param("clang++", True, marks=pytest.mark.exhaustive),
]


@pytest.fixture(scope="module", autouse=True)
def without_fake_gpu():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(targets, "_of_gpus", ["cuda"])
        patch.setitem(targets._makers, "cpu", targets.Emulated)
        yield


@pytest.fixture
def load(compiler, checked, monkeypatch):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    monkeypatch.setenv("CXX", compiler)
    return lambda name, source, **more: kernbridge.load_cuda_inline(
        f"{name}_{compiler[0]}{checked}", source, check=checked, **more
    )


HEAD = '#include "kernbridge/kernbridge.hpp"\nusing kernbridge::Tensor;\n'
WRITTEN = r"""
#define ROWS 64
struct Pair { float a; int b; };
extern __shared__ float outside[];
namespace inner { extern __shared__ __align__(16) unsigned char bytes[]; }
__shared__ int fixed_outside[8];

template <typename T> __device__ T *room() { extern T __shared__ own[]; return own; }
__global__ void arrays(const float *x, float *out) {
    float __shared__ first[ROWS];
    __shared__ alignas(sizeof(float) * 4) float second[ROWS];
    __shared__ union { float f[ROWS]; int i[ROWS]; } both;
    __shared__ struct { float a; int b; } many[ROWS], *none;
    __shared__ Pair named[2];
    extern volatile __shared__ __align__(16) float moving[];
    int i = threadIdx.x;
    first[i] = x[i];
    second[i] = 2 * x[i];
    both.i[i] = __float_as_int(3 * x[i]);
    many[i].a = 4 * x[i];
    if (i == 0) { named[1].b = 7; none = many; fixed_outside[3] = 1000; }
    moving[i] = x[i] + 1;
    __syncthreads();
    int j = ROWS - 1 - i;
    const float *again = reinterpret_cast<float *>(inner::bytes);
    out[i] = first[j] + second[j] + both.f[j] + none[j].a + named[1].b + fixed_outside[3];
    out[i + ROWS] = outside[j] + again[j] + *(&outside[0] + j) + room<float>()[j];
}
__global__ void launched(int *out, const float *p, float2 two, Pair pair, const int *q, int a) {
    out[0] = (p == nullptr) + 2 * (q == nullptr) + 10 * (int)two.y + 100 * pair.b + 1000 * a;
}
template <typename... A> void forwarded(A... a) {
    launched<<<1, 1>>>(a..., {1, 3}, {0, 4}, NULL, 5);
}
struct Large { int of[8000]; };
__global__ void large(Large given, int *out) {
    volatile float own[40000];
    for (int i = 0; i < 40000; i++) own[i] = i;
    __syncthreads();
    out[threadIdx.x] = given.of[7999 - threadIdx.x] + (int)own[39999];
}
__global__ void nan(const float *x, int *out) {
    float v = x[threadIdx.x];
    double w = v;
    out[threadIdx.x] = isnan(v) + 2 * isinf(w) + 4 * isfinite(v) + 8 * signbit(w) + 16 * isnan(w);
}
// @BE written arg:f32[64] ret:f32[2, 64] stream
void written(const Tensor x, Tensor out, int64_t stream) {
    arrays << <1, ROWS, 4 * ROWS, (cudaStream_t)stream >> > (
        x.data_ptr<float>(), out.data_ptr<float>());
}
// @BE passed ret:i32[3] stream
void passed(Tensor out, int64_t stream) {
    int *o = out.data_ptr<int>(), three = 3;
    launched<<<1, 1>>>(o, NULL, {1, (float)three}, Pair{0, 4}, 0, (three + 2));
    launched<<<1, 1>>>(o + 1, 0, make_float2(1, 3),
                       {0, 4},
                       NULL, 5 + 0 * __LINE__);
    forwarded(o + 2, (const float *)nullptr);
}
// @BE big ret:i32[4] stream
void big(Tensor out, int64_t stream) {
    Large given;
    for (int i = 0; i < 8000; i++) given.of[i] = i;
    large<<<1, 4>>>(given, out.data_ptr<int>());
}
// @BE classes arg:f32[n] ret:i32[n] stream
void classes(const Tensor x, Tensor out, int64_t stream) {
    nan<<<1, (unsigned)x.numel()>>>(x.data_ptr<float>(), out.data_ptr<int>());
}
"""


@pytest.mark.parametrize(("compiler", "checked"), COMPILERS)
def test_declarations_and_launches_as_they_are_written(load):
    module = load("written", HEAD + WRITTEN)
    x = np.random.default_rng(1).integers(0, 9, 64).astype(np.float32)
    found = module.written(jnp.asarray(x), outs=S((2, 64), F32))
    back = x[::-1]
    assert np.asarray(found).tolist() == [(10 * back + 1007).tolist(), (4 * back + 4).tolist()]
    assert module.passed(outs=S((3,), I32)).tolist() == [5433, 5433, 5433]
    assert module.big(outs=S((4,), I32)).tolist() == [7999 + 39999 - i for i in range(4)]
    odd = jnp.asarray([np.nan, np.inf, -np.inf, -1.0, 0.5, -0.0], F32)
    assert module.classes(odd, outs=S((6,), I32)).tolist() == [17, 2, 10, 12, 4, 12]


ARCHITECTURES = {
    # what the source has: whether it is refused
    "#if defined(NOWHERE) && \\\n  __CUDA_ARCH__ >= 800\nint f(;\n#endif": False,
    "#if defined(NOWHERE)\n#ifdef __CUDA_ARCH__\nint f(;\n#endif\n#endif": False,
    "#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 700\nstatic int v;\n#endif": False,
    "#if __CUDA_ARCH__ < 600\nstatic int v;\n#endif": False,
    "template <class T> __device__ T g(T a) { return a; }\n#if __CUDA_ARCH__ >= 800\n"
    "template <> __device__ int g<int>(int a) { /* } */ if (a) { a = 1 - (1 - a); } return a; }\n"
    "#endif": False,
    "#define HERE 1\n#if defined(HERE) && __CUDA_ARCH__ >= 800\n#define FAST\n#endif\n"
    "#undef HERE": True,
    "#if defined(NOWHERE)\nint a;\n#elif 700 <= __CUDA_ARCH__\nint a;\n#endif": True,
    "#if __CUDA_ARCH__ != 0 && \\\n  1\nstatic int v;\n#endif": True,
    "#if __CUDA_ARCH__ == 800\nstatic int v;\n#endif": True,
}


@pytest.mark.parametrize("compiler", ["g++", pytest.param("clang++", marks=pytest.mark.exhaustive)])
def test_code_for_gpus_alone_is_told_from_code_for_nobody(compiler, monkeypatch):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    monkeypatch.setenv("CXX", compiler)
    for i, (text, refused) in enumerate(ARCHITECTURES.items()):
        source = f"{HEAD}{text}\n// @BE f{i} ret stream\nvoid f{i}(Tensor o, int64_t stream) {{}}\n"
        if not refused:
            kernbridge.load_cuda_inline(f"arch{i}{compiler[0]}", source)
            continue
        with pytest.raises(kernbridge.KernelCompilationError, match=r"cu:[3-6]: .* GPUs alone"):
            kernbridge.load_cuda_inline(f"arch{i}{compiler[0]}", source)
