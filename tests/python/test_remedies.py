"""What the pages of the codes promise: the mistake is refused, and the remedy works.

Each test is named after its code; `ELSEWHERE` lists the codes whose tests are in other files.
"""

import functools
import re
import subprocess
from pathlib import Path

import fake_gpu
import jax
import jax.numpy as jnp
import kernbridge
import messages
import numba
import numpy as np
import pytest
from kernbridge import XLACustomKernel, config, numba_kernel
from kernbridge._src.base import progress
from kernbridge._src.toolchain import nvcc
from kernbridge._src.toolchain.build import library
from kernels import add, double, scale
from refusals import equal, refused, silent, warned

pytestmark = pytest.mark.once

HERE = Path(__file__).parent
X = jnp.arange(3.0)
F32 = jax.ShapeDtypeStruct((3,), jnp.float32)
MESH = functools.partial(jax.make_mesh, (4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))


def doubled(op, *args):
    with silent():
        equal(op(*(args or (X,))), 2 * X)


# 1: wrapping a kernel


def test_kb1001():
    with refused("KB1001", TypeError):
        numba_kernel(double.py_func, F32)
    op = numba_kernel(double, F32)
    with refused("KB1001", TypeError):
        numba_kernel(op, F32)
    doubled(op)  # it is called, not wrapped again


def test_kb1002():
    for outs in ((3,), jnp.float32, "float32[3]"):
        with refused("KB1002", TypeError):
            numba_kernel(double, outs)
    for outs in (F32, X, lambda x: x):
        doubled(numba_kernel(double, outs))
    for outs in ([F32], (F32,), {"out": F32}):
        equal(jax.tree.leaves(numba_kernel(double, outs)(X))[0], 2 * X)


@numba.njit
def lif(v, i, v_out, spikes):
    for k in range(v.size):
        v_out[k] = v[k] + i[k]
        spikes[k] = 7


def test_kb1003():
    with refused("KB1003", ValueError):
        numba_kernel(lif, {"v_out": F32, "i": F32})(X, X)
    named = numba_kernel(lif, {"spikes": F32, "v_out": F32})(X, X)  # by name, in any order
    equal(named["v_out"], 2 * X)
    equal(named["spikes"], [7, 7, 7])
    v_out, spikes = numba_kernel(lif, (F32, F32))(X, X)
    equal(v_out, 2 * X)
    equal(spikes, [7, 7, 7])


def test_kb1004():
    with refused("KB1004", TypeError):
        numba_kernel(double, [F32, F32, F32])
    equal(numba_kernel(double, [F32])(X)[0], 2 * X)


def test_kb1005():
    with refused("KB1005", TypeError):  # when the kernel is wrapped
        numba_kernel(double, F32, vmap_threads=4)
    with refused("KB1005", ValueError) as caught:
        numba_kernel(double, F32, vmap_method="parallel")
    for method in ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all"):
        assert repr(method) in str(caught.value)
        doubled(numba_kernel(double, F32, vmap_method=method))


@numba.njit
def increment(x, out):
    for i in range(x.size):
        x[i] += 1  # `out` has the same memory


def test_kb1006():
    for aliases in ({0: 1}, [(0, 0)], {"x": 0}):
        with refused("KB1006"):
            numba_kernel(increment, F32, input_output_aliases=aliases)
    with refused("KB1006", ValueError):
        numba_kernel(add, F32, input_output_aliases={0: 0, 1: 0})
    op = numba_kernel(increment, F32, input_output_aliases={0: 0})
    with refused("KB1006", ValueError):
        op(X.astype(int))
    with silent():
        equal(op(X), X + 1)
        equal(X, [0, 1, 2])


def test_kb1007():
    for rules in ({"vjp": True}, {"vjp": lambda ct: ct}, {"jvp": lambda x, t: t}):
        with refused("KB1007", TypeError):
            numba_kernel(double, F32, **rules)
    op = numba_kernel(double, F32, vjp=lambda inputs, outputs, cotangents: (2 * cotangents,))
    equal(jax.grad(lambda x: op(x).sum())(X), [2, 2, 2])
    op = numba_kernel(double, F32, jvp=lambda inputs, outputs, tangents: 2 * tangents[0])
    equal(jax.jvp(op, (X,), (X,))[1], 2 * X)


def test_kb1008():
    @numba.njit
    def rebinds(x, out):
        out = x * 2  # noqa: F841

    @numba.njit
    def writes(x, out):
        for i in range(x.size):
            out[i] = x[i] * 2

    with warned("KB1008"):
        numba_kernel(rebinds, F32)
    doubled(numba_kernel(writes, F32))


def test_kb1009(x64):
    f64 = jax.ShapeDtypeStruct((3,), np.float64)
    jax.config.update("jax_enable_x64", False)
    with warned("KB1009"):
        assert numba_kernel(double, f64)(X).dtype == jnp.float32
    jax.config.update("jax_enable_x64", True)
    with silent():
        assert numba_kernel(double, f64)(np.arange(3.0)).dtype == jnp.float64


# 2: calling and transforming an operation


def test_kb2001():
    with refused("KB2001", TypeError):
        numba_kernel(double, F32)(X, X)
    with refused("KB2001", TypeError):
        numba_kernel(scale, F32)(X)
    equal(numba_kernel(scale, F32)(X, alpha=2.0), 2 * X)  # its parameter is skipped
    equal(numba_kernel(add, F32)(X, X), 2 * X)


def test_kb2002():
    op = numba_kernel(double, F32)
    for wrong in ([0.0, 1.0, 2.0], "x", {"x": X}, None):
        with refused("KB2002", TypeError):
            op(wrong)
    doubled(op, jnp.asarray([0.0, 1.0, 2.0]))
    doubled(op, np.arange(3, dtype=np.float32))


def test_kb2003():
    op, bits = numba_kernel(double, F32), jax.ShapeDtypeStruct((3,), jnp.bfloat16)
    for dtype in (jnp.float8_e4m3fn, jnp.int4):
        with refused("KB2003", ValueError):
            op(X.astype(dtype))
        doubled(op, X.astype(dtype).astype(jnp.float32))
    with refused("KB2003", TypeError):
        op(jax.random.key(0))

    @numba.njit
    def copy(x, out):
        for i in range(out.size):
            out[i] = x[i]

    key = jax.random.key(3)
    words = numba_kernel(copy, jax.ShapeDtypeStruct((2,), jnp.uint32))
    assert (words(jax.random.key_data(key)) == jax.random.key_data(key)).all()
    copied = numba_kernel(copy, bits, half_as_bits=True)(X.astype(jnp.bfloat16))
    assert copied.dtype == jnp.bfloat16
    assert (copied == X.astype(jnp.bfloat16)).all()


def test_kb2004():
    with refused("KB2004", TypeError):
        numba_kernel(scale, lambda x: x)(X, alpha=2.0)
    seen = []

    def outs(x, alpha):
        seen.extend((x, alpha))
        return x

    equal(numba_kernel(scale, outs)(X, alpha=2.0), 2 * X)
    assert [type(s) for s in seen[:2]] == [jax.ShapeDtypeStruct] * 2
    assert [s.shape for s in seen[:2]] == [(3,), ()]


def test_kb2005():
    op = numba_kernel(scale, F32)
    with refused("KB2005", ValueError):
        op(X, alpha=X)
    equal(jax.vmap(lambda a: op(X, alpha=a))(X), X[:, None] * X)
    with refused("KB2005", ValueError):
        batched = numba_kernel(scale, F32, vmap_method="expand_dims")
        jax.vmap(lambda a: batched(X, alpha=a))(X)
    equal(numba_kernel(add, F32)(X, X), 2 * X)  # arrays, by position


def test_kb2101():
    op = numba_kernel(double, F32)
    with refused("KB2101", kernbridge.NoDerivativeError):
        jax.grad(lambda x: op(x).sum())(X)
    equal(jax.grad(lambda x: (x * op(jax.lax.stop_gradient(x))).sum())(X), 2 * X)


def test_kb2102():
    plain = numba_kernel(double, F32)
    vjp = {"vjp": lambda inputs, outputs, ct: (plain(ct),)}
    with refused("KB2102", kernbridge.NoDerivativeError):
        jax.jvp(numba_kernel(double, F32, **vjp), (X,), (X,))
    jvp = {"jvp": lambda inputs, outputs, tangents: plain(tangents[0])}
    with refused("KB2102", kernbridge.NoDerivativeError):
        jax.grad(lambda x: numba_kernel(double, F32, **jvp)(x).sum())(X)
    both = numba_kernel(double, F32, **vjp, **jvp)
    equal(jax.jvp(both, (X,), (X,))[1], 2 * X)
    equal(jax.grad(lambda x: both(x).sum())(X), [2, 2, 2])
    of_jax = numba_kernel(double, F32, vjp=lambda inputs, outputs, ct: (2 * ct,))
    equal(jax.jvp(of_jax, (X,), (X,))[1], 2 * X)


def test_kb2103():
    def gradient(rule):
        op = numba_kernel(add, F32, vjp=rule)
        return jax.grad(lambda x, y: op(x, y).sum(), argnums=(0, 1))(X, X)

    for wrong in (lambda i, o, ct: ct, lambda i, o, ct: None, lambda i, o, ct: (ct.sum(), ct)):
        with refused("KB2103", kernbridge.DerivativeRuleError):
            gradient(wrong)
    first, second = gradient(lambda inputs, outputs, ct: (ct, None))  # None in a tuple is zero
    equal(first, [1, 1, 1])
    equal(second, [0, 0, 0])


def test_kb2104():
    op = numba_kernel(double, lambda x: x)
    batched = functools.reduce(lambda f, _: jax.vmap(f), range(17), op)
    with refused("KB2104", NotImplementedError):
        batched(jnp.ones((1,) * 17 + (3,)))
    y = jnp.arange(6.0).reshape((1,) * 15 + (2, 1, 3))
    merged = functools.reduce(lambda f, _: jax.vmap(f), range(16), op)
    equal(merged(y.reshape((1,) * 15 + (2, 3))).reshape(y.shape), 2 * y)


def test_kb2105():
    def surrogate(inputs, outputs, ct):
        return (3 * ct,)

    op = numba_kernel(double, lambda x: x, vjp=surrogate)
    with refused("KB2105", kernbridge.RuleCheckError) as caught:
        kernbridge.check_rules(op, X)
    assert "at (" in str(caught.value)  # the element
    kernbridge.check_rules(op, X, finite_differences=False)
    kernbridge.check_rules(numba_kernel(double, lambda x: x, vjp=lambda i, o, ct: (2 * ct,)), X)


def test_kb2106():
    op = numba_kernel(double, F32)
    with refused("KB2106"):
        op.plan(X)
    assert op.inspect(X)


def test_kb2107():
    cuda = pytest.importorskip("numba.cuda", reason="Numba-CUDA is not installed")
    kernel = cuda.jit(double.py_func)
    with refused("KB2107"):
        op = kernbridge.numba_cuda_kernel(
            kernel, F32, launch_dims=1, cooperative=True, vjp="enzyme"
        )
        jax.grad(lambda x: op(x).sum())(X)
    op = kernbridge.numba_cuda_kernel(kernel, F32, launch_dims=1, vjp=lambda _, __, ct: (2 * ct,))
    equal(jax.grad(lambda x: op(x).sum())(X), [2, 2, 2])


# 3: running a kernel


def test_kb3001():
    @numba.njit
    def beyond(x, out):
        for i in range(out.size):
            out[i] = 2 * x[i + 1] if i < 2 else x[i + 1]

    with refused("KB3001", jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(numba_kernel(beyond, F32, check=True)(X))
    assert f"(in beyond at {__file__}:" in str(caught.value)
    assert "IndexError: index 3 is out of bounds for axis 0 of array 'x'" in str(caught.value)
    jax.block_until_ready(numba_kernel(beyond, F32)(X))  # reads whatever is there


LEFT_OUT = """
import jax, jax.numpy as jnp, numba, kernbridge

@numba.njit
def first(x, out):
    out[0] = x[0]

def run(**options):
    outs = jax.ShapeDtypeStruct((3,), jnp.float32)
    try:
        return kernbridge.numba_kernel(first, outs, **options)(jnp.ones(3)).tolist()
    except jax.errors.JaxRuntimeError as e:
        return "KB3002" in str(e)

print(run(), run(zero_outputs=True))
"""


def test_kb3002(run_python):
    assert run_python(LEFT_OUT, KERNBRIDGE_DEBUG="poison") == "True [1.0, 0.0, 0.0]\n"


C_SOURCE = """
#include "kernbridge/kernbridge.h"
// @BE fill arg:f32[...] ret:f32[...] attr.factor
int fill(const kb_tensor *x, kb_tensor *out, float factor)
{
    ((float *)out->data)[0] = factor;
    return factor < 0 ? 3 : 0;
}
// @BE repeat ret:any attr.n
void repeat(kb_tensor *out, int n) {}
"""
FIRST = jax.ShapeDtypeStruct((1,), jnp.float32)


@pytest.fixture(scope="module")
def module():
    if fake_gpu.compiler() is None:
        pytest.skip("no C compiler")
    return kernbridge.load_c_inline("remedies", C_SOURCE)


def test_kb2006(module):
    for wrong in ({}, {"factor": "2"}, {"factor": np.float64(2)}, {"factor": 1e40}, {"gain": 2.0}):
        with refused("KB2006"):
            module.fill(X, outs=FIRST, **wrong)
    with refused("KB2006", TypeError):
        jax.jit(lambda a: module.fill(X, outs=FIRST, factor=a))(2.0)
    with refused("KB2006", ValueError):
        module.repeat(outs=F32, n=2**31)
    for number in (2, 2.0, np.float32(2)):
        equal(module.fill(X, outs=FIRST, factor=number), [2])


def test_kb3005(module):
    with refused("KB3005", jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(module.fill(X, outs=FIRST, factor=-1))
    assert "the function returned 3" in str(caught.value)


def through_ffi(*inputs, **attributes):
    return jax.block_until_ready(jax.ffi.ffi_call("remedies.fill", FIRST)(*inputs, **attributes))


def test_kb3006(module):
    for wrong in ({}, {"factor": 5.0}, {"factor": np.float32(5), "extra": np.int32(1)}):
        with refused("KB3006", jax.errors.JaxRuntimeError):
            through_ffi(X, **wrong)
    equal(jax.jit(lambda x: through_ffi(x, factor=np.float32(5)))(X), [5])
    jax.clear_caches()  # in which 5.0 and np.float32(5) are the same
    equal(through_ffi(X, factor=np.float32(5)), [5])


def test_kb3007(module):
    with refused("KB3007", jax.errors.JaxRuntimeError):
        through_ffi(X, X, factor=np.float32(2))


# 4: compiling


def compiled(kernel, **options):
    return numba_kernel(kernel, F32, **options)(X)


def test_kb4001():
    @numba.njit
    def calls_jax(x, out):
        out[:] = jnp.sin(x)

    with refused("KB4001", kernbridge.KernelCompilationError):
        compiled(calls_jax)
    with pytest.raises(numba.TypingError, match="jax"):  # without kernbridge, as the page advises
        calls_jax(np.ones(3, np.float32), np.ones(3, np.float32))


def test_kb4002():
    @numba.njit
    def returns(x, out):
        return x[0]

    with refused("KB4002", TypeError):
        compiled(returns)


def test_kb4003():
    @numba.njit
    def writes(x, out):
        x[0] = 7
        out[0] = x[0]

    def written(x, out):
        local = np.empty(3, np.float32)
        for i in range(3):
            local[i] = x[i]
        local[0] = 7
        for i in range(3):
            out[i] = local[i]

    with warned("KB4003"):
        assert compiled(writes)[0] == 7
    equal(X, [0, 1, 2])
    with silent():
        equal(compiled(numba.njit(written)), [7, 1, 2])
        equal(numba_kernel(increment, F32, input_output_aliases={0: 0})(X), X + 1)
    read_only = numba.types.Array(numba.float32, 1, "C", readonly=True)
    with silent():
        declared = numba.njit([(read_only, numba.float32[::1])])(double.py_func)
        equal(compiled(declared), 2 * X)


def test_kb4007(module):
    include = '#include "kernbridge/kernbridge.h"\n'
    wrong = include + "// @BE f arg\nvoid f(const kb_tensor *x, kb_tensor *o) {}"
    with refused("KB4007", kernbridge.KernelError) as caught:
        kernbridge.load_c_inline("remedies_annotation", wrong)
    assert str(caught.value).splitlines()[1:] == ["// @BE f arg", "       ^"]  # the column
    right = kernbridge.load_c_inline(
        "remedies_annotation", wrong.replace("f arg", "f arg:any ret:any")
    )
    assert right.function_names == ["f"]


def test_kb4011(monkeypatch, tmp_path):
    monkeypatch.setattr(kernbridge, "__path__", [str(tmp_path)])
    with refused("KB4011", kernbridge.errors.HeaderNotFoundError):
        kernbridge.load_c_inline("remedies", C_SOURCE)


# 5: modules, the cache, programs from elsewhere


def test_kb5101(module):
    other = C_SOURCE.replace("= factor", "= 10 * factor")
    with refused("KB5101", kernbridge.KernelRegistrationError):
        kernbridge.load_c_inline("remedies", other)
    compiled = jax.jit(lambda x: module.fill(x, outs=FIRST, factor=3))
    equal(compiled(X), [3])
    replaced = kernbridge.load_c_inline("remedies", other, replace=True)
    equal(replaced.fill(X, outs=FIRST, factor=3), [30])
    equal(through_ffi(X, factor=np.float32(3)), [30])  # the name refers to the new code
    equal(module.fill(X, outs=FIRST, factor=3), [3])  # and the module to its own
    equal(compiled(X), [3])
    kernbridge.load_c_inline("remedies", C_SOURCE, replace=True)


def test_kb5102(tmp_path, module):
    library = tmp_path / "kernels.so"
    library.write_text("no library")
    with refused("KB5102", kernbridge.KernelLoadError):
        kernbridge.load_binary(library)
    header = bytearray(Path(module.path).read_bytes())
    header[18] = 0xB7  # of aarch64
    library.write_bytes(header)
    with refused("KB5102", kernbridge.KernelLoadError) as caught:
        kernbridge.load_binary(library, functions={"fill": "arg ret"})
    assert "built for aarch64" in str(caught.value)
    needed = tmp_path / "libneeded.so"
    build = [fake_gpu.compiler(), "-shared", "-xc", "/dev/null", "-o"]
    subprocess.run([*build, needed], check=True)
    subprocess.run([*build, library, "-xnone", "-Wl,--no-as-needed", needed], check=True)
    needed.unlink()
    with refused("KB5102", kernbridge.KernelLoadError) as caught:
        kernbridge.load_binary(library, functions={"fill": "arg ret"})
    assert "put its folder on LD_LIBRARY_PATH" in str(caught.value)


def test_kb5103(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refused("KB5103", FileNotFoundError) as caught:
        kernbridge.load_cpp_file("kernels.cpp")
    assert str(tmp_path / "kernels.cpp") in str(caught.value)  # relative to the working folder


def test_kb5104(module):
    with refused("KB5104", AttributeError) as caught:
        module.halve  # noqa: B018
    assert "it has fill, repeat" in str(caught.value)


def test_kb5105(module):
    with refused("KB5105", ValueError):
        kernbridge.load_c_inline("", C_SOURCE)
    with refused("KB5105", TypeError):
        kernbridge.load_c_inline("remedies_bytes", C_SOURCE.encode())
    with refused("KB5105", TypeError) as caught:
        kernbridge.load_c_inline("remedies_option", C_SOURCE, extra_cflag=[])
    assert "extra_cflags" in str(caught.value)


# 6: sharding and export


def test_kb6001():
    for rule in ("i j", "ij,jk->ik"):
        with refused("KB6001"):
            numba_kernel(double, F32, sharding_rule=rule)(X)
    doubled(numba_kernel(double, F32, sharding_rule="i -> i"))


def test_kb6002():
    spec = jax.sharding.NamedSharding(MESH(), jax.sharding.PartitionSpec("d"))
    y = jax.device_put(jnp.arange(8.0), spec)
    with warned("KB6002"):
        equal(jax.jit(numba_kernel(double, lambda x: x))(y), 2 * np.arange(8.0))
    with silent():
        ruled = jax.jit(numba_kernel(double, lambda x: x, sharding_rule="i -> i"))
        equal(ruled(y), 2 * np.arange(8.0))
        inside = jax.shard_map(
            numba_kernel(double, lambda x: x),
            mesh=MESH(),
            in_specs=jax.sharding.PartitionSpec("d"),
            out_specs=jax.sharding.PartitionSpec("d"),
        )
        equal(jax.jit(inside)(y), 2 * np.arange(8.0))
    explicit = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(explicit):
        y = jax.sharding.reshard(jnp.arange(8.0), jax.sharding.PartitionSpec("d"))
        with refused("KB6002", ValueError):
            jax.jit(numba_kernel(double, lambda x: x))(y)
        whole = jax.sharding.reshard(y, jax.sharding.PartitionSpec(None))
        with silent():
            equal(jax.jit(numba_kernel(double, lambda x: x))(whole), 2 * np.arange(8.0))


def test_kb6003():
    mesh = jax.make_mesh((2, 2), ("d", "e"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    op = numba_kernel(double, lambda x: x, has_side_effect=True)

    def mapped(axes):
        spec = jax.sharding.PartitionSpec("d")
        return jax.jit(
            jax.shard_map(op, mesh=mesh, in_specs=spec, out_specs=spec, axis_names=axes)
        )(jnp.arange(4.0))

    with refused("KB6003", NotImplementedError) as caught:
        mapped({"d"})
    assert "let axis_names of jax.shard_map name all axes of the mesh" in str(caught.value)
    equal(mapped({"d", "e"}), 2 * np.arange(4.0))


def test_kb6101():
    unnamed = object()

    @numba.njit
    def local(x, out):
        with numba.objmode():
            str(unnamed)
        out[0] = x[0]

    op = numba_kernel(local, F32)
    with refused("KB6101", ValueError):
        jax.export.export(jax.jit(op))(F32)
    assert numba_kernel(double, F32).inspect(X)[0].export != op.inspect(X)[0].export


def test_kb6103(tmp_path):
    (n,) = jax.export.symbolic_shape("n")
    with refused("KB6103", kernbridge.ExportError):
        kernbridge.export_bundle(
            tmp_path / "bundle", jnp.sin, jax.ShapeDtypeStruct((n,), jnp.float32)
        )
    with refused("KB6103", kernbridge.ExportError):
        kernbridge.export_bundle(
            tmp_path / "bundle", lambda x: jax.pure_callback(np.sin, F32, x), X
        )


def test_kb6104(tmp_path):
    with refused("KB6104", TypeError):
        kernbridge.export_bundle(tmp_path / "bundle", X)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "text").touch()
    with refused("KB6104", FileExistsError):
        kernbridge.export_bundle(tmp_path / "notes", jnp.sin, X)
    for _ in range(2):  # a folder that does not exist, and then a bundle
        kernbridge.export_bundle(tmp_path / "bundle", jnp.sin, X)


# 7: platforms


def test_kb7001():
    run = jax.jit(numba_kernel(double, F32))
    with refused("KB7001", kernbridge.KernelNotAvailableError):
        jax.export.export(run, platforms=["cuda"])(F32)

    def chosen(x):
        return jax.lax.platform_dependent(x, cpu=run, default=lambda x: 2 * x)

    equal(jax.jit(chosen)(X), 2 * X)
    exported = jax.export.export(jax.jit(chosen), platforms=["cpu", "cuda"])(F32)
    equal(exported.call(X), 2 * X)


def custom(name, **kernels):
    op = XLACustomKernel(f"remedies_{name}")
    for backend, generator in kernels.items():
        op.def_kernel(backend, "cpu", generator)
    return op


def generator(outs, **_):
    return numba_kernel(double, outs)


def test_kb7006():
    op = custom("platform")
    for platform in ("gpus", 3):
        with refused("KB7006"):
            op.def_kernel("numba", platform, generator)
    op = custom("backend", numba=generator)
    with refused("KB7006") as caught:
        op(X, outs=[F32], backend="cpp")
    assert "'numba' on cpu" in str(caught.value)
    equal(op(X, outs=[F32])[0], 2 * X)
    op.def_kernel("cpp", "cpu", generator)
    equal(op(X, outs=[F32], backend="cpp")[0], 2 * X)


def test_kb7007():
    op = custom("ignored", numba=generator)
    config.set_backend("cpu", "nmuba")
    try:
        with warned("KB7007"):
            equal(op(X, outs=[F32])[0], 2 * X)
        op.def_kernel("nmuba", "cpu", lambda outs: lambda x: [3 * x])
        with silent():
            equal(op(X, outs=[F32])[0], 3 * X)
    finally:
        config.set_backend("cpu", None)


# 8: settings, benchmarks, custom operations


WRONG_SETTINGS = [
    (config.set_numba_num_threads, "two"),
    (config.set_cuda_architectures, "hopper"),
    (config.set_compute_capability, "hopper"),
    (config.prefer_system_nvcc, "yes"),
    (config.add_include_path, 3),
    (functools.partial(config.set_backend, "cpu"), 3),
    (config.set_cuda_on_cpu, False),
    (config.set_gathers, "never"),
    (config.set_exported_code, "never"),
    (config.set_carry_kernels, 1),
    (config.set_adjoint_test, 1),
    (config.allow_imports, 3),
    (lambda seconds: config.set_compiler_limits(seconds=seconds), 0),
    (lambda seconds: config.set_compiler_limits(seconds=seconds), "60"),
    (lambda memory: config.set_compiler_limits(memory=memory), "much"),
    (lambda memory: config.set_compiler_limits(memory=memory), True),
    (kernbridge.set_cache_dir, ""),
    (kernbridge.cuda_on_cpu, "yes"),
]


def test_kb8001():
    for setting, value in WRONG_SETTINGS:
        with refused("KB8001"):
            setting(value)
    named = {setting.__name__ for setting, _ in WRONG_SETTINGS if hasattr(setting, "__name__")}
    prefixes = ("set_", "prefer_", "add_", "allow_")
    every = {n for n in vars(config) if n.startswith(prefixes) and n != "set_num_threads"}
    assert every <= {*named, "set_backend", "set_compiler_limits"}


def plan():
    """What asks for the architectures of GPUs."""
    cuda = pytest.importorskip("numba.cuda")
    kernbridge.numba_cuda_kernel(cuda.jit(double.py_func), F32, launch_dims=3).plan(X)


WRONG_VARIABLES = {
    "KERNBRIDGE_CACHE_SIZE": lambda: kernbridge.load_c_inline("never_built", C_SOURCE),
    "KERNBRIDGE_COMPILE_TIMEOUT": config.get_compiler_limits,
    "KERNBRIDGE_PROGRESS": progress._is_on,
    "KERNBRIDGE_CARRY_KERNELS": config.get_carry_kernels,
    "KERNBRIDGE_ADJOINT_TEST": config.get_adjoint_test,
    "KERNBRIDGE_CUDA_ARCHS": plan,
    "KERNBRIDGE_COMPUTE_CAPABILITIES": plan,
    "KERNBRIDGE_NVCC_PREFER": nvcc.find_nvcc,
    "KERNBRIDGE_ALLOW_UNSUPPORTED_COMPILER": library._allows_any_compiler,
}


@pytest.mark.parametrize("variable", WRONG_VARIABLES)
def test_kb8002(variable, monkeypatch):
    monkeypatch.setenv(variable, "perhaps")
    with refused("KB8002", ValueError) as caught:
        WRONG_VARIABLES[variable]()
    assert re.search(f"{variable}.*'perhaps'", str(caught.value))


@pytest.mark.parametrize(
    "variable", ["KERNBRIDGE_DEBUG", "KERNBRIDGE_EXPORTED_CODE", "KERNBRIDGE_CUDA_ON_CPU"]
)
def test_a_wrong_variable_is_refused_when_kernbridge_is_imported(variable, run_python):
    said = run_python("import kernbridge", check=False, **{variable: "perhaps"})
    assert re.search(rf"\nValueError: {variable}.*'perhaps'.*\[KB8002\]", said)


@pytest.mark.parametrize("variable", ["CC", "CXX", "CLANG"])
def test_a_quotation_that_is_not_closed(variable, monkeypatch):
    monkeypatch.setenv(variable, "'g++")
    compilers = library.compilers
    find = {"CC": compilers.find_c, "CXX": compilers.find_cxx, "CLANG": compilers.find_clang}
    with refused("KB8002", ValueError) as caught:
        find[variable]()
    assert f'{variable} is "\'g++"' in str(caught.value)


def test_kb8005():
    op = custom("data", numba=generator)
    with refused("KB8005", ValueError):
        op.benchmark(platform="cpu")
    op.def_call(lambda x: op(x, outs=[F32]))
    with refused("KB8005", kernbridge.BenchmarkDataFnNotProvidedError):
        op.benchmark(platform="cpu")
    op.def_benchmark_data(lambda *, platform: [kernbridge.BenchmarkConfig("three", (X,))])
    assert len(op.benchmark(platform="cpu", n_runs=1, n_warmup=0).records) == 1
    for wrong in ({"n_runs": 0}, {"n_runs": 1.5}, {"n_warmup": -1}):
        with refused("KB8005"):
            op.benchmark(platform="cpu", **wrong)


def test_kb8006():
    with refused("KB8006", TypeError):
        custom("operation", numba=numba_kernel(double, F32))
    op = custom("function", numba=lambda outs: numba_kernel(double, outs))
    equal(op(X, outs=[F32])[0], 2 * X)


def test_kb8007():
    first = custom("twice", numba=generator)
    with warned("KB8007"):
        second = custom("twice")
    equal(first(X, outs=[F32])[0], 2 * X)
    assert second is not first


def test_kb8008():
    op = custom("static", numba=generator)

    def run(x, a):
        return op(x, outs=[F32], alpha=a)[0]

    with refused("KB8008", TypeError):
        jax.jit(run)(X, 2.0)
    equal(jax.jit(run, static_argnames="a")(X, a=2.0), 2 * X)
    equal(jax.jit(lambda x: run(x, 2.0))(X), 2 * X)


OF_CUDA = "test_remedies_of_cuda.py::test_{}"
ELSEWHERE = {
    "KB1010": "signatures/test_call_signatures.py::test_signatures_that_are_refused",
    "KB2108": "ext/enzyme/test_cuda_kernels.py::test_a_loop_that_overwrites_values",
    "KB2109": "ext/enzyme/test_adjoint.py::test_a_wrong_derivative_is_refused_whenever_it_runs",
    "KB1101": OF_CUDA,
    "KB1102": OF_CUDA,
    "KB1103": OF_CUDA,
    "KB2007": OF_CUDA,
    "KB3004": OF_CUDA,
    "KB3008": OF_CUDA,
    "KB4004": OF_CUDA,
    "KB4012": OF_CUDA,
    "KB4013": OF_CUDA,
    "KB7003": OF_CUDA,
    "KB3003": "numba_common/test_written_inputs.py",
    "KB3009": "../core/test_handler.c",
    "KB3010": "plan/test_guards.py",
    "KB3011": "plan/test_guards.py",
    "KB4005": "ext/emulator/test_cuda_on_cpu.py",
    "KB4006": "toolchain/test_build.py",
    "KB4008": "toolchain/test_toolchain.py",
    "KB4009": "ext/nvrtc/test_cuda_source.py::test_an_architecture_that_nvrtc_lacks",
    "KB4010": "toolchain/test_build.py",
    "KB4014": "../gpu/test_numba_cuda_kernel.py",
    "KB4015": "ext/compat/test_semantics.py",
    "KB4016": "test_package.py",
    "KB5001": "forge/test_cache_trust.py",
    "KB5106": "source/test_load_cpp.py",
    "KB4018": "numba_common/test_rounding.py",
    "KB5107": "source/test_carried_library.py",
    "KB5108": "ext/embed/test_c_host.py",
    "KB6102": "operation/test_export.py",
    "KB7002": "ext/emulator/test_cuda_on_cpu.py",
    "KB7005": "ext/emulator/test_launch_errors.py",
    "KB7008": "interplay/test_forks.py",
    "KB7009": "interplay/test_subinterpreters.py",
    "KB8003": "base/test_versions.py",
    "KB8004": "base/test_versions.py",
    "KB8009": "ext/benchmark/test_benchmark_result.py",
    "KB8010": "ext/compat/test_brainevent.py",
}
"""Where a test is, for codes that need a GPU's driver, a compiler or another process."""


def test_each_code_has_a_test():
    here = {name[5:].upper() for name in globals() if name.startswith("test_kb")}
    assert not here & ELSEWHERE.keys()
    assert here | ELSEWHERE.keys() == messages.pages().keys()
    for code, place in ELSEWHERE.items():
        file, _, name = place.format(code.lower()).partition("::")
        assert f"def {name}" in (HERE / file).read_text() if name else (HERE / file).is_file()
