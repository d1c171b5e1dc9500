"""C and C++ source as JAX operations: values, transformations, public targets, other processes."""

import functools
import gc
import re
import subprocess
from importlib import resources
from pathlib import Path

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

F32 = jnp.float32

AXPY = r"""
#include "kernbridge/kernbridge.hpp"
namespace BE = kernbridge;
// @BE axpy arg arg ret attr.a
void axpy(const BE::Tensor x, const BE::Tensor y, BE::Tensor out, float a) {
    KB_CHECK(x.numel() == y.numel()) << "x has " << x.numel() << ", y " << y.numel();
    for (int64_t i = 0; i < x.numel(); i++)
        out.data_ptr<float>()[i] = a * x.data_ptr<float>()[i] + y.data_ptr<float>()[i];
}

// @BE split arg ret ret
void split(const BE::Tensor x, BE::Tensor positive, BE::Tensor negative) {
    for (int64_t i = 0; i < x.numel(); i++) {
        float v = x.data_ptr<float>()[i];
        positive.data_ptr<float>()[i] = v > 0 ? v : 0;
        negative.data_ptr<float>()[i] = v < 0 ? v : 0;
    }
}

// @BE describe arg ret
void describe(const BE::Tensor x, BE::Tensor out) {
    int64_t *o = out.data_ptr<int64_t>();
    o[0] = x.ndim();
    o[1] = x.numel();
    o[2] = static_cast<int64_t>(x.dtype());
    o[3] = x.element_size();
    o[4] = x.ndim() ? x.shape(-1) : -1;
    o[5] = x.ndim() ? x.stride(0) : -1;
}

// @BE returns ret attr.code
int returns(BE::Tensor out, int code) { return code; }

// @BE increment arg ret
void increment(const BE::Tensor x, BE::Tensor out) {
    out.data_ptr<float>()[0] = x.data_ptr<float>()[0] + 1;
    if (x.data_ptr() == out.data_ptr()) out.data_ptr<float>()[1] = 77;
}
"""


@pytest.fixture(scope="module")
def module():
    return kernbridge.load_cpp_inline("test_axpy", AXPY)


def like(x, dtype=None):
    return jax.ShapeDtypeStruct(x.shape, dtype or x.dtype)


def axpy(module, x, y, a=2.0):
    return module.axpy(x, y, outs=like(x), a=a)


def test_sources_may_be_of_an_older_standard():
    source = f'static_assert(__cplusplus == 201402L, "");{AXPY}'
    module = kernbridge.load_cpp_inline(
        "cpp14", source, extra_cflags=["-std=c++14"], auto_register=False
    )
    x = jnp.arange(3, dtype=F32)
    out = module.axpy(x, x + 1, outs=jax.ShapeDtypeStruct((3,), F32), a=2.0)
    np.testing.assert_array_equal(out, 3 * x + 1)


def test_eager_jit_and_target_agree(module):
    x, y = jnp.arange(7.0), jnp.ones(7)
    want = 2 * np.arange(7.0) + 1
    np.testing.assert_array_equal(axpy(module, x, y), want)
    np.testing.assert_array_equal(jax.jit(lambda x, y: axpy(module, x, y))(x, y), want)
    target = jax.ffi.ffi_call("test_axpy.axpy", like(x))
    np.testing.assert_array_equal(target(x, y, a=np.float32(2)), want)
    np.testing.assert_array_equal(module["axpy"](x, y, outs=like(x), attrs={"a": 2}), want)


def test_pytrees_of_outputs(module):
    x = jnp.linspace(-1, 1, 5)
    got = module.split(x, outs={"down": [like(x)], "up": like(x)})
    np.testing.assert_array_equal(got["down"][0], np.maximum(x, 0))
    np.testing.assert_array_equal(got["up"], np.minimum(x, 0))


@pytest.mark.parametrize(
    "shape", [(), (0,), (1,), (13,), (2, 3), (2, 0, 3), (1, 2, 1, 3, 1, 2, 1, 2)]
)
@pytest.mark.parametrize(
    ("dtype", "number", "size"),
    [
        ("float32", 1, 4),
        ("bool", 12, 1),
        ("int8", 4, 1),
        ("uint64", 11, 8),
        ("complex128", 14, 16),
        ("bfloat16", 3, 2),
        ("float16", 0, 2),
        ("float8_e4m3fn", 43, 1),
    ],
)
def test_descriptions(module, x64, shape, dtype, number, size):
    x = np.zeros(shape, jnp.dtype(dtype))  # NumPy's, of which JAX's own dtypes are of kind V
    got = module.describe(x, outs=jax.ShapeDtypeStruct((6,), jnp.int64)).tolist()
    compact = [int(np.prod(shape[d + 1 :])) for d in range(len(shape))]
    assert got[:4] == [len(shape), int(np.prod(shape)), number, size]
    assert got[4:] == ([shape[-1], compact[0]] if shape else [-1, -1])


def test_vmap_nested_and_mixed(module):
    x = jax.random.normal(jax.random.key(0), (3, 4, 5))
    y = jax.random.normal(jax.random.key(1), (5, 4))
    f = jax.vmap(jax.vmap(lambda x, y: axpy(module, x, y), (0, 1)), (0, None))
    np.testing.assert_allclose(jax.jit(f)(x, y), 2 * x + y.T, rtol=1e-6)


def test_scan_while_grad_rule_remat(module):
    x = jnp.arange(4.0)

    @jax.custom_vjp
    def f(x, y):
        return axpy(module, x, y)

    f.defvjp(lambda x, y: (f(x, y), None), lambda _, g: (2 * g, g))
    steps = jax.lax.scan(lambda v, _: (axpy(module, v, x, 0.5), v), x, length=3)[0]
    np.testing.assert_allclose(steps, 1.875 * x)
    np.testing.assert_array_equal(jax.grad(lambda x: jax.checkpoint(f)(x, x).sum())(x), 3)
    with pytest.raises(NotImplementedError, match=r"\[KB2101\]"):
        jax.grad(lambda x: axpy(module, x, x).sum())(x)


def test_shard_map(module):
    mesh = Mesh(np.array(jax.devices()[:2]), ("d",))
    spec = PartitionSpec("d")
    f = jax.shard_map(lambda x: axpy(module, x, x), mesh=mesh, in_specs=spec, out_specs=spec)
    np.testing.assert_array_equal(f(jnp.arange(8.0)), 3 * np.arange(8.0))


def test_aliases(module):
    x = jnp.zeros(3)

    @jax.jit
    def f(x):
        return module.increment(x, outs=like(x), input_output_aliases={0: 0})

    assert f(x).tolist()[:2] == [1, 77]
    assert x.tolist() == [0, 0, 0]


def test_operation_is_remembered(module):
    first = module.axpy.operation(like(jnp.ones(3)), attrs={"a": 2})
    assert module.axpy.operation(like(jnp.ones(3)), attrs={"a": 2.0}) is first
    assert module.axpy.operation(like(jnp.ones(3)), attrs={"a": 3}) is not first


@pytest.mark.once
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m, x: m.axpy(x, outs=like(x), a=1), TypeError, "has 2 inputs .* the call has 1"),
        (lambda m, x: m.split(x, outs=like(x)), TypeError, "has 2 outputs .* `outs` describes 1"),
        (lambda m, x: m.axpy(x, x, outs=like(x)), TypeError, "needs attribute 'a'"),
        (lambda m, x: m.axpy(x, x, outs=like(x), a=1, b=2), TypeError, "no attribute 'b'"),
        (lambda m, x: m.axpy(x, x, outs=like(x), a="1"), TypeError, "'1' of type str"),
        (lambda m, x: m.axpy(x, x, outs=like(x), a=np.int32(1)), TypeError, "of dtype int32"),
        (
            lambda m, x: m.axpy(x, x, outs=like(x), a=1e39),
            ValueError,
            "is out of range for float32",
        ),
        (lambda m, x: jax.jit(lambda a: axpy(m, x, x, a))(1.0), TypeError, "'a' is traced"),
        (lambda m, x: m.axpy(x, x[:2], outs=like(x), a=1), Exception, "x has 3, y 2"),
        (lambda m, x: m.axpy(x, x, outs=like(x), a=1, vmap_method="?"), ValueError, "vmap_method"),
        (lambda m, x: m.nothing, AttributeError, "has no function 'nothing'; it has axpy"),
        (lambda m, x: m["nothing"], KeyError, "nothing"),
        (lambda m, x: m.get_handler("nothing"), KeyError, "nothing"),
        (
            lambda m, x: m.axpy(x.astype(jnp.int32), x, outs=like(x), a=1),
            Exception,
            "data_ptr<float32> of a tensor of int32",
        ),
    ],
)
def test_wrong_use(module, call, error, message):
    with pytest.raises(error, match=message):
        jax.block_until_ready(call(module, jnp.ones(3)))


@pytest.mark.parametrize(
    ("attributes", "n", "message"),
    [
        ({}, 2, "attributes were left out, expected a:float32"),
        ({"a": np.float64(1)}, 2, r"'a' is float64, expected float32: pass numpy.float32\(value\)"),
        ({"b": np.float32(1)}, 2, "attributes b were passed, expected a:float32"),
        ({"a": np.float32(1), "b": np.float32(1)}, 2, "attributes a, b were passed"),
        ({"a": np.float32(1)}, 1, "got 1 inputs and 1 outputs, expected 2 and 1"),
        ({"a": "text"}, 2, "'a' is not a scalar"),
    ],
)
def test_wrong_use_of_the_target(module, attributes, n, message):
    x = jnp.ones(3)
    call = jax.ffi.ffi_call("test_axpy.axpy", like(x))
    with pytest.raises(Exception, match=message):
        jax.block_until_ready(call(*[x] * n, **attributes))


ATTRIBUTES = r"""
#include "kernbridge/kernbridge.hpp"
namespace BE = kernbridge;
#include <complex>
// @BE all arg ret attr.b attr.i8 attr.u8 attr.i16 attr.u16 attr.i32 attr.u32 attr.i64 \
    attr.u64 attr.f attr.d attr.z attr.w attr.h:float16 attr.g:bfloat16
void all(const BE::Tensor x, BE::Tensor out, bool b, int8_t i8, uint8_t u8, int16_t i16,
         uint16_t u16, int32_t i32, uint32_t u32, int64_t i64, uint64_t u64, float f, double d,
         std::complex<float> z, BE::complex128_t w, uint16_t h, BE::bfloat16_t g) {
    double *o = out.data_ptr<double>();
    const double values[] = {double(b), double(i8), double(u8), double(i16), double(u16),
                             double(i32), double(u32), double(i64), double(u64), f, d,
                             z.real(), z.imag(), w.real(), w.imag(), double(h), double(float(g))};
    for (int i = 0; i < 17; i++) o[i] = values[i];
}
"""


@pytest.mark.once
def test_attributes_of_every_type(x64):
    module = kernbridge.load_cpp_inline("test_attributes", ATTRIBUTES)
    outs = jax.ShapeDtypeStruct((17,), jnp.float64)
    values = {
        "b": True,
        "i8": -128,
        "u8": 255,
        "i16": -32768,
        "u16": 65535,
        "i32": -(2**31),
        "u32": 2**32 - 1,
        "i64": -(2**53),
        "u64": 2**53,
        "f": 0.5,
        "d": 1e300,
        "z": 1 - 2j,
        "w": 3 + 4j,
        "h": 1.5,
        "g": 2.5,
    }
    want = [1, -128, 255, -32768, 65535, -(2.0**31), 2.0**32 - 1, -(2.0**53), 2.0**53]
    want += [0.5, 1e300, 1, -2, 3, 4, np.float16(1.5).view(np.uint16), 2.5]
    x = jnp.zeros(1)
    assert module.all(x, outs=outs, **values).tolist() == want
    native = {
        "b": np.bool_(True),
        "i8": np.int8(-128),
        "u8": np.uint8(255),
        "i16": np.int16(-32768),
        "u16": np.uint16(65535),
        "i32": np.int32(-(2**31)),
        "u32": np.uint32(2**32 - 1),
        "i64": np.int64(-(2**53)),
        "u64": np.uint64(2**53),
        "f": np.float32(0.5),
        "d": np.float64(1e300),
        "z": np.array([1, -2], np.float32),
        "w": np.array([3, 4], np.float64),
        "h": np.float16(1.5).view(np.uint16),
        "g": np.uint16(0x4020),
    }
    got = jax.ffi.ffi_call("test_attributes.all", outs)(x, **native)
    assert got.tolist() == want
    for name, bad in (("b", 1), ("i8", 128), ("u8", -1), ("u64", 2**64), ("i64", 1.5), ("f", 1j)):
        with pytest.raises((TypeError, ValueError), match=f"attribute '{name}'"):
            module.all(x, outs=outs, **{**values, name: bad})


C_SOURCE = r"""
#include "kernbridge/kernbridge.h"
#include <complex.h>

// @BE total arg:f32[...] ret:f32[] attr.scale
static void total(const kb_tensor *x, kb_tensor *out, double scale)
{
    double sum = 0;
    for (int64_t i = 0; i < x->size; i++)
        sum += ((const float *)x->data)[i];
    *(float *)out->data = (float)(scale * sum);
}

// @BE turn arg:any ret:any attr.z:complex64
int turn(const kb_tensor *x, kb_tensor *out, float _Complex z)
{
    if (x->type != KB_TYPE_COMPLEX64)
        return 3;
    for (int64_t i = 0; i < x->size; i++)
        ((float _Complex *)out->data)[i] = z * ((const float _Complex *)x->data)[i];
    return 0;
}

struct sums { const float *x; float *out; };

static void add_range(void *data, int64_t begin, int64_t end)
{
    struct sums *s = data;
    for (int64_t i = begin; i < end; i++)
        s->out[i] = s->x[i] + 1;
}

// @BE any_call any
int any_call(const kb_call *call)
{
    if (call->n_inputs != 1 || call->n_outputs < 1)
        return kb_fail(call, KB_INVALID_ARGUMENT, "%d inputs came, expected 1", call->n_inputs);
    float *memory = kb_scratch(call, 4096);
    if (!memory)
        return kb_fail(call, KB_RESOURCE_EXHAUSTED, "no memory");
    struct sums s = {call->inputs[0].data, call->outputs[0].data};
    kb_parallel_for(call, call->inputs[0].size, add_range, &s);
    return 0;
}
"""


@pytest.mark.once
def test_c():
    module = kernbridge.load_c_inline("test_c", C_SOURCE)
    x = jnp.arange(5.0)
    assert module.total(x, outs=jax.ShapeDtypeStruct((), F32), scale=2) == 20
    z = jnp.array([1 + 1j, 2], jnp.complex64)
    np.testing.assert_array_equal(module.turn(z, outs=like(z), z=1j), z * 1j)
    with pytest.raises(Exception, match=r"test_c\.turn': the function returned 3.*\[KB3005\]"):
        jax.block_until_ready(module.turn(x, outs=like(x), z=1))
    big = jnp.arange(100_000.0)
    np.testing.assert_array_equal(module.any_call(big, outs=like(big)), np.arange(1.0, 100_001))
    got = jax.ffi.ffi_call("test_c.any_call", (like(x), like(x)))(x)
    np.testing.assert_array_equal(got[0], np.arange(1.0, 6))
    with pytest.raises(
        Exception, match=r"test_c\.any_call': 2 inputs came, expected 1.*\[KB3005\]"
    ):
        jax.block_until_ready(module.any_call(x, x, outs=like(x)))


THROWING = r"""
#include "kernbridge/kernbridge.hpp"
namespace BE = kernbridge;
#include <stdexcept>
#include <string>
#include <vector>
// @BE keeps ret
void keeps(BE::Tensor out) {
    try {
        BE::parallel_for(9, [](int64_t i, int64_t) { if (i == 0) throw std::range_error("kept"); });
    } catch (const std::range_error &e) {
        *out.data_ptr<int>() = e.what() == std::string("kept");
    }
}
// @BE fail ret attr.how
void fail(BE::Tensor out, int how) {
    std::string text(3000, 'x');
    switch (how) {
    case 0: throw std::runtime_error("a runtime error");
    case 1: throw 5;
    case 2: throw "text";
    case 3: (void)std::vector<int>(3).at(7); break;
    case 4: (void)out.shape(9); break;
    case 5: throw std::runtime_error(text);
    case 6:
        BE::parallel_for(1000, [](int64_t i, int64_t) {
            if (i == 0) throw std::runtime_error("inside");
        });
        break;
    case 7: BE::parallel_for(1000, [](int64_t i, int64_t) { if (i == 0) throw 7; }); break;
    case 10: BE::parallel_for(9, [](int64_t i, int64_t) { KB_CHECK(i > 0) << "i is 0"; }); break;
    case 11: throw std::string("a string");
    case 12: BE::parallel_for(9, [](int64_t i, int64_t) { if (i == 0) throw "thread"; }); break;
    case 13: throw static_cast<char *>(nullptr);
    case 8: throw BE::Error("exhausted", KB_RESOURCE_EXHAUSTED);
    case 9: { char *p = static_cast<char *>(BE::scratch(100)); p[99] = 1; break; }
    }
    *out.data_ptr<int>() = how;
}
"""


@pytest.mark.once
def test_exceptions_of_every_type():
    module = kernbridge.load_cpp_inline("test_throwing", THROWING)
    outs = jax.ShapeDtypeStruct((1,), jnp.int32)
    expected = {
        0: "INTERNAL.*a runtime error",
        1: "an exception that is no std::exception",
        2: r"test_throwing.fail': text \[KB3005",
        11: r"test_throwing.fail': a string \[KB3005",
        12: r"test_throwing.fail': thread \[KB3005",
        13: r"\(null\)",
        3: "vector::_M_range_check",
        4: "INVALID_ARGUMENT.*axis 9 of a tensor of 1 axes",
        5: "xxx",
        6: "inside",
        7: "no std::exception",
        8: "RESOURCE_EXHAUSTED.*exhausted",
        10: r"INVALID_ARGUMENT.*\(i > 0\) i is 0",
    }
    for how, message in expected.items():
        with pytest.raises(Exception, match=message):
            jax.block_until_ready(module.fail(outs=outs, how=how))
    assert module.fail(outs=outs, how=9) == 9
    assert module.keeps(outs=outs) == 1


STATICS = """
#include "kernbridge/kernbridge.hpp"
#include <map>
#include <stdexcept>
#include <stdlib.h>
struct Two { std::map<int, int> m; Two() { m[0] = 2; } };
static Two before;
struct Three {
    int x;
    Three() { if (getenv("TEST_THROWS")) throw std::runtime_error("no such file"); x = 3; }
};
static Three three;
static int product = three.x * before.m[0];
// @BE get ret
void get(kernbridge::Tensor out) { *out.data_ptr<int>() = product; }
"""


@pytest.mark.exhaustive
@pytest.mark.once
def test_a_static_constructor_that_throws(monkeypatch):
    module = kernbridge.load_cpp_inline("statics", STATICS)
    assert module.get(outs=jax.ShapeDtypeStruct((), jnp.int32)) == 6
    monkeypatch.setenv("TEST_THROWS", "1")
    for check in (False, True):
        with pytest.raises(
            kernbridge.KernelLoadError,
            match=r"a static constructor threw: no such file.*\[KB5102\]",
        ):
            kernbridge.load_cpp_inline("statics_that_throw", STATICS, check=check)


@pytest.mark.once
def test_codes(module):
    outs = jax.ShapeDtypeStruct((1,), F32)
    jax.block_until_ready(module.returns(outs=outs, code=0))
    for code, name in ((5, "NOT_FOUND"), (77, "INTERNAL")):
        with pytest.raises(Exception, match=f"{name}.*the function returned {code}"):
            jax.block_until_ready(module.returns(outs=outs, code=code))


def opened_libraries(name):
    return set(re.findall(rf"/\S*/{name}-\w+\.so$", Path("/proc/self/maps").read_text(), re.M))


@pytest.mark.exhaustive
@pytest.mark.once
def test_replace(module):
    def source(factor):
        return AXPY.replace("a * x", f"{factor} * x")

    x = jnp.ones(3)
    call = jax.jit(lambda x: jax.ffi.ffi_call("edited.axpy", like(x))(x, x, a=np.float32(1)))
    first = kernbridge.load_cpp_inline("edited", source(2))
    assert call(x).tolist() == [3, 3, 3]
    kernbridge.load_cpp_inline("edited", source(2))  # the same again
    with pytest.raises(kernbridge.KernelRegistrationError, match=r"\[KB5101\]"):
        kernbridge.load_cpp_inline("edited", source(4))
    assert call(x).tolist() == [3, 3, 3]
    module_of = {"cell": first}
    by_variable = jax.jit(lambda x: axpy(module_of["cell"], x, x))
    by_object = jax.jit(lambda x: axpy(first, x, x))
    assert by_variable(x).tolist() == by_object(x).tolist() == [3, 3, 3]
    second = module_of["cell"] = kernbridge.load_cpp_inline("edited", source(4), replace=True)
    assert call(x).tolist() == [5, 5, 5]
    assert by_variable(x).tolist() == [5, 5, 5]
    assert by_object(x).tolist() == [3, 3, 3]
    assert axpy(first, x, x).tolist() == [3, 3, 3]  # by content, not by name
    assert axpy(second, x, x).tolist() == [5, 5, 5]
    mappings = opened_libraries("edited")
    kernbridge.load_cpp_inline("edited", source(2), replace=True)  # is open still
    assert call(x).tolist() == [3, 3, 3]
    assert opened_libraries("edited") == mappings
    assert len(mappings) == 2
    kernbridge.load_cpp_inline("edited", source(8), target_prefix="edited.other")
    other = jax.ffi.ffi_call("edited.other.axpy", like(x))(x, x, a=np.float32(1))
    assert other.tolist() == [9, 9, 9]
    targets = kernbridge.list_registered_targets()
    assert {"edited.axpy", "edited.other.axpy", "test_axpy.split"} <= set(targets)
    assert targets == sorted(targets)


@pytest.mark.exhaustive
@pytest.mark.once
def test_replaced_attributes_are_checked_anew():
    def source(kind):
        return AXPY.replace("float a)", f"{kind} a)").split("// @BE split")[0]

    x = jnp.ones(3)
    kernbridge.load_cpp_inline("changed", source("float"))
    kernbridge.load_cpp_inline("changed", source("double"), replace=True)
    with pytest.raises(Exception, match=r"'a'.*float32.*float64.*\[KB3006\]"):
        jax.ffi.ffi_call("changed.axpy", like(x))(x, x, a=np.float32(1))


@pytest.mark.once
def test_without_registration():
    module = kernbridge.load_cpp_inline("quiet", AXPY, auto_register=False)
    assert not [t for t in kernbridge.list_registered_targets() if t.startswith("quiet.")]
    x = jnp.ones(2)
    assert axpy(module, x, x).tolist() == [3, 3]
    ours = functools.partial(kernbridge.register_ffi_target, "loud", platform="cpu")
    minus = AXPY.replace("[i] + y", "[i] - y")
    minus = kernbridge.load_cpp_inline("minus", minus, auto_register=False)
    cases = ((module, "1", 3), (minus, "1", 3), (minus, "2", 1))  # content that is there is kept
    for given, content, total in cases:
        ours(given, "axpy", content_id=content, replace=content == "2")
        got = jax.ffi.ffi_call("loud", like(x))(x, x, a=np.float32(2))
        assert got.tolist() == [total, total]
    with pytest.raises(kernbridge.KernelRegistrationError, match="KB5101"):
        ours(module, "axpy")
    jax.ffi.register_ffi_target("by_hand", module.get_handler("axpy"), platform="cpu")
    got = jax.ffi.ffi_call("by_hand", like(x))(x, x, a=np.float32(2))
    assert got.tolist() == [3, 3]


@pytest.mark.exhaustive
@pytest.mark.once
def test_functions_in_place_of_annotations():
    source = AXPY.replace("// @BE", "//")
    x = jnp.ones(2)
    for functions in ({"axpy": ["arg", "arg", "ret", "attr.a"]}, {"axpy": None}, ["axpy"]):
        module = kernbridge.load_cpp_inline("named", source, functions)
        assert module.function_names == ["axpy"]
        assert axpy(module, x, x).tolist() == [3, 3]
    with pytest.raises(TypeError, match=r"names.*\[KB5105\]"):
        kernbridge.load_cpp_inline("named", source, "axpy")


@pytest.mark.once
def test_several_sources():
    header = (
        '#include "kernbridge/kernbridge.hpp"\n'
        "namespace BE = kernbridge; static float twice(float v) { return 2 * v; }\n"
    )
    body = "// @BE f arg ret\nvoid f(const BE::Tensor x, BE::Tensor o) { *o.data_ptr<float>() = "
    module = kernbridge.load_cpp_inline("joined", [header, body + "twice(*x.data_ptr<float>()); }"])
    assert module.f(F32(3), outs=like(F32(3))) == 6
    with pytest.raises(
        kernbridge.CompilationError, match=r"(?s)\[KB4006\].*joined\[1\]\.cpp:2:.*thrice"
    ):
        kernbridge.load_cpp_inline("joined", [header, body + "thrice(1); }"])
    with pytest.raises(kernbridge.KernelError, match=r"joined\[1\].*8.*\[KB4007\]"):
        kernbridge.load_cpp_inline("joined", [header, "// @BE f arg ret\nvoid f() {}"])
    one = "// @BE f arg ret\nvoid f(const BE::Tensor x, BE::Tensor o);"
    with pytest.raises(
        kernbridge.KernelError, match=r"(?s)joined\[1\].cpp:1:8: .*\[KB4007\].*joined\[0\].cpp:4:8"
    ):
        kernbridge.load_cpp_inline("joined", [header + "\n" + one, one])


@pytest.mark.once
def test_files(tmp_path):
    (tmp_path / "helper.hpp").write_text("inline float twice(float v) { return 2 * v; }\n")
    file = tmp_path / "kernels.cpp"
    file.write_text(
        '#include "kernbridge/kernbridge.hpp"\n#include "helper.hpp"\n'
        "// @BE f\nvoid f(const kernbridge::Tensor x, kernbridge::Tensor o) {\n"
        "    *o.data_ptr<float>() = twice(*x.data_ptr<float>());\n}\n"
    )
    module = kernbridge.load_cpp_file(file)
    assert module.name == "kernels"
    assert module.f(F32(3), outs=like(F32(3))) == 6
    (tmp_path / "helper.hpp").write_text("inline float twice(float v) { return 4 * v; }\n")
    again = kernbridge.load_cpp_file(str(file), replace=True)
    assert again.f(F32(3), outs=like(F32(3))) == 12
    assert again.content_hash != module.content_hash
    with pytest.raises(FileNotFoundError):
        kernbridge.load_cpp_file(tmp_path / "absent.cpp")
    with pytest.raises(TypeError, match=r"'use_fast_math'.*\[KB5105\]"):
        kernbridge.load_cpp_file(file, use_fast_math=True)


@pytest.mark.once
def test_binaries(module, tmp_path):
    x = jnp.ones(2)
    again = kernbridge.load_binary(module.path, name="binary")
    assert again.function_names == module.function_names
    assert axpy(again, x, x).tolist() == [3, 3]
    assert jax.ffi.ffi_call("binary.axpy", like(x))(x, x, a=np.float32(2)).tolist() == [3, 3]

    source = tmp_path / "other.c"
    library = tmp_path / "other.so"

    def build(factor):
        source.write_text(
            '#include "kernbridge/kernbridge.h"\nint f(const kb_call *call) {\n'
            "*(float *)call->outputs[0].data = *(const float *)call->attributes[0] * "
            f"{factor} * *(float *)call->inputs[0].data; return 0; }}\n"
        )
        include = f"-I{resources.files('kernbridge') / 'include'}"
        command = ["cc", "-shared", "-fPIC", include, str(source), "-o", str(library)]
        subprocess.run(command, check=True)

    build(2)
    functions = {"f": "arg:f32[] ret:f32[] attr.k:float32"}
    first = kernbridge.load_binary(library, functions)
    assert first.f(F32(3), outs=like(F32(3)), k=1.0) == 6
    build(5)  # under the same name, which the loader would open again
    second = kernbridge.load_binary(library, functions)
    assert second.f(F32(3), outs=like(F32(3)), k=1.0) == 15
    assert first.f(F32(3), outs=like(F32(3)), k=1.0) == 6
    with pytest.raises(kernbridge.KernelError, match=r"functions.*\[KB5106\]"):
        kernbridge.load_binary(library)
    with pytest.raises(kernbridge.KernelError, match=r"'g'.*\[KB5104\]"):
        kernbridge.load_binary(library, {"g": "arg:any ret:any"})
    with pytest.raises(KeyError, match=r"handler.*\[KB5104\]"):
        first.get_handler("f")
    with pytest.raises(kernbridge.KernelLoadError, match=r"\[KB5102\]"):
        kernbridge.load_binary(source)
    with pytest.raises(FileNotFoundError):
        kernbridge.load_binary(tmp_path / "absent.so")


@pytest.mark.once
def test_undefined_symbol_is_told():
    source = (
        '#include "kernbridge/kernbridge.hpp"\nvoid elsewhere();\n// @BE f ret\n'
        "void f(kernbridge::Tensor o) { elsewhere(); }\n"
    )
    with pytest.raises(kernbridge.KernelLoadError, match=r"undefined symbol.*ldflags.*\[KB5102\]"):
        kernbridge.load_cpp_inline("undefined", source)


EXPORTED = """
import jax, jax.numpy as jnp
import kernbridge
data = open("program.bin", "rb").read()
source = open("source.cpp").read()
if {load}:
    kernbridge.load_cpp_inline("test_axpy", source)
print(jax.export.deserialize(data).call(jnp.arange(4.0)))
"""


@pytest.mark.exhaustive
def test_export_to_another_process(module, tmp_path, run_python):
    x = jnp.arange(4.0)
    checks = [jax.export.DisabledSafetyCheck.custom_call("kernbridge.host")]
    f = jax.jit(lambda x: axpy(module, x, x))
    data = jax.export.export(f, disabled_checks=checks)(x).serialize()
    (tmp_path / "program.bin").write_bytes(data)
    (tmp_path / "source.cpp").write_text(AXPY)
    assert run_python(EXPORTED.format(load=True)).split() == ["[0.", "3.", "6.", "9.]"]
    told = run_python(EXPORTED.format(load=False), check=False)
    assert "load its module 'test_axpy' here" in told


def test_symbolic_shapes(module):
    (n,) = jax.export.symbolic_shape("n")
    checks = [jax.export.DisabledSafetyCheck.custom_call("kernbridge.host")]
    f = jax.jit(lambda x: axpy(module, x, x))
    exported = jax.export.export(f, disabled_checks=checks)(jax.ShapeDtypeStruct((n,), F32))
    for size in (1, 3, 100):
        np.testing.assert_array_equal(exported.call(jnp.ones(size)), 3 * np.ones(size))


def test_operations_do_not_pile_up(module):
    """A module that is loaded again and again costs nothing more."""
    x = jnp.ones(3)
    for _ in range(3):
        axpy(kernbridge.load_cpp_inline("test_axpy", AXPY), x, x)
    before = kernbridge._core.registry_stats()
    for _ in range(20):
        axpy(kernbridge.load_cpp_inline("test_axpy", AXPY), x, x)
    gc.collect()
    assert kernbridge._core.registry_stats() == before


def test_no_python_at_run_time(module):
    x = jnp.ones(3)
    f = jax.jit(lambda x: axpy(module, x, x))
    f(x).block_until_ready()
    before = kernbridge._core.python_entries()
    for _ in range(10):
        f(x).block_until_ready()
    assert kernbridge._core.python_entries() == before


@pytest.mark.exhaustive
@pytest.mark.once
def test_a_library_of_fast_math_leaves_subnormal_numbers_to_python(run_python):
    run_python(f"""
import jax.numpy as jnp, kernbridge, subprocess, sys
module = kernbridge.load_cpp_inline("fast", {AXPY!r}, extra_cflags=["-ffast-math"])
assert module.increment is not None
smallest = 5e-324
assert smallest + 0.0 != 0
""")


def test_packed_elements_are_counted_and_not_cut_into_slices(x64):
    module = kernbridge.load_cpp_inline(
        "packed",
        """
#include "kernbridge/kernbridge.hpp"
// @BE bytes
void bytes(const kernbridge::Tensor x, kernbridge::Tensor out) {
    auto in = static_cast<const uint8_t *>(x.data_ptr());
    for (int64_t i = 0; i < out.numel(); i++) out.data_ptr<uint8_t>()[i] = in[i];
}
""",
    )
    x = jnp.arange(6).astype(jnp.int4)
    two = jax.ShapeDtypeStruct((2,), jnp.uint8)
    assert module.bytes(x, outs=two).tolist() == [0x10, 0x32]
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"int4\), since.*int8.*\[KB2003\]"):
        jax.vmap(lambda x: module.bytes(x, outs=two))(jnp.stack([x, x])).block_until_ready()


def test_a_description_that_differs_from_how_a_library_was_built():
    built = kernbridge.load_c_inline(
        "described",
        """
#include "kernbridge/kernbridge.h"
// @BE fill arg:any ret:f32[1] attr.n
void fill(const kb_tensor *x, kb_tensor *out, int n) { ((float *)out->data)[0] = n; }
// @BE any any
int any(const kb_call *call) { ((float *)call->outputs[0].data)[0] = call->n_inputs; return 0; }
""",
    )
    one, x = jax.ShapeDtypeStruct((1,), jnp.float32), jnp.ones(1)
    arrays = "arg:any ret:f32[1]"
    for right in (None, ["fill"], {"fill": f"{arrays} attr.n:int32"}, {"fill": f"{arrays} attr.n"}):
        module = kernbridge.load_binary(built.path, right)
        assert module.fill(x, outs=one, n=4) == 4
    assert kernbridge.load_binary(built.path).any(x, x, outs=one) == 2
    assert kernbridge.load_binary(built.path, {"any": "arg:any ret:f32[1]"}).any(x, outs=one) == 1
    for wrong in (f"{arrays} attr.n:float32", "arg arg ret attr.n:int32", f"{arrays} attr.m"):
        message = (
            f"describes 'fill' as '{wrong}', but .* built with '{arrays} attr.n:int32'.*KB5106"
        )
        with pytest.raises(kernbridge.KernelError, match=re.escape(message).replace(r"\.\*", ".*")):
            kernbridge.load_binary(built.path, {"fill": wrong})


def test_attributes_with_the_names_of_options():
    module = kernbridge.load_c_inline(
        "named_like_options",
        """
#include "kernbridge/kernbridge.h"
// @BE difference ret:f32[] attr.outs:float32 attr.jvp:float32
void difference(kb_tensor *out, float a, float b) { *(float *)out->data = a - b; }
""",
    )
    scalar = jax.ShapeDtypeStruct((), jnp.float32)
    assert module.difference(outs=scalar, attrs={"outs": 5.0, "jvp": 2}) == 3
