"""Drawn expressions over all dtypes, as Numba-CUDA kernels.

They cover what C leaves open and a GPU defines: conversions of numbers that do not fit, shifts by
the width or more, division by zero, NaN in comparisons, and where products and sums are fused.
"""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numba import cuda

from .case import Case
from .expression_inputs import DTYPES, FLOATS, INTEGERS, KINDS, ROWS, SIGNED, UNSIGNED, N, inputs
from .expression_inputs import x_of as _x

PER_KERNEL = 16  # expressions
SEED = 20260729

RESULTS = {
    "i": "int64",
    "u": "int64",
    "b": "int64",
    "f": "float32",
    "d": "float64",
    "B": "uint8",
    "b8": "int8",
}
NARROW = {"uint8": "B", "int8": "b8"}  # of floats: NVVM keeps 16 bits of them until they are stored
COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")


@dataclass(frozen=True)
class Group:
    """Expressions of one subject: `texts` are pairs of the kind of result and Python text."""

    name: str
    texts: tuple[tuple[str, str], ...]


def _conversions() -> Iterator[tuple[str, str]]:
    for source, target in itertools.product(FLOATS, INTEGERS):
        yield NARROW.get(target, "i"), f"np.{target}({_x(source)})"
    for source, target in itertools.product(INTEGERS, (*FLOATS, "float16")):
        kind = "d" if target == "float64" else "f"
        yield kind, f"np.{target}({_x(source)})"
    for source, target in itertools.product(FLOATS, ("float16", *FLOATS)):
        yield "d" if target == "float64" else "f", f"np.{target}({_x(source, 1)})"
    for source, target in itertools.product(("int64", "uint64", "int32"), INTEGERS):
        yield "i", f"np.{target}({_x(source, 2)})"
    for source in FLOATS:
        for call in ("math.floor", "math.ceil", "math.trunc", "int", "round"):
            yield "i", f"{call}({_x(source, 3)})"
        for target, kind in NARROW.items():
            yield kind, f"np.{target}({_x(source, 0)} * {_x(source, 1)})"
        for target in ("int16", "uint16", "int32", "uint32", "uint64"):
            yield "i", f"np.{target}({_x(source, 0)} * {_x(source, 1)})"
            yield "f", f"np.float32(np.{target}({_x(source, 2)}))"
        yield "b", f"bool({_x(source, 1)})"


def _shifts() -> Iterator[tuple[str, str]]:
    for name, sign in itertools.product(INTEGERS, ("<<", ">>")):
        yield "i", f"{_x(name)} {sign} {_x(name, 1)}"
        yield "i", f"np.{name}({_x(name, 2)} {sign} {_x(name, 3)})"
    for name, sign in itertools.product(("int32", "uint32", "int8"), ("<<", ">>")):
        yield "i", f"np.{name}(np.{name}(1) {sign} {_x(name, 1)})"
        count = "np.uint8(5)" if name[0] == "u" else "5"
        yield "i", f"{_x(name)} {sign} {count}"


def _divisions() -> Iterator[tuple[str, str]]:
    for name, sign in itertools.product(INTEGERS, ("//", "%", "/")):
        yield "d" if sign == "/" else "i", f"{_x(name)} {sign} {_x(name, 1)}"
    for name, sign in itertools.product(("int8", "int32", "uint16"), ("//", "%")):
        yield "i", f"np.{name}({_x(name, 2)} {sign} {_x(name, 3)})"
        constant = "np.uint16(7)" if name[0] == "u" else "-7"
        yield "i", f"{_x(name)} {sign} {constant}"
    for name, sign in itertools.product(FLOATS, ("//", "%", "/")):
        kind = "f" if name == "float32" else "d"
        yield kind, f"{_x(name)} {sign} {_x(name, 1)}"
        yield kind, f"{_x(name, 2)} {sign} np.{name}(-0.75)"
    for name in FLOATS:
        kind = "f" if name == "float32" else "d"
        yield kind, f"math.fmod({_x(name)}, {_x(name, 1)})"
        yield kind, f"np.{name}(1) / {_x(name, 2)}"
        yield kind, f"math.sqrt({_x(name, 2)})"
        yield kind, f"np.{name}(1) / math.sqrt({_x(name, 3)})"


def _orders() -> Iterator[tuple[str, str]]:
    kinds = {**dict.fromkeys(SIGNED, "i"), **dict.fromkeys(UNSIGNED, "u")}
    kinds |= {"float32": "f", "float64": "d"}
    for name, kind in kinds.items():
        yield kind, f"min({_x(name)}, {_x(name, 1)})"
        yield kind, f"max({_x(name, 1)}, {_x(name, 2)})"
        if name == "int16":
            continue  # ptxas makes 32768 of the smallest one
        yield kind, f"abs({_x(name, 3)})"
        if kind != "u":
            yield kind, f"-{_x(name, 2)}"
    for name, sign in itertools.product(FLOATS, COMPARISONS):
        yield "b", f"{_x(name)} {sign} {_x(name, 1)}"
        yield "b", f"not ({_x(name)} {sign} {_x(name, 2)})"
    for sign in COMPARISONS:
        yield "b", f"{_x('int64')} {sign} {_x('uint64', 1)}"
        yield "b", f"{_x('int32')} {sign} {_x('float32', 1)}"
        yield "b", f"{_x('float32')} {sign} {_x('float64', 1)}"
    for name, kind in (("float32", "f"), ("float64", "d")):
        a, b = _x(name), _x(name, 1)
        yield kind, f"min(max({a}, np.{name}(-1)), np.{name}(1))"
        yield kind, f"({a} if {a} > {b} else {b})"
        yield kind, f"({a} if not {a} < {b} else {b})"
        yield kind, f"min({a}, {b}, {_x(name, 2)})"
        yield kind, f"math.copysign({a}, {b})"


def _sums() -> Iterator[tuple[str, str]]:
    """Products and sums that can be fused."""
    patterns = (
        "{0} * {1} + {2}",
        "{2} + {0} * {1}",
        "{0} * {1} - {2}",
        "{2} - {0} * {1}",
        "{0} * {1} + {2} * {3}",
        "{2} * {3} + {0} * {1}",
        "{0} * {1} - {2} * {3}",
        "-({0} * {1}) + {2}",
        "-({0} * {1}) - {2}",
        "{0} * {1} + {2} + {3}",
        "({0} * {1} + {2}) * {3} + {0}",
        "{0} * {0} + {1} * {1} + {2} * {2}",
        "({0} + {1}) * ({2} - {3})",
        "({0} * {1}) * ({0} * {1}) + {2}",
        "({0} * {1} + {2}) / ({0} * {1})",
        "({0} * {1} if {2} > {3} else {2}) + {3}",
        "abs({0} * {1}) + {2}",
        "{0} * {1} * {2} + {3}",
        "({3} * {0} + {3} * {1}) + {3} * {2}",
        "min({0} * {1}, {2}) + {3}",
        "{0} * np.{t}(0.1) + np.{t}(0.7)",
        "np.{t}(3) * {0} - {0}",
        "{0} + {1} * np.{t}(2)",
        "({0} * {1} - {2}) + ({0} * {1} + {3})",
        "{0} ** 2 + {1}",
        "{0} - {0} * {0} * np.{t}(0.5)",
        "{0} / {1} + {2} * {3}",
        "cuda.fma({0}, {1}, {2})",
        "math.sqrt({0} * {0} + {1} * {1})",
    )
    for name, kind in (("float32", "f"), ("float64", "d")):
        rows = [_x(name, row) for row in range(ROWS)]
        for pattern in patterns:
            yield kind, pattern.format(*rows, t=name)
    yield "d", "float32_0 * float32_1 + float64_0"
    yield "d", "float64_0 * float32_1 + float32_2"
    yield "d", "np.float64(float32_0) * np.float64(float32_1) - float64_1"
    yield "d", "int32_0 * float64_0 + int32_1"
    yield "d", "float32_0 * int16_1 + float32_2"
    yield "f", "np.float32(float64_0 * float64_1) + float32_2"
    yield "f", "float32_0 * np.float32(int32_1) + np.float32(int32_2)"
    yield "i", "int32_0 * int32_1 + int32_2"


def _halves() -> Iterator[tuple[str, str]]:
    a, b, c = (f"np.float16({_x('float32', row)})" for row in range(3))
    for sign in ("+", "-", "*", "/"):
        yield "f", f"np.float32({a} {sign} {b})"
    yield "f", f"np.float32({a} * {b} + {c})"
    yield "f", f"np.float32(cuda.fp16.hfma({a}, {b}, {c}))"
    yield "f", f"np.float32(min({a}, {b}))"
    yield "f", f"np.float32(max({b}, {c}))"
    yield "f", f"np.float32(abs({a}))"
    for sign in COMPARISONS:
        yield "b", f"{a} {sign} {b}"
    for target in INTEGERS:
        yield NARROW.get(target, "i"), f"np.{target}({a})"


def _functions() -> Iterator[tuple[str, str]]:
    """Functions that are not rounded correctly: compared with a tolerance."""
    for name, kind in (("float32", "f"), ("float64", "d")):
        for call in ("exp", "log", "sin", "cos", "tanh", "atan", "expm1", "log1p"):
            yield kind, f"math.{call}({_x(name)})"
        yield kind, f"math.pow({_x(name)}, {_x(name, 1)})"
        yield kind, f"{_x(name, 2)} ** {_x(name, 3)}"
        yield kind, f"math.atan2({_x(name)}, {_x(name, 1)})"
        yield kind, f"{_x(name, 2)} ** {_x('int16', 3)}"


def _powers() -> Iterator[tuple[str, str]]:
    for name in INTEGERS:
        yield "i", f"{_x(name)} ** 2"
        yield "i", f"{_x(name)} ** 3"
        seven = "np.uint8(7)" if name[0] == "u" else "7"
        yield "i", f"{_x(name)} ** ({_x(name, 1)} & {seven})"
    for name, kind in (("float32", "f"), ("float64", "d")):
        yield kind, f"{_x(name)} ** 2"
        yield kind, f"{_x(name)} ** 3"


class _Draw:
    """Draws expressions of a kind: signed, unsigned, float32, float64, bool."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def one(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def leaf(self, kind: str) -> str:
        if kind != "b" and self.rng.random() < 0.2:
            number = self.one(("0", "1", "3", "7", "13", "31"))
            if kind in "fd":
                number = self.one(("0.0", "0.1", "1.5", "3.0", "2.75", "100.0"))
            return f"np.{self.one(KINDS[kind])}({number})"
        return _x(self.one(KINDS[kind]), int(self.rng.integers(ROWS)))

    def expression(self, kind: str, depth: int) -> str:
        if depth == 0:
            return self.leaf(kind)
        return str(getattr(self, f"_{kind}")(depth - 1))

    def _integer(self, kind: str, depth: int) -> str:
        a = self.expression(kind, depth)
        names = KINDS[kind]
        form = int(self.rng.integers(12))
        if form < 5:
            b = self.expression(kind, depth)
            return f"({a} {self.one(('+', '-', '*', '&', '|', '^', '//', '%', '<<', '>>'))} {b})"
        if form == 5:
            return f"{self.one(('min', 'max'))}({a}, {self.expression(kind, depth)})"
        if form == 6:
            return f"np.{self.one(names)}({a})"
        if form == 7:
            return f"np.{self.one(names[1:])}({self.expression(self.one('fd'), depth)})"
        if form == 8:
            return f"np.{self.one(names)}({self.expression('u' if kind == 'i' else 'i', depth)})"
        if form == 9:
            return f"np.{self.one(names)}({self.expression('b', depth)})"
        if form == 10:
            b = self.expression(kind, depth)
            return f"({a} if {self.expression('b', depth)} else {b})"
        return f"np.{self.one(names)}({self.one(('-', '~', 'abs'))}(np.{names[-1]}({a})))"

    def _i(self, depth: int) -> str:
        return self._integer("i", depth)

    def _u(self, depth: int) -> str:
        return self._integer("u", depth)

    def _float(self, kind: str, depth: int) -> str:
        a = self.expression(kind, depth)
        (name,) = KINDS[kind]
        form = int(self.rng.integers(12))
        if form < 6:
            sign = self.one(("+", "-", "*", "+", "-", "*", "/"))
            return f"({a} {sign} {self.expression(kind, depth)})"
        if form == 6:
            return f"{self.one(('min', 'max'))}({a}, {self.expression(kind, depth)})"
        if form == 7:
            return f"np.{name}({self.expression(self.one('iu'), depth)})"
        if form == 8:
            return f"np.{name}({self.expression('d' if kind == 'f' else 'f', depth)})"
        if form == 9:
            b = self.expression(kind, depth)
            return f"({a} if {self.expression('b', depth)} else {b})"
        if form == 10:
            return f"{self.one(('-', 'abs'))}({a})"
        return f"cuda.fma({a}, {self.expression(kind, depth)}, {self.expression(kind, depth)})"

    def _f(self, depth: int) -> str:
        return self._float("f", depth)

    def _d(self, depth: int) -> str:
        return self._float("d", depth)

    def _b(self, depth: int) -> str:
        kind = self.one("iuffdd")
        a, b = self.expression(kind, depth), self.expression(kind, depth)
        text = f"({a} {self.one(COMPARISONS)} {b})"
        return f"(not {text})" if self.rng.random() < 0.2 else text


def _drawn() -> Iterator[tuple[str, str]]:
    draw = _Draw(np.random.default_rng(SEED))
    for kind, depth, count in (("i", 2, 40), ("i", 3, 40), ("u", 3, 32), ("b", 2, 16)):
        for _ in range(count):
            yield kind, draw.expression(kind, depth)
    for kind, depth in itertools.product("fd", (2, 3, 4)):
        for _ in range(32):
            yield kind, draw.expression(kind, depth)


@cache
def groups() -> tuple[Group, ...]:
    """All expressions, by subject; the same ones at every call."""
    found = (
        ("conversions", _conversions),
        ("shifts", _shifts),
        ("divisions", _divisions),
        ("orders", _orders),
        ("sums", _sums),
        ("alone", _sums),
        ("powers", _powers),
        ("halves", _halves),
        ("functions", _functions),
        ("drawn", _drawn),
    )
    return tuple(Group(name, tuple(dict.fromkeys(texts()))) for name, texts in found)


def _kernel(name: str, names: Sequence[str], result: str, texts: Sequence[str]) -> Any:
    used = sorted({word for text in texts for word in _words(text)})
    lines = [f"def {name}({', '.join((*(f'x_{n}' for n in names), 'out'))}):"]
    lines += ["    i = cuda.grid(1)", f"    if i < {N}:"]
    for word in used:
        dtype, row = word.rsplit("_", 1)
        lines.append(f"        {word} = x_{dtype}[{row}, i]")
    for k, text in enumerate(texts):
        lines.append(f"        out[{k}, i] = np.{result}({text})")
    source = "\n".join(lines) + "\n"
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scope: dict[str, Any] = {}
    exec("import math\nimport numpy as np\nfrom numba import cuda\n", scope)
    exec(compile(source, file, "exec"), scope)
    return cuda.jit(scope[name])


def _words(text: str) -> list[str]:
    names = {_x(name, row) for name in DTYPES for row in range(ROWS)}
    return [
        w
        for w in "".join(c if c.isalnum() or c == "_" else " " for c in text).split()
        if w in names
    ]


def _case(name: str, result: str, texts: Sequence[str]) -> Case:
    used = {word.rsplit("_", 1)[0] for text in texts for word in _words(text)}
    names = [n for n in DTYPES if n in used]
    return Case(
        kernel=_kernel(name, names, result, texts),
        inputs=partial(inputs, names),
        outs=[((len(texts), N), DTYPES[result])],
        covers=f"drawn expressions: {name}",
        bug="",
        launch_dims=N,
        rtol=(2e-6 if result == "float32" else 1e-14) if name.startswith("functions") else 0,
    )


@cache
def cases(*wanted: str) -> tuple[tuple[Case, tuple[str, ...]], ...]:
    """Kernels with the texts of their expressions, of all groups or of some."""
    found = []
    for group in groups():
        if wanted and group.name not in wanted:
            continue
        size = 1 if group.name == "alone" else PER_KERNEL
        for result in ("int64", "uint8", "int8", "float32", "float64"):
            texts = [text for kind, text in group.texts if RESULTS[kind] == result]
            for first in range(0, len(texts), size):
                some = tuple(texts[first : first + size])
                name = f"{group.name}_{result}_{first // size}"
                found.append((_case(name, result, some), some))
    return tuple(found)
