"""Declarations in random layouts: what was written is what is found, whatever is around it."""

import pytest
from kernbridge._src.scan import scanner

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

pytestmark = pytest.mark.once

TYPES = {
    "arg": ["const BE::Tensor", "const kernbridge::Tensor &", "BE::Tensor const"],
    "ret": ["BE::Tensor", "BE::Tensor &", "kernbridge::Tensor"],
    "attr": ["int", "const double", "std::pair<int, float>", "T<(1 > 2), A && B>", "struct S"],
    "stream": ["cudaStream_t", "CUstream", "const cudaStream_t"],
}
DEFAULTS = ["", " = {}", " = g(1, 2)", " = a < b", ' = ",)"', " = ')'", " = h<1, 2>(3)"]
BEFORE = [
    "",
    "static inline ",
    'extern "C" ',
    "template <int N = (1 > 2)> ",
    '[[nodiscard("a, b")]] ',
    "API(x, 1) ",
]
AFTER = [" {}", ";", " noexcept {}", " -> int {", " __attribute__((hot)) { f(1); }"]
AROUND = [
    "",
    "int other(int f);",
    "struct S { void f(int a); };",
    "/* void f(int b) {} } */",
    'const char *s = "void f(int c) {";',
    'auto r = R"x(void f(int d) {} )" })x";',
    "#if 0\nvoid f(int e) {}\n#endif",
    "#define F(x) void f(x) { {\n",
    "int n = 1'000'000;",
    "int y = f(1, 2);",
]
BLANKS = [" ", "\n", "\t", " /* , ) */ ", " // , (\n", " \\\n "]


@st.composite
def parameters(draw):
    roles = draw(st.lists(st.sampled_from(["arg", "attr", "ret"]), max_size=5))
    roles = [*roles, "ret", *["stream"] * draw(st.booleans())]
    return [
        (role, f"p{i}", draw(st.sampled_from(TYPES[role])), draw(st.sampled_from(DEFAULTS)))
        for i, role in enumerate(roles)
    ]


@pytest.mark.exhaustive
@hypothesis.settings(max_examples=300, deadline=None, database=None)
@hypothesis.given(
    parameters(),
    st.lists(st.sampled_from(AROUND), max_size=4),
    st.lists(st.sampled_from(["a", "b_1", "c"]), max_size=3),
    st.sampled_from(BEFORE),
    st.sampled_from(AFTER),
    st.lists(st.sampled_from(BLANKS), min_size=8, max_size=8),
    st.booleans(),
)
def test_what_was_written_is_found(listed, around, scopes, before, after, blanks, tokens):
    blank = iter(blanks * 20)
    spelled = ",".join(
        f"{next(blank)}{ctype}{next(blank)}{name}{default}" for _, name, ctype, default in listed
    )
    result = "auto" if "->" in after else "void"
    annotation = "".join(
        f" attr.{name}" if role == "attr" else f" {role}" for role, name, *_ in listed
    )
    text = "\n".join(
        [
            *around,
            *(f"namespace {scope} {{" for scope in scopes),
            f"// @BE f{annotation if tokens else ''}",
            f"{before}{result}{next(blank)}f{next(blank)}({spelled}){after}",
        ]
    )
    (found,) = scanner.scan_functions(scanner.Source([("a.cu", text)]), None)
    assert found.qualified == "".join(f"::{scope}" for scope in (*scopes, "f"))
    assert [(p.role, p.name, " ".join(p.ctype.split())) for p in found.parameters] == [
        (role, name, ctype) for role, name, ctype, _ in listed
    ]


@hypothesis.settings(max_examples=300, deadline=None, database=None)
@hypothesis.given(
    st.lists(
        st.sampled_from(
            [*AROUND, *BEFORE, *AFTER, *BLANKS, *DEFAULTS, *"(){}[]<>;,\"'\\#/*@&:=fé$"]
        )
        | st.just("// @BE f arg ret\n")
        | st.just("void f(const BE::Tensor x, BE::Tensor y)")
    )
)
def test_any_text_is_scanned_or_refused_with_its_place(pieces):
    text = "".join(pieces)
    try:
        scanner.scan_functions(scanner.Source([("a.cu", text)]), None)
    except ValueError as e:
        assert str(e).startswith(("a.cu:", "no function"))  # noqa: PT017
