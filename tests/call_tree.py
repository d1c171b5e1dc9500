"""Writes which functions of kernbridge call which, in three walks: call_tree.md.

    python tests/call_tree.py            # prints the page
    python tests/call_tree.py --write

Each walk compiles something for the first time, with an empty cache. A function is shown below the
first function that called it, with the number of its calls; what it calls is shown once. A walk is
shown to its end, but for what happens inside the folders of `ENTRIES`, which serve all others: only
the functions by which they are entered are shown.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

os.environ["KERNBRIDGE_CACHE_DIR"] = tempfile.mkdtemp(prefix="kernbridge-walk-")
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import kernbridge
import numba

ROOT = Path(kernbridge.__file__).parent
PAGE = Path(__file__).with_suffix(".md")
ENTRIES = ("base", "keys")


@dataclass
class Call:
    """A function at one place of the tree."""

    code: CodeType | None = None
    calls: int = 0
    below: dict[CodeType, Call] = field(default_factory=dict)

    def lines(self, seen: set[CodeType], depth: int = 0) -> list[str]:
        found = []
        for code, call in self.below.items():
            place = Path(code.co_filename).relative_to(ROOT).as_posix().removeprefix("_src/")
            times = f" ({call.calls} times)" if call.calls > 1 else ""
            again = code in seen and bool(call.below)
            seen.add(code)
            found.append(
                f"{'  ' * depth}{code.co_qualname} [{place}]{times}{' ...' if again else ''}"
            )
            if not again and not place.startswith(ENTRIES):
                found += call.lines(seen, depth + 1)
        return found


class Walk:
    """Records the calls of kernbridge's functions inside a `with` block."""

    def __init__(self) -> None:
        self.root = Call()
        self._stack: list[tuple[FrameType, Call]] = []

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(f"{ROOT}{os.sep}"):
            return
        if event == "call" and "<" not in code.co_name:
            parent = self._stack[-1][1] if self._stack else self.root
            call = parent.below.setdefault(code, Call(code))
            call.calls += 1
            self._stack.append((frame, call))
        elif event == "return" and self._stack and self._stack[-1][0] is frame:
            self._stack.pop()

    def __enter__(self) -> Walk:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


SOURCE = """
#include "kernbridge/kernbridge.hpp"
// @BE {name} arg ret
void {name}(const kernbridge::Tensor x, kernbridge::Tensor out) {{
    for (long i = 0; i < x.numel(); i++)
        out.data_ptr<float>()[i] = 2 * x.data_ptr<float>()[i];
}}
"""


@numba.njit
def warm(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        out[i] = x[i] + 1


@numba.njit
def decay(v, spikes, out):  # type: ignore[no-untyped-def]
    for i in range(v.size):
        out[i] = 0.0 if spikes[i] else v[i] * 0.9


def cuda_kernels() -> tuple[Any, Any]:
    from numba import cuda

    @cuda.jit
    def warm(x, out):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] + 1

    @cuda.jit
    def decay(v, spikes, out):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < v.size:
            out[i] = 0.0 if spikes[i] else v[i] * 0.9

    return warm, decay


def walks() -> dict[str, Callable[[], Any]]:
    """Each walk, after what only the first of its kind does."""
    x = jnp.arange(8.0)
    jax.jit(kernbridge.numba_kernel(warm, lambda x: x))(x).block_until_ready()
    on_cpu = jax.jit(kernbridge.numba_kernel(decay, lambda v, s: v)).trace(x, x > 2)
    first, second = cuda_kernels()
    jax.jit(kernbridge.numba_cuda_kernel(first, lambda x: x, launch_dims=8))(x).block_until_ready()
    op = kernbridge.numba_cuda_kernel(second, lambda v, s: v, launch_dims=8)
    on_gpu = jax.jit(op).trace(x, x > 2)
    kernbridge.load_cpp_inline("warm_source", SOURCE.format(name="warm_source"))
    return {
        "A Numba kernel is lowered": on_cpu.lower,
        "A Numba-CUDA kernel is lowered for a CPU": on_gpu.lower,
        "A C++ source is loaded": lambda: kernbridge.load_cpp_inline(
            "cold_source", SOURCE.format(name="cold_source")
        ),
    }


def page() -> str:
    text = (
        "# Call trees\n\n"
        "`python tests/call_tree.py --write` wrote this page by running three walks through\n"
        "`kernbridge/_src` with an empty cache. A function whose calls are shown above has `...`.\n"
        "Running a compiled program enters no Python function.\n"
    )
    for title, run in walks().items():
        with Walk() as walk:
            run()
        text += f"\n## {title}\n\n```text\n" + "\n".join(walk.root.lines(set())) + "\n```\n"
    return text


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page())
    else:
        print(page())
