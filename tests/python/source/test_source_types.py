"""What the compiler says about a function's parameters counts; the scanner reads their names."""

import re

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

pytestmark = pytest.mark.once

CPP = """#include "kernbridge/kernbridge.hpp"
#include <complex>
namespace BE = kernbridge;
#include <cstdint>
struct Mode {};
enum class E { A };
"""
C = '#include "kernbridge/kernbridge.h"\n#include <stdbool.h>\n#include <stddef.h>\n'
T = "const BE::Tensor a, BE::Tensor o"
T_C = "const kb_tensor *a, kb_tensor *o"

TYPES_CPP = {
    "bool": "bool",
    "int8_t": "int8",
    "char": "int8",
    "unsigned char": "uint8",
    "short int": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "::std::int32_t": "int32",
    "int unsigned": "uint32",
    "long": "int64",
    "long int long": "int64",
    "size_t": "uint64",
    "unsigned long long": "uint64",
    "float const": "float32",
    "const volatile double": "float64",
    "const float &": "float32",
    "BE::complex64_t": "complex64",
    "std::complex<float>": "complex64",
    "const std::complex< double > &": "complex128",
    "double _Complex": "complex128",
    "BE::float16_t": "float16",
    "BE::bfloat16_t": "bfloat16",
    "Real": "float32",
}
TYPES_C = {
    "bool": "bool",
    "char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "const int": "int32",
    "unsigned": "uint32",
    "ptrdiff_t": "int64",
    "long long": "int64",
    "size_t": "uint64",
    "uint64_t": "uint64",
    "Real": "float32",
    "const double": "float64",
    "float _Complex": "complex64",
    "double _Complex": "complex128",
}
LANGUAGES = {
    "c++": (kernbridge.load_cpp_inline, CPP, T, TYPES_CPP, "arg ret"),
    "c": (kernbridge.load_c_inline, C, T_C, TYPES_C, "arg:f32[1] ret:f32[1]"),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_type_without_a_word_of_the_annotation(language):
    load, head, tensors, types, arrays = LANGUAGES[language]
    source = head + "typedef float Real;\n"
    for i, ctype in enumerate(types):
        tokens = f" {arrays} attr.v" if i % 2 or language == "c" else ""
        source += f"// @BE f{i}{tokens}\nvoid f{i}({tensors}, {ctype} v) {{}}\n"
    module = load("types", source, auto_register=False)
    for i, dtype in enumerate(types.values()):
        assert module[f"f{i}"].tokens == f"{arrays} attr.v:{dtype}"
    binary = kernbridge.load_binary(module.path, auto_register=False)
    assert [binary[n].tokens for n in binary.function_names] == [
        f"{arrays} attr.v:{dtype}" for dtype in types.values()
    ]


WRITE = "o.data_ptr<float>()[0] = k;"
VALUES_CPP = f"""
#define DEFINE(name, T) void name({T}, T k) {{ {WRITE} }}
// @BE made arg ret attr.k
DEFINE(made, double)
// @BE text arg ret attr.k
#ifdef NEVER
void text({T}, int k) {{}}
#else
void text({T}, float k) {{ {WRITE} }}
#endif
// @BE writable ret arg attr.k
int writable(BE::Tensor &o, BE::Tensor &a, const float &k) noexcept {{ {WRITE} return 0; }}
struct Scale {{ float k; Scale(float k) : k(k) {{}} operator float() const {{ return k; }} }};
// @BE converted arg ret attr.k:float32
void converted({T}, Scale k) {{ {WRITE} }}
namespace inner {{
using Out = BE::Tensor;
// @BE named arg:f32[n] ret attr.k
static void named(const kb_tensor *a, Out o, float k) {{ {WRITE} }}
}}
"""
VALUES_C = f"""
#define WRITE ((float *)o->data)[0] = (float)k
#define DEFINE(name, T) void name({T_C}, T k) {{ WRITE; }}
// @BE made arg:f32[n] ret:f32[n] attr.k:float64
DEFINE(made, double)
typedef kb_tensor out;
// @BE writable arg:f32[n] ret:f32[n] attr.k
int writable(kb_tensor *a, out *o, const float k) {{ WRITE; return 0; }}
"""


@pytest.mark.parametrize("language", LANGUAGES)
def test_values_arrive(language):
    load, head, *_ = LANGUAGES[language]
    module = load(f"values in {language}", head + (VALUES_CPP if language == "c++" else VALUES_C))
    x, out = jnp.ones(1), jax.ShapeDtypeStruct((1,), np.float32)
    for name in module.function_names:
        assert module[name](x, outs=out, k=2.5) == 2.5, name


REFUSED = {
    "pointer": ("", "{T}, float *v", r"parameter 3 'v' is `float \*`.* use a type such as int32_t"),
    "written pointer": (
        " arg ret attr.v:float32",
        "{T}, float *v",
        r"`attr.v:float32` takes float32",
    ),
    "other number": (
        " arg ret attr.v:int32",
        "{T}, float v",
        r"parameter 3 'v' is `float` \(float32\), and `attr.v:int32` takes int32; write "
        "attr.v:float32",
    ),
    "half": (" arg ret attr.v:float16", "{T}, float v", "takes float16; write attr.v:float32"),
    "struct": ("", "{T}, struct S v", r"`struct S` \(a type that is not a number\).* attr.v:TYPE"),
    "array": ("", "{T}, float v[3]", r"parameter 3 'v' is `float\[3\]`"),
    "function": (" arg ret attr.v", "{T}, void (*v)(int)", "parameter 3 'v' is `void"),
    "tensor": (
        " arg arg ret",
        "{T}, float v",
        r"parameter 2 'o' .*|parameter 3 'v' is `float` \(float32\), and `ret` takes a tensor that "
        "is not const",
    ),
    "no number": (
        " arg attr.o ret",
        "{T}, {O}",
        "parameter 2 'o' is .* which is a number by value",
    ),
}

# C compiles faster than C++, for which a third always runs.
FITTING = [
    pytest.param(what, language, marks=[pytest.mark.exhaustive] * (language == "c++" and i % 3 > 0))
    for i, what in enumerate(REFUSED)
    for language in LANGUAGES
]


@pytest.mark.brief
@pytest.mark.parametrize(("what", "language"), FITTING)
def test_what_does_not_fit_is_refused(what, language):
    load, head, tensors, *_ = LANGUAGES[language]
    tokens, parameters, message = REFUSED[what]
    other = "BE::Tensor p" if language == "c++" else "kb_tensor *p"
    if language == "c":
        tokens = re.sub(r"\b(arg|ret)\b", r"\1:any", tokens or " arg ret attr.v")
    parameters = parameters.replace("{T}", tensors).replace("{O}", other)
    source = f"struct S {{ char c[3]; }};\n// @BE f{tokens}\n\nvoid f({parameters}) {{}}\n"
    place = f"refused.{'cpp' if language == 'c++' else 'c'}:"
    with pytest.raises(kernbridge.KernelError, match=rf"(?s){place}\d+: f: .*(?:{message})") as e:
        load("refused", head + source)
    assert str(e.value).count("\n") < 30


@pytest.mark.brief
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "// @BE f\nfloat f({T}) {{ return 1; }}",
            "it (returns float32|does not return void).*int",
        ),
        (
            "// @BE f\n#ifdef A\nvoid f({T}, int k) {{}}\n#else\nvoid f({T}) {{}}\n#endif",
            "3 parameters.* compiler counts 2|other parameters than",
        ),
        ("// @BE f\n#if A\nvoid f({T}) {{}}\n#endif", r"no single function f .*The compiler: .*f"),
        (
            "struct X {{ int i; }};\n// @BE f\nX f({T}) {{ X x = {{0}}; return x; }}",
            "does not return|returns a type that is no",
        ),
        (
            "#define D(f) void f({T})\n// @BE f arg ret attr.k:int32\nD(f) {{}}",
            "3 parameters.* compiler counts 2|other parameters than",
        ),
    ],
)
def test_what_only_the_compiler_knows(source, message, language):
    load, head, tensors, _, arrays = LANGUAGES[language]
    source = source.format(T=tensors)
    if language == "c":
        source = source.replace("X f(", "struct X f(").replace("X x", "struct X x")
        attribute = " attr.k" * ("@BE f\n#ifdef" in source)
        source = re.sub(r"@BE f( arg ret)?", f"@BE f {arrays}{attribute}", source)
    with pytest.raises(kernbridge.KernelError, match=rf"unknown\.c\w*:\d+: f: .*(?:{message})"):
        load("unknown", head + source)


@pytest.mark.brief
@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "void f({T}); // void f(long) {{}}\n// @BE f\nvoid f({T}) {{}}\nvoid f(int) {{}}",
            "f has 2 overloads; annotate a function of another name that calls the one that",
        ),
        (
            "template <typename A, int n = 1>\n// @BE f\nvoid f({T}) {{}}",
            "f is a template; annotate a function of another name that calls an instance of it",
        ),
        (
            "struct S {{\n  void g() {{}}\n  // @BE f\n  static void f({T}) {{}}\n}};",
            r"unfit.cpp:\d+:\d+: f is a member of S; annotate .* calls S::f",
        ),
        (
            "struct S {{ static void f({T}); }};\n// @BE f arg ret\nvoid S::f({T}) {{}}",
            "f is a member of S; annotate .* calls S::f",
        ),
        ("// @BE f<int>\n", "'f<int>' is no name.* an instance of a template, annotate a function"),
    ],
)
def test_functions_that_an_annotation_cannot_mean(source, message):
    with pytest.raises(kernbridge.KernelError, match=message):
        kernbridge.load_cpp_inline("unfit", CPP + source.format(T=T))


def test_remedies_for_functions_that_an_annotation_cannot_mean():
    source = """
    using BE::Tensor;
    void f(Tensor out, float) { out.data_ptr<float>()[0] = 1; }
    void f(Tensor out, int) { out.data_ptr<float>()[0] = 2; }
    template <typename A> void g(Tensor out) { out.data_ptr<A>()[0] = 3; }
    struct S { static void h(Tensor out) { out.data_ptr<float>()[0] = 4; } };
    // @BE one
    void one(Tensor out) { f(out, 5); }
    // @BE two
    void two(Tensor out) { g<float>(out); }
    // @BE h
    void h(Tensor out) { S::h(out); }
    """
    module = kernbridge.load_cpp_inline("remedied", CPP + source)
    outs = jax.ShapeDtypeStruct((), np.float32)
    assert [f(outs=outs) for f in (module.one, module.two, module.h)] == [2, 3, 4]


def test_errors_of_the_user():
    wrong = f"// @BE f\nvoid f({T}) {{ nowhere(); }}"
    with pytest.raises(
        kernbridge.CompilationError, match=r"compilation failed: g\+\+.*\[KB4006\]"
    ) as e:
        kernbridge.load_cpp_inline("wrong", CPP + wrong)
    assert "no single function" not in str(e.value)


def test_c_needs_types_of_what_it_does_not_see():
    with pytest.raises(kernbridge.KernelError, match=r"4.*\[KB4007\]"):
        kernbridge.load_c_inline("k", C + "// @BE f arg:f32[n] ret:f32[n] attr.n\nMAKE(f)")


@pytest.mark.exhaustive
def test_a_cuda_module_is_checked_too():
    source = (
        '#include "brainevent/common.h"\n// @BE f\nvoid f(const BE::Tensor a, BE::Tensor o, '
        "float2 z, size_t n, __half h, {} v, cudaStream_t s) {{}}"
    )
    given = {"compute_capability": "9.0", "auto_register": False}
    try:
        module = kernbridge.load_cuda_inline("cuda_types", source.format("float"), **given)
    except kernbridge.NvccNotFoundError as e:
        pytest.skip(str(e).splitlines()[0])
    types = "attr.z:complex64 attr.n:uint64 attr.h:float16 attr.v:float32"
    assert module.f.tokens == f"arg ret {types} stream"
    with pytest.raises(kernbridge.KernelError, match=r"parameter 6 'v' is `int &` \(a reference\)"):
        kernbridge.load_cuda_inline("cuda_types", source.format("int &"), **given)
