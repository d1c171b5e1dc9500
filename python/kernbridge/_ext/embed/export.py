"""`export_bundle`: writes a function with kernels to a folder that a C program can load."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np

from kernbridge._src.base import private_jax
from kernbridge._src.base.dtypes import BITS
from kernbridge._src.base.errors import ExportError
from kernbridge._src.base.private_jax import mlir
from kernbridge._src.base.progress import shown
from kernbridge._src.base.reports import hides_frames

_MANIFEST, _VERSION = "manifest.txt", 1
_DATA = "arguments.bin"  # the values of arguments, each aligned for C
_ALIGNMENT = 64

# Handlers that XLA has on any plugin. All others are registered by some library.
_OF_XLA = (
    *("AllocateBuffer", "ApproxTopK", "PartialReduce", "Sharding", "SPMDFullToShardShape"),
    *("SPMDShardToFullShape", "TopK", "annotate_device_placement", "mhlo.topk", "shape_assertion"),
    *("stablehlo.dynamic_approx_top_k", "stablehlo.dynamic_reduce_window"),
    *("stablehlo.dynamic_rng_bit_generator", "stablehlo.dynamic_top_k"),
)

_Call = tuple[str, dict[str, Any]]  # the target of a custom call, and its attributes by name
_Program = tuple[bytes, list[str]]  # StableHLO, and the lines of its arguments and results


@hides_frames
def export_bundle(
    path: str | os.PathLike[str],
    fun: Callable[..., Any] | jax.export.Exported,
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
    if not isinstance(fun, jax.export.Exported) and not callable(fun):
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
    args = avals or _arguments_of(fun)
    names = argument_names(fun, args)
    for name, leaf in zip(names, jax.tree.leaves(args), strict=True):
        shape = np.shape(leaf)
        if not all(isinstance(d, (int, np.integer)) for d in shape):
            raise ExportError(
                f"export_bundle: {name} has the symbolic shape ({', '.join(map(str, shape))}), and "
                "a program of a bundle has fixed shapes: pass arrays or jax.ShapeDtypeStructs with "
                "numbers, and write a bundle for each shape that the host needs [KB6103]"
            )
    wanted = _platforms(platforms, getattr(fun, "platforms", None))
    offsets, data = _values(args) if with_values else (["-"] * len(names), None)
    programs = {}
    for platform in wanted:
        with shown(f"exporting a program for {platform}"):
            exported = _exported_for(platform, fun, args, other_targets)
            made = _program(platform, exported, names, offsets, other_targets, stablehlo_version)
        programs[platform] = made
    _write(folder, programs, data)


def _exported_for(
    platform: str, fun: Callable[..., Any], args: Sequence[Any], other_targets: Sequence[str]
) -> Any:
    if isinstance(fun, jax.export.Exported):
        if platform not in fun.platforms:
            raise ExportError(
                f"export_bundle: the program was exported for {', '.join(fun.platforms)}, but the "
                f"bundle needs it for {platform}: pass platforms=({platform!r}, ...) to "
                "jax.export.export [KB6103]"
            )
        given = [(np.shape(a), jax.dtypes.result_type(a)) for a in jax.tree.leaves(args)]
        is_same = given == [(aval.shape, aval.dtype) for aval in fun.in_avals]
        if fun.platforms == (platform,) and not fun.uses_global_constants and is_same:
            return fun
        fun = fun.call
    jitted = fun if isinstance(fun, jax.stages.Wrapped) else jax.jit(fun)
    checks = [jax.export.DisabledSafetyCheck.custom_call(target) for target in other_targets]
    try:
        return jax.export.export(jitted, platforms=[platform], disabled_checks=checks)(*args)
    except NotImplementedError as e:
        if "callback" not in str(e):
            raise
        raise ExportError(
            "export_bundle: the function calls Python while it runs, which a host without "
            "Python cannot do; remove jax.pure_callback, jax.debug.print and similar "
            f"functions, and operations that run as Python. JAX reports: {e} [KB6103]"
        ) from None


def _arguments_of(fun: Any) -> tuple[Any, ...]:
    """Return the shapes of an exported program's arguments; nothing for a function."""
    if not isinstance(fun, jax.export.Exported):
        return ()
    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in fun.in_avals]
    args, keywords = jax.tree.unflatten(fun.in_tree, shapes)
    if keywords:
        raise ExportError(
            "export_bundle: the program was exported with the keyword arguments "
            f"{', '.join(keywords)}; export a function whose arguments are positional [KB6103]"
        )
    return tuple(args)


def argument_names(fun: Any, args: Sequence[Any]) -> list[str]:
    """Return a name for every array: the parameter of the function, and the path in its value."""
    names = [f"args[{i}]" for i in range(len(args))]
    if not isinstance(fun, jax.export.Exported):
        with contextlib.suppress(TypeError, ValueError):  # a callable without a signature
            bound = inspect.signature(fun).bind(*args).arguments
            kinds = inspect.signature(fun).parameters
            plain = [n for n in bound if kinds[n].kind is not inspect.Parameter.VAR_POSITIONAL]
            names[: len(plain)] = plain
    return [
        name + jax.tree_util.keystr(path)
        for name, arg in zip(names, args, strict=True)
        for path, _ in jax.tree_util.tree_leaves_with_path(arg)
    ]


def _program(
    platform: str,
    exported: Any,
    names: Sequence[str],
    offsets: Sequence[str],
    other_targets: Sequence[str],
    version: str | None,
) -> _Program:
    """Return the program for a bundle, or raise ExportError if it needs Python to run."""
    if exported.nr_devices != 1:
        raise ExportError(
            f"export_bundle: the program is for {exported.nr_devices} devices, and a bundle's "
            "programs are for one; export the function without shardings [KB6103]"
        )
    if exported.ordered_effects:
        raise ExportError(
            "export_bundle: the program has ordered side effects "
            f"({', '.join(map(str, exported.ordered_effects))}), which need Python [KB6103]"
        )
    code, are_donated, calls = _read(exported, version)
    faults = {fault: None for call in calls if (fault := _fault(call, other_targets))}
    if faults:
        listed = "".join(f"\n- {fault}" for fault in faults)
        raise ExportError(
            f"export_bundle: a host without Python cannot run the program for {platform}: "
            f"[KB6103]{listed}"
        )
    kept = [(exported.in_avals[i], names[i], offsets[i]) for i in exported.module_kept_var_idx]
    if len(kept) != len(are_donated):
        raise ExportError(
            f"export_bundle: the program for {platform} takes {len(are_donated)} arguments, "
            f"but the function uses {len(kept)}; export a function whose arguments are only "
            "arrays [KB6103]"
        )
    lines = []
    for (aval, name, offset), donated in zip(kept, are_donated, strict=True):
        lines.append(f"input {described(name, aval, int(donated), offset)}")
    results = jax.tree.unflatten(exported.out_tree, exported.out_avals)
    for path, aval in jax.tree_util.tree_leaves_with_path(results):
        name = "result" + jax.tree_util.keystr(path)
        lines.append(f"output {described(name, aval)}")
    return code, lines


def described(name: str, aval: Any, *marks: object) -> str:
    """Return the dtype, the marks, the rank, the extents and the name of an array."""
    dtype = str(aval.dtype)
    if BITS.get(dtype, 0) < 8:
        keys = "; pass jax.random.key_data(key)" if dtype.startswith("key<") else ""
        raise ExportError(
            f"export_bundle: {name} is of dtype {dtype}, which a C program cannot pass{keys} "
            "[KB6103]"
        )
    return " ".join(map(str, (dtype, *marks, len(aval.shape), *aval.shape, _one_line(name))))


def _read(exported: Any, version: str | None) -> tuple[bytes, list[bool], list[_Call]]:
    """Return the code of an exported program, which arguments it donates, and its custom calls.

    The code is written for a version of StableHLO, by default the one that JAX exports.
    """
    code = bytes(exported.mlir_module_serialized)
    with mlir.make_ir_context():
        module = mlir.ir.Module.parse(exported.mlir_module())
    if exported.uses_global_constants:
        module, code = private_jax.fix_shapes(module)
    with module.context:
        main, calls = mlir.ir.SymbolTable(module.operation)["main"], [*_calls(module.operation)]
        donated = [False] * len(main.regions[0].blocks[0].arguments)
        if "arg_attrs" in main.attributes:
            marks = ("tf.aliasing_output", "jax.buffer_donor")
            donated = [any(m in given for m in marks) for given in main.attributes["arg_attrs"]]
        if version is not None:
            from jax.extend.mlir.dialects import stablehlo

            try:
                code = bytes(stablehlo.serialize_portable_artifact(module, version))
            except ValueError as e:
                raise ExportError(
                    f"export_bundle: the program cannot be converted to StableHLO {version}: {e} "
                    "[KB6104]"
                ) from e
        return code, donated, calls


def _calls(operation: Any) -> Iterator[_Call]:
    for region in operation.regions:
        for inner in (op for block in region.blocks for op in block.operations):
            if inner.operation.name == "stablehlo.custom_call":
                given: Any = inner.operation.attributes
                found: dict[str, Any] = {}
                for name in ("backend_config", "mhlo.backend_config"):
                    if name in given and isinstance(given[name], mlir.ir.DictAttr):
                        found |= {a.name: getattr(a.attr, "value", a.attr) for a in given[name]}
                yield given["call_target_name"].value, found
            yield from _calls(inner.operation)


def _fault(call: _Call, other_targets: Sequence[str]) -> str:
    """Return why nothing runs a call where Python is absent; empty if something does."""
    target, given = call
    if not target.startswith("kernbridge."):
        if target in _OF_XLA or target in other_targets:
            return ""
        return (
            f"it calls {target}, which is registered in Python and is not part of a PJRT "
            "plugin. Avoid the function of JAX that calls it, or let the host register it and "
            f"pass other_targets=({target!r},)"
        )
    if given.get("elsewhere") or "program" in given:  # elsewhere: in a call that is checked too
        return ""
    if given.get("message"):
        return str(given["message"])
    of = json.loads(given.get("origin") or "{}")
    if of.get("kind") == "source":
        return (
            f"the function {of['function']} of the module {of['module']} was compiled from "
            "source, and the program does not contain its library; load a module of C or C++ "
            "with carry=True"
        )
    kernel = ":".join((str(of.get("module", "?")), str(of.get("qualname", "?"))))
    why = of.get("why_by_name") or "it was compiled without machine code for programs"
    return f"the program does not contain the kernel {kernel}, because {why}"


def _platforms(given: Sequence[str] | None, of_program: Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        here = jax.default_backend()
        given = of_program or ("cuda" if here == "gpu" else here,)
    if not given or len({*given} & {"cpu", "cuda"}) < len(given):
        raise ValueError(
            f"export_bundle: platforms is {tuple(given)!r}, expected 'cpu', 'cuda' or both [KB6104]"
        )
    return tuple(given)


def _values(args: Any) -> tuple[list[str], bytes]:
    """Return where the values of each array begin, "-" where there are none, and all values."""
    offsets, data = list[str](), bytearray()
    for leaf in jax.tree.leaves(args):
        dtype = jax.dtypes.result_type(leaf)
        is_extended = jax.dtypes.issubdtype(dtype, jax.dtypes.extended)
        if isinstance(leaf, jax.ShapeDtypeStruct) or is_extended:
            offsets.append("-")
            continue
        data += bytes(-len(data) % _ALIGNMENT)
        offsets.append(str(len(data)))
        data += np.asarray(leaf, jax.dtypes.canonicalize_dtype(dtype)).tobytes()
    return offsets, bytes(data)


def _write(path: Path, programs: Mapping[str, _Program], data: bytes | None) -> None:
    """Write the manifest, which src/ext/embed/kb_manifest.h describes and reads, and its files."""
    made_by = f"kernbridge {metadata.version('kernbridge')}, jax {jax.__version__}"
    lines, files = [f"kernbridge-bundle {_VERSION}", f"made-by {_one_line(made_by)}"], {}
    if data is not None:
        files[_DATA] = data
        lines.append(f"data {_size_and_digest(data)} {_DATA}")
    for platform, (code, arrays) in programs.items():
        file = f"program.{platform}.mlirbc"
        files[file] = code
        lines += [f"program {_size_and_digest(code)} {platform} {file}", *arrays]
    text = "".join(line + "\n" for line in lines).encode()
    files[_MANIFEST] = text + f"end {hashlib.sha256(text).hexdigest()}\n".encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    beside: Any = {"prefix": f".{path.name}.", "dir": path.parent, "ignore_cleanup_errors": True}
    with tempfile.TemporaryDirectory(**beside) as folder:
        made = Path(folder, "made")
        made.mkdir()
        for file, content in files.items():
            (made / file).write_bytes(content)
        if path.exists():
            path.rename(Path(folder, "before"))
        made.rename(path)


def _size_and_digest(content: bytes) -> str:
    return f"{len(content)} {hashlib.sha256(content).hexdigest()}"


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
