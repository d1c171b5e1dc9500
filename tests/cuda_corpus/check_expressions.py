"""Drawn expressions on the CPU against the values that a GPU gave."""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .case import Case
from .expressions import cases
from .keep_expressions import digest

VALUES = Path(__file__).with_name("expressions.npz")
KEEP = (
    "run `python -m cuda_corpus.keep_expressions --into cuda_corpus` in tests/ on a machine with a "
    "GPU"
)
UNLIKE = (
    # ptxas negates the smallest int16 to 32768, in 32 bits.
    "(np.int16(abs(np.int64(int16_2))) * (int64_0 % np.int16(13)))",
    # ptxas fuses halves too, within the code of cuda_fp16.hpp.
    "np.float32(np.float16(float32_0) * np.float16(float32_1) + np.float16(float32_2))",
    # Where ptxas finds the product's other use, a division's slow path lies in between.
    "((((np.float32(100.0) if bool_3 else float32_1) * (np.float32(0.1) / float32_3)) * "
    "((float32_3 * float32_1) + (float32_2 - float32_1))) * abs(np.float32(-(float64_2))))",
    # NVVM leaves a shift of 64 bits by the constant 100 undefined, and drops the branch to it.
    "((np.uint64(bool_3) >> np.uint16(np.float32(100.0))) if "
    "((uint8_1 >> uint8_2) <= (np.uint16(3) * np.uint16(3))) else np.uint16((int16_0 & int64_1)))",
    # A write that may be out of bounds is a branch on the CPU. A product that several expressions
    # of a kernel share is computed in each of these branches, so that fewer sums seem to read it.
    *(
        f"sums_{kind}_1: {text.replace('N', kind)}"
        for kind in ("float32", "float64")
        for text in ("(N_3 * N_0 + N_3 * N_1) + N_3 * N_2", "N_0 / N_1 + N_2 * N_3")
    ),
)
"""Expressions of which the CPU gives another value, in every kernel or in one, and why."""


def kept(*groups: str) -> Iterator[tuple[Case, tuple[str, ...], np.ndarray]]:
    """The kernels of some groups with what the GPU gave.

    Raises
    ------
    LookupError
        If there are no values of a kernel, or they are of other expressions or inputs.
    """
    with np.load(VALUES) as archive:
        digests = dict(zip(archive["names"].tolist(), archive["digests"].tolist(), strict=True))
        values = {name: archive[name] for name in {c.outs[0][1].name for c, _ in cases()}}
    at = dict.fromkeys(values, 0)
    for case, texts in cases():
        if digests.get(case.name) != digest(case, texts):
            raise LookupError(f"{case.name}: no values of these expressions are kept; {KEEP}")
        kind = case.outs[0][1].name
        first = at[kind]
        at[kind] += len(texts)
        if case.name.split("_")[0] in groups:
            yield case, texts, values[kind][first : at[kind]]


def differences(case: Case, texts: tuple[str, ...], want: np.ndarray) -> list[str]:
    """Which expressions give another value than the GPU: to the bit, NaN apart."""
    (got,) = case.run()
    found = []
    for text, g, w in zip(texts, got, want, strict=True):
        wrong = g != w
        if g.dtype.kind == "f":
            wrong = (wrong | (np.signbit(g) != np.signbit(w))) & ~(np.isnan(g) & np.isnan(w))
        if case.rtol:
            wrong &= ~np.isclose(g, w, rtol=case.rtol, atol=0, equal_nan=True)
        unlike = text in UNLIKE or f"{case.name}: {text}" in UNLIKE
        if bool(wrong.any()) != unlike:
            i = int(np.argmax(wrong))
            found.append(
                f"{case.name}: {text}: {int(wrong.sum())} of {g.size} values differ, first at "
                f"{i}: {g[i]} against the GPU's {w[i]}"
            )
    return found


def check(*groups: str, every: int = 1) -> None:
    """Print what differs in some groups on the CPU, and how much was compared, as JSON.

    Of the kernels of a group, those at multiples of `every` are run.
    """
    import jax

    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    found: list[str] = []
    n = 0
    for case, texts, want in itertools.islice(kept(*groups), 0, None, every):
        n += len(texts)
        found += differences(case, texts, want)
    print(json.dumps([n, found]))
