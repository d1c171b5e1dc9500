"""The identity of a kernel: what changes it, what does not, and for how long it is remembered."""

import ctypes
import enum
import functools
import gc
import math
import os
import subprocess
import sys
import textwrap
import types
import weakref
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numba
import numpy as np
import pytest
from conftest import path_with
from kernbridge import KernelCompilationError, elementwise
from kernbridge._src.keys import fingerprint as keys_fingerprint
from numba import njit
from numba.core.cpu_options import FastMathOptions, ParallelOptions
from numba.extending import intrinsic, overload, register_jitable

pytestmark = pytest.mark.once

Point = namedtuple("Point", "x y")
Swapped = namedtuple("Point", "y x")
Color = enum.Enum("Color", {"RED": 1, "BLUE": 2})
Shade = enum.Enum("Color", {"RED": 3, "BLUE": 2})


def taken(kernel):
    return keys_fingerprint.take(kernel)


def digest(kernel):
    return taken(kernel).digest


def opaque(kernel):
    return taken(kernel).opaque


def define(source, options=None, filename="<test>", **names):
    """A new dispatcher of the function `f` in the source, whose globals are `names`."""
    space = {"njit": njit, **names}
    exec(compile(textwrap.dedent(source), filename, "exec"), space)
    return njit(**(options or {}))(space["f"])


def module(name="consts", **attributes):
    made = types.ModuleType(name)
    vars(made).update(attributes)
    return made


def reads(value):
    """A kernel that loads the value from its globals."""
    return define("def f(x): return C", C=value)


CLOSURE = "def make({0}):\n def f(x): return {1}\n return f\nf = make({0})"
OVERLOADED = "def stub(x): pass\n@overload(stub)\ndef _(x): return lambda x: x + C\n"
# Source in which C, or A of the module m, is the value; where it is when it cannot be walked.
PLACES = {
    "global": ("def f(x): return C", "f.C"),
    "closure": (CLOSURE.format("C", "C"), "f.C"),
    "default": ("def f(x, y=C): return y", "f.__defaults__[0]"),
    "keyword default": ("def f(x, *, y=C): return y", "f.__kwdefaults__.y"),
    "python callee": ("def g(x): return C\ndef f(x): return g(x)", "f.g.C"),
    "callee": ("@njit\ndef g(x): return C\ndef f(x): return g(x)", "f.g.C"),
    "callee of a callee": (
        "@njit\ndef h(x): return C\n@njit\ndef g(x): return h(x)\ndef f(x): return g(x)",
        "f.g.h.C",
    ),
    "inner function": ("def f(x):\n def g(y): return C\n return g(x)", "f.C"),
    "module attribute": ("def f(x): return m.A", "f.m.A"),
    "submodule attribute": ("def f(x): return m.sub.A", "f.m.sub.A"),
    "module in a closure": (CLOSURE.format("m", "[m.A for i in x]"), "f.m.A"),
    "module in a variable": ("def f(x):\n c = m\n return c.A", "f.consts.A"),
    "module as argument": ("@njit\ndef g(c): return c.A\ndef f(x): return g(m)", "f.consts.A"),
    "module as result": ("@njit\ndef g(): return m\ndef f(x): return g().A", "f.consts.A"),
    "module in a tuple": ("t = (m,)\ndef f(x): return t[0].A", "f.consts.A"),
    "getattr": ("def f(x): return getattr(m, 'A')", "f.consts.A"),
    "partial": ("p = partial(pow, C)\ndef f(x): return p(x)", "f.p[0]"),
    "overload": (OVERLOADED + "def f(x): return stub(x)", "f.stub.overload.C"),
    "jitable": ("@register_jitable\ndef g(x): return C\ndef f(x): return g(x)", "f.g.C"),
}


def build(place, value):
    consts = module(A=value, sub=module("consts.sub", A=value))
    helpers = {"overload": overload, "register_jitable": register_jitable}
    source = PLACES[place][0]
    return define(source, C=value, m=consts, partial=functools.partial, **helpers)


@pytest.mark.parametrize("place", PLACES)
def test_a_value_counts_wherever_the_kernel_finds_it(place):
    assert digest(build(place, 2)) == digest(build(place, 2)) != digest(build(place, 3))
    assert opaque(build(place, 2)) == ()


@pytest.mark.parametrize("place", PLACES)
def test_the_path_to_what_cannot_be_walked(place):
    assert opaque(build(place, object())) == (PLACES[place][1],)


@pytest.mark.parametrize(
    "source", ["x + {}", "x in {{7, {}}}", "(lambda y: y + {})(x)", "g(k{}=x)"]
)
def test_constants_of_the_code_count(source):
    """Also the names of keywords."""
    names = {"g": njit(lambda k2=1, k3=2: k2 + k3)}
    kernels = [define("def f(x): return " + source.format(n), **names) for n in (2, 2, 3)]
    assert digest(kernels[0]) == digest(kernels[1]) != digest(kernels[2])
    assert opaque(kernels[0]) == ()


RAMP = np.arange(6.0).reshape(2, 3)
PADDED = np.dtype({"names": ["a", "b"], "formats": ["i1", "f8"]}, align=True)
RENAMED = np.dtype({"names": ["a", "c"], "formats": ["i1", "f8"]}, align=True)
VALUES = {
    "none, missing": [None, Ellipsis, "None", b"None"],
    "numbers": [0, 1, True, False, 0.0, -0.0, 1.0, 1j, complex(-0.0, 1), "1", b"1", 2**70, -1],
    "special floats": [math.inf, -math.inf, math.nan, complex(0, math.nan)],
    "sequences": [(), [], {}, set(), frozenset(), (1, 2), [1, 2], (2, 1), (1, (2,)), ((1,), 2)],
    "strings": ["ab", ("a", "b"), ("ab", ""), ("", "ab"), "\ud800"],
    "sets": [{1, 2}, frozenset({1, 2}), {1, 3}, {1: 2}, {2: 1}, {1: 2, 3: 4}, {1: 4, 3: 2}],
    "ranges": [range(3), range(0, 3, 2), slice(3), slice(0, 3, 2)],
    "enum members": [Color.RED, Color.BLUE, Shade.RED, Shade.BLUE, 1, 2],
    "classes": [Color, Shade, Point, Swapped, int, float, ValueError, KeyError],
    "namedtuples": [Point(1, 2), Swapped(1, 2), (1, 2), Point(2, 1)],
    "numpy scalars": [np.float64(1), np.float32(1), np.int64(1), np.bool_(1), 1.0],
    "dtypes": [np.dtype(t) for t in ("<f8", ">f8", "<i8", "<M8[s]", "<M8[ns]", "(2,)f4", "(4,)f2")],
    "structures": [PADDED, RENAMED, np.dtype("i1,f8"), np.zeros(2, PADDED), np.zeros(2, RENAMED)],
    "layouts": [RAMP, np.asfortranarray(RAMP), np.repeat(RAMP, 2, 1)[:, ::2], RAMP.ravel()],
    "contents": [RAMP, RAMP + 1, RAMP.astype("f4"), RAMP.astype(">f8"), RAMP.astype("i8")],
    "functions": [math.sin, math.cos, np.sin, np.cos, np.sum, abs, len, np.random.rand],
    "numba types": [numba.float64, numba.float32, numba.float64[:], numba.float64[::1]],
    "partials": [functools.partial(pow, 2), functools.partial(pow, 3), functools.partial(abs, 2)],
}  # fmt: skip


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_different_values_differ(values):
    assert len({digest(reads(value)) for value in values}) == len(values)
    assert [digest(reads(v)) for v in values] == [digest(reads(v)) for v in values]
    assert all(opaque(reads(value)) == () for value in values)


def test_nan_payload_order_and_padding_have_no_meaning():
    padded = np.zeros(2, PADDED)
    padded.view(np.uint8)[1:8] = 255
    equal = [
        (math.nan, -math.nan),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({0, 8}, {8, 0}),
        (np.zeros(2, PADDED), padded),
    ]
    for one, other in equal:
        assert digest(reads(one)) == digest(reads(other))


def test_a_global_differs_from_the_builtin_it_shadows_and_from_none():
    source = "def f(x): return abs"
    kinds = [define(source), define(source, abs=abs), define(source, abs=None)]
    kinds.append(define(source.replace("abs", "missing")))
    assert len({digest(k) for k in kinds}) == 4


OPTIONS = [
    {}, {"fastmath": True}, {"fastmath": {"nnan"}}, {"fastmath": {"nnan", "ninf"}},
    {"fastmath": FastMathOptions({"nnan"})}, {"error_model": "numpy"}, {"boundscheck": True},
    {"parallel": True}, {"parallel": {"fusion": False}}, {"parallel": ParallelOptions(True)},
    {"inline": "always"}, {"locals": {"y": numba.float32}}, {"locals": {"y": numba.float64}},
    {"no_rewrites": True},
]  # fmt: skip


def test_options_count_on_the_kernel_and_on_what_it_calls():
    with_options = [define("def f(x):\n y = x\n return y", options) for options in OPTIONS]
    calling = [define("def f(x): return inner(x)", inner=kernel) for kernel in with_options]
    assert len({digest(k) for k in with_options + calling}) == 2 * len(OPTIONS)
    assert all(opaque(k) == () for k in with_options + calling)
    again = define("def f(x):\n y = x\n return y", {"fastmath": {"ninf", "nnan"}})
    assert digest(again) == digest(with_options[3])


def test_numbas_own_setting_overrides_the_option(monkeypatch):
    source = "def f(x): return x[9]"
    unset, on = digest(define(source)), digest(define(source, {"boundscheck": True}))
    monkeypatch.setattr(numba.config, "BOUNDSCHECK", True)
    assert digest(define(source)) == on != unset
    assert digest(define(source, {"boundscheck": False})) == on


def test_explicit_signatures_count_and_types_compiled_on_demand_do_not():
    def f(x):
        return x + 1

    explicit = ["f8(f8)", ["f8(f8)", "f4(f4)"], ["f4(f4)", "f8(f8)"], "f8(f4)"]
    lazy, used = njit(f), njit(f)
    used(1)
    used(1.5)
    assert digest(lazy) == digest(used)
    assert len({digest(njit(signature)(f)) for signature in explicit} | {digest(lazy)}) == 5


SOURCE = '''
def f(x):
    """Doc."""
    if x > 300:  # comment
        return None
    return m.A + x
'''


@pytest.mark.parametrize(
    ("source", "filename"),
    [
        (SOURCE, "/elsewhere/file.py"),
        ("\n" * 300 + SOURCE, "<test>"),
        (SOURCE.replace("Doc", "Another text"), "<test>"),
        (SOURCE.replace('"""Doc."""', ""), "<test>"),
        (SOURCE.replace("# comment", ""), "<test>"),
        ("from __future__ import annotations\n" + SOURCE, "<test>"),
        (SOURCE.replace("(x)", "(x: float) -> float"), "<test>"),
    ],
)
def test_how_the_source_is_written_does_not_count(source, filename):
    names = {"m": module(A=2)}
    assert digest(define(source, filename=filename, **names)) == digest(define(SOURCE, **names))
    changed = source.replace("m.A + x", "x + m.A")
    assert digest(define(changed, filename=filename, **names)) != digest(define(SOURCE, **names))


def test_what_vectorize_gives_is_walked():
    source = "v = vectorize(**o)(lambda a: a + {})\ndef f(x): return v(x)"
    cases = [(1, {}), (1, {}), (2, {}), (1, {"fastmath": True})]
    kernels = [define(source.format(n), o=o, vectorize=numba.vectorize) for n, o in cases]
    assert digest(kernels[0]) == digest(kernels[1])
    assert len({digest(k) for k in kernels}) == 3
    assert {opaque(k) for k in kernels} == {()}


def test_code_that_was_seen_before_is_read_with_its_own_names_and_place():
    source = """
    def f(x):
        def inner(m):
            return getattr(m, "A")
        return inner(M)
    """
    kernels = [define(source, M=module(A=a), getattr=getattr) for a in (2, 2, 3)]
    assert digest(kernels[0]) == digest(kernels[1]) != digest(kernels[2])
    here, same, there = (define(source, filename=f, M=0) for f in ("a.py", "a.py", "b.py"))
    places = [keys_fingerprint.take(kernel).lines for kernel in (here, same, there)]
    assert places[0] == places[1] != places[2]


def test_equal_constants_of_different_types_differ():
    constants = ("1", "True", "1.0", "0.0", "-0.0", "(1, 2)", "(1.0, 2)", "(True, 2)", "(1, (2,))")
    kernels = [define(f"def f(x): return x, {c}") for c in (*constants, *constants)]
    assert len({digest(kernel) for kernel in kernels}) == len(constants)


def test_options_as_text_tell_values_and_types_apart():
    given = [
        *({}, {"a": 1}, {"a": True}, {"a": "1"}, {"a": None}, {"a": "None"}, {"b": 1}),
        *({"a": {"x", "y"}}, {"a": frozenset({"x", "y"})}, {"a": {"x, y"}}, {"a": "{'x', 'y'}"}),
        {"a": 1, "b": 2},
    ]
    texts = [keys_fingerprint.plain_text(options) for options in given]
    assert len(set(texts)) == len(given)
    assert keys_fingerprint.plain_text({"b": 2, "a": 1}) == keys_fingerprint.plain_text(
        {"a": 1, "b": 2}
    )
    for other in ({1: 2}, {"a": 1.0}, {"a": {1}}, {"a": ("x",)}, [("a", 1)], None):
        assert keys_fingerprint.plain_text(other) is None


def test_files_that_cuda_links_count_by_content(tmp_path):
    cuda = pytest.importorskip("numba.cuda")
    files = [tmp_path / name for name in ("a.cu", "b.cu", "c.cu")]
    for file, text in zip(files, ("one", "one", "two"), strict=True):
        file.write_text(text)
    kernels = [cuda.jit(link=[str(f)])(lambda x: None) for f in files]
    assert digest(kernels[0]) == digest(kernels[1]) != digest(kernels[2])


def test_running_the_function_first_does_not_count():
    warm, cold = build("module attribute", 2), build("module attribute", 2)
    for _ in range(5000):
        warm.py_func(1)
    assert digest(warm) == digest(cold)


PROGRAM = """
import importlib.util, sys
{first}
spec = importlib.util.spec_from_file_location("fingerprint", {path!r})
fingerprint = sys.modules["fingerprint"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fingerprint)
{last}
"""
PRINT = """
import kernel
found = fingerprint.take(kernel.kernel)
print(found.digest.hex(), *found.opaque)
"""
KERNEL = """
import math, random
import numpy as np
from numba import njit, prange, types
from numba.extending import overload
import settings
WORDS, TABLE = frozenset(("one", "two", "three")), {"beta": 2.0, "alpha": 1.0}
LIMITS = {(i, str(i)): i for i in range(9)}
EDGE = np.linspace(0, 1, 5)
STATE = %s
@njit(fastmath={"nnan", "ninf", "nsz"}, locals={"y": types.float64, "z": types.float32})
def inner(x):
    y = z = x
    return y + z + EDGE[1] + len(WORDS)
@njit(parallel=True)
def kernel(x, out):
    for i in prange(x.size):
        if i in {1, 2, 3} or "two" in {"one", "two"} or i in LIMITS:
            out[i] = inner(x[i]) + settings.A * np.pi + math.erf(x[i]) + random.random()
    return STATE, TABLE
"""


def run_process(folder, first="", last=PRINT, state="None", seed=0):
    folder.mkdir()
    (folder / "kernel.py").write_text("\n" * seed + KERNEL % state)
    (folder / "settings.py").write_text("A = 3.0\n")
    program = PROGRAM.format(first=first, last=last, path=keys_fingerprint.__file__)
    env = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": path_with(folder)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=env, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.exhaustive
def test_processes_agree(tmp_path):
    firsts = ["", "import settings, decimal, scipy.special", "import numba.cuda, kernel"]
    found = [run_process(tmp_path / str(i), first, seed=i) for i, first in enumerate(firsts)]
    assert found == [found[0]] * 3
    assert len(found[0]) == 1


@pytest.mark.exhaustive
def test_processes_disagree_about_what_cannot_be_walked(tmp_path):
    found = [run_process(tmp_path / n, state="object()") for n in ("a", "b")]
    assert found[0][1:] == found[1][1:] == ["kernel.STATE"]
    assert found[0][0] != found[1][0]


@pytest.mark.exhaustive
def test_importing_the_module_does_not_import_numba(tmp_path):
    last = "print({'numba'} & set(sys.modules))"
    assert run_process(tmp_path / "a", last=last) == ["set()"]


def test_a_fingerprint_says_what_the_code_reads_now():
    source, names = "def f(x): return m.A + x", {"m": module(A=2)}
    old = define(source, **names)
    before = digest(old)
    names["m"].A = 3
    assert digest(old) == digest(njit(old.py_func)) == digest(define(source, m=module(A=3)))
    assert digest(old) != before


def test_a_callee_whose_globals_changed_since_is_opaque():
    inner = define("def f(x): return m.A + x", m=(consts := module(A=2)))
    caller = "def f(x): return inner(x)"
    first, second = (define(caller, inner=inner) for _ in range(2))
    assert (before := digest(first)) == digest(second)
    consts.A = 3
    stale, fresh = define(caller, inner=inner), define(caller, inner=njit(inner.py_func))
    assert opaque(stale) == ("f.inner",)
    assert opaque(fresh) == ()
    assert len({before, digest(stale), digest(fresh)}) == 3


def test_the_dispatcher_and_opaque_values_are_not_kept_alive():
    class Thing:
        pass

    thing = Thing()
    thing.kernel = kernel = build("callee of a callee", thing)
    fingerprint = keys_fingerprint.take(kernel)
    dead = [weakref.ref(kernel), weakref.ref(thing)]
    del thing, kernel
    gc.collect()
    assert [ref() for ref in dead] == [None, None]
    assert fingerprint.opaque


def test_entries_of_dead_objects_are_removed():
    tables = [keys_fingerprint._first_seen, keys_fingerprint._nonces]
    gc.collect()
    before = [len(table._entries) for table in tables]
    kernels = [build("callee of a callee", type("Thing", (), {})()) for _ in range(5)]
    assert len({digest(kernel) for kernel in kernels}) == 5
    assert [len(t._entries) - n for t, n in zip(tables, before, strict=True)] == [10, 5]
    del kernels
    gc.collect()
    assert [len(table._entries) for table in tables] == before


RECURSIVE = """
@njit
def even(n): return True if n == 0 else odd(n - 1)
@njit
def odd(n): return {} if n == 0 else even(n - 1)
@njit
def itself(n): return itself(n - 1) if n > 9 else even(n)
"""


@pytest.mark.parametrize("name", ["itself", "even", "odd"])
def test_recursion_ends_wherever_it_is_entered(name):
    spaces = [{"njit": njit} for _ in range(3)]
    for space, value in zip(spaces, (False, False, True), strict=True):
        exec(RECURSIVE.format(value), space)
    digest(spaces[1]["odd"])
    found = [digest(space[name]) for space in spaces]
    assert found[0] == found[1] != found[2]
    assert len({digest(spaces[0][n]) for n in ("itself", "even", "odd")}) == 3
    assert opaque(spaces[1][name]) == ()


def test_who_is_called_again_counts():
    source = """
    @njit
    def g(n): return h(n)
    @njit
    def h(n): return k(n)
    k = {}
    def f(n): return g(n)
    """
    assert digest(define(source.format("g"))) != digest(define(source.format("h")))


def test_containers_may_contain_themselves():
    loops = []
    for value in (1, 1, 2):
        loop = [value]
        loop.append({"again": loop})
        loops.append(digest(reads(loop)))
    assert loops[0] == loops[1] != loops[2]


@intrinsic
def custom(typing_context, x):
    return x(x), lambda context, builder, signature, arguments: arguments[0]


class Slotted:
    __slots__ = ()


@numba.experimental.jitclass([("a", numba.float64)])
class Jitted:
    def __init__(self):
        self.a = 1.0


OPAQUE = {
    "object": object(),
    "instance": types.SimpleNamespace(a=1),
    "no weak reference": Slotted(),
    "jitclass": Jitted,
    "jitclass instance": Jitted(),
    "typed list": numba.typed.List([1]),
    "pointer": ctypes.pointer(ctypes.c_int(1)),
    "C function": ctypes.CDLL(None).abs,
    "intrinsic": custom,
    "objects in an array": np.array([object()]),
    "class without a name": type("Local", (), {}),
    "jitclass type": Jitted.class_type.instance_type,
    "array of jitclass": numba.types.List(Jitted.class_type.instance_type),
}


@pytest.mark.parametrize("value", OPAQUE.values(), ids=OPAQUE)
def test_what_cannot_be_walked_is_named_and_stands_for_itself(value):
    kernels = [reads(value), reads(value), reads(object())]
    assert len({digest(k) for k in kernels}) == 2
    assert [opaque(k) for k in kernels] == [("f.C",)] * 3


BASE = keys_fingerprint.Fingerprint(b"\x01" * 32, ())
PARTS = [
    (), (None,), (0,), (False,), (0.0,), (-0.0,), ("",), (b"",), ((),), ((), ()), ("a", "b"),
    (("a", "b"),), (("a",), "b"), ("ab",), (b"ab",), ("f4", 1), ("f4", 2), ("f8", 1),
    (np.dtype("f4"),), (np.dtype(">f4"),), ((("f4", 1),), (("f4", 1),)),
    ((("f4", 1), ("f4", 1)), ()), (2**64,), (0j,),
]  # fmt: skip


def test_combine_tells_all_parts_apart():
    bases = [BASE, keys_fingerprint.Fingerprint(b"\x02" * 32, ())]
    found = [keys_fingerprint.combine(b, *parts) for b in bases for parts in PARTS]
    assert len(set(found)) == 2 * len(PARTS)
    assert {len(d) for d in found} == {32}
    assert found[: len(PARTS)] == [keys_fingerprint.combine(BASE, *parts) for parts in PARTS]


@pytest.mark.parametrize("part", [[1], {}, np.float32(1), object(), (1, [2]), Color.RED])
def test_combine_refuses_other_values(part):
    with pytest.raises(TypeError, match="expected a plain value or a tuple, got"):
        keys_fingerprint.combine(BASE, part)


@pytest.mark.parametrize(
    ("start", "key"),
    [
        ("01" + "00" * 7, 1),
        ("ff" * 8, -1),
        ("00" * 7 + "80", -(2**63)),
        ("ff" * 7 + "7f", 2**63 - 1),
    ],
)
def test_keys_are_signed_and_little_endian(start, key):
    assert keys_fingerprint.key_of(bytes.fromhex(start) + b"\xab" * 24) == key


def test_only_dispatchers_are_accepted():
    with pytest.raises(TypeError, match="expected a Numba dispatcher, got function"):
        keys_fingerprint.take(digest)


def test_threads_agree():
    for _ in range(20):
        kernel, barrier = build("callee of a callee", object()), Barrier(8)

        def take(_, kernel=kernel, barrier=barrier):
            barrier.wait()
            return keys_fingerprint.take(kernel)

        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(take, range(8)))) == 1


class Forward:
    """Like beartype's proxies of names that do not exist yet."""

    def __getattr__(self, name):
        raise AssertionError(f"{name} is asked for")


FORWARD = Forward()


@pytest.mark.once
def test_an_object_that_answers_with_an_assertion_is_refused_by_numba():
    def checked(x, y):
        return x * y if FORWARD is not None else x

    with pytest.raises(KernelCompilationError, match="KB4001"):
        elementwise(checked)(np.ones(3, np.float32), 2)
