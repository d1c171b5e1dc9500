"""CUDA source without a GPU: `cuda_kernel` on the fake driver, by a twin of the kernel, and the
host side of `load_cuda_*`, which needs nvcc and its runtime."""

import ctypes
import struct
import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from fake_gpu import _TWIN
from kernbridge import config
from kernbridge._ext.nvrtc import nvrtc as cuda_kernel_nvrtc
from kernbridge._src.toolchain.nvcc import find_nvcc

pytestmark = pytest.mark.once

SOURCE = r"""
#include <cstdint>
// a comment about fma3(const float* not, float* this)
extern "C" __global__ void fma3(const float* __restrict__ x, float* out, float a, double b,
                                int64_t n, unsigned char flag, double2 z) {
    int64_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = flag ? float(a * x[i] + b + z.x - z.y) : 0.0f;
}
"""


def like(x, dtype=None):
    return jax.ShapeDtypeStruct(x.shape, dtype or x.dtype)


@pytest.fixture(autouse=True)
def nvrtc():
    try:
        cuda_kernel_nvrtc.library()
    except kernbridge.KernelToolchainError as e:
        pytest.skip(str(e))


def run_fma3(_data, _entry, grid, block, _shared, n_words, words):
    """What a launch of fma3 does, from its eight words."""
    assert n_words == 8
    x, out = words[0], words[1]
    a = struct.unpack("<f", struct.pack("<I", words[2] & 0xFFFFFFFF))[0]
    b, zx, zy = (struct.unpack("<d", struct.pack("<Q", words[i]))[0] for i in (3, 6, 7))
    n, flag = words[4], words[5] & 0xFF
    for i in range(min(n, grid[0] * block[0])):
        value = ctypes.c_float.from_address(x + 4 * i).value
        ctypes.c_float.from_address(out + 4 * i).value = (a * value + b + zx - zy) * (flag != 0)


@pytest.fixture
def fma3(gpu):
    twin = _TWIN(run_fma3)
    gpu.library.fake_cuda_set_twin(b"fma3", twin, None)
    yield kernbridge.cuda_kernel(
        SOURCE,
        "fma3",
        lambda x: like(x),
        launch_dims=lambda x: x.size,
        attrs={"n": lambda x: x.size},
    )
    gpu.library.fake_cuda_set_twin(b"fma3", None, None)


def test_values_and_words(fma3, gpu):
    x = jnp.arange(300.0)
    got = fma3(x, a=2.0, b=0.5, flag=1, z=10 + 4j)
    np.testing.assert_array_equal(got, 2 * np.arange(300.0) + 6.5)
    (launch,) = gpu.launches
    assert list(launch.grid) == [2, 1, 1]
    assert list(launch.block) == [256, 1, 1]
    assert fma3(x, a=2.0, b=0.5, flag=0, z=0).sum() == 0
    batch = jnp.stack([x, x + 1])
    got = jax.vmap(lambda x: fma3(x, a=1.0, b=0.0, flag=1, z=0))(batch)
    np.testing.assert_array_equal(got, batch)
    assert "launch fma3[(2, 1, 1), (256, 1, 1)](&b0, &b1, " in str(
        fma3.plan(x, a=1.0, b=0, flag=1, z=0)
    )


def test_symbolic_shapes_and_export(fma3):
    (n,) = jax.export.symbolic_shape("n")
    checks = [
        jax.export.DisabledSafetyCheck.custom_call(f"kernbridge.cuda{s}") for s in ("", ".graph")
    ]
    op = fma3.operation(a=2.0, b=0.5, flag=1, z=0)
    exported = jax.export.export(jax.jit(op), disabled_checks=checks)(
        jax.ShapeDtypeStruct((n,), jnp.float32)
    )
    loaded = jax.export.deserialize(exported.serialize())
    for size in (1, 7, 700):
        np.testing.assert_array_equal(
            loaded.call(jnp.arange(float(size))), 2 * np.arange(size) + 0.5
        )


def test_empty_grid_zeroes_the_outputs(fma3):
    grid = {"grid": lambda x: x.shape[0], "block": 32}
    op = kernbridge.cuda_kernel(SOURCE, "fma3", like(jnp.ones(5)), **grid)
    assert op(jnp.ones(0), a=1.0, b=1.0, n=5, flag=1, z=0).tolist() == [0] * 5


GOOD = {"a": 1.0, "b": 1.0, "flag": 1, "z": 0}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda op, x: op(x, x, **GOOD), TypeError, "2 inputs, but `outs` is a function of .x."),
        (lambda op, x: op(x.astype(int), **GOOD), TypeError, r"input 0 is i32\[3\].*const float"),
        (lambda op, x: op(x), TypeError, "needs attribute 'a': pass a=; its attr"),
        (lambda op, x: op(x, **GOOD, c=1), TypeError, "no attribute 'c'"),
        (lambda op, x: op(x, **{**GOOD, "flag": 256}), ValueError, "is out of range for uint8"),
        (lambda op, x: op(x, **{**GOOD, "n": 2.5}), TypeError, "'n' is 2.5 of type float"),
        (lambda op, x: jax.jit(lambda b: op(x, **{**GOOD, "b": b}))(1.0), TypeError, "traced"),
    ],
)
def test_wrong_use(fma3, call, error, message):
    with pytest.raises(error, match=message):
        call(fma3, jnp.ones(3))


TEMPLATE = r"""
namespace app {
template <typename T, int N>
__global__ void scale(const T* x, T* out, int n, T factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = T(N) * factor * x[i];
}
}
"""


def test_template_by_name_expression(gpu, x64):
    def op(name):
        return kernbridge.cuda_kernel(
            TEMPLATE, name, lambda x: like(x), launch_dims=4, attrs={"n": lambda x: x.size}
        )

    x = jnp.ones(4, "float32")
    plan = op("app::scale<float, 3>").plan(x, factor=np.float32(2))
    assert plan.functions[0].sizes == (8, 8, 4, 4)
    assert "app5scaleIfLi3E" in plan.functions[0].entry
    plan = op("app::scale<double, 3>").plan(jnp.ones(4, "float64"), factor=np.float64(2))
    assert plan.functions[0].sizes == (8, 8, 4, 8)
    with pytest.raises(TypeError, match=r"input 0.*f32\[4\].*'x'.*\[KB2007\]"):
        op("app::scale<double, 3>").plan(x, factor=np.float64(2))
    with pytest.raises(TypeError, match=r"'factor'.*float64.*float32.*\[KB2006\]"):
        op("app::scale<float, 3>").plan(x, factor=np.float64(2))
    assert op("app::scale<float, 3>").plan(x, factor=2.0).functions[0].sizes == (8, 8, 4, 4)
    struct = "struct two { int a, b; };\n__global__ void s(const float* x, float* o, two t) {}"
    by_struct = kernbridge.cuda_kernel(struct, "s", lambda x: like(x), launch_dims=1)
    assert by_struct.plan(x, t=bytes(8)).functions[0].sizes == (8, 8, 8)
    with pytest.raises(TypeError, match=r"scalar.*\[KB2006\]"):
        by_struct.plan(x, t=2.0)
    with pytest.raises(TypeError, match=r"of 4 bytes.*takes 8.*\[KB2006\]"):
        by_struct.plan(x, t=bytes(4))
    with pytest.raises(kernbridge.CompilationError, match=r"app::scale<nothing, 3>.*\[KB4006\]"):
        op("app::scale<nothing, 3>").plan(x, factor=np.float32(2))


def test_annotated_and_described_parameters(gpu):
    source = "// @BE both ret arg attr.k:int32\n__global__ void both(float* o, float* x, int k) {}"
    op = kernbridge.cuda_kernel(source, "both", lambda x: like(x), launch_dims=1)
    assert "(&b1, &b0, 5)" in str(op.plan(jnp.ones(3), k=5))
    plain = source.split("\n")[1]
    op = kernbridge.cuda_kernel(
        plain, "both", lambda x: like(x), launch_dims=1, params="arg ret attr.n"
    )
    assert "(&b0, &b1, 5)" in str(op.plan(jnp.ones(3), n=5))
    with pytest.raises(kernbridge.KernelError, match=r"\[KB4007\]"):
        kernbridge.cuda_kernel(plain, "both", lambda x: like(x), launch_dims=1, params="arg ret")
    with pytest.raises(kernbridge.KernelError, match=r"\[KB4007\]"):
        kernbridge.cuda_kernel(plain, "neither", lambda x: like(x), launch_dims=1)


def test_compile_errors_in_the_users_lines(gpu):
    source = "// one\n// two\n__global__ void bad(const float* x, float* o) { *o = nowhere; }"
    op = kernbridge.cuda_kernel(source, "bad", lambda x: like(x), launch_dims=1)
    with pytest.raises(
        kernbridge.CompilationError, match=r"(?s)\[KB4006\].*bad\.cu\(3\): error.*nowhere"
    ) as e:
        op(jnp.ones(3))
    assert "--gpu-architecture=sm_90" in e.value.command
    op = kernbridge.cuda_kernel(f"#include <vector>\n{source}", "bad", like, launch_dims=1)
    with pytest.raises(
        kernbridge.CompilationError, match=r"no header vector .*cuda/std/.*\[KB4006"
    ):
        op.plan(jnp.ones(3))


def test_options_and_headers(gpu, tmp_path):
    (tmp_path / "width.h").write_text("#define WIDTH 7\n")
    source = (
        '#include "width.h"\n#include <cuda_fp16.h>\n'
        "__global__ void k(const __half* x, __half* o, int n) { o[0] = x[WIDTH + EXTRA + n]; }"
    )
    op = kernbridge.cuda_kernel(
        source,
        "k",
        lambda x: like(x),
        launch_dims=1,
        options=["-DEXTRA=2"],
        include_paths=[str(tmp_path)],
        use_fast_math=True,
    )
    x = jnp.ones(3, jnp.float16)
    first = op.plan(x, n=1).functions[0]
    assert op.plan(x, n=1).functions[0].images == first.images
    with pytest.raises(TypeError, match=r"float16.*\[KB2007\]"):
        op.plan(jnp.ones(3), n=1)
    with pytest.raises(TypeError, match=r"'-O3'.*\[KB1005\]"):
        kernbridge.cuda_kernel(source, "k", lambda x: like(x), launch_dims=1, options="-O3")


@pytest.mark.exhaustive
def test_cached_between_processes(run_python, tmp_path):
    program = f"""
import jax, jax.numpy as jnp, kernbridge
from kernbridge._ext.nvrtc import nvrtc
op = kernbridge.cuda_kernel({SOURCE!r}, "fma3", lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype),
                            launch_dims=3)
seen = []
real = nvrtc._nvrtc_call
nvrtc._nvrtc_call = lambda *a: seen.append(1) or real(*a)
plan = op.plan(jnp.ones(3), a=1.0, b=1.0, n=3, flag=1, z=0)
print(len(seen), plan.digest().hex())
"""
    where = {"KERNBRIDGE_CACHE_DIR": str(tmp_path / "cache"), "KERNBRIDGE_CUDA_ARCHS": "8.0,9.0"}
    first, second = run_python(program, **where).split(), run_python(program, **where).split()
    assert first == ["2", first[1]]
    assert second == ["0", first[1]]


def test_no_library_is_told(gpu, monkeypatch):
    monkeypatch.setenv("KERNBRIDGE_LIBNVRTC", "/nowhere/libnvrtc.so")
    op = kernbridge.cuda_kernel(SOURCE, "fma3", lambda x: like(x), launch_dims=1)
    with pytest.raises(
        kernbridge.KernelToolchainError, match=r"KERNBRIDGE_LIBNVRTC is '/nowhere.*\[KB4008\]"
    ):
        op(jnp.ones(3), a=1.0, b=1.0, n=3, flag=1, z=0)


# The functions of NVRTC, of which one fails with the code of an invalid program or of a refusal.
FAKE_LIBRARY = r"""
#include <stddef.h>
#include <string.h>
int programs;
static int end(const char *function) { return strcmp(function, FAILS) ? 0 : CODE; }
#define END end(__func__)
int nvrtcCreateProgram(void **p) { *p = &programs; return END ? END : (programs++, 0); }
int nvrtcDestroyProgram(void **p) { programs--; return 0; }
int nvrtcAddNameExpression(void *p, const char *name) { return END; }
int nvrtcCompileProgram(void *p, int n, const char **options) { return END; }
int nvrtcGetLoweredName(void *p, const char *name, const char **low) { *low = name; return END; }
int nvrtcGetProgramLogSize(void *p, size_t *n) { *n = sizeof "careful"; return END; }
int nvrtcGetProgramLog(void *p, char *log) { strcpy(log, "careful"); return END; }
int nvrtcGetCUBINSize(void *p, size_t *n) { *n = 0; return END; }
int nvrtcGetCUBIN(void *p, char *bytes) { return 1; }
int nvrtcGetPTXSize(void *p, size_t *n) { *n = 4; return END; }
int nvrtcGetPTX(void *p, char *bytes) { memcpy(bytes, "ptx", 4); return END; }
const char *nvrtcGetErrorString(int code) { return code == 6 ? "REFUSED" : "INVALID_PROGRAM"; }
"""


@pytest.fixture
def fake_nvrtc(tmp_path, monkeypatch):
    """Make a library of this source the NVRTC that is used."""

    def make(source, *options):
        file, library = tmp_path / "x.c", tmp_path / "libnvrtc.so"
        file.write_text(source)
        command = ["cc", "-w", "-fPIC", "-shared", *options, "-o", str(library), str(file)]
        subprocess.run(command, check=True)
        monkeypatch.setenv("KERNBRIDGE_LIBNVRTC", str(library))
        return ctypes.CDLL(library)

    return make


def call_fma3():
    op = kernbridge.cuda_kernel(SOURCE, "fma3", lambda x: like(x), launch_dims=1)
    return op(jnp.ones(3), a=1.0, b=1.0, n=3, flag=1, z=0)


@pytest.mark.parametrize("lacks", ["nvrtcGetCUBIN", "nvrtcGetErrorString"])
def test_wrong_library_is_told(gpu, fake_nvrtc, lacks):
    fake_nvrtc(FAKE_LIBRARY.replace(f"{lacks}(", "another("), '-DFAILS=""', "-DCODE=0")
    told = f"(?s)is not NVRTC 11.1 or later.*{lacks}.*KB4008"
    with pytest.raises(kernbridge.KernelToolchainError, match=told):
        call_fma3()


FUNCTIONS = [
    *("CreateProgram", "AddNameExpression", "GetProgramLogSize", "GetProgramLog"),
    *("CompileProgram", "GetLoweredName", "GetCUBINSize", "GetPTXSize", "GetPTX"),
]


@pytest.mark.parametrize(("fails", "code"), [("CompileProgram", 5), *((f, 6) for f in FUNCTIONS)])
def test_each_function_of_nvrtc_may_fail(gpu, fake_nvrtc, fails, code):
    library = fake_nvrtc(FAKE_LIBRARY, f'-DFAILS="nvrtc{fails}"', f"-DCODE={code}")
    what = f"nvrtc{fails}: {'REFUSED' if code == 6 else 'INVALID_PROGRAM'}"
    with pytest.raises(kernbridge.KernelCompilationError, match=rf"(?s){what}.*\[KB4006\]") as e:
        call_fma3()
    assert ("careful" in str(e.value)) == (code == 6 and fails in FUNCTIONS[4:])
    assert ctypes.c_int.in_dll(library, "programs").value == 0


@pytest.mark.parametrize("given", [{"source": "\ud800"}, {"options": ["-DA=\0"]}])
def test_a_text_that_c_cannot_hold(gpu, given):
    source = SOURCE + "// " + given.pop("source", "")
    op = kernbridge.cuda_kernel(source, "fma3", lambda x: like(x), launch_dims=1, **given)
    with pytest.raises(kernbridge.KernelCompilationError, match=r"character NUL or half.*KB4006"):
        op(jnp.ones(3), a=1.0, b=1.0, n=3, flag=1, z=0)


OLD_AND_NEW = """
import jax, jax.numpy as jnp, kernbridge
from kernbridge import config
from numba import cuda

x = jax.ShapeDtypeStruct((3,), jnp.float32)
config.set_cuda_architectures("9.0")
source = 'extern "C" __global__ void f(const float *x, float *out) { out[0] = x[0]; }'
ops = [
    kernbridge.cuda_kernel(source, "f", x, launch_dims=1),
    kernbridge.cuda_kernel(source, "f", x, launch_dims=1, options=["--no-such-option"]),
    kernbridge.numba_cuda_kernel(cuda.jit(lambda x, out: None), x, launch_dims=1),
]
for op, architecture in zip([*ops, *ops[::2]], ("5.2", "9.0", "5.2", "19.0", "19.0")):
    config.set_cuda_architectures(architecture)
    try:
        jax.export.export(jax.jit(op), platforms=["cuda"])(x)
    except kernbridge.KernelError as e:
        print(architecture, type(e).__name__, str(e).splitlines()[0])
"""


@pytest.mark.exhaustive
def test_an_architecture_that_nvrtc_lacks(run_python):
    pytest.importorskip("numba_cuda")
    printed = run_python(OLD_AND_NEW).splitlines()
    assert printed.pop(1).endswith(" --no-such-option [KB4006]")
    assert len(printed) == 4
    for line, architecture in zip(printed, ("5.2", "5.2", "19.0", "19.0"), strict=True):
        assert line.startswith(f"{architecture} UnsupportedArchError "), line
        assert f"does not compile for compute capability {architecture}" in line
        assert line.endswith("[KB4009]"), line


def test_binary(gpu, tmp_path):
    op = kernbridge.cuda_kernel(SOURCE, "fma3", lambda x: like(x), launch_dims=3)
    ((_, cubin),) = op.plan(jnp.ones(3), a=1.0, b=1.0, n=3, flag=1, z=0).functions[0].images
    file = tmp_path / "k.cubin"
    file.write_bytes(cubin)
    binary = kernbridge.load_binary(file)
    assert binary.kernel_names == ["fma3"]
    numbers = "attr.a:float32 attr.b:float64 attr.n:int64 attr.flag:uint8 attr.z:complex128"
    tokens = f"arg:f32[n] ret:f32[n] {numbers}"
    twin = _TWIN(run_fma3)
    gpu.library.fake_cuda_set_twin(b"fma3", twin, None)
    numbers = {"a": 2.0, "b": 0.5, "n": 3, "flag": 1, "z": 0}
    launch = {"grid": lambda x: -(-x.size // 2), "block": lambda x: (2,)}
    loaded = binary.kernel("fma3", like, tokens, **launch)
    assert loaded(jnp.ones(3), **numbers).tolist() == [2.5] * 3
    assert (list(gpu.launches[-1].grid), list(gpu.launches[-1].block)) == ([2, 1, 1], [2, 1, 1])
    fixed = binary.kernel("fma3", like, tokens, launch_dims=3, vmap_method="expand_dims")
    assert (jax.vmap(lambda x: fixed(x, **numbers))(jnp.ones((2, 3))) == 2.5).all()
    text = "x: f32[n], a: f32, b: f64, flag: u8, z: c128 -> out: f32[n]"
    declared = kernbridge.load_binary(file, header=SOURCE)
    described = declared.kernel("fma3", signature=text, launch_dims="n")
    assert described(jnp.ones(3), 2.0, 0.5, z=0, flag=1).tolist() == [2.5] * 3
    with pytest.raises(kernbridge.KernelError, match=r"header=.*\[KB5106\]"):
        binary.kernel("fma3", signature=text, launch_dims="n")
    with pytest.raises(ValueError, match=r"'x: i32\[n\]'.*'const float.*\[KB1010\]"):
        declared.kernel("fma3", signature=text.replace("x: f32", "x: i32"), launch_dims="n")
    gpu.library.fake_cuda_set_twin(b"fma3", None, None)
    with pytest.raises(TypeError, match=r"input 0.*i32\[3\].*f32\[n\].*\[KB2007\]"):
        loaded(jnp.arange(3), a=2.0, b=0.5, n=3, flag=1, z=0)
    with pytest.raises(kernbridge.KernelError, match=r"(?s)\[KB4007\].*f32\[n\]"):
        binary.kernel("fma3", None, "arg ret:any", launch_dims=1)
    with pytest.raises(kernbridge.KernelError, match=r"'other'.*\[KB5106\]"):
        binary.kernel("other", None, tokens, launch_dims=1)
    with pytest.raises(kernbridge.KernelError, match=r"8.*\[KB5106\]"):
        binary.kernel("fma3", None, "arg:any ret:any attr.a:float64", launch_dims=1)
    with pytest.raises(kernbridge.KernelError, match=r"'a' has no type.*\[KB5106\]"):
        binary.kernel("fma3", None, "arg:any ret:any attr.a", launch_dims=1)


def test_arrays_of_one_type_in_a_binary(gpu, tmp_path):
    """Without names, two parameters of one declared type are equal, but they are two."""
    source = """extern "C" __global__ void add(const float *x, const float *y, float *out, long n) {
        if (threadIdx.x < n) out[threadIdx.x] = x[threadIdx.x] + y[threadIdx.x]; }"""
    sums = jax.ShapeDtypeStruct((3,), np.float32)
    op = kernbridge.cuda_kernel(source, "add", sums, launch_dims=3, attrs={"n": 3})
    ((_, cubin),) = op.plan(jnp.ones(3), jnp.ones(3)).functions[0].images
    file = tmp_path / "k.cubin"
    file.write_bytes(cubin)
    tokens = "arg:f32[n] arg:f32[n] ret:f32[n] attr.n:int64"
    given = {"launch_dims": 3, "attrs": {"n": 3}}
    loaded = kernbridge.load_binary(file).kernel("add", sums, tokens, **given)
    words = loaded.plan(jnp.ones(3), jnp.ones(3)).steps[0].words
    assert [word.buffer for word in words[:3]] == [0, 1, 2]
    with pytest.raises(TypeError, match=r"takes 2 inputs, and the call has 1.*\[KB2001\]"):
        loaded(jnp.ones(3))


HOST_SIDE = r"""
#include <cuda_runtime.h>
#include "brainevent/common.h"
__global__ void nothing() {}
// @BE launches ret stream
void launches(BE::Tensor out, int64_t stream) { nothing<<<1, 1, 0, (cudaStream_t)stream>>>(); }
// @BE looks ret stream
void looks(BE::Tensor out, cudaStream_t stream) {
    nothing<<<1, 1, 0, stream>>>();
    BE_CHECK_KERNEL_LAUNCH();
}
// @BE on_host arg ret attr.k stream
void on_host(const BE::Tensor x, BE::Tensor out, float k, int64_t stream) {
    BE_CHECK(stream != 0) << "there is no stream";
    for (int64_t i = 0; i < x.numel(); i++)
        out.data_ptr<float>()[i] = k * x.data_ptr<float>()[i];
}
"""


@pytest.fixture
def nvcc():
    try:
        return find_nvcc()
    except kernbridge.NvccNotFoundError as e:
        pytest.skip(str(e).splitlines()[0])


@pytest.mark.exhaustive
def test_host_side_of_cuda_source(gpu, nvcc):
    """The whole way to the function; its launches fail, since the runtime knows no fake GPU."""
    if Path("/dev/nvidia0").exists():
        pytest.skip("the CUDA runtime finds a real GPU here, and launches")
    module = kernbridge.load_cuda_inline("host_side", HOST_SIDE)
    x = jnp.arange(3.0)
    f = jax.jit(lambda x: module.on_host(x, outs=like(x), k=2))
    with pytest.raises(
        Exception, match=r"there is no stream.*\[KB3005\]"
    ):  # XLA's CPU client has none
        f(x).block_until_ready()
    # The runtime finds no driver, or the fake one, which does not load its code.
    failure = r"CUDA runtime error|cudaError|no CUDA-capable|driver|CUDA_ERROR_INVALID_IMAGE"
    for name in ("launches", "looks"):
        with pytest.raises(Exception, match=failure):
            module[name](outs=like(x)).block_until_ready()
        with pytest.raises(Exception, match=failure):
            jax.ffi.ffi_call(f"host_side.{name}", like(x))().block_until_ready()


@pytest.mark.exhaustive
def test_files_and_folders(gpu, nvcc, tmp_path):
    (tmp_path / "b.cu").write_text(
        '#include "h.cuh"\n// @BE second ret stream\n'
        "void second(BE::Tensor o, int64_t stream) { first(o, N); }\n"
    )
    (tmp_path / "a.cu").write_text(
        '#include "brainevent/common.h"\n// @BE first ret stream\n'
        "void first(BE::Tensor o, int64_t stream) { *o.data_ptr<float>() = 1; }\n"
    )
    (tmp_path / "h.cuh").write_text("enum { N = 3 };\n")
    module = kernbridge.load_cuda_dir(tmp_path, name="folder")
    assert module.function_names == ["first", "second"]
    assert module.second.tokens == "ret stream"
    assert kernbridge.load_cuda_file(tmp_path / "a.cu").function_names == ["first"]
    with pytest.raises(kernbridge.KernelError, match=r"matches.*\[KB5103\]"):
        kernbridge.load_cuda_dir(tmp_path, file_patterns=["*.cpp"])
    with pytest.raises(FileNotFoundError):
        kernbridge.load_cuda_dir(tmp_path / "absent")


@pytest.mark.exhaustive
def test_half_types_only_where_named(gpu, nvcc, tmp_path):
    source = r"""
#include "brainevent/common.h"
// @BE f ret attr.h:float16 stream
void f(BE::Tensor o, __half h, int64_t stream) { *o.data_ptr<float>() = __half2float(h); }
"""
    module = kernbridge.load_cuda_inline("halves", source)
    assert module.f.tokens == "ret attr.h:float16 stream"
    (tmp_path / "dispatch.cuh").write_text('#include "deeper.cuh"\n')
    (tmp_path / "deeper.cuh").write_text(
        '#include "brainevent/common.h"\ninline void g() { (void)BE::float16_t(1.0f); }\n'
    )
    kernbridge.load_cuda_inline(
        "halves_included",
        '#include "dispatch.cuh"\n// @BE f ret stream\n'
        "void f(BE::Tensor o, int64_t stream) { g(); }",
        extra_include_paths=[str(tmp_path)],
    )


@pytest.mark.exhaustive
def test_nvcc_errors(gpu, nvcc):
    with pytest.raises(
        kernbridge.CompilationError, match=r"(?s)\[KB4006\].*wrong\.cu\(3\): error.*nowhere"
    ):
        kernbridge.load_cuda_inline(
            "wrong",
            '#include "brainevent/common.h"\n// @BE f ret stream\n'
            "void f(BE::Tensor o, int64_t stream) { nowhere(); }",
        )
    with pytest.raises(kernbridge.UnsupportedArchError):
        kernbridge.load_cuda_inline("old", HOST_SIDE, compute_capability="5.0")
    with pytest.raises(ValueError, match=r"sm_x.*\[KB8001\]"):
        kernbridge.load_cuda_inline("none", HOST_SIDE, compute_capability="sm_x")


def test_setting_of_architectures(gpu):
    config.set_cuda_architectures("8.0")
    try:
        op = kernbridge.cuda_kernel(SOURCE, "fma3", lambda x: like(x), launch_dims=3)
        plan = op.plan(jnp.ones(3), a=1.0, b=1.0, n=3, flag=1, z=0)
        assert [cc for cc, _ in plan.functions[0].images] == [80]
    finally:
        config.set_cuda_architectures(None)


@pytest.mark.exhaustive
def test_another_architecture_rebuilds(gpu, nvcc, monkeypatch):
    source = HOST_SIDE + "// of two architectures"
    hashes = [
        kernbridge.load_cuda_inline(
            "archs", source, compute_capability=cc, auto_register=False
        ).content_hash
        for cc in ("8.0", "9.0")
    ]
    assert hashes[0] != hashes[1]
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("built again"))
    for cc, before in zip(("8.0", "9.0"), hashes, strict=True):
        module = kernbridge.load_cuda_inline(
            "archs", source, compute_capability=cc, auto_register=False
        )
        assert module.content_hash == before
