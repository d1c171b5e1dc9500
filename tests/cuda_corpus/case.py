"""What a kernel of the corpus is, and how it is run."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .kept_inputs import settled

GROUPS = (
    "elementwise",
    "integers",
    "functions",
    "stencils",
    "reductions",
    "scans",
    "atomics",
    "warps",
    "sparse",
    "sorting",
    "linear",
    "neurons",
    "draws",
)
"""The modules that hold kernels, by subject."""


@dataclass(frozen=True, eq=False)
class Case:
    """One kernel with its launch, its data, and how exactly its values are known.

    Parameters
    ----------
    kernel : numba.cuda.jit dispatcher
        Takes inputs, outputs, then scalars by name.
    inputs : function
        Gives the input arrays from a NumPy Generator.
    outs : sequence of (shape, dtype)
        The outputs.
    covers : str
        The path that the kernel covers.
    bug : str
        The change to that path which the kernel must notice, by its name in `bugs.BUGS`.
    reference : function, optional
        Gives the outputs from the inputs in NumPy, independently of the kernel.
    rtol, atol : float
        Tolerance of floats against the GPU's values; integers are exact always.
    why : str
        Where the tolerance comes from.
    """

    kernel: Any
    inputs: Callable[[np.random.Generator], tuple[Any, ...]]
    outs: Sequence[tuple[tuple[int, ...], Any]]
    covers: str
    bug: str
    grid: Any = None
    block: Any = None
    launch_dims: Any = None
    shared_mem: int = 0
    scalars: Mapping[str, Any] = field(default_factory=dict)
    aliases: Mapping[int, int] | None = None
    zero_outputs: bool = False
    view: Mapping[str, Any] | None = None
    reference: Callable[..., Any] | None = None
    rtol: float = 0
    atol: float = 0
    why: str = ""

    @property
    def name(self) -> str:
        return self.kernel.__name__

    def arguments(self) -> tuple[np.ndarray, ...]:
        """The inputs; the same ones at every call, and on every machine."""
        drawn = self.inputs(np.random.default_rng(zlib.crc32(self.name.encode())))
        return tuple(settled(self.name, drawn))

    def sizes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The extents of the grid and of a block."""

        def of_three(n: Any) -> tuple[int, ...]:
            n = (n,) if isinstance(n, int) else tuple(n)
            return (*n, 1, 1)[:3]

        if self.grid is not None:
            return of_three(self.grid), of_three(self.block)
        dims = self.launch_dims
        if callable(dims):
            dims = dims(*self.arguments(), **self.scalars)
        dims = (dims,) if isinstance(dims, int) else tuple(dims)
        block = {1: (min(256, dims[0]),), 2: (16, 16), 3: (8, 8, 4)}[len(dims)]
        grid = tuple(-(-n // b) for n, b in zip(dims, block, strict=True))
        return of_three(grid), of_three(block)

    def digest(self) -> int:
        """Of the inputs: tells whether kept values belong to them."""
        digest = 0
        for x in self.arguments():
            digest = zlib.crc32(np.ascontiguousarray(x).tobytes(), digest)
        return digest

    def run(self, check: bool = False) -> list[np.ndarray]:
        """The outputs, under `jax.jit`, on JAX's default device, with checks or without."""
        import jax
        from kernbridge import numba_cuda_kernel

        operation = numba_cuda_kernel(
            self.kernel,
            [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in self.outs],
            grid=self.grid,
            block=self.block,
            launch_dims=self.launch_dims,
            shared_mem=self.shared_mem,
            input_output_aliases=self.aliases,
            zero_outputs=self.zero_outputs,
            view=self.view,
            check=check,
        )

        def call(*inputs):  # a new function: jax.jit would not lower a known one again
            return operation(*inputs, **self.scalars)

        return [np.array(out) for out in jax.jit(call)(*self.arguments())]

    def expected(self) -> list[np.ndarray] | None:
        """The outputs as the reference has them."""
        if self.reference is None:
            return None
        want = self.reference(*self.arguments(), **self.scalars)
        want = want if isinstance(want, tuple) else (want,)
        return [
            np.broadcast_to(np.asarray(w), shape).astype(dtype)
            for w, (shape, dtype) in zip(want, self.outs, strict=True)
        ]

    def differences(self, got: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> list[str]:
        """Where outputs are further apart than the tolerance; nothing if nowhere."""
        assert len(got) == len(want) == len(self.outs)
        found = []
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            exact = g.dtype.kind in "biu"
            rtol, atol = (0, 0) if exact else (self.rtol, self.atol)
            if (g.shape, g.dtype) != (w.shape, w.dtype):
                found.append(f"{self.name}/{i}: {g.dtype}{g.shape} against {w.dtype}{w.shape}")
                continue
            wrong = ~np.isclose(g, w, rtol=rtol, atol=atol, equal_nan=True)
            if exact:
                wrong = g != w
            if wrong.any():
                at = tuple(int(k) for k in np.argwhere(wrong)[0])
                found.append(
                    f"{self.name}/{i}: {int(wrong.sum())} of {g.size} elements differ, "
                    f"{at} first: {g[at]} against {w[at]}"
                )
        return found


class Cases(list[Case]):
    """The cases of one module, in the order in which they stand there."""

    def case(self, **fields: Any) -> Callable[[Any], Any]:
        """Take the kernel below as a case."""

        def take(kernel: Any) -> Any:
            self.append(Case(kernel=kernel, **fields))
            return kernel

        return take


def cases(*groups: str) -> list[Case]:
    """All cases, or those of some groups."""
    found = []
    for group in groups or GROUPS:
        found += importlib.import_module(f"{__package__}.{group}").CASES
    return found
