"""`export_bundle`: a function with kernels becomes a folder that a C program can load."""

from __future__ import annotations

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
from kernbridge._src.bundle import manifest, program


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
    """Write a function with its kernels for a host that has no Python.

    The bundle is a folder: a StableHLO program for each platform, which carries the machine code of
    its kernels, and a manifest with the names, types and shapes of what the program takes and
    returns. A C or C++ program loads it with ``kernbridge/host.h`` and runs it on any PJRT plugin;
    see docs/c-host.md. Who runs a bundle runs code of who wrote it.

    Parameters
    ----------
    path : str or os.PathLike
        The folder. A bundle that is there is replaced; anything else is an error.
    fun : callable or jax.export.Exported
        A function of arrays and pytrees of them. A jitted function keeps its options; arguments
        that it donates are noted, and those that it does not use are no inputs of the program.
    *avals : jax.ShapeDtypeStruct, array or pytree of them
        Its positional arguments. May be left out for an exported function of fixed shapes; for one
        of symbolic shapes they say which shapes the program is for.
    platforms : sequence of str, optional
        Any of "cpu" and "cuda"; by default JAX's own platform, or those of the exported function.
    with_values : bool
        Whether the values of arguments that are arrays are written, too, so that the host can start
        with them: weights, or a first state.
    other_targets : sequence of str
        Handlers of others that the program calls, and that the host registers itself.
    stablehlo_version : str, optional
        The version that an older plugin reads, "1.13.0" for example: a plugin says it in the
        attribute ``stablehlo_current_version`` of PJRT_Plugin_Attributes. By default that of JAX's
        exports, which plugins of the last four weeks before that JAX read.

    Raises
    ------
    kernbridge.errors.ExportError
        If the program cannot run without Python: a kernel's code does not travel, a function of JAX
        calls a handler that only jaxlib has, or a shape is symbolic. The message has the reason.

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
    _check_free(Path(path))
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
    _write(Path(path), programs, data)


def _platforms(given: Sequence[str] | None, of_program: Sequence[str] | None) -> tuple[str, ...]:
    if isinstance(given, str):
        raise TypeError(
            f"export_bundle: platforms is {given!r}, expected a sequence: ({given!r},) [KB6104]"
        )
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
        if isinstance(leaf, jax.ShapeDtypeStruct) or jax.dtypes.issubdtype(
            dtype, jax.dtypes.extended
        ):
            offsets.append(None)
            continue
        data += bytes(-len(data) % manifest.ALIGNMENT)
        offsets.append(len(data))
        data += np.asarray(leaf, jax.dtypes.canonicalize_dtype(dtype)).tobytes()
    return offsets, bytes(data)


def _check_free(path: Path) -> None:
    """Raise FileExistsError if something else than a bundle would be replaced."""
    is_bundle = path.is_dir() and (not any(path.iterdir()) or (path / manifest.NAME).is_file())
    if path.exists() and not is_bundle:
        raise FileExistsError(
            f"export_bundle: {path} exists and is no bundle; remove it, or name another folder"
            " [KB6104]"
        )


def _write(path: Path, programs: Sequence[manifest.Program], data: bytes | None) -> None:
    """Write the folder beside its place, and then put it there."""
    made_by = f"kernbridge {metadata.version('kernbridge')}, jax {jax.__version__}"
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    made.mkdir()
    try:
        for p in programs:
            (made / p.file).write_bytes(p.code)
        if data is not None:
            (made / manifest.DATA_FILE).write_bytes(data)
        text = manifest.write(made_by, programs, data)
        (made / manifest.NAME).write_bytes(text)
        _replace(path, made)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _replace(path: Path, made: Path) -> None:
    before = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    if path.exists():
        path.rename(before)
    made.rename(path)
    shutil.rmtree(before, ignore_errors=True)
