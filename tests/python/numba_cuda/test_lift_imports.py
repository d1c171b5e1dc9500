"""Imports in a kernel's body, moved to the globals of a new function."""

import inspect
import math
import os.path
import sys
import textwrap
import traceback
import types

import pytest
from kernbridge import KernelCompilationError
from kernbridge._src.numba_cuda.lift_imports import lift

pytestmark = pytest.mark.once

LABEL = "numba_cuda_kernel 'f'"


def imports(function):
    import dis

    return [s.argval for s in dis.get_instructions(function) if s.opname == "IMPORT_NAME"]


def lifted(function):
    assert imports(function)
    new = lift(function, LABEL)
    assert new is not function
    assert not imports(new)
    return new


def refused(function, match):
    with pytest.raises(KernelCompilationError, match=match) as caught:
        lift(function, LABEL)
    text = str(caught.value)
    assert text.startswith(f"{LABEL}: {function.__code__.co_filename}:")
    assert "to the top of the module" in text
    return caught.value


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write modules, import one."""
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)

    def make(name="made_for_lift", **sources):
        for path, source in sources.items():
            file = tmp_path / (path.replace("__in__", "/") + ".py")
            file.parent.mkdir(exist_ok=True)
            file.write_text(textwrap.dedent(source))
        __import__(name)
        return sys.modules[name]

    yield make
    for name in set(sys.modules) - known:
        del sys.modules[name]


def test_nothing_to_lift():
    def f(x):
        def inner():
            import math

            return math.pi

        return inner, x

    assert lift(f, LABEL) is f
    assert lift(math_at_top := (lambda x: math.sin(x)), LABEL) is math_at_top


def test_every_form():
    def f(x):
        """Doc."""
        import math  # noqa: I001
        import math as m, os.path, os.path as p  # noqa: E401
        from math import cos, sin as s

        if x > 100:
            for _ in range(2):
                import cmath
            return cmath
        try:
            from os import sep
        finally:
            pass
        return math, m, os, p, cos, s, sep, [cos(v) for v in (x,)]

    new = lifted(f)
    expected = (math, math, os, os.path, math.cos, math.sin, os.sep, [math.cos(2)])
    assert new(2) == f(2) == expected
    assert new(101).__name__ == "cmath"
    assert "cmath" not in f.__globals__


def test_what_is_kept():
    def outer(scale, unused):
        def f(x: "float", y=2, /, *rest, k=3, **more) -> "int":
            """Doc."""
            import math

            nonlocal count
            count += 1

            def nested():
                return math.pi * scale

            return x, y, rest, k, more, nested(), __class__

        count = 0
        __class__ = 7
        f.extra = 5
        return f, lambda: count

    f, count = outer(10, 0)
    new = lifted(f)
    assert new(1, 9, 8, k=7, z=6) == (1, 9, (8,), 7, {"z": 6}, math.pi * 10, 7)
    assert new(1) == f(1) == (1, 2, (), 3, {}, math.pi * 10, 7)
    assert count() == 3
    cells = dict(zip(f.__code__.co_freevars, f.__closure__, strict=True))
    assert dict(zip(new.__code__.co_freevars, new.__closure__, strict=True)) == cells
    names = ("name", "qualname", "module", "doc", "annotations", "defaults", "kwdefaults")
    for name in (*(f"__{n}__" for n in names), "extra"):
        assert getattr(new, name) == getattr(f, name), name
    assert inspect.signature(new) == inspect.signature(f)
    for name in ("co_name", "co_qualname", "co_filename", "co_firstlineno", "co_freevars"):
        assert getattr(new.__code__, name) == getattr(f.__code__, name), name


def keep(*_):
    return lambda function: function


def test_lines_of_the_file():
    @keep(
        1,
    )
    @keep()
    def f(x):
        import math  # one

        text = """
first column"""
        # a comment deeper down
        # and one in the first column
        if x:
            return math.sqrt(x), text
        return 1 / x

    new = lifted(f)
    assert new.__code__.co_firstlineno == f.__code__.co_firstlineno
    assert new(4) == (2, "\nfirst column")
    with pytest.raises(ZeroDivisionError) as caught:
        new(0)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.lineno) == (__file__, line_of(f, "1 / x"))
    assert last.line == "return 1 / x"


def test_globals_are_a_copy():
    def f():
        import math

        return math, LABEL

    new = lifted(f)
    assert new.__globals__ is not f.__globals__
    assert new.__globals__.keys() - f.__globals__.keys() <= {"math"}
    assert new()[1] is LABEL


def test_module_and_relative(module):
    made = module(
        "pack_for_lift.kernels",
        pack_for_lift__in____init__="",
        pack_for_lift__in__constants="g = 9.81\n",
        pack_for_lift__in__kernels="""
            def f():
                from . import constants
                from .constants import g as gravity
                import pack_for_lift.constants
                import pack_for_lift.constants as c
                return constants.g, gravity, pack_for_lift, c
        """,
    )
    package = sys.modules["pack_for_lift"]
    assert lifted(made.f)() == (9.81, 9.81, package, package.constants)


def test_an_import_that_fails():
    def f():
        import no_such_module_anywhere

        return no_such_module_anywhere

    def g():
        from math import no_such_name

        return no_such_name

    error = refused(f, r"`import no_such_module_anywhere` fails: ModuleNotFoundError: No module")
    assert f"{__file__}:{line_of(f, 'import no_such')}:" in str(error)
    assert isinstance(error.__cause__, ModuleNotFoundError)
    assert isinstance(refused(g, "cannot import name 'no_such_name'").__cause__, ImportError)


def test_names_bound_otherwise():
    def assigned(x):
        import math

        if x:
            math = None
        return math

    def looped(x):
        from math import sin

        for sin in x:  # noqa: B007, F402
            pass
        return sin

    def parameter(math):
        import math

        return math

    def deleted():
        import math

        del math

    def declared():
        global math
        import math

    def nested():
        import math

        def inner():
            nonlocal math
            math = 1

        return math, inner

    def in_a_nested_one():
        import cmath as math

        def inner():
            global math
            return math

        return math, inner

    outside = None

    def free():
        nonlocal outside
        import math as outside

        return outside

    for f in (assigned, parameter, deleted, declared, nested, in_a_nested_one):
        error = refused(f, "`math` is also bound in another way")
        assert f":{line_of(f, 'import ')}: " in str(error)
        assert "Move `import " in str(error)
    refused(looped, "`sin` is also bound in another way.*Move `from math import sin` to")
    refused(free, "`outside` is also bound in another way")
    assert outside is None


def test_two_meanings():
    def f(x):
        if x:
            from math import sin
        else:
            from cmath import sin
        return sin

    def same(x):
        if x:
            from math import sin
        else:
            from math import sin
        return sin

    refused(f, "`sin` has two meanings")
    assert lifted(same)(0) is math.sin


def test_no_source():
    namespace = {}
    exec("def f():\n    import math\n    return math\n", namespace)
    error = refused(namespace["f"], "the source of the function is not available.*`import math`")
    assert isinstance(error.__cause__, OSError)
    assert "<string>:1: " in str(error)


SOURCE = """
FIRST = 1

def f(x):
    import math
    return math.sqrt(x) * 2.0 + 0.0 + (1 in {1, 2})
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2.0", "3.0"),
        ("2.0", "2"),
        ("+ 0.0", "+ -0.0"),
        ("sqrt", "exp"),
        ("def f(x)", "def f(y)"),
        ("def f(x)", "def g(x)"),
        ("* 2.0 +", "* 2.0 -"),
        ("{1, 2}", "{1, 3}"),
        ("FIRST = 1\n", ""),
        ("FIRST = 1\n", "FIRST = 1\nMORE = 2\nAND = 3\n"),
        ("    import math\n", ""),
        ("def f(x):", "def f(x:"),
    ],
)
def test_a_file_edited_since(module, old, new):
    made = module(made_for_lift=SOURCE)
    assert lifted(made.f)(4) == 5
    with open(made.__file__, "w") as file:
        file.write(SOURCE.replace(old, new, 1))
    refused(made.f, "is not the one that this function|cannot be read again|not available")


def test_wrapped_functions_are_not_followed():
    """`inspect` would give the source of `__wrapped__`."""

    def other():
        return 1

    def f():
        import math

        return math.pi

    f.__wrapped__ = other
    assert lifted(f)() == math.pi


def test_with_numba():
    numba = pytest.importorskip("numba")

    def f(x):
        import math

        return math.sqrt(x)

    assert numba.njit(lifted(f))(9.0) == 3.0
    assert isinstance(lifted(f), types.FunctionType)
