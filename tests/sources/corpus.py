"""Annotated sources as people write them, no two of the same structure, with planted bugs.

A bug is a textual edit of a source, or of a header that it includes, in the path that its case is
there for: it still compiles, and the numbers come out wrong, every time. On a GPU it stays within
bounds, since one illegal address would end the process's context.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np

HERE = Path(__file__).parent
INCLUDE = HERE / "include"
FOLDER = {"cuda": "cuda", "c++": "cpp", "c": "c"}
SUFFIX = {"cuda": ".cu", "c++": ".cpp", "c": ".c"}

F16, F32, F64 = np.float16, np.float32, np.float64
BF16 = jnp.bfloat16
C64, C128 = np.complex64, np.complex128
I8, I16, I32, I64 = np.int8, np.int16, np.int32, np.int64
U8, U16, U32, U64 = np.uint8, np.uint16, np.uint32, np.uint64
INTEGERS = (I8, I16, I32, I64, U8, U16, U32, U64)

RTOL = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-5, "complex64": 2e-5}


def unchecked(*shape: int, dtype: Any = F32) -> jax.ShapeDtypeStruct:
    """In place of a reference's result: an output that is scratch, whose numbers are nobody's."""
    return jax.ShapeDtypeStruct(shape, dtype)


@dataclass(frozen=True)
class Call:
    """One call of a function. Shapes and dtypes of its outputs are those of the reference."""

    function: str
    inputs: Callable[[np.random.Generator], tuple[np.ndarray, ...]]
    reference: Callable[..., Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    aliases: Mapping[int, int] = field(default_factory=dict)
    rtol: float | None = None
    atol: float | None = None

    def expected(self, arrays: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
        """What the outputs should hold."""
        results = self.reference(*(a.copy() for a in arrays))
        return results if isinstance(results, tuple) else (results,)

    def outs(self, expected: tuple[Any, ...]) -> Any:
        """What the function is told of its outputs."""
        kinds = tuple(jax.ShapeDtypeStruct(e.shape, e.dtype) for e in expected)
        return kinds if len(kinds) > 1 else kinds[0]

    def bound(self, module: Any, expected: tuple[Any, ...]) -> Callable[..., Any]:
        """The operation, to be called with arrays."""
        return module[self.function].operation(
            self.outs(expected),
            input_output_aliases=dict(self.aliases) or None,
            attrs=dict(self.attributes),
        )

    def wrong(self, found: Any, expected: tuple[Any, ...]) -> str:
        """Says which output differs; "" if none does."""
        for i, (a, e) in enumerate(zip(found, expected, strict=True)):
            if isinstance(e, jax.ShapeDtypeStruct):
                continue
            a, why = np.asarray(a), f"output {i} of {self.function}"
            if a.dtype != e.dtype or a.shape != e.shape:
                return f"{why}: {a.dtype}{a.shape} for {e.dtype}{e.shape}"
            if e.dtype.kind in "iub":
                same = a == e
            else:
                if e.dtype.itemsize == 2:  # float16 and bfloat16
                    a, e = a.astype(F32), np.asarray(e).astype(F32)
                rtol = RTOL.get(str(expected[i].dtype), 1e-11) if self.rtol is None else self.rtol
                atol = rtol if self.atol is None else self.atol
                same = np.isclose(a, e, rtol=rtol, atol=atol)
            if not same.all():
                at = np.unravel_index(int(np.argmin(same)), same.shape)
                at = tuple(map(int, at))
                found = f"first at {at}: {a[at]} for {e[at]}"
                return f"{why}: {int((~same).sum())} of {same.size} differ, {found}"
        return ""


@dataclass(frozen=True, eq=False)
class Case:
    """`bugs` are (old text, new text, what it breaks); the old text occurs once."""

    name: str
    language: str
    calls: tuple[Call, ...]
    bugs: tuple[tuple[str, str, str], ...]
    features: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return HERE / FOLDER[self.language] / (self.name + SUFFIX[self.language])

    @property
    def file(self) -> str:
        return str(self.path.relative_to(HERE))

    @property
    def all_options(self) -> dict[str, Any]:
        return {"extra_include_paths": [str(INCLUDE)], **self.options}

    def load(self, **options: Any) -> Any:
        """The module of the file."""
        load = {
            "cuda": kernbridge.load_cuda_file,
            "c++": kernbridge.load_cpp_file,
            "c": kernbridge.load_c_file,
        }[self.language]
        return load(self.path, **{"name": f"corpus_{self.name}", **self.all_options, **options})

    def text_with(self, old: str, new: str) -> str:
        """The source with an edit; our headers are written into it, so that they can have one."""
        text = self.path.read_text()
        for include in re.findall(r'(?m)^#include "[\w.]+"$', text):
            header = INCLUDE / include.split('"')[1]
            if header.is_file():
                text = text.replace(include, header.read_text(), 1)
        assert text.count(old) == 1, f"{self.file}: {text.count(old)} times: {old}"
        return text.replace(old, new)

    def load_with(self, number: int, **options: Any) -> Any:
        """The module with a bug."""
        old, new, _ = self.bugs[number]
        return self.load_edited(f"bug_{self.name}_{number}", old, new, **options)

    def load_edited(self, name: str, old: str, new: str, **options: Any) -> Any:
        """The module with an edit."""
        load = {
            "cuda": kernbridge.load_cuda_inline,
            "c++": kernbridge.load_cpp_inline,
            "c": kernbridge.load_c_inline,
        }[self.language]
        given = {**self.all_options, "auto_register": False, "optimization_level": 0, **options}
        return load(name, self.text_with(old, new), **given)

    def called(self, module: Any, seed: int) -> Iterator[tuple[Call, Any, Any, list[Any]]]:
        """Runs all calls; gives each one with its inputs, and the outputs expected and found."""
        for i, call in enumerate(self.calls):
            arrays = call.inputs(np.random.default_rng([seed, i]))
            expected = call.expected(arrays)
            found = jax.jit(call.bound(module, expected))(*map(jnp.asarray, arrays))
            yield call, arrays, expected, jax.tree.leaves(found)

    def wrong(self, module: Any, seed: int) -> str:
        """Says what the first call that is wrong gets wrong; "" if none is."""
        return next(filter(None, (c.wrong(f, e) for c, _, e, f in self.called(module, seed))), "")


CASES: list[Case] = []


def case(
    name: str,
    language: str,
    features: str,
    calls: list[Call],
    *bugs: tuple[str, str, str],
    **options: Any,
) -> None:
    """Adds a case."""
    CASES.append(Case(name, language, tuple(calls), bugs, tuple(features.split()), options))


def call(
    function: str,
    inputs: Callable[[np.random.Generator], Any],
    reference: Callable[..., Any],
    *,
    aliases: Mapping[int, int] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    **attributes: Any,
) -> Call:
    """A call; other keywords are its attributes."""

    def tupled(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        made = inputs(rng)
        return made if isinstance(made, tuple) else (made,)

    return Call(function, tupled, reference, attributes, aliases or {}, rtol, atol)


def normal(*shapes: Any, dtype: Any = F32) -> Callable[[np.random.Generator], Any]:
    """Inputs of normal numbers; a shape is a tuple or an extent."""
    return lambda rng: tuple(np.asarray(rng.normal(size=s)).astype(dtype) for s in shapes)


def complex_normal(dtype: Any, *shapes: Any) -> Callable[[np.random.Generator], Any]:
    """Inputs of complex normal numbers."""
    return lambda rng: tuple(
        (rng.normal(size=s) + 1j * rng.normal(size=s)).astype(dtype) for s in shapes
    )


def integers(low: int, high: int, *shapes: Any, dtype: Any = I32) -> Callable[..., Any]:
    """Inputs of integers, `high` excluded."""
    return lambda rng: tuple(rng.integers(low, high, size=s, dtype=dtype) for s in shapes)


def anything(dtype: Any, *shape: int) -> Callable[[np.random.Generator], Any]:
    """An input of any dtype."""

    def make(rng: np.random.Generator) -> np.ndarray:
        if np.dtype(dtype).kind == "c":
            return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
        if dtype is bool:
            return rng.random(shape) < 0.5
        return rng.integers(0, 100, shape).astype(dtype)

    return make


def scribble() -> None:
    """Leave numbers of no use in the memory that the next operation gets."""
    made = [jnp.full(1 << k, jnp.nan, jnp.float32) for k in range(2, 16) for _ in range(8)]
    jax.block_until_ready(made)


def all_cases() -> list[Case]:
    """Every case of every file."""
    if not CASES:
        import cases_c  # noqa: F401
        import cases_cpp_algorithms  # noqa: F401
        import cases_cpp_numeric  # noqa: F401
        import cases_cuda_dtypes  # noqa: F401
        import cases_cuda_ml  # noqa: F401
        import cases_cuda_neural  # noqa: F401
        import cases_cuda_physics  # noqa: F401
        import cases_cuda_sorting  # noqa: F401
    return CASES
