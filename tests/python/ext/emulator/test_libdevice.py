"""Every function of libdevice that Numba-CUDA can call, on the CPU.

Each is called in a loop over arrays, as kernels do, so that LLVM vectorises what it can. Where the
result is not exact, the error is at most what CUDA's documentation states, in units of the last
place.
"""

import platform
import re
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.once

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
sys.path.insert(0, str(Path(__file__).parents[3]))

import kernbridge  # noqa: E402
import libdevice_engine  # noqa: E402
import llvmlite.binding as llvm  # noqa: E402
from cuda_corpus import agreement  # noqa: E402
from cuda_corpus.libdevice_inputs import FUNCTIONS, inputs  # noqa: E402
from kernbridge._ext.emulator.compiler import library  # noqa: E402
from libdevice_engine import loop, optimised, run  # noqa: E402
from libdevice_exact import INTEGERS, ROUNDED  # noqa: E402
from libdevice_values import VALUES, L  # noqa: E402


def fast_quotient(x, y):
    """A divisor above 2**126 gives zero, or NaN of what is infinite."""
    return [np.where(abs(y) > 2.0**126, x * np.copysign(np.float32(0), y), x / y)]


OTHERS = {
    "double_as_longlong": (lambda x: [x.view(np.int64)], 0),
    "longlong_as_double": (lambda x: [x.view(np.float64)], 0),
    "float_as_int": (lambda x: [x.view(np.int32)], 0),
    "int_as_float": (lambda x: [x.view(np.float32)], 0),
    "double2hiint": (lambda x: [x.view(np.int64) >> 32], 0),
    "double2loint": (lambda x: [x.view(np.int64).astype(np.int32)], 0),
    "hiloint2double": (
        lambda x, y: [
            (x.astype(np.int64) << 32 | y.astype(np.int64) & 0xFFFFFFFF).view(np.float64)
        ],
        0,
    ),
    "half2float": (lambda x: [x.view(np.float16).astype(np.float32)], 0),
    "float2half_rn": (
        lambda x: [np.where(np.isnan(x), 0x7FFF, x.astype(np.float16).view(np.int16))],
        0,
    ),
    "saturatef": (lambda x: [np.where(np.isnan(x) | (x <= 0), 0, np.minimum(x, 1))], 0),
    "fast_fdividef": (fast_quotient, 0),
    "fast_powf": (lambda x, y: [np.exp2(y * np.log2(x))], 128),
    "finitef": (lambda x: [np.isfinite(x)], 0),
    "isnanf": (lambda x: [np.isnan(x)], 0),
    "isinff": (lambda x: [np.isinf(x)], 0),
    "signbitf": (lambda x: [np.signbit(x)], 0),
}


def reference(name):
    """What a function is to give, its error, and what is allowed near zeros besides."""
    name = name.removeprefix("__nv_")
    if name in OTHERS:
        return (*OTHERS[name], 0)
    name = name.removeprefix("fast_")
    if name in INTEGERS or name in ROUNDED:
        return INTEGERS.get(name) or ROUNDED[name], 0, 0
    if name in VALUES:
        function, error, _, *besides = VALUES[name]
    else:
        function, _, error, *besides = VALUES[name.removesuffix("f")]
    return function, error, *(besides or [0])


@pytest.fixture(scope="module")
def engine():
    return libdevice_engine.make()


def wrong(got, want, error, besides):
    """Which elements differ by more than the error."""
    if got.dtype.kind == "i":
        wrapped = [int(w) % 2 ** (8 * got.itemsize) for w in want]
        return np.array([int(g) % 2 ** (8 * got.itemsize) for g in got]) != np.array(wrapped)
    with np.errstate(all="ignore"):
        want = np.array(want if isinstance(want, np.ndarray) else list(want), L)
        nearest = want.astype(got.dtype)
        far = abs(got.astype(L) - want) > error * np.spacing(abs(nearest)).astype(
            L
        ) + besides * np.maximum(1, abs(want))
        if error == 0:
            far |= (got == 0) & (np.signbit(got) != np.signbit(nearest))
    infinite = np.isinf(nearest) | np.isinf(got)
    return np.where(
        np.isnan(want), ~np.isnan(got), np.where(infinite, got != nearest, far | np.isnan(got))
    )


def some_always(names):
    """Every third of the functions; the others run in `make test-all`."""
    for i, name in enumerate(sorted(names)):
        yield pytest.param(name, marks=[pytest.mark.exhaustive] * (i % 3 > 0))


@pytest.mark.brief
@pytest.mark.parametrize("name", some_always(FUNCTIONS))
def test_value(engine, name):
    rows = inputs(name)
    function, error, besides = reference(name)
    with np.errstate(all="ignore"):
        wanted = function(*rows)
    got = run(engine, name, rows)
    if "remquo" in name:  # of the quotient, three bits and the sign are told
        got[1] = np.fmod(got[1], 8)
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted, strict=True):
        bad = np.flatnonzero(wrong(g, w, error, besides))
        shown = [([r[i] for r in rows], g[i], list(w)[i]) for i in bad[:5]]
        assert not len(bad), f"{len(bad)} of {len(g)}: {shown}"


def test_each_is_known():
    assert [name for name in FUNCTIONS if not library.defines(name)] == []
    assert not library.defines("__nv_nothing")
    assert not library.defines("expf")


def linked(text):
    """The names of what a module defines and declares, with what `link` returns."""
    module = llvm.parse_assembly(text)
    declared = library.link(module)
    module.verify()
    defined = {f.name for f in module.functions if not f.is_declaration}
    assert declared == {f.name for f in module.functions if f.is_declaration}
    return defined, declared


def test_what_is_unknown_stays():
    assert linked("declare float @__nv_nothing(float)\n") == (set(), {"__nv_nothing"})


def test_only_what_is_called_is_linked():
    text = (
        'declare float @"__nv_sinf"(float)\ndeclare float @__nv_fast_sinf(float)\n'
        "declare float @llvm.sqrt.f32(float)\ndeclare float @__nv_sqrtf(float)\n"
        "define float @f(float %x) {\n  %a = call float @__nv_sinf(float %x)\n"
        '  %b = tail call fast float @"__nv_fast_sinf"(float %a)\n'
        "  %c = call float @__nv_sqrtf(float %b)\n  ret float %c\n}\n"
    )
    defined, declared = linked(text)
    assert defined == {"f", "__nv_sinf", "__nv_fast_sinf", "__nv_sqrtf"}
    assert declared == {"sinf", "llvm.sqrt.f32"}


def test_what_is_linked_brings_what_it_calls():
    defined, declared = linked("declare float @kb.tanh.approx.f32(float)\n")  # of another file
    assert defined == {"kb.tanh.approx.f32", "__nv_tanhf"}
    assert declared == {"tanhf"}


def test_vectorised():
    """What kernels call most is computed several at once."""
    for name in ("__nv_rsqrtf", "__nv_fminf", "__nv_float2int_rz", "__nv_half2float"):
        module, _ = optimised(loop(name))
        assert re.search(r"store <(vscale x )?\d+ x ", str(module)), name


def test_functions_have_the_types_that_numba_declares():
    """A call of another type is not inlined, and refused."""
    spelled = {"float32": "float", "float64": "double", "none": "ptr"}
    spelled |= {f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (16, 32, 64)}
    defined = {}
    folders = [Path(folder, "_ext/emulator/compiler/ll") for folder in kernbridge.__path__]
    text = "".join(path.read_text() for folder in folders for path in folder.glob("*.ll"))
    head = r"^define linkonce_odr (\S+) @(\w+)\((.*?)\)"
    for returned, name, arguments in re.findall(head, text, re.M):
        types = [a.split()[0] for a in arguments.split(",") if a.strip()]
        defined[name] = (returned, types)
    for name, (returned, arguments) in FUNCTIONS.items():
        types = ["ptr" if a.is_ptr else spelled[str(a.ty)] for a in arguments]
        assert defined[name] == (spelled[str(returned)], types), name
    assert len(FUNCTIONS) > 300


DOCUMENT = Path(__file__).parents[4] / "docs" / "cuda-agreement.md"


def test_agreement_with_a_gpu_is_what_the_document_states(engine):
    text = DOCUMENT.read_text()
    glibc = re.search(r"\((\d\.\d+) here", text)
    same = platform.libc_ver() == ("glibc", glibc[1]) and platform.machine() == "x86_64"
    found = agreement.distances(lambda name, rows: run(engine, name, rows))
    assert not agreement.exceeding(found, text, slack=0 if same else 2)
    assert f"the {len(found)} functions" in text


def test_a_distance_is_in_units_of_the_last_place():
    x = np.array([1.0, -1.0, 0.0, np.nan, np.inf], np.float32)
    assert agreement.distance(x, x, scaled=False) == 0
    assert agreement.distance(np.nextafter(x, -np.inf), x, scaled=False) == 1
    assert agreement.distance(-x[:1], x[:1], scaled=False) > 2**30
    assert agreement.distance(x[3:4], x[4:], scaled=False) == np.inf
    assert agreement.distance(np.array([4.5]), np.array([4.0]), scaled=True) == 0.125
    stated = "By so much:\n\n- 1 in float64, equal in float32: `sin`,\n  `cos`\n"
    assert agreement.stated(stated) == {"sin": 1, "sinf": 0, "cos": 1, "cosf": 0}
    assert agreement.exceeding({"sin": 1, "sinf": 0, "abs": 0}, stated) == []
    assert len(agreement.exceeding({"sin": 2, "sinf": 1, "abs": 1, "cos": 0}, stated)) == 3
