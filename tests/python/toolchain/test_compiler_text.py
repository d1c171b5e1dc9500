"""What a message shows of a compiler's output: the first errors, each with the user's own line."""

import pickle

import pytest
from kernbridge import CompilationError, load_cpp_inline
from kernbridge._src.toolchain.build import Request, build

pytestmark = pytest.mark.once

SOURCE = '#include "head.h"\n#line 1 "mine.cpp"\nint f()\n{\n\treturn nowhere;\n}\n'
GCC = "mine.cpp: In function ‘int f()’:\nmine.cpp:3:9: error: ‘nowhere’ was not declared"
TEMPLATES = """\
#include <algorithm>
#include <map>
#include <vector>
#include "kernbridge/kernbridge.hpp"
// @BE f
void f(const kernbridge::Tensor x, kernbridge::Tensor out) {
    std::vector<std::map<int, int>> v;
    std::sort(v.begin(), v.end(), [](int a, int b) { return a < b; });
}
"""


def shown(output, room=12, source=""):
    """The lines of output below a message that leaves room for so many of the 24."""
    error = CompilationError("\n" * (21 - room), output, source=source)
    return str(error).splitlines()[24 - room :]


def test_the_users_line_is_added_with_a_caret():
    lines = shown(GCC, source=SOURCE)
    assert lines == [*GCC.splitlines(), "    3 | \treturn nowhere;", "      | \t       ^"]
    clang = "mine.cpp:3:9: error: use of undeclared identifier"
    assert shown(clang, source=SOURCE)[1:] == lines[2:]
    assert shown(GCC) == GCC.splitlines()  # the text is not known
    printed = [*GCC.splitlines(), "    3 |     return nowhere;", "      |            ^~~~~~~"]
    assert shown("\n".join(printed), source=SOURCE) == printed  # the compiler has shown it


def test_the_first_errors_are_kept_and_the_others_counted():
    found = [f"mine.cpp:3:{n}: error: number {n}" for n in range(1, 41)]
    noise = ["mine.cpp:1:5: note: nobody needs this", "In file included from mine.cpp:1:"]
    lines = shown("\n".join(line for error in found for line in (error, *noise)), 13, SOURCE)
    assert lines[0:12:3] == found[:4]
    assert lines[2] == "      | ^"
    assert len(lines) == 13
    assert lines[12] == (
        "... and 36 more errors. This exception's compiler_output contains all 120 lines; with "
        "KERNBRIDGE_DEBUG=full they are printed."
    )
    assert "note" not in "".join(lines)


def test_an_error_that_is_reported_twice_is_shown_once():
    errors = "a.cpp:1:2: error: this\n" * 30 + "a.cpp:2:2: error: that\n"
    lines = shown(errors)
    assert lines[:2] == ["a.cpp:1:2: error: this", "a.cpp:2:2: error: that"]
    assert len(lines) == 3


def test_the_line_that_instantiates_a_template_is_shown():
    deep = "\n".join(f"/usr/include/c.h:{n}:1:   required from ‘void g{n}()’" for n in range(30))
    output = f"{deep}\nmine.cpp:3:2:   required from here\n/usr/include/c.h:99:1: error: no match"
    assert shown(output, source=SOURCE)[:4] == [
        "/usr/include/c.h:99:1: error: no match",
        "mine.cpp:3:2:   required from here",
        "    3 | \treturn nowhere;",
        "      | \t^",
    ]


def test_errors_in_the_generated_code_are_left_out():
    inside = "kernbridge:f:6:12: error: invalid\n/x/include/kernbridge/module.h:36:1: error: class"
    assert shown(f"{GCC}\n{inside}\nkernbridge:2:22: error: no", source=SOURCE) == [
        "mine.cpp:3:9: error: ‘nowhere’ was not declared",
        "    3 | \treturn nowhere;",
        "      | \t       ^",
        "This exception's compiler_output contains all 5 lines; with KERNBRIDGE_DEBUG=full they "
        "are printed.",
    ]
    assert shown(inside) == inside.splitlines()  # nothing else is wrong


def test_nvcc():
    error = 'm.cu({0}): error: identifier "x{0}" is undefined\n  float y = x{0};\n            ^\n'
    warning = 'm.cu(1): warning #177-D: variable "w" was declared\n  int w;\n      ^\n'
    output = warning + "\n".join(error.format(n) for n in range(30))
    lines = shown(output)
    assert lines[:9] == "".join(error.format(n) for n in range(3)).splitlines()
    assert lines[9].startswith("... and 27 more errors.")
    assert "warning" not in "".join(lines)


def test_errors_without_a_line():
    undefined = (
        "/usr/bin/ld: m.o: in function `f':\nm.cpp:(.text+0x5): undefined reference to `g'\n"
    )
    output = "warning: x\n" * 40 + undefined + "collect2: error: ld returned 1 exit status\n"
    lines = shown(output)
    assert lines[0] == "m.cpp:(.text+0x5): undefined reference to `g'"
    assert lines[1] == "collect2: error: ld returned 1 exit status"
    fatal = "nvcc fatal   : Unknown option 'x'"
    assert shown("word\n" * 40 + fatal)[0] == fatal


def test_output_without_an_error_is_shown_from_its_beginning():
    lines = shown("\n".join(f"word {n}" for n in range(40)))
    assert lines[:11] == [f"word {n}" for n in range(11)]
    assert lines[11].startswith("This exception's compiler_output contains all 40 lines;")


def test_long_lines_are_cut():
    (line, rest) = shown(f"m.cpp:1:1: error: {'T' * 5000}")
    assert len(line) <= 320
    assert line.endswith("TTT ...")
    assert rest.startswith("This exception's compiler_output contains all of it;")


def test_a_build_in_all():
    source = "".join(f"int f{i}(void) {{ return nothing; }}\n" for i in range(400))
    with pytest.raises(CompilationError) as caught:
        build(Request("broken", "c", f'#line 1 "m.c"\n{source}', "", cflags=("-fmax-errors=0",)))
    text = str(caught.value)
    assert len(text.splitlines()) <= 24
    assert "m.c:1:23: error: " in text
    assert "    1 | int f0(void) { return nothing; }\n      |                       ^\n" in text
    assert "... and 39" in text
    assert "f399" in caught.value.compiler_output
    assert str(pickle.loads(pickle.dumps(caught.value))) == text


def test_templates_of_the_library():
    with pytest.raises(CompilationError) as caught:
        load_cpp_inline("compiler_text", TEMPLATES)
    text = str(caught.value)
    assert len(text.splitlines()) <= 24
    assert "error: no match for call to" in text
    assert "compiler_text.cpp:8:14:   required from here\n    8 |     std::sort(v.begin()," in text


@pytest.mark.exhaustive
def test_everything_is_printed_on_demand(run_python):
    program = (
        "from kernbridge import CompilationError\n"
        'print(CompilationError("refused", "a.c:1: error: no\\n" * 300, "cc a.c"))'
    )
    assert len(run_python(program).splitlines()) <= 24
    text = run_python(program, KERNBRIDGE_DEBUG="full")
    assert text.count("error: no") == 300
    assert "more errors" not in text
