"""Functions of pointers and numbers, which a signature describes, in C, in C++ and in libraries."""

import ctypes
import inspect
import platform
import random
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("x64")]
Error = (jax.errors.JaxRuntimeError, ValueError)

SOURCE = r"""
#include "kernbridge/kernbridge.h"
#include <math.h>
#include <stddef.h>

// @BE scale x: f64[n], n, k: f64 -> out: f64[n]
int scale(const double *x, long n, double k, double *out)
{
    for (long i = 0; i < n; i++)
        out[i] = k * x[i];
    return n == 7 ? 5 : n == 8 ? 9 : 0;
}

// @BE swap x: f64[n, 2], n -> x
static void swap(double x[][2], int n)
{
    for (int i = 0; i < n; i++) {
        double first = x[i][0];
        x[i][0] = x[i][1];
        x[i][1] = first;
    }
}

// @BE norm x: f64[n], n -> f64
double norm(double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += x[i] * x[i];
        x[i] = 0; /* of a copy */
    }
    return sqrt(sum);
}

/* Like functions of Fortran: everything is a pointer. */
// @BE axpy_ n, a: f32, x: f32[n], 1, y: f32[n], incy=1 -> y
void axpy_(const int *n, const float *a, const float *x, const int *incx, float *y, const int *incy)
{
    for (int i = 0; i < *n; i++)
        y[i * *incy] += *a * x[i * *incx];
}

// @BE words f32[n], n -> o: f32[n]
const char *words(const float *x, int8_t n, float *o)
{
    for (int i = 0; i < n; i++)
        o[i] = x[i];
    return x[0] < 0 ? "a negative number" : NULL;
}

// @BE differences steps: i32[rows + 1], rows -> first: i32[rows], last: i32[]
int differences(const kb_call *call, int *last, const int *steps, int rows, int *first)
{
    for (int i = 0; i < rows; i++)
        first[i] = steps[i + 1] - steps[i];
    *last = steps[rows];
    return *last < 0 ? kb_fail(call, KB_NOT_FOUND, "no step is %d", *last) : 0;
}

// @BE pairs z: c64[n, m], m * n, kind=-3 -> z
enum kind { ODD = -3 };
void pairs(float *z, unsigned char count, enum kind kind)
{
    for (int i = 0; i < 2 * count; i++)
        z[i] *= kind;
}

// @BE bytes x: bf16[n] -> y: bf16[n]
void bytes(const void *x, uint16_t *y) { y[0] = ((const uint16_t *)x)[0]; }
"""
OF_C = r"""
// @BE tensors x: f32[n, m], m, f32[m] -> f32[n]
void tensors(const kb_tensor *x, int m, const float *v, kb_tensor *y)
{
    for (int i = 0; i < x->shape[0]; i++) {
        ((float *)y->data)[i] = 0;
        for (int k = 0; k < m; k++)
            ((float *)y->data)[i] += ((const float *)x->data)[i * m + k] * v[k];
    }
}
// @BE whole x: f32[n], k: f32 -> f32[n]
int whole(const kb_call *call)
{
    for (int i = 0; i < call->inputs[0].size; i++)
        ((float *)call->outputs[0].data)[i] =
            ((float *)call->inputs[0].data)[i] * *(float *)call->inputs[1].data;
    return 0;
}
"""
OF_CPP = r"""
#include "kernbridge/kernbridge.hpp"
namespace inside
{
using real = float;
template <typename T> static void fill(T *y, int n, T value)
{
    for (int i = 0; i < n; i++)
        y[i] = value;
}
// @BE tensors x: f32[n, m], m, f32[m] -> f32[n]
void tensors(const kernbridge::Tensor x, const int &m, const real *v, kernbridge::Tensor y)
{
    real *out = y.data_ptr<real>();
    fill<real>(out, static_cast<int>(x.shape(0)), 0);
    for (int i = 0; i < x.shape(0); i++)
        for (int k = 0; k < m; k++)
            out[i] += x.data_ptr<real>()[i * m + k] * v[k];
}
} // namespace inside
// @BE whole x: f32[n], k: f32 -> f32[n]
static int whole(const float *x, int64_t n = 0, float k = 1, float *y = nullptr);
// @BE throws f32[n] -> f32[n]
static void throws(const float *, float *)
{
    throw kernbridge::Error("thrown", KB_NOT_FOUND);
}
static int whole(const float *x, int64_t n, float k, float *y)
{
    for (int i = 0; i < n; i++)
        y[i] = k * x[i];
    return 0;
}
""".replace("x: f32[n], k: f32 -> f32[n]", "x: f32[n], n, k: f32 -> f32[n]")


@pytest.fixture(scope="module")
def loaded():
    errors = {5: "seven is not allowed"}
    return {
        "c": kernbridge.load_c_inline("plain", SOURCE + OF_C, errors=errors, carry=True),
        "c++": kernbridge.load_cpp_inline("plain_cpp", SOURCE + OF_CPP, errors=errors),
    }


@pytest.fixture(params=["c", "c++"])
def module(loaded, request):
    return loaded[request.param]


def test_arrays_numbers_and_extents_are_passed(module):
    x = jnp.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(module.scale(x[0], 2), 2 * x[0])
    np.testing.assert_array_equal(module.scale(k=2.5, x=x[0]), 2.5 * x[0])
    np.testing.assert_array_equal(jax.jit(module.swap)(x), x[:, ::-1])
    assert module.norm(jnp.array([3.0, 4.0])) == 5
    y = jnp.ones(3, jnp.float32)
    np.testing.assert_array_equal(module.axpy_(2.0, 3 * y, y), 7 * y)
    np.testing.assert_array_equal(y, np.ones(3))
    first, last = module.differences(jnp.array([1, 3, 4, 9], jnp.int32))
    assert first.tolist() == [2, 1, 5]
    assert last == 9
    z = jnp.array([[1 + 2j, 3]], jnp.complex64)
    np.testing.assert_array_equal(module.pairs(z), -3 * z)
    half = jnp.array([1.5], jnp.bfloat16)
    assert module.bytes(half) == half
    m = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
    np.testing.assert_array_equal(module.tensors(m, m[1]), m @ m[1])
    np.testing.assert_array_equal(module.whole(m[0], 3.0), 3 * m[0])


def test_they_are_transformed_like_other_operations(module):
    x = jnp.arange(12.0).reshape(2, 2, 3)
    k = jnp.array([1.0, 10.0])
    batched = jax.jit(jax.vmap(module.scale, in_axes=(0, 0)))
    np.testing.assert_array_equal(batched(x[0], k), k[:, None] * x[0])
    np.testing.assert_allclose(jax.vmap(jax.vmap(module.norm))(x), np.linalg.norm(x, axis=-1))
    assert str(inspect.signature(module.scale)) == "(x: 'f64[n]', k: 'f64') -> 'f64[n]'"
    split = module.scale.operation(sharding_rule=True)
    assert split is module.scale.operation(sharding_rule=True)
    mesh = jax.make_mesh((2,), ("data",), devices=jax.devices()[:2])
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    x = jax.device_put(jnp.arange(8.0), sharding)  # of which each part has four elements
    found = jax.jit(split)(x, 2.0)
    assert found.sharding.is_equivalent_to(sharding, 1)
    np.testing.assert_array_equal(found, 2 * np.arange(8.0))


def test_failures_are_told_in_words(module):
    with pytest.raises(Error, match=r"scale': seven is not allowed \(the function returned 5\)"):
        jax.block_until_ready(module.scale(jnp.zeros(7), 1.0))
    with pytest.raises(Error, match=r"scale': the function returned 9"):
        jax.block_until_ready(module.scale(jnp.zeros(8), 1.0))
    with pytest.raises(Error, match=r"words': a negative number"):
        jax.block_until_ready(module.words(jnp.full(3, -1, jnp.float32)))
    with pytest.raises(
        Error, match=r"words': 300, which is n, is out of range for the parameter n"
    ):
        jax.block_until_ready(module.words(jnp.ones(300, jnp.float32)))
    with pytest.raises(Error, match=r"NOT_FOUND.*no step is -1"):
        jax.block_until_ready(module.differences(jnp.array([-1], jnp.int32)))
    with pytest.raises(TypeError, match=r"input 0 'x' is f32\[2\], but is declared as f64\[n\]"):
        module.scale(jnp.zeros(2, jnp.float32), 1.0)
    with pytest.raises(TypeError, match="missing a required argument: 'k'"):
        module.scale(jnp.zeros(2))
    swap = jax.ffi.ffi_call(f"{module.name}.swap", jax.ShapeDtypeStruct((1, 2), jnp.float64))
    assert swap(jnp.array([[1.0, 2.0]])).tolist() == [[2, 1]]  # which does not name its alias
    target = jax.ffi.ffi_call(f"{module.name}.scale", jax.ShapeDtypeStruct((4,), jnp.float64))
    with pytest.raises(Error, match=r"the arrays do not fit the signature x: f64\[n\], k: f64 ->"):
        jax.block_until_ready(target(jnp.ones(3), jnp.float64(3)))


@pytest.mark.exhaustive
def test_a_program_carries_them_and_a_library_describes_them(loaded, tmp_path):
    shape = jax.ShapeDtypeStruct((3,), jnp.float64)
    program = jax.export.export(jax.jit(loaded["c"].scale))(shape, jnp.float64(2))
    file = tmp_path / "program"
    file.write_bytes(program.serialize())
    script = f"""
import jax, jax.numpy as jnp, kernbridge
jax.config.update("jax_enable_x64", True)
program = jax.export.deserialize(open({str(file)!r}, "rb").read())
print(program.call(jnp.ones(3), jnp.float64(2)))
again = kernbridge.load_binary({loaded["c"].path!r}, name="again")
print(again.scale, again.scale(jnp.ones(3), 3.0))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "[2. 2. 2.]",
        "<load_binary 'again.scale' (x: f64[n], k: f64 -> out: f64[n])> [3. 3. 3.]",
    ], done.stderr


PROTOTYPES = "int scale(const double *x, long n, double k, double *out);"
SIGNATURE = {"scale": "x: f64[n], n, k: f64 -> out: f64[n]"}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A library of which kernbridge knows nothing."""
    folder = tmp_path_factory.mktemp("library")
    body = "{ for (long i = 0; i < n; i++) out[i] = k * x[i]; return n == 7; }"
    (folder / "scale.c").write_text(PROTOTYPES[:-1] + body)
    (folder / "scale.h").write_text(PROTOTYPES)
    command = ["gcc", "-shared", "-fPIC", "-o", "libscale.so", "scale.c"]
    subprocess.run(command, cwd=folder, check=True)
    ctypes.CDLL(str(folder / "libscale.so"))
    return folder


def test_a_library_is_loaded_with_a_header(library):
    file = library / "libscale.so"
    for header in (PROTOTYPES, library / "scale.h", str(library / "scale.h")):
        module = kernbridge.load_binary(
            file, SIGNATURE, header=header, errors={1: "no sevens"}, replace=True
        )
        np.testing.assert_array_equal(module.scale(jnp.arange(3.0), 2.0), [0, 2, 4])
    with pytest.raises(Error, match=r"libscale.scale': no sevens"):
        jax.block_until_ready(module.scale(jnp.zeros(7), 1.0))


def build_times(folder, factor, *flags):
    text = f"{DECLARED[:-1]} {{ while (n--) y[n] = {factor} * x[n]; }}"
    command = ["gcc", "-x", "c", "-", "-shared", "-fPIC", "-o", "libtimes.so", *flags]
    subprocess.run(command, cwd=folder, input=text.encode(), check=True)


TIMES = "x: f64[n], n -> y: f64[n]"
DECLARED = "void multiplied(const double *x, long n, double *y);"


def test_a_rebuilt_library_is_loaded_again(tmp_path):
    """The dynamic linker returned the old one, which is open under the same name."""
    x, soname, loaded = jnp.arange(3.0), "-Wl,-soname,libtimes.so", []
    for factor, flags in ((2, []), (5, []), (7, [soname]), (9, [soname]), (2, [])):
        build_times(tmp_path, factor, *flags)
        module = kernbridge.load_binary(
            tmp_path / "libtimes.so", {"multiplied": TIMES}, header=DECLARED, replace=True
        )
        loaded.append((factor, module))
        for k, each in loaded:
            np.testing.assert_array_equal(each.multiplied(x), k * x)
    build_times(tmp_path, 5)
    with pytest.raises(kernbridge.KernelLoadError, match=r"libtimes.so was rebuilt .* leave carry"):
        kernbridge.load_binary(
            tmp_path / "libtimes.so",
            {"multiplied": TIMES},
            header=DECLARED,
            replace=True,
            carry=True,
        )


def test_a_rebuilt_library_that_a_source_is_linked_with_is_refused(tmp_path):
    def load():
        return kernbridge.load_c_inline(
            "linked_with_times",
            f"{DECLARED}\n// @BE multiplied {TIMES}\n",
            extra_ldflags=[f"-L{tmp_path}", "-ltimes", f"-Wl,-rpath,{tmp_path}"],
            replace=True,
        )

    build_times(tmp_path, 2, "-Wl,-soname,libtimes_of_a_source.so")
    (tmp_path / "libtimes_of_a_source.so").symlink_to("libtimes.so")
    for _ in range(2):
        np.testing.assert_array_equal(load().multiplied(jnp.arange(3.0)), [0, 2, 4])
        build_times(tmp_path, 2, "-Wl,-soname,libtimes_of_a_source.so")  # to the same content
    build_times(tmp_path, 5, "-Wl,-soname,libtimes_of_a_source.so")
    with pytest.raises(kernbridge.KernelLoadError, match=r"needs .*/libtimes_of.*: start Python"):
        load()


@pytest.mark.parametrize(
    ("functions", "options", "error", "text"),
    [
        (SIGNATURE, {}, kernbridge.KernelError, "'scale' has a signature, .* has no types of C"),
        ({"scale": "any"}, {"header": PROTOTYPES}, kernbridge.KernelError, "'scale' has 'any'"),
        (SIGNATURE, {"header": "scale.hpp"}, FileNotFoundError, "there is no header /.*/scale.hpp"),
        (SIGNATURE, {"carry": True}, TypeError, "carry is an option of libraries with a header"),
        (
            SIGNATURE,
            {"header": PROTOTYPES.replace("long", "double")},
            kernbridge.KernelError,
            "scale: parameter 2, `double n`, receives the extent n; it must be an integer",
        ),
    ],
)
def test_a_wrong_description_of_a_library_is_refused(library, functions, options, error, text):
    with pytest.raises(error, match=text):
        kernbridge.load_binary(library / "libscale.so", functions, **options)


F = "int f(const double *x, long n, double *o)"
REFUSED = [  # a signature, a declaration, and why
    ("x: f32[n], n -> f64[n]", F, r"`const double \*x`, cannot be x: f32\[n\], .* to float"),
    ("x: f64[n], n: f64 -> f64[n]", F, "parameter 2, `long n`, cannot be n: f64, which is double"),
    ("n, o: f64[n] -> x: f64[n]", F, r"`const double \*x`, is the output x: .* must not be const"),
    ("x: f64[n], n -> f64[n], return: f32[]", F, r"it does not return float, which return: f32"),
    ("x: f64[n], n -> o: f64[n]", F.replace("int", "double", 1), "it returns neither void, nor an"),
]
UNREAD = [
    ("x: f64[n] -> f64[n]", F, "it does not describe the parameter 'o'|'n'"),
    ("x: f64[n], m -> f64[n]", F, "no input has the dimension 'm', which the parameter 'n' rec"),
    ("x: f64[n], n -> z: f64[n]", F, "the function's parameters are x, n, o, and none is 'z'"),
    ("x: f64[n], n, f64[n] -> f64", F, "'o' can be an input or an output; name it, as in o: f64"),
    ("x: f64[n], n, o: f64[n], f64 -> o", F, "it has more inputs and outputs than parameters"),
    ("x: f64[n], n -> f64[n] -> x", F, 'write "->" once'),
    ("x: f64[n], n, o: f64[n] -> n", F, "'n' is a number, which no call can change"),
    ("x: T[n], n -> o: T[n]", F, "'x' needs a dtype, since C has no variables for types"),
    ("x: f64[n], n, x: f64[n] -> o: f64[n]", F, "'x' stands twice on one side"),
    ("x: f64[n], n / 2 -> o: f64[n]", F, "'n / 2' is neither an array such as x: f64.n., nor a"),
    ("x: f64[n], n -> o: f64[n], f64[n]", F, r"the function returns f64\[n\]; it can return one"),
    ("x: f64[n] -> f64[n]", "", "the declaration of f, to which the signature belongs, was not f"),
]


LOADS = [
    kernbridge.load_c_inline,
    pytest.param(kernbridge.load_cpp_inline, marks=pytest.mark.exhaustive),
]


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize(("signature", "declaration", "why"), REFUSED)
def test_a_type_that_differs_is_refused(load, signature, declaration, why):
    source = f"// @BE f {signature}\n{declaration} {{ return 0; }}"
    with pytest.raises(kernbridge.KernelError, match=rf"bad.c\w*:1: f: .*{why}.*KB4007"):
        load("bad", source)


@pytest.mark.parametrize(("signature", "declaration", "why"), UNREAD)
def test_a_wrong_signature_is_refused(signature, declaration, why):
    source = f"// @BE f {signature}\n{declaration} {{ return 0; }}"
    with pytest.raises(kernbridge.KernelError, match=rf"bad.c:1:8: .*{why}"):
        kernbridge.load_c_inline("bad", source)


def test_another_definition_is_not_called():
    """Conditions are the compiler's: what the scanner read is compared with what is compiled."""
    text = "#if A\nint f(const double *x, double *o) { return 0; }\n#else\n"
    text += "int f(const float *x, float *o) { return 0; }\n#endif\n"
    with pytest.raises(kernbridge.KernelError, match="f: the compiler finds another declaration"):
        kernbridge.load_c_inline("bad", "// @BE f f64[n] -> o: f64[n]\n" + text)
    with pytest.raises(kernbridge.CompilationError, match="errors is not the name of a function"):
        kernbridge.load_c_inline("bad", SOURCE, errors="nowhere")


@pytest.mark.parametrize("errors", ["no name", {0: "zero"}, {"1": "one"}, 3])
def test_texts_of_codes_are_checked(errors):
    with pytest.raises(TypeError, match=r"errors is .*, expected a dict from codes .* \[KB5105\]"):
        kernbridge.load_c_inline("bad", "", errors=errors)


ITEMS = {"f64": "double", "f32": "float", "i32": "int", "u8": "unsigned char", "i64": "long"}
FIRST = {"n": 3, "m": 2}


def draw_function(rng, k):
    """The source of a function with drawn parameters, its inputs, and the outputs they give.

    Every parameter has a weight of its own, and each output is the weighted sum of all inputs,
    extents and constants: one that is passed in the place of another is seen.
    """
    dims = [rng.choice(["n", "m", "n + 1", "2 * m"]) for _ in range(rng.randint(1, 3))] + ["n", "m"]
    kinds = ["array"] * len(dims) + rng.choices(["number", "extent", "constant", "changed"], k=4)
    kinds += ["out"] * rng.randint(1, 2)
    rng.shuffle(kinds)
    left, right, parameters, body, inputs, outs, total = [], [], [], [], {}, {}, 0.0
    for i, kind in enumerate(kinds):
        name, dtype = f"p{i}", rng.choice(list(ITEMS))
        ctype, dim = ITEMS[dtype], dims.pop() if kind == "array" else rng.choice(["n", "2 * m"])
        weight, pointer = 3 * i + 1, rng.random() < 0.3
        size = eval(dim, dict(FIRST))
        if kind in ("array", "changed"):
            value = np.arange(size) % 5 + i
            inputs[name] = jnp.asarray(value, ITEMS_OF_JAX[dtype])
            total += weight * value.sum()
            const = "const " if kind == "array" and rng.random() < 0.7 else ""
            is_named = kind == "changed" or not const or rng.random() < 0.5
            left.append((f"{name}: " * is_named + f"{dtype}[{dim}]", is_named))
            parameters.append(f"{const}{ctype} *{name}")
            body.append(f"for (int j = 0; j < {size}; j++) sum += {weight} * (double){name}[j];")
            if kind == "changed":
                outs[name] = (size, dtype, i)
                right.append((name, True))
        elif kind == "out":
            right.append((f"{dtype}[{dim}]", name))  # which is added below
            parameters.append(f"{ctype} *{name}")
            outs[name] = (size, dtype, i)
        else:
            number = {"number": i + 2, "extent": size, "constant": i + 7}[kind]
            total += weight * number
            text = {"number": dtype, "extent": dim, "constant": str(number)}[kind]
            ctype = ctype if kind == "number" else rng.choice(["int", "long", "unsigned", "size_t"])
            parameters.append(f"const {ctype} *{name}" if pointer else f"{ctype} {name}")
            body.append(f"sum += {weight} * (double){'*' * pointer}{name};")
            is_named = rng.random() < 0.5
            mark = ": " if kind == "number" else "="
            left.append((f"{name}{mark}" * is_named + text, is_named))
            if kind == "number":
                inputs[name] = number
        if left and not left[-1][1]:  # outputs before this one need a name
            right = [(f"{n}: {t}", True) if isinstance(n, str) else (t, n) for t, n in right]
    for r, (t, name) in enumerate(right):
        if isinstance(name, str):
            right[r] = (f"{name}: {t}", True) if rng.random() < 0.5 else (t, False)
    # Items with names may stand anywhere; the others stay in the order of the parameters.
    for side in (left, right):
        named = [item for item in side if item[1]]
        rng.shuffle(named)
        side[:] = [named.pop() if item[1] else item for item in side]
    expected = {n: np.full(size, int(total) % 100 + i) for n, (size, _, i) in outs.items()}
    for name, (size, _, i) in outs.items():
        body.append(f"for (int j = 0; j < {size}; j++) {name}[j] = (long)sum % 100 + {i};")
    text = f"{', '.join(t for t, _ in left)} -> {', '.join(t for t, _ in right)}"
    lines = "\n    ".join(["double sum = 0;", *body])
    source = f"// @BE f{k} {text}\nvoid f{k}({', '.join(parameters)})\n{{\n    {lines}\n}}\n"
    return source, inputs, expected


ITEMS_OF_JAX = {"f64": "float64", "f32": "float32", "i32": "int32", "u8": "uint8", "i64": "int64"}
DRAWN = [
    (kernbridge.load_c_inline, 0, 12),
    pytest.param(kernbridge.load_c_inline, 1, 200, marks=pytest.mark.exhaustive),
    pytest.param(kernbridge.load_cpp_inline, 2, 200, marks=pytest.mark.exhaustive),
]


@pytest.mark.parametrize(("load", "seed", "count"), DRAWN)
def test_drawn_parameters_arrive_where_they_belong(load, seed, count):
    rng = random.Random(seed)
    drawn = [draw_function(rng, k) for k in range(count)]
    source = "#include <stddef.h>\n" + "".join(source for source, *_ in drawn)
    module = load("drawn", source, replace=True, optimization_level=0)
    for k, (text, inputs, expected) in enumerate(drawn):
        found = module[f"f{k}"](**inputs)
        names = re.findall(r"p\d+", module[f"f{k}"].tokens.partition("->")[2])
        found = dict(zip(names, found if isinstance(found, tuple) else (found,), strict=True))
        assert found.keys() == expected.keys(), text
        for name, value in expected.items():
            assert found[name].tolist() == value.tolist(), (name, text)


FAULTS = r"""
import faulthandler, os, signal, sys
import jax, jax.numpy as jnp, kernbridge, numba, numpy as np

SOURCE = '''
// @BE broken x: f32[n], n -> out: f32[n]
void broken(const float *x, int n, float *out)
{
    volatile int divisor = (int)x[1];
    out[0] = (float)(n / divisor);
    *(volatile float *)0 = x[0];
}
'''

@numba.njit
def beyond(at, x):
    x[at[0]] = 3

def in_c(second):
    op = kernbridge.load_c_inline("faults", SOURCE).broken
    return op(jnp.arange(5, dtype=jnp.float32).at[1].set(second))

def in_numba():
    op = kernbridge.numba_kernel(beyond, jax.ShapeDtypeStruct((7,), jnp.int32))
    jax.block_until_ready(op(jnp.array([3], jnp.int32)))
    return jax.jit(jax.vmap(op))(jnp.array([[3], [1 << 30]], jnp.int32))

def in_python():
    jax.block_until_ready(jnp.ones(3))
    os.kill(os.getpid(), signal.SIGSEGV)

def after_faulthandler():
    faulthandler.enable()
    return in_c(1)

cases = [lambda: in_c(1), lambda: in_c(0), in_numba, in_python, after_faulthandler]
for i, case in enumerate(cases):
    child = os.fork()
    if child == 0:
        jax.block_until_ready(case())
        os._exit(0)
    print(signal.Signals(-os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).name, flush=True)
    print(f"end of {i}", file=sys.stderr, flush=True)
"""


def test_a_fault_in_a_kernel_prints_its_operation(run_python):
    printed = run_python(FAULTS, check=False)
    ends = ["SIGSEGV", "SIGFPE" if platform.machine() == "x86_64" else "SIGSEGV", *["SIGSEGV"] * 3]
    assert printed.split()[:5] == ends, printed
    null, divided, numba, python, last = printed.split("end of ")[:5]
    of_c = "in load_c_inline 'faults.broken'\n"
    assert "kernbridge: segmentation fault " + of_c in null
    assert ("by zero, " if "SIGFPE" in ends else "fault ") + of_c in divided
    assert "kernbridge: segmentation fault in numba_kernel 'beyond', defined at" in numba
    assert "kernbridge:" not in python
    assert "Segmentation fault" in last
    assert "kernbridge: segmentation fault " + of_c in last
