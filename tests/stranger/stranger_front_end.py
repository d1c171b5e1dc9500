"""A front end of another package: polynomials, which a C compiler turns into machine code.

It uses the interfaces of docs/design/0014-front-ends.md, and nothing else of kernbridge.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernbridge import Inspection, Operation, _core
from kernbridge._src.base.dtypes import CODES
from kernbridge._src.base.packing import HostCode, host_code
from kernbridge._src.calls.call import ArrayType, Call
from kernbridge._src.forge.artefacts import Artefact
from kernbridge._src.forge.obtain import Recipe, obtain
from kernbridge._src.keys.identity import identity_of
from kernbridge._src.operation import origin
from kernbridge._src.operation.primitive import Frontend, NativeCall
from kernbridge._src.operation.spec import OperationSpec

KIND = "stranger.polynomial"  # of artefacts, of identities and of origins
TYPES = {"float32": "float", "float64": "double"}
# An entry reads XLA's buffers (src/abi/kb_xla.h), and returns 0 (src/abi/kb_numba.h).
SOURCE = """
#include <stddef.h>
#include <stdint.h>
typedef struct {{
    size_t size; void *extension; int32_t dtype; void *data; int64_t rank; int64_t *dims;
}} buffer;

int32_t {entry}(void **result, void **exception, buffer *const *in, buffer *const *out)
{{
    const {type} *x = in[0]->data, c[] = {{{coefficients}}};
    {type} *y = out[0]->data;
    int64_t n = 1;
    for (int64_t d = 0; d < in[0]->rank; d++)
        n *= in[0]->dims[d];
    for (int64_t i = 0; i < n; i++) {{
        {type} sum = 0;
        for (int k = {degree}; k >= 0; k--)
            sum = sum * x[i] + c[k];
        y[i] = sum;
    }}
    return 0;
}}
"""


class Compilation(Recipe[bytes]):
    """The machine code of one polynomial for arrays of one dtype and rank."""

    kind = "stranger_polynomial"
    tool = "the C compiler"

    def __init__(self, coefficients: tuple[float, ...], dtype: str, rank: int) -> None:
        self.coefficients, self.dtype, self.rank = coefficients, dtype, rank
        self.label = label_of(coefficients)
        values = (coefficients, dtype, rank)
        self.identity = identity_of(made=KIND, code=SOURCE.encode(), described=values, inlined=None)

    def source(self) -> str:
        return SOURCE.format(
            entry=_core.HOST_CODE_ENTRY,
            type=TYPES[self.dtype],
            coefficients=", ".join(map(repr, self.coefficients)),
            degree=len(self.coefficients) - 1,
        )

    def make(self) -> Artefact:
        print("compiles", self.label)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "p.c").write_text(self.source())
            command = [os.environ.get("CC", "cc"), "-c", "-O2", "-fPIC", "p.c", "-o", "p.o"]
            subprocess.run(command, cwd=folder, check=True)
            machine_code = (Path(folder) / "p.o").read_bytes()
        code = HostCode(machine_code, features=0, places={}, lasting=True)
        head = (self.label, "", 1, 1, 0)  # and one input, one output, no hidden result
        buffers = [(CODES[self.dtype], self.rank, name) for name in ("x", "y")]
        return Artefact({}, (host_code(self.identity, head, buffers, code),))

    def use(self, made: Artefact) -> bytes:
        _core.register_host_code(self.identity, made.blobs[0])
        return made.blobs[0]


class Polynomial(Frontend):
    platforms = ("cpu",)
    parameter_names = ("x", "y")

    def __init__(self, coefficients: tuple[float, ...]) -> None:
        self.coefficients, self.name = coefficients, "polynomial"
        self.label = label_of(coefficients)

    def buffer_names(self, n_inputs: int, scalars: Sequence[str], n_outputs: int) -> Sequence[str]:
        return ("x", "y")

    def check(self, operands: Sequence[ArrayType], call: Call) -> None:
        if len(operands) != 1 or operands[0].dtype.name not in TYPES:
            raise TypeError(f"{self.label} takes one array of {' or '.join(TYPES)}")

    def compilation(self, operands: Sequence[ArrayType]) -> Compilation:
        (x,) = operands
        return Compilation(self.coefficients, x.dtype.name, len(x.shape))

    def lower(self, platform: str, operands: Sequence[ArrayType], call: Call) -> NativeCall:
        job = self.compilation(operands)
        obtain(job)
        described = {"coefficients": job.coefficients, "dtype": job.dtype, "rank": job.rank}
        return NativeCall(
            target="kernbridge.host",
            digest=job.identity,
            key=int.from_bytes(job.identity[:8], "little", signed=True),
            origin=origin.write(KIND, **described),
            copied=(),
            why_not_portable="",
        )

    def inspect(self, operands: Sequence[ArrayType], call: Call) -> tuple[Inspection, ...]:
        return (Inspection(self.name, "cpu", "", self.compilation(operands).source()),)


def label_of(coefficients: Sequence[float]) -> str:
    return f"polynomial {list(coefficients)}"


def polynomial(*coefficients: float, **options: Any) -> Operation:
    """Return an operation: c[0] + c[1] x + ... of each element of an array."""
    front_end = Polynomial(tuple(map(float, coefficients)))
    spec = OperationSpec.of(options, front_end.label, lambda x: x)
    return Operation(spec, front_end)


def resolve(digest: bytes, described: dict[str, Any]) -> None:
    """Register the kernel of a program that another process exported."""
    coefficients = tuple(map(float, described["coefficients"]))
    job = Compilation(coefficients, str(described["dtype"]), int(described["rank"]))
    if job.identity != digest:
        raise ValueError("its kernel is not that of this digest")
    obtain(job)


def start() -> None:
    """Called when JAX starts its backends, by the entry point of this package."""
    origin.register(KIND, __name__)
