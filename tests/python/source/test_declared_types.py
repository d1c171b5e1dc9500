"""Declared types of arrays: a call that differs is refused when it is traced, before it runs."""

import ctypes
import random
import re

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

pytestmark = pytest.mark.once

DTYPES = {
    "f32": "float32",
    "float64": "float64",
    "i32": "int32",
    "i64": "int64",
    "uint8": "uint8",
    "i16": "int16",
    "c64": "complex64",
    "bf16": "bfloat16",
    "f8_e4m3fn": "float8_e4m3fn",
}
FUNCTIONS, CALLS = 8, 500

# Each byte of an output is a sum of bytes of all inputs, whose sizes follow from what is declared.
MIX = """
#include <stdint.h>
#if __cplusplus
extern "C"
#endif
__attribute__((visibility("default"))) int64_t calls;
int64_t calls = 0;
static void mix(int n, const void **in, const int64_t *sizes, void *out, int64_t size)
{
    for (int64_t k = 0; k < size; k++) {
        ((unsigned char *)out)[k] = (unsigned char)k;
        for (int i = 0; i < n; i++)
            if (sizes[i])
                ((unsigned char *)out)[k] += ((const unsigned char *)in[i])[k % sizes[i]];
    }
}
"""
HEAD = {"c": '#include "kernbridge/kernbridge.h"', "c++": '#include "kernbridge/kernbridge.hpp"'}
ARRAY = {  # of each kind of function: a parameter, its pointer and its number of elements
    "c": ("kb_tensor *{0}", "{0}->data", "{0}->size", "{0}->dl_dtype.bits / 8"),
    "call": ("", "{0}.data", "{0}.size", "{0}.dl_dtype.bits / 8"),
    "c++": ("kernbridge::Tensor {0}", "{0}.data_ptr()", "{0}.numel()", "{0}.element_size()"),
}


def draw_type(rng):
    dims = [rng.choice(["n", "m", 1, 2, 3]) for _ in range(rng.randrange(4))]
    if rng.random() < 0.2:
        dims.insert(rng.randrange(len(dims) + 1), "...")
    return "any" if rng.random() < 0.1 else rng.choice([*DTYPES]), dims


def draw_function(rng, name, kind):
    """The source of a function, and the types of its inputs and outputs."""
    ins, outs = ([draw_type(rng) for _ in range(n)] for n in (rng.randrange(1, 4), 1))
    parameter, data, size, item = ARRAY[kind]
    names = [f"a{i}" for i in range(len(ins))], ["r0"]
    if kind == "call":
        names = [f"call->inputs[{i}]" for i in range(len(ins))], ["call->outputs[0]"]

    def bytes_of(type, name):
        each = item.format(name) if type[0] == "any" else jnp.dtype(DTYPES[type[0]]).itemsize
        return f"{size.format(name)} * ({each})"

    listed = ", ".join(
        [f"const {parameter.format(a)}" for a in names[0]] + [parameter.format(a) for a in names[1]]
    )
    tokens = [f"arg:{d}[{', '.join(map(str, s))}]" for d, s in ins]
    tokens += [f"ret:{d}[{','.join(map(str, s))}]" for d, s in outs]
    source = f"""
// @BE {name} {" ".join(tokens)}
int {name}({"const kb_call *call" if kind == "call" else listed})
{{
    const void *in[] = {{{", ".join(data.format(a) for a in names[0])}}};
    const int64_t sizes[] = {{{", ".join(map(bytes_of, ins, names[0]))}}};
    __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    mix({len(ins)}, in, sizes, {data.format(names[1][0])}, {bytes_of(outs[0], names[1][0])});
    return 0;
}}
"""
    return source, (*ins, *outs)


def draw_arrays(rng, types):
    """Shapes and dtypes that fit, of which one may be changed."""
    extents = {"n": rng.randrange(1, 4), "m": rng.randrange(1, 4)}
    arrays = []
    for dtype, dims in types:
        shape = []
        for d in dims:
            shape += [2] * rng.randrange(3) if d == "..." else [extents.get(d, d)]
        arrays.append((rng.choice([*DTYPES]) if dtype == "any" else dtype, shape))
    if rng.random() < 0.75:
        i = rng.randrange(len(arrays))
        dtype, shape = arrays[i]
        change = rng.randrange(3)
        if change == 0:
            dtype = rng.choice([*DTYPES])
        elif change == 1 or not shape:
            shape = shape[1:] if shape and rng.random() < 0.5 else [*shape, rng.randrange(1, 4)]
        else:
            shape[rng.randrange(len(shape))] += rng.choice([-1, 1])
        arrays[i] = dtype, shape
    return [jax.ShapeDtypeStruct(tuple(shape), DTYPES[dtype]) for dtype, shape in arrays]


def fits(types, arrays):
    names = {}
    for (dtype, dims), array in zip(types, arrays, strict=True):
        shape, i = list(array.shape), dims.index("...") if "..." in dims else len(dims)
        more = len(shape) - len(dims) + ("..." in dims)
        if (dtype != "any" and DTYPES[dtype] != array.dtype.name) or more < 0:
            return False
        if more > 0 and "..." not in dims:
            return False
        del shape[i : i + more]
        for d, extent in zip([d for d in dims if d != "..."], shape, strict=True):
            if (names.setdefault(d, extent) if isinstance(d, str) else d) != extent:
                return False
    return True


def draw_values(rng, x):
    data = rng.randbytes(x.size * x.dtype.itemsize)
    return np.frombuffer(data, np.uint8).view(x.dtype).reshape(x.shape)


def expected(inputs, out):
    size = out.size * out.dtype.itemsize
    result = np.arange(size).astype(np.uint8)
    for x in inputs:
        if x.nbytes:
            result += np.resize(np.frombuffer(x.tobytes(), np.uint8), size)
    return result.tobytes()


@pytest.mark.exhaustive
def test_drawn_functions_and_calls(x64):
    rng = random.Random(36)
    drawn = []
    for load, kinds in (
        (kernbridge.load_c_inline, ("c", "call")),
        (kernbridge.load_cpp_inline, ("c++",)),
    ):
        functions = {}
        for kind in kinds:
            for i in range(FUNCTIONS):
                functions[f"{kind[:2]}_{i}".replace("+", "p")] = kind
        sources = {name: draw_function(rng, name, kind) for name, kind in functions.items()}
        text = "\n".join([HEAD[kinds[0]], MIX, *(source for source, _ in sources.values())])
        module = load("declared", text, auto_register=False, optimization_level=0)
        calls = ctypes.c_int64.in_dll(ctypes.CDLL(module.path), "calls")
        drawn += [(module[name], types, calls) for name, (_, types) in sources.items()]
    ran = 0
    for _ in range(CALLS):
        function, types, calls = rng.choice(drawn)
        *inputs, out = draw_arrays(rng, types)
        mode, values = rng.choice(["plain", "jit", "vmap"]), [draw_values(rng, x) for x in inputs]
        call = lambda *x, f=function, out=out: f(*x, outs=out)  # noqa: E731
        slices, before = [values], calls.value
        if mode == "jit":
            call = jax.jit(call)
        if mode == "vmap":
            call, slices = jax.vmap(call), [values, [x[::-1] if x.ndim else x for x in values]]
        given = [np.stack(x) for x in zip(*slices, strict=True)] if mode == "vmap" else values
        if not fits(types, (*inputs, out)):
            with pytest.raises(TypeError, match=rf"{function.__name__}'.*put \d.* is declared as"):
                call(*given)
            assert calls.value == before
            continue
        got = np.asarray(call(*given))
        for result, own in zip(got if mode == "vmap" else [got], slices, strict=True):
            assert result.tobytes() == expected(own, out), (function, own)
        assert calls.value - before == (len(slices) if out.size else 0)
        ran += 1
    assert CALLS / 5 < ran < CALLS / 2, ran


C_SOURCE = """
#include "kernbridge/kernbridge.h"
// @BE scale arg:f32[n] arg:f32[k] ret:f32[n]
void scale(const kb_tensor *x, const kb_tensor *y, kb_tensor *out)
{
    for (int64_t i = 0; i < x->size; i++)
        ((float *)out->data)[i] = ((const float *)x->data)[i] * ((const float *)y->data)[0];
}
// @BE pair arg:f32[2] ret:f32[2]
void pair(const kb_tensor *x, kb_tensor *out) { *(float *)out->data = 0; }
"""


@pytest.fixture(scope="module")
def module():
    return kernbridge.load_c_inline("declares", C_SOURCE)


def test_parts_of_a_sharding_rule_are_of_the_declared_types(module):
    x = jnp.ones(4)

    def scale(rule):
        return module.scale(x, x, outs=x, sharding_rule=rule)

    assert scale("i, j -> i").tolist() == [1] * 4
    assert scale("i, i -> i").tolist() == [1] * 4
    with pytest.raises(TypeError, match=r"output 0.*'out'.*f32\[j\].*\[KB2007\]"):
        scale("i, j -> j")
    with pytest.raises(TypeError, match=r"input 0.*'x'.*f32\[i\].*\[KB2007\]"):
        module.pair(x[:2], outs=x[:2], sharding_rule="i -> i")
    with pytest.raises(ValueError, match=r"annotation of the function as one.*KB6001"):
        scale(True)


def test_symbolic_extents(module):
    n, m = jax.export.symbolic_shape("n, m")
    like = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)  # noqa: E731

    def exported(out):
        call = jax.jit(lambda x, y: module.scale(x, y, outs=like(out(x))))
        return jax.export.export(call)(like(n), like(m))

    assert exported(lambda x: x.shape[0]).call(jnp.ones(3), jnp.full(1, 2.0)).tolist() == [2] * 3
    with pytest.raises(TypeError, match=r"dimension 0.*input 0.*'x'.*\[KB2007\]"):
        exported(lambda x: x.shape[0] + 1)


def test_public_targets_compare_dtypes_when_they_run(module):
    target = jax.ffi.ffi_call("declares.scale", jax.ShapeDtypeStruct((2,), jnp.float32))
    assert target(jnp.ones(2), jnp.ones(1)).tolist() == [1, 1]
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r"input 1 is int32, but .* float32.*KB3007"
    ):
        jax.block_until_ready(target(jnp.ones(2), jnp.arange(1)))


def test_a_binary_declares_too(module):
    binary = kernbridge.load_binary(module.path, name="declares_again", auto_register=False)
    assert binary.scale.tokens == "arg:f32[n] arg:f32[k] ret:f32[n]"
    with pytest.raises(TypeError, match=r"dimensions.*\[KB2007\]"):
        binary.scale(jnp.ones(2), jnp.ones(()), outs=jnp.ones(2))


def test_names_of_dtypes_are_those_of_jaxprs(x64):
    names = {}
    for name in (
        "bool",
        "int4",
        "uint4",
        "int8",
        "uint16",
        "float16",
        *DTYPES.values(),
        "complex128",
    ):
        printed = str(jax.make_jaxpr(lambda x: x)(jnp.zeros(2, name)))
        names[name] = re.search(r"\b[\w]+\[2\]", printed)[0]
    source = C_SOURCE.split("// @BE")[0] + "".join(
        f"// @BE {name}_ arg:{name}[2] ret:{short}\n"
        f"void {name}_(const kb_tensor *x, kb_tensor *y) {{}}\n"
        for name, short in names.items()
    )
    module = kernbridge.load_c_inline("named", source, auto_register=False)
    for name, short in names.items():
        assert module[f"{name}_"].tokens == f"arg:{short} ret:{short}"


def test_outputs_follow_from_declared_types():
    module = kernbridge.load_cpp_inline(
        "declared_outputs",
        """
#include "kernbridge/kernbridge.hpp"
// @BE sums arg:f32[m, n] arg:any ret:f32[m] ret:i32[]
void sums(kernbridge::Tensor x, kernbridge::Tensor, kernbridge::Tensor out, kernbridge::Tensor n) {
    for (int64_t i = 0; i < x.size(0); i++) {
        float s = 0;
        for (int64_t j = 0; j < x.size(1); j++) s += x.data_ptr<float>()[i * x.size(1) + j];
        out.data_ptr<float>()[i] = s;
    }
    *n.data_ptr<int>() = x.size(1);
}
// @BE filled ret:f32[k]
void filled(kernbridge::Tensor out) { out.data_ptr<float>()[0] = 1; }
""",
    )
    x = jnp.arange(6, dtype="float32").reshape(2, 3)
    total, n = jax.vmap(jax.jit(module.sums), (0, None))(jnp.stack([x, x]), 0.0)
    np.testing.assert_array_equal(total, [[3, 12]] * 2)
    np.testing.assert_array_equal(n, [3, 3])
    with pytest.raises(TypeError, match="KB2007"):
        module.sums(x[0], 0.0)
    with pytest.raises(TypeError, match="KB1002"):
        module.filled()
