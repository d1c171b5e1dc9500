"""Kernels as machine code with a description for the core, on disk and in programs.

src/object/kb_host_code.h describes the format.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kernbridge import _core
from kernbridge._src.base.packing import sealed, sized, text
from kernbridge._src.base.reports import warn
from kernbridge._src.operation.parameters import warn_of_copies

if TYPE_CHECKING:
    from kernbridge._src.numba_cpu.entry import Entry
    from kernbridge._src.numba_cpu.object_code import ObjectCode

CACHE_KIND = "numba_cpu_code"

# Numba's settings that do not change the code, and differ between processes.
_OTHER_SETTINGS = ("NUM_THREADS", "NUMBA_NUM_THREADS", "NUMBA_DEFAULT_NUM_THREADS", "CACHE_DIR")

Buffer = tuple[int, int, str]  # dtype code, rank, name


@dataclass(frozen=True, slots=True)
class Carried:
    """What goes with a kernel to other processes.

    Attributes
    ----------
    program : bytes
        The kernel; empty if its machine code cannot leave this process.
    why_not : str
        Why it cannot.
    runs_here : bool
        Whether this process runs that machine code too.
    independent : bool
        Whether the kernel provably needs nothing but its arguments, so that calls may run at once.
    """

    program: bytes = b""
    why_not: str = ""
    runs_here: bool = False
    independent: bool = False

    def summary(self) -> str:
        """Return what an exported program holds."""
        if self.program:
            return f"as {len(self.program):,} bytes of machine code"
        return f"by name, because {self.why_not}"


class Warnings(NamedTuple):
    """What users are told of a kernel, whoever has compiled it."""

    copied: tuple[int, ...]  # inputs that it may write to
    lost: tuple[str, ...]  # sentences about floats that become integers

    def issue(self, label: str, names: Sequence[str]) -> None:
        """Issue them; `names` are those of the parameters of inputs and outputs."""
        remedy = "write to a local array instead, declare the parameter read-only in an explicit "
        warn_of_copies(label, self.copied, names, remedy + "signature")
        for sentence in self.lost:
            warn(f"{label}: {sentence}")


@dataclass(frozen=True, slots=True)
class Found:
    """What the disk has of a kernel."""

    program: bytes
    warnings: Warnings


@dataclass(frozen=True, slots=True)
class Description:
    """What the core registers of a kernel besides its code."""

    name: str
    kernel: str  # the name of its function alone
    source: str
    n_inputs: int
    n_outputs: int
    buffers: tuple[Buffer, ...]  # inputs, outputs, hidden results


def encode(digest: bytes, about: Description, code: ObjectCode) -> bytes:
    """The bytes of a kernel whose identity is `digest`."""
    n_hidden = len(about.buffers) - about.n_inputs - about.n_outputs
    body = b"".join(
        (
            struct.pack("<q", _signed(code.features)),
            text(about.name),
            text(about.source),
            struct.pack("<III", about.n_inputs, about.n_outputs, n_hidden),
            *(struct.pack("<II", dtype, rank) + text(name) for dtype, rank, name in about.buffers),
            struct.pack("<I", len(code.places)),
            *(struct.pack("<I", status) + text(at) for status, at in sorted(code.places.items())),
            sized(code.code),
        )
    )
    return sealed(_core.HOST_CODE_MAGIC, _core.HOST_CODE_VERSION, digest, body)


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits


def key(kernel: Any, digest: bytes, lines: bytes, has_vector_math: bool) -> bytes | None:
    """The key on disk: of the kernel, where it stands, and of all that generates its code.

    None if the disk keeps nothing.
    """
    from kernbridge._src.forge import artefacts
    from kernbridge._src.keys import package_digest
    from kernbridge._src.numba_common import private_llvmlite, vector_math
    from kernbridge._src.numba_common.private_numba import config, numba

    if artefacts.get_cache_dir() is None:
        return None
    made_of = (
        package_digest.digest(),
        digest,
        lines,
        kernel.targetctx.codegen().magic_tuple(),
        numba.__version__,
        np.__version__,
        private_llvmlite.version,
        private_llvmlite.binding.llvm_version_info,
        _settings(vars(config)),
        vector_math.provided() if has_vector_math else (),
    )
    return hashlib.sha256(repr(made_of).encode()).digest()


def _settings(module: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    plain = (bool, int, float, str, type(None))
    return sorted(
        (name, repr(value))
        for name, value in module.items()
        if name.isupper() and isinstance(value, plain) and name not in _OTHER_SETTINGS
    )


def make(
    key: bytes | None,
    digest: bytes,
    about: Description,
    warnings: Warnings,
    entry: Entry,
) -> Carried:
    """Write a kernel that this process has compiled, and keep it on disk under a key.

    Code whose exceptions need no code of the user's is registered: what this process runs is what
    others get, and nothing is compiled twice.
    """
    from kernbridge._src.forge import artefacts
    from kernbridge._src.numba_cpu import exception_texts, object_code

    try:
        code = object_code.make(entry)
        program = encode(digest, about, code)
        independent = _core.check_host_code(digest, program)
        if code.lasting:
            _core.register_host_code(digest, program)
    except exception_texts.NotCarried as e:
        return Carried(why_not=str(e))
    except ValueError as e:
        return Carried(why_not=f"its machine code cannot be loaded elsewhere: {e}")
    if code.lasting and key is not None:
        meta = {name: list(value) for name, value in warnings._asdict().items()}
        kept = artefacts.Artefact(meta=meta, blobs=(program,))
        artefacts.store(CACHE_KIND, key, kept, about.kernel)
    return Carried(program, runs_here=code.lasting, independent=independent)


def is_independent(digest: bytes, about: Description, entry: Entry) -> bool:
    """Whether a kernel that stays in this process provably needs nothing but its arguments."""
    from kernbridge._src.numba_cpu import exception_texts, object_code

    try:
        return _core.check_host_code(digest, encode(digest, about, object_code.make(entry)))
    except (exception_texts.NotCarried, ValueError):
        return False


def load(key: bytes | None, digest: bytes) -> Found | None:
    """Register the kernel that the disk has under a key; None if there is none."""
    from kernbridge._src.forge import artefacts

    found = None if key is None else artefacts.load(CACHE_KIND, key)
    if found is None:
        return None
    try:
        _core.register_host_code(digest, found.blobs[0])
        copied, lost = found.meta["copied"], found.meta["lost"]
        return Found(found.blobs[0], Warnings(tuple(map(int, copied)), tuple(map(str, lost))))
    except ValueError:  # it was made for another processor, or is damaged
        return None
