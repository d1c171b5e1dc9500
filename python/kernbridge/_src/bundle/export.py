"""`export_bundle`: writes a function with kernels to a folder that a C program can load."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import export

from kernbridge._src.base.reports import hides_frames
from kernbridge._src.bundle import program
from kernbridge._src.bundle.program import Array, Program

_MANIFEST, _VERSION = "manifest.txt", 1
_DATA = "arguments.bin"  # the values of arguments, each aligned for C
_ALIGNMENT = 64


@hides_frames
def export_bundle(
    path: str | os.PathLike[str],
    fun: Callable[..., Any],
    *avals: Any,
    platforms: Sequence[str] | None = None,
    with_values: bool = False,
    other_targets: Sequence[str] = (),
    stablehlo_version: str | None = None,
) -> None:
    """Write a function and its kernels to a folder for programs without Python.

    The folder, called a bundle, contains a StableHLO program for each platform, with the machine
    code of its kernels, and a manifest with the names, types and shapes of the inputs and outputs.
    A C or C++ program loads it with ``kernbridge/host.h`` and runs it on any PJRT plugin; see
    docs/c-host.md. Running a bundle executes the code of its author.

    Parameters
    ----------
    path : str or os.PathLike
        The folder. An existing bundle is replaced; any other existing file or folder is an error.
    fun : callable or jax.export.Exported
        A function of arrays and pytrees of arrays. A jitted function keeps its options; the
        manifest marks donated arguments, and unused arguments are not inputs of the program.
    *avals : jax.ShapeDtypeStruct, array or pytree of them
        The positional arguments of `fun`. They may be omitted for an exported function with fixed
        shapes. For an exported function with symbolic shapes, they determine the shapes of the
        program.
    platforms : sequence of str, optional
        "cpu", "cuda" or both; by default JAX's default platform, or the platforms of the exported
        function.
    with_values : bool
        Also write the values of arguments that are arrays, such as weights or an initial state, so
        that the C program can start with them.
    other_targets : sequence of str
        Targets of other libraries that the program calls, and that the C program registers itself.
    stablehlo_version : str, optional
        The StableHLO version to write for an older plugin, such as "1.13.0". A plugin reports its
        version in the attribute ``stablehlo_current_version`` of PJRT_Plugin_Attributes. By
        default, it is the version of JAX's exports, which plugins from the last four weeks before
        that JAX can read.

    Raises
    ------
    kernbridge.errors.ExportError
        If the program cannot run without Python: if a kernel's code cannot be exported, if a
        function of JAX calls a handler that only jaxlib has, or if a shape is symbolic. The message
        states the reason.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, kernbridge, numba, pathlib, tempfile
    >>> @numba.njit
    ... def decay(v, out):
    ...     for i in range(v.size):
    ...         out[i] = 0.5 * v[i]
    >>> op = kernbridge.numba_kernel(decay, jax.ShapeDtypeStruct((3,), jnp.float32))
    >>> folder = pathlib.Path(tempfile.mkdtemp(), "bundle")
    >>> kernbridge.export_bundle(folder, jax.jit(op), jnp.ones(3), platforms=["cpu"])
    >>> sorted(file.name for file in folder.iterdir())
    ['manifest.txt', 'program.cpu.mlirbc']
    """
    if not isinstance(fun, export.Exported) and not callable(fun):
        raise TypeError(
            f"export_bundle: fun is {fun!r}, expected a function or a jax.export.Exported [KB6104]"
        )
    folder = Path(path)
    is_bundle = folder.is_dir() and (not any(folder.iterdir()) or (folder / _MANIFEST).is_file())
    if folder.exists() and not is_bundle:
        raise FileExistsError(
            f"export_bundle: {folder} exists and is not a bundle; remove it, or choose another "
            "folder [KB6104]"
        )
    args = avals or program.arguments_of(fun)
    names = program.argument_names(fun, args)
    program.check_fixed(names, args)
    wanted = _platforms(platforms, getattr(fun, "platforms", None))
    offsets, data = _values(args) if with_values else ([None] * len(names), None)
    programs = []
    for platform in wanted:
        exported = program.exported_for(platform, fun, args, other_targets)
        made = program.make(platform, exported, names, offsets, other_targets, stablehlo_version)
        programs.append(made)
    _write(folder, programs, data)


def _platforms(given: Sequence[str] | None, of_program: Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        here = jax.default_backend()
        given = of_program or ("cuda" if here == "gpu" else here,)
    unknown = [name for name in given if name not in ("cpu", "cuda")]
    if unknown or not given or len(set(given)) < len(given):
        raise ValueError(
            f"export_bundle: platforms is {tuple(given)!r}, expected 'cpu', 'cuda' or both [KB6104]"
        )
    return tuple(given)


def _values(args: Any) -> tuple[list[int | None], bytes]:
    """Return where the values of each array begin, and all values."""
    offsets: list[int | None] = []
    data = bytearray()
    for leaf in jax.tree.leaves(args):
        dtype = jax.dtypes.result_type(leaf)
        is_extended = jax.dtypes.issubdtype(dtype, jax.dtypes.extended)
        if isinstance(leaf, jax.ShapeDtypeStruct) or is_extended:
            offsets.append(None)
            continue
        data += bytes(-len(data) % _ALIGNMENT)
        offsets.append(len(data))
        data += np.asarray(leaf, jax.dtypes.canonicalize_dtype(dtype)).tobytes()
    return offsets, bytes(data)


def _write(path: Path, programs: Sequence[Program], data: bytes | None) -> None:
    """Write the folder beside its place, and then put it there."""
    made_by = f"kernbridge {metadata.version('kernbridge')}, jax {jax.__version__}"
    path.parent.mkdir(parents=True, exist_ok=True)
    made, before = (path.with_name(f".{path.name}.{uuid.uuid4().hex}") for _ in range(2))
    made.mkdir()
    try:
        for p in programs:
            (made / _file_of(p)).write_bytes(p.code)
        if data is not None:
            (made / _DATA).write_bytes(data)
        (made / _MANIFEST).write_bytes(manifest(made_by, programs, data))
        if path.exists():
            path.rename(before)
        made.rename(path)
    finally:
        shutil.rmtree(made, ignore_errors=True)
        shutil.rmtree(before, ignore_errors=True)


def manifest(made_by: str, programs: Sequence[Program], data: bytes | None) -> bytes:
    """Return the text of the manifest, which src/embed/kb_manifest.h describes and reads."""
    lines = [f"kernbridge-bundle {_VERSION}", f"made-by {_one_line(made_by)}"]
    if data is not None:
        lines.append(f"data {_described(data)} {_DATA}")
    for p in programs:
        lines.append(f"program {_described(p.code)} {p.platform} {_file_of(p)}")
        for a in p.inputs:
            offset = "-" if a.offset is None else str(a.offset)
            lines.append(f"input {a.dtype} {int(a.donated)} {offset} {_shape_and_name(a)}")
        lines += [f"output {a.dtype} {_shape_and_name(a)}" for a in p.outputs]
    text = "".join(line + "\n" for line in lines).encode()
    return text + f"end {hashlib.sha256(text).hexdigest()}\n".encode()


def _described(content: bytes) -> str:
    return f"{len(content)} {hashlib.sha256(content).hexdigest()}"


def _shape_and_name(array: Array) -> str:
    return " ".join((str(len(array.shape)), *map(str, array.shape), _one_line(array.name)))


def _file_of(program: Program) -> str:
    return f"program.{program.platform}.mlirbc"


def _one_line(text: str) -> str:
    """The text without what would end a line or a string of C."""
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return escaped.encode("utf-8", "backslashreplace").decode()
