"""Annotations and declarations in C, C++ and CUDA sources: what people write, and what is refused.

Types are the compiler's business: see test_source_types.py.
"""

import pytest
from kernbridge._src.scan import scanner

pytestmark = pytest.mark.once

T = "const BE::Tensor a, BE::Tensor o"
BOTH = ("arg:a", "ret:o")


def plain(f):
    parameters = ((p.role, p.name, p.type, p.ctype, str(p.array or "")) for p in f.parameters)
    line = int(f.place.partition(":")[2] or 0)
    return f.name, f.qualified, line, f.whole_call, tuple(parameters)


def scan(text, functions=None):
    return [plain(f) for f in scanner.scan_functions(scanner.Source([("a.cu", text)]), functions)]


def short(function):
    """Parameters as 'role:name:type'."""
    return tuple(":".join(part for part in p[:3] if part) for p in function[4])


def one(text, functions=None):
    (function,) = scan(text, functions)
    return function


def error(text, functions=None):
    with pytest.raises(ValueError, match=" ") as caught:
        scan(text, functions)
    return str(caught.value)


# Attributes --------------------------------------------------------------------------------------

TYPES = [
    "int",
    "char unsigned",
    "::std::int32_t",
    "const volatile double",
    "std::complex< double >",
    "::cuda::std::complex<float>",
    "double _Complex",
    "size_t",
    "Mode",
    "struct S",
    "std::pair<int, float>",
    "typename T::value_type",
    "const float &",
    "float *",
    "int **",
]


@pytest.mark.parametrize("ctype", TYPES)
def test_attribute(ctype):
    for tokens, type in (("", ""), (" arg ret attrs.v", ""), (" arg ret attr.v:int8", ":int8")):
        function = one(f"// @BE f{tokens}\nvoid f({T}, {ctype} v) {{}}")
        assert short(function) == (*BOTH, "attr:v" + type)
        assert function[4][2][3] == ctype


ATTRIBUTES = (
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)


def test_attribute_types():
    for name in ATTRIBUTES:
        function = one(f"// @BE f arg ret attr.v:{name}\nvoid f({T}, X v) {{}}")
        assert short(function) == (*BOTH, "attr:v:" + name)


# Tensors and streams -----------------------------------------------------------------------------

ARGS = [
    "const BE::Tensor x",
    "BE::Tensor const x",
    "const BE::Tensor& x",
    "BE::Tensor const &x",
    "const Tensor x",
    "const kernbridge::Tensor &x",
    "const ::kernbridge::Tensor x",
    "const BE :: Tensor x",
    "const kb_tensor *x",
    "kb_tensor const *x",
    "const kb_tensor* const x",
    "const struct kb_tensor * __restrict__ x",
    "[[maybe_unused]] const BE::Tensor x",
    "const BE::Tensor x [[maybe_unused]]",
    "__attribute__((unused)) const BE::Tensor x",
    "/* the input, (unused) */ const BE::Tensor x // trailing\n",
    "const BE::Tensor x = {}",
    "const BE::Tensor x = BE::Tensor(1, 2)",
]

RETS = [
    "BE::Tensor x",
    "BE::Tensor& x",
    "BE::Tensor &&x",
    "Tensor x",
    "kb_tensor *x",
    "kb_tensor * const x",
    "volatile BE::Tensor x",
]

STREAMS = [
    "int64_t stream",
    "const int64_t stream",
    "std::int64_t stream",
    "cudaStream_t s",
    "cudaStream_t",
    "CUstream stream",
    "cudaStream_st *s",
    "struct CUstream_st *s",
    "const cudaStream_t s",
    "cudaStream_t s = 0",
    "cudaStream_t s = nullptr",
    "int64_t stream = int64_t(0)",
]


@pytest.mark.parametrize("tokens", ["", " arg ret", " arg:f32[n,  m] ret:any"])
@pytest.mark.parametrize("parameter", ARGS)
def test_arg(parameter, tokens):
    if "kb_tensor" in parameter and ":" not in tokens:
        assert "\n    // @BE f arg:f32[n] ret:f32[n]\n" in error(
            f"// @BE f{tokens}\nvoid f({parameter}, BE::Tensor o) {{}}"
        )
        return
    assert short(one(f"// @BE f{tokens}\nvoid f({parameter}, BE::Tensor o) {{}}")) == (
        "arg:x",
        "ret:o",
    )


@pytest.mark.parametrize("tokens", [" arg:any ret:int8[]", " args:f32[...] rets:bool[2,n]"])
@pytest.mark.parametrize("parameter", RETS)
def test_ret(parameter, tokens):
    assert short(one(f"// @BE f{tokens}\nvoid f(const BE::Tensor a, {parameter}) {{}}")) == (
        "arg:a",
        "ret:x",
    )


@pytest.mark.parametrize("tokens", ["", " arg ret stream", " args rets ctx.stream"])
@pytest.mark.parametrize("parameter", STREAMS)
def test_stream(parameter, tokens):
    found = short(one(f"// @BE f{tokens}\nvoid f({T}, {parameter}) {{}}"))
    assert found[:2] == BOTH
    assert found[2].split(":")[0] == "stream"


def test_stream_by_another_name():
    assert short(one(f"// @BE f\nvoid f({T}, int64_t s) {{}}"))[2] == "attr:s"
    assert short(one(f"// @BE f arg ret stream\nvoid f({T}, int64_t s) {{}}"))[2] == "stream:s"


def test_order_is_free():
    text = "// @BE f stream attr.k ret arg\nvoid f(int64_t s, int k, BE::Tensor o, BE::Tensor a) {}"
    assert short(one(text)) == ("stream:s", "attr:k", "ret:o", "arg:a")


def test_arg_may_be_writable():
    assert short(one("// @BE f arg ret\nvoid f(BE::Tensor a, BE::Tensor o) {}")) == BOTH


def test_unnamed():
    assert short(one("// @BE f\nvoid f(const BE::Tensor, BE::Tensor) {}")) == ("arg", "ret")
    assert "needs a name" in error(f"// @BE f\nvoid f({T}, float) {{}}")
    assert short(one(f"// @BE f arg ret attr.k\nvoid f({T}, float);"))[2] == "attr:k"


def test_name_of_a_token_with_a_type_counts():
    found = short(one(f"// @BE f arg ret attr.k:float32\nvoid f({T}, float alpha) {{}}"))
    assert found[2] == "attr:k:float32"


# The whole call ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameter",
    ["const kb_call *call", "const kb_call*call", "kb_call const *c", "const struct kb_call *"],
)
def test_whole_call(parameter):
    function = one(f"// @BE f any\nint f({parameter}) {{ return 0; }}")
    assert function == ("f", "::f", 2, True, ())
    function = one(f"// @BE f arg:i8[n] arg:any attr.k:int32 stream\nint f({parameter});")
    assert function[3]
    assert short(function) == ("arg", "arg", "attr:k:int32", "stream")
    assert [p[4] for p in function[4]] == ["i8[n]", "any", "", ""]
    assert "\n    // @BE f any\n" in error(f"// @BE f\nint f({parameter});")
    message = error(f"// @BE f arg:i8[n] ret attr.k:int32\nint f({parameter});")
    assert "\n    // @BE f arg:i8[n] ret:f32[n] attr.k:int32\n" in message
    message = error(f"// @BE f arg ret attr.k\nint f({parameter});")
    assert "f takes a kb_call, so the type of `attr.k` is not known" in message


def test_no_whole_call():
    assert one("// @BE f any\nint f(kb_call *call) {}")[3]  # the compiler refuses it
    assert "it has no result" in error("// @BE f\nint f(const kb_call *call, int n) {}")


# What is around a definition ---------------------------------------------------------------------

PLAIN = [
    f"void f({T}) {{}}",
    f"void\nf\n(\n{T}\n)\n{{\n}}",
    f"static inline void f({T}) {{ if (a) {{ }} }}",
    f'extern "C" void f({T}) {{}}',
    f'extern "C" {{ void f({T}) {{}} }}',
    f'extern "C" {{\n#include <x.h>\nvoid f({T}) {{}}\n}}',
    f'__attribute__((visibility("default"))) void f({T}) {{}}',
    f"void __attribute__((noinline)) f({T}) {{}}",
    f"[[gnu::noinline]] void f({T}) {{}}",
    f'[[nodiscard("a, b")]] int f({T}) {{}}',
    f"__host__ void f({T}) {{}}",
    f"SOME_API void f({T}) {{}}",
    f"SOME_API(1, 2) void f({T}) {{}}",
    f"void SOME_CALL f({T}) {{}}",
    f"auto f({T}) -> void {{}}",
    f"auto f({T}) -> int {{ return 0; }}",
    f"void f({T}) noexcept {{}}",
    f"void f({T}) noexcept(noexcept(g(1))) {{}}",
    f"void f({T}) throw() {{}}",
    f"void f({T}) __attribute__((hot)) {{}}",
    f"void f({T}) try {{ }} catch (...) {{ }}",
    f"template <typename X = int, int N = (3 > 2)> struct S {{ }}; void f({T}) {{}}",
    f"void f({T}) {{ const char *s = \"}}\"; char c = '}}'; /* }} */ // }}\n }}",
    f'void f({T}) {{ auto s = R"x( }} )" }} )x"; }}',
    f"int x = 1'000'000; void f({T}) {{}}",
    f"void g(int f) {{ f(1); }} void f({T}) {{}}",
    f"int y = f(1, 2);\nvoid f({T}) {{}}",
    f"int y = 3 * f(1, 2);\nvoid f({T}) {{}}",
    f"int y = (int) f(1, 2);\nvoid f({T}) {{}}",
    f"int y[] = {{ f(1), f(2) }};\nvoid f({T}) {{}}",
    f"struct S {{ void f(int a); void f(const BE::Tensor x) {{}} }};\nvoid f({T}) {{}}",
    f"class S : public B<int> {{ void f(int a) {{}} }};\nvoid f({T}) {{}}",
    f"void S::f(int a) {{}}\nvoid f({T}) {{}}",
    f"// void f(int a) {{}}\n/* void f(int b) {{}} */\nvoid f({T}) {{}}",
    f"#if 0\nvoid f(int a) {{}}\n#endif\nvoid f({T}) {{}}",
    f"#if 0\n#if 1\n#endif\nvoid f(int a) {{\n#else\nvoid f({T}) {{}}\n#endif",
    f"#if 1\nvoid f({T}) {{}}\n#else\nvoid f(int a) {{}}\n#endif",
    f"#ifdef FAST\nvoid f({T}) {{\n#else\nvoid f({T}) {{\n#endif\n}}",
    f"#error don't\nvoid f({T}) {{}}",
    f'const char *doc = "void f(int a) {{";\nvoid f({T}) {{}}',
    f"void f();\nvoid f({T}) {{}}",
    f"void f({T});\nvoid f({T}) {{}}",
    f"REGISTER(f)\nvoid f({T}) {{}}",
    f"REGISTER(f, g(1));\nvoid f({T}) {{}}",
    f"using F = void(int);\nvoid f({T}) {{}}",
    f"typedef void f_t(int);\nvoid f({T}) {{}}",
    f"enum {{ A, B }};\nvoid f({T}) {{}}",
    f"void g(std::function<void(int)> h = [](int x) {{ f(x); }}) {{}}\nvoid f({T}) {{}}",
    f"void f({T}) {{}}\n}} }} }}",
    f"int SOME_CALL f({T}) {{}}",
    f"API(x) static unsigned g(int); API(y) int f({T}) {{}}",
    f"#define LOG(x) \\\n  do {{ \\\n  }} while (0)\nvoid f({T}) {{ LOG(f(1)); }}",
    f"#define f_(x) {{{{\nvoid f({T}) {{}}",
    f"concept = 1; template <class Q> void g(Q q) {{}} void f({T}) {{}}",
    f"void f(\n#ifdef A\n{T}\n#else\n{T}\n#endif\n) {{}}".replace(
        f"#else\n{T}\n", "#endif\n#ifdef B\n"
    ),
]


@pytest.mark.parametrize("tokens", ["", " arg ret"])
@pytest.mark.parametrize("code", PLAIN)
def test_definition(code, tokens):
    function = one(f"// @BE f{tokens}\n{code}\n")
    assert short(function) == BOTH
    assert function[1] == "::f"


@pytest.mark.parametrize(
    ("code", "qualified"),
    [
        ("namespace a { %s }", "::a::f"),
        ("namespace a::b { %s }", "::a::b::f"),
        ("namespace a::inline b { %s }", "::a::b::f"),
        ("inline namespace a { namespace b { int x; } %s }", "::a::f"),
        ("namespace a { struct S {}; namespace b { %s } }", "::a::b::f"),
        ("namespace a { namespace { %s } }", "::a::f"),
        ("namespace { %s }", "::f"),
        ("namespace a { } %s", "::f"),
        ("namespace a = b; %s", "::f"),
        ("using namespace a; %s", "::f"),
        ('namespace a { extern "C" { %s } }', "::a::f"),
        ("namespace [[deprecated]] a { %s }", "::a::f"),
        ("namespace a VISIBLE(default) { %s }", "::a::f"),
        ("namespace EXPORTED(1) a::b { %s }", "::a::b::f"),
        ('namespace __attribute__((visibility("hidden"))) a { %s }', "::a::f"),
        # The compiler says that there is no ::f.
        ("#define BEGIN namespace a {\n#define END }\nBEGIN\n%s\nEND", "::f"),
        ("namespace a {\n#ifdef X\n#endif\n%s\n}", "::a::f"),
    ],
)
def test_qualified(code, qualified):
    function = one("// @BE f\n" + code % f"void f({T}) {{}}")
    assert function[1] == qualified
    assert short(function) == BOTH


def test_declaration_between_namespaces():
    text = f"namespace a {{ void f(int x); }}\n// @BE f\nnamespace b {{ void f({T}) {{}} }}"
    assert one(text)[1] == "::b::f"


PARAMETERS = {
    "std::pair<int, float> p": "std::pair<int, float>",
    "std::map<int, std::vector<int>> p": "std::map<int, std::vector<int>>",
    "std::array<int, (3 > 2)> p": "std::array<int, (3 > 2)>",
    "T<A && B, C> p": "T<A && B, C>",
    "Unknown p = g(1, 2)": "Unknown",
    "Unknown p = h<1, 2>(3)": "Unknown",
    "Unknown p = a < b": "Unknown",
    "Unknown p = {1, 2}": "Unknown",
    "Unknown p = [](int x, int y) { return x < y, y; }": "Unknown",
    'Unknown p = ",)"': "Unknown",
    "Unknown p = ')'": "Unknown",
    "Unknown /* , ) */ p": "Unknown",
    "Unknown\n// , )\np": "Unknown",
}


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_hard_parameter(parameter):
    text = (
        f"// @BE f arg attr.p:int64 ret\nvoid f(const BE::Tensor a, {parameter}, BE::Tensor o) {{}}"
    )
    function = one(text)
    assert short(function) == ("arg:a", "attr:p:int64", "ret:o")
    assert function[4][1][3] == PARAMETERS[parameter]


@pytest.mark.parametrize(
    ("parameter", "name", "ctype"),
    [
        ("float p[3]", "p", "float[3]"),
        ("int p[]", "p", "int[]"),
        ("float p[2][2]", "p", "float[2][2]"),
        ("void (*p)(int)", "", "void (*p)(int)"),
        ("int (&p)[3]", "", "int (&p)[3]"),
        ("Ts... p", "p", "Ts..."),
        ("int **p", "p", "int **"),
    ],
)
def test_other_parameter(parameter, name, ctype):
    """Whose types the compiler refuses."""
    function = one(f"// @BE f arg ret attr.q:int32\nvoid f({T}, {parameter}) {{}}")
    assert function[4][2] == ("attr", "q", "int32", ctype, "")
    if name:
        assert short(one(f"// @BE f\nvoid f({T}, {parameter}) {{}}"))[2] == f"attr:{name}"
    else:
        assert "needs a name" in error(f"// @BE f\nvoid f({T}, {parameter}) {{}}")


@pytest.mark.parametrize("parameters", ["", "void", " void ", "/* none */"])
def test_no_parameters(parameters):
    assert "it has no result" in error(f"// @BE f\nvoid f({parameters}) {{}}")
    assert "describes 1 parameters, and C++ has 0 (" in error(
        f"// @BE f ret\nvoid f({parameters}) {{}}"
    )


# Which of several --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"void f({T}) {{}}\n// @BE f\nvoid f({T}) {{}}", 3),
        (f"void f({T}) {{}}\n// @BE f\nvoid f({T});", 1),
        (f"void f({T});\n// @BE f\nvoid f({T});", 3),
        (f"void f({T});\n// @BE f", 1),
        (f"// @BE f\nvoid f({T});\nvoid f({T}) {{}}\nvoid f({T}) {{}}", 3),
        (f"// @BE f\nvoid g() {{}}\n\n\nvoid f({T}) {{}}", 5),
        (f"// @BE f arg ret\nvoid f({T}) {{}}\nvoid f({T}, int k) {{}}", 2),
        (f"void f({T}, int k) {{}}\n// @BE f arg ret\nvoid f({T}) {{}}", 3),
        ("// @BE f arg ret\n", 1),
        ("\n\n// @BE f arg ret attr.k:float32 stream\n", 3),
    ],
)
def test_preference(text, line):
    function = one(text)
    assert function[2] == line
    if "void" not in text:
        assert function[1] == "f"
        assert all(p[3] == "" for p in function[4])


# Macros ------------------------------------------------------------------------------------------

MACROS = [
    "#define DEF(T, S) void f_##S(const BE::Tensor a, BE::Tensor o, T k) { }\nDEF(float, x)",
    "#define DEF(T, S) \\\n  void f_##S(const BE::Tensor a, BE::Tensor o, T k) \\\n  { if (a) { } }"
    "\nDEF(float, x)",
    "#define DEF(name) void name(const BE::Tensor a, BE::Tensor o, float k)\nDEF(f_x) { }",
    "#define BEGIN(name) void name(const BE::Tensor a, BE::Tensor o, float k) {\n#define END }\n"
    "void g() {}\nBEGIN(f_x)\nif (a) { }\nEND\n",
]


@pytest.mark.parametrize("code", MACROS)
def test_macro(code):
    """A function that a macro makes is described by its tokens, or written out."""
    assert short(one(f"// @BE f_x arg ret attr.k\n{code}\n")) == ("arg", "ret", "attr:k")
    message = error(f"// @BE f_x\n{code}\n")
    assert "the definition of f_x was not found in this source; write its parameters out" in message
    assert "if a macro generates the name or the parameters" in message


def test_macro_of_parameters():
    text = "#define PARAMS const BE::Tensor a, BE::Tensor o\n// @BE f%s\nvoid f(PARAMS, float k) {}"
    message = error(text % " arg ret attr.k")
    assert "the annotation describes 3 parameters, and C++ has 2 (PARAMS, float k)" in message
    assert "if a macro generates the name or the parameters" in message
    assert "if a macro generates the name or the parameters" in error(
        text.replace(", float k", "") % ""
    )


def test_macro_of_types():
    text = f"#define API __attribute__((hot))\n// @BE f\nAPI void f({T}, R k) {{}}"
    assert short(one(text)) == (*BOTH, "attr:k")


def test_macro_of_elsewhere():
    text = "// @BE f arg ret attr.k:int32\nDEFINE_KERNEL(f, int)\n"
    assert one(text)[1:3] == ("f", 1)


@pytest.mark.parametrize(
    "text",
    [
        "#define A A A\nA",
        "#define A B B\n#define B A A\nA",
        "#define A(x) A(x x)\nA(A(A(1)))",
        "#define A(x, y\nA(1)",
        "#define",
        "#define A(",
        "#define A(x) #\nA(1)",
        "#define A(x) x ## \nA(1)",
        "#define A(x) ## x\nA(1)",
        "#define A(x) a ## ## x\nA()",
        "#",
        "#if\n#else\n#endif\n#endif\n#else",
        "".join(f"#define a{i + 1}(x) a{i}(x) a{i}(x)\n" for i in range(40)) + "a40(1)",
        "".join(f"#define b{i + 1} b{i} b{i}\n" for i in range(40)) + "b40",
        "#define F(x) x F\nF(1)(2)(3)",
    ],
)
def test_strange_macros(text):
    assert short(one(f"// @BE f arg ret\nvoid f({T}) {{}}\n{text}\n")) == BOTH


# Annotations -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "comment",
    [
        "// @BE f arg ret",
        "//@BE f arg ret",
        "/// @BE f arg ret",
        "//\t@BE\tf\targ\t\tret  ",
        "   // @BE f arg ret",
        "int x; // @BE f arg ret",
        "// @BE f arg ret\r",
        "// @BE f arg \\\n  ret",
        "// @BE f \\\r\n arg ret",
        "#define X 1 // @BE f arg ret",
        "/* @BE g arg */ // @BE f arg ret",
        "// // @BE f arg ret",
        "#ifdef X\n// @BE f arg ret\n#endif",
        "#if 0\n#else\n// @BE f arg ret\n#endif",
    ],
)
def test_annotation(comment):
    function = one(f"{comment}\nvoid f({T}) {{}}\r\n")
    assert function[0] == "f"
    assert short(function) == BOTH


@pytest.mark.parametrize(
    "text",
    [
        "",
        "void f() {}",
        "/* @BE f arg ret */",
        "/*\n// @BE f arg ret\n*/",
        'const char *s = "// @BE f arg ret";',
        'const char *s = R"(\n// @BE f arg ret\n)";',
        'auto s = u8R"x(\n)"\n// @BE f arg ret\n)x";',
        "// see @BE f arg ret",
        "// @BEf arg ret",
        "// @be f arg ret",
        "// @ BE f arg ret",
        "#if 0\n// @BE f arg ret\n#endif",
        "#if 0\n#if 1\n// @BE f arg ret\n#endif\n#endif",
        "#if 0\n#elif 0\n// @BE f arg ret\n#endif",
        "#if 1\n#else\n// @BE f arg ret\n#endif",
        "#if 0 // why\n // @BE f arg ret\n#endif",
        "# if false\n// @BE f arg ret\n#  endif",
        'const char *s = "\\\n// @BE f arg ret";',
    ],
)
def test_no_annotation(text):
    message = error(text)
    assert message.startswith("no function is annotated")
    assert "// @BE add arg:f32[n] arg:f32[n] ret:f32[n]" in message


def test_several():
    text = f"// @BE g\nvoid g({T}) {{}}\n// @BE f arg ret\nvoid f({T}) {{}}\n// @BE h ret\n"
    assert [f[0] for f in scan(text)] == ["g", "f", "h"]


ERRORS = [
    (
        "// @BE",
        "a.cu:1:4: @BE names no function; write before each function what it takes, for example\n"
        "    // @BE add arg:f32[n] arg:f32[n] ret:f32[n]",
    ),
    ("//   @BE  ", "a.cu:1:6: @BE names no function"),
    ("// @BE 1f arg ret", "a.cu:1:8: '1f' is no name of a function"),
    ("// @BE a::f arg ret", "'a::f' is no name of a function: it must be a C identifier"),
    ("// @BE f-g arg ret", "'f-g' is no name"),
    ("// @BE größe arg ret", "'größe' is no name of a function"),
    (
        "// @BE f arg out",
        "a.cu:1:14: Invalid arg_spec token 'out'; expected arg, ret, stream, attr.NAME or attr.",
    ),
    ("// @BE f arg ret // a remark", "a.cu:1:18: Invalid arg_spec token '//'"),
    ("// @BE f arg, ret", "Invalid arg_spec token 'arg,'"),
    ("// @BE f ARG ret", "Invalid arg_spec token 'ARG'"),
    ("// @BE f arg ret attr", "Invalid arg_spec token 'attr'"),
    (
        "// @BE f arg ret attr.",
        "Invalid arg_spec token 'attr.': '' is not a valid name for an attribute",
    ),
    ("// @BE f arg ret attr.2x", "token 'attr.2x': '2x' is not a valid name for an attribute"),
    (
        "// @BE f arg:f32 ret",
        "a.cu:1:10: Invalid arg_spec token 'arg:f32': 'f32' declares no shape",
    ),
    ("// @BE f arg: ret", "Invalid arg_spec token 'arg:': '' is no type of an array"),
    ("// @BE f any ret", "Invalid arg_spec token 'any'; expected arg, ret"),
    ("// @BE f arg ret attr.k:", "Invalid arg_spec token 'attr.k:': '' is no type of an attribute"),
    (
        "// @BE f arg ret attr.k:f32",
        "'f32' is no type of an attribute; expected one of bool, int8,",
    ),
    ("// @BE f arg ret attr.k:float32:x", "'float32:x' is no type"),
    ("// @BE f arg ret stream stream", "a.cu:1:25: stream is there twice; a call has one stream"),
    ("// @BE f arg ret stream ctx.stream", "ctx.stream is there twice"),
    ("// @BE f arg ret attr.k:int32 attrs.k:int8", "attribute k is there twice"),
    ("// @BE f arg", "f has no result: its annotation must have at least one 'ret'"),
    ("// @BE f", "the definition of f was not found in this source; write its parameters out"),
    ("// @BE f arg ret\n\n// @BE f arg ret", "a.cu:3:8: f is annotated twice; remove one"),
    ("// @BE f\nvoid f(const BE::Tensor a) {}", "f: it has no result: take `const BE"),
    ("// @BE f\nvoid f(int a) {}", "f: it has no result: take `const BE::Tensor`"),
    (
        f"// @BE f\nvoid f({T}, cudaStream_t s, int64_t stream) {{}}",
        "parameter 4 'stream' is a second stream",
    ),
    (
        f"// @BE f arg ret attr.k\nvoid f({T}) {{}}",
        "f: the annotation describes 3 parameters, and C++ has 2 (const BE::Tensor a, "
        "BE::Tensor o)",
    ),
    (
        "// @BE f ret arg\nvoid f(const BE::Tensor a, BE::Tensor o) {}",
        "a.cu:1:10: f: parameter 1 'a' is `const BE::Tensor`, and the annotation says `ret`: a "
        "result must not be const",
    ),
    (f"// @BE f\nvoid f({T}, float größe) {{}}", "needs a name that is a C identifier of ASCII"),
    ("int x;\0// @BE f", "a.cu:1:7: a NUL byte is no part of a source"),
]


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_error(text, message):
    got = error(text)
    assert message in got
    assert got.startswith("a.cu:")


def test_error_in_full():
    text = "int ü;\n\t/* é */\t// @BE f arg out ret\nvoid f() {}\n"
    head, line, caret = error(text).split("\n")
    assert head.startswith("a.cu:2:23: Invalid arg_spec token 'out'")
    assert line == "\t/* é */\t// @BE f arg out ret"
    assert caret == "\t       \t             ^"
    assert line.index("out") == caret.index("^")


def test_two_places():
    message = error("// @BE f ret ret\nvoid f(BE::Tensor a,\n\t\tconst BE::Tensor k) {}\n")
    assert message.split("\n") == [
        "a.cu:1:14: f: parameter 2 'k' is `const BE::Tensor`, and the annotation says `ret`: a "
        "result must not be const",
        "// @BE f ret ret",
        "             ^",
        "a.cu:3:3: declared here",
        "\t\tconst BE::Tensor k) {}",
        "\t\t^",
    ]


@pytest.mark.parametrize("filler", ["x", "é", "漢", "😀"])
@pytest.mark.parametrize("before", [0, 100, 500])
def test_long_line(filler, before):
    text = "/* " + filler * before + " */ // @BE f arg out " + filler * 500
    head, line, caret = error(text).split("\n")
    assert head.startswith(f"a.cu:1:{3 + before + 4 + 14}: Invalid arg_spec token 'out'")
    assert len(line) <= 170
    assert line[caret.index("^") :].startswith("out")
    assert line.endswith("...")


def test_long_names():
    name = "n" * 100_000
    assert one(f"// @BE {name} arg ret\n")[0] == name
    message = error(f"// @BE {name} arg {'é' * 5000}\n")
    assert len(message) < 2048
    message = error(f"// @BE {name} ret ret attr.k\nvoid {name}({T}, {'m' * 10000} k);\n")
    assert len(message) < 2048


# Functions that a caller names -------------------------------------------------------------------


def test_given():
    text = f"// @BE\n// @BE g nonsense\nvoid f({T}, float k) {{}}\nnamespace a {{ int g({T}); }}"
    f, g, h = scan(text, (("f", None), ("g", "arg ret"), ("h", "ret attr.k:int8")))
    assert f[:4] == ("f", "::f", 3, False)
    assert short(f) == (*BOTH, "attr:k")
    assert g[:4] == ("g", "::a::g", 4, False)
    assert h[:4] == ("h", "h", 0, False)
    assert short(h) == ("ret", "attr:k:int8")


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ((), "functions: expected at least one, got none"),
        ((("f", ""),), "functions['f']: f has no result: its annotation must have at"),
        ((("f", "arg out ret"),), "functions['f'] token 2: Invalid arg_spec token 'out'"),
        ((("f", None), ("f", None)), "functions['f']: f is annotated twice; remove one"),
        ((("a::f", None),), "functions['a::f']: 'a::f' is no name of a function"),
        ((("", None),), "functions['']: '' is no name of a function"),
        ((("g", None),), "functions['g']: the definition of g was not found"),
        ((("g", "arg"),), "functions['g']: g has no result"),
        (
            (("f", "ret ret attr.k:int32"),),
            "functions['f'] token 1: f: parameter 1 'a' is `const BE::Tensor`, and the annotation "
            "says `ret`: a result must not be const\na.cu:1:8: declared here\nvoid f(",
        ),
    ],
)
def test_given_refused(functions, message):
    assert message in error(f"void f({T}, float k) {{}}", functions)


@pytest.mark.exhaustive
def test_a_large_source():
    text = f"// @BE f arg ret\nvoid f({T}) {{}}\n"
    comments = (f"//{'x' * 97}\n" * (16 * 2**20 // 100))[len(text) :]
    assert short(one(text + comments)) == BOTH
    assert len(scan("".join(f"// @BE f{i} ret\n" for i in range(5000)))) == 5000


HOSTILE = [
    "f(",
    "void f(",
    "void f(a) ",
    "void f(); ",
    "a f(<",
    "namespace a{",
    "}",
    "{",
    "(",
    "<",
    "a<",
    "template<",
    "[[",
    "#if 1\n",
    "#else\n",
    "#define A(x) x\n A(",
    "#define A A A\nA ",
    '"',
    "'",
    'R"(',
    "/*",
    "//\\\n",
    "\\\n",
    "\\ ",
    "void f(a<b,c ",
    "int x = f(f(f, ",
    'extern "C" {',
    "#define x\n",
    "auto f() -> ",
    "auto f() -> f() ",
    "1'",
    "::",
    "f(;",
    "void f(x = a<",
]


@pytest.mark.brief
@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile(piece):
    """Time grows with the size alone: each of these would take minutes if it went by its square."""
    text = "// @BE f arg ret\n" + piece * (2**17 // len(piece))
    try:
        scan(text)
    except ValueError as caught:
        assert str(caught).startswith(("a.cu:", "no function"))  # noqa: PT017


# Kernels -----------------------------------------------------------------------------------------


def kernel(text, name, tokens=None):
    return plain(scanner.scan_kernel(scanner.Source([("k.cu", text)]), name, tokens))


def kernel_error(text, name, tokens=None):
    with pytest.raises(ValueError, match=" ") as caught:
        kernel(text, name, tokens)
    return str(caught.value)


K = "const float *x, float *y"
KERNEL = f"__global__ void k({K}, int n) {{}}"


@pytest.mark.parametrize(
    ("text", "name", "qualified", "parameters"),
    [
        (KERNEL, "k", "::k", "arg:x ret:y attr:n"),
        ('extern "C" ' + KERNEL, "k", "::k", "arg:x ret:y attr:n"),
        (f"namespace a {{ {KERNEL} }}", "k", "::a::k", "arg:x ret:y attr:n"),
        (f"namespace a {{ {KERNEL} }}", "a::k", "::a::k", "arg:x ret:y attr:n"),
        (
            f"namespace b {{ __global__ void k(int *z) {{}} }} namespace a {{ {KERNEL} }}",
            "::a::k",
            "::a::k",
            "arg:x ret:y attr:n",
        ),
        (
            "template <typename T, int N>\n"
            "__global__ void k(const T *x, T *y, T a, size_t n, long m) {}",
            "k<float, 4>",
            "::k",
            "arg:x ret:y attr:a attr:n attr:m",
        ),
        (
            "template <typename T, int N = (1 > 2)>\n__global__ void __launch_bounds__(256, N)\n"
            "k(const T *__restrict__ x, T *__restrict__ y, const unsigned long n)\n{\n}\n",
            "ns::k<float>".replace("ns::", ""),
            "::k",
            "arg:x ret:y attr:n",
        ),
        (
            "__launch_bounds__(256)\n"
            "__global__ void k(__half const *x, __nv_bfloat16 *y, __half h) {}",
            "k",
            "::k",
            "arg:x ret:y attr:h",
        ),
        (
            "__global__ static void\n"
            "k(const unsigned char *x, bool *y, const half *h, float2 *z) {}",
            "k",
            "::k",
            "arg:x ret:y arg:h ret:z",
        ),
        (
            "__global__ void k(const float x[], float y[4], int n = 3) {}",
            "k",
            "::k",
            "arg:x ret:y attr:n",
        ),
        (
            "__global__ void\n"
            "k(const std::complex<float> *x, thrust::complex<double> *y, Params p) {}",
            "k",
            "::k",
            "arg:x ret:y attr:p",
        ),
        (
            f"__device__ float k(float x) {{ return x; }}\nvoid k(int z) {{}}\n{KERNEL}",
            "k",
            "::k",
            "arg:x ret:y attr:n",
        ),
        (
            f"template __global__ void k<float>(const float *, float *);\n{KERNEL}",
            "k",
            "::k",
            "arg:x ret:y attr:n",
        ),
        (f"// @BE k\n{KERNEL}", "k", "::k", "arg:x ret:y attr:n"),
        (f"// @BE k arg ret attr.m\n{KERNEL}", "k", "::k", "arg:x ret:y attr:m"),
        (
            f"// @BE k ret ret attr.m:int32\n// @BE\n{KERNEL.replace('const ', '')}",
            "k",
            "::k",
            "ret:x ret:y attr:m:int32",
        ),
        (f"__global__ void k({K}, const volatile int n);", "k", "::k", "arg:x ret:y attr:n"),
        (
            f"// @BE k arg ret attr.n:float16\n__global__ void k({K}, __half n);",
            "k",
            "::k",
            "arg:x ret:y attr:n:float16",
        ),
    ],
)
def test_kernel(text, name, qualified, parameters):
    function = kernel(text, name)
    assert function[0] == qualified.split("::")[-1]
    assert function[1] == qualified
    assert " ".join(short(function)) == parameters


def test_kernel_by_macro():
    text = (
        "#define K(T, S) __global__ void k_##S(const T *x, T *y, T a) { y[0] = x[0] * a; }\n"
        "K(float, f32)\nK(double, f64)\n"
    )
    assert "if a macro generates the name or the parameters" in kernel_error(text, "k_f64")
    assert short(kernel(text, "k_f64", "arg ret attr.a")) == ("arg", "ret", "attr:a")


def test_kernel_with_tokens():
    function = kernel("// @BE k nonsense\n" + KERNEL, "k", "arg ret attr.n")
    assert short(function) == ("arg:x", "ret:y", "attr:n")
    function = kernel("", "ns::k<float>", "arg ret attr.n attr.m:int8")
    assert function[:4] == ("k", "k", 0, False)
    assert short(function) == ("arg", "ret", "attr:n", "attr:m:int8")


@pytest.mark.parametrize(
    ("text", "name", "tokens", "message"),
    [
        ("", "k", None, "kernel 'k': the definition of the kernel (__global__) k was not found"),
        (f"void k({K}) {{}}", "k", None, "k was not found"),
        (f"namespace a {{ {KERNEL} }}", "b::k", None, "k was not found"),
        (KERNEL, "k", "arg ret stream", "kernel 'k' token 3: k: a kernel takes no stream"),
        (f"// @BE k arg ret stream\n{KERNEL}", "k", None, "k.cu:1:18: k: a kernel takes no stream"),
        (KERNEL, "k", "arg ret", "the annotation describes 2 parameters, and C++ has 3"),
        (KERNEL, "k", "ret ret attr.n", "a result must not be const"),
        (KERNEL, "k", "arg arg attr.n", "k has no result"),
        ("__global__ void k(const int *x) {}", "k", None, "it has no result"),
        (f"// @BE k\n// @BE k\n{KERNEL}", "k", None, "k.cu:2:8: k is annotated twice; remove"),
        (KERNEL, "", None, "'' is no name of a kernel"),
        (KERNEL, "a b", None, "'a b' is no name of a kernel"),
        (KERNEL, "<float>", None, "is no name of a kernel"),
        (KERNEL, "a::", None, "is no name of a kernel"),
        (KERNEL, "(void*)k", None, "is no name of a kernel"),
    ],
)
def test_kernel_refused(text, name, tokens, message):
    assert message in kernel_error(text, name, tokens)
