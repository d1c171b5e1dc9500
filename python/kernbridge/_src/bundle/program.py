"""Exports a function as a program that needs no Python, and checks that it does not call Python."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import export

from kernbridge import _core
from kernbridge._src.base import private_jax
from kernbridge._src.base.errors import ExportError
from kernbridge._src.base.private_jax import mlir

# Handlers that XLA has on any plugin. All others are registered by some library.
_OF_XLA = frozenset(
    (
        "AllocateBuffer",
        "ApproxTopK",
        "PartialReduce",
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "TopK",
        "annotate_device_placement",
        "mhlo.topk",
        "shape_assertion",
        "stablehlo.dynamic_approx_top_k",
        "stablehlo.dynamic_reduce_window",
        "stablehlo.dynamic_rng_bit_generator",
        "stablehlo.dynamic_top_k",
    )
)
# Types whose elements are whole bytes, as PJRT takes them from a host.
_DTYPES = frozenset(name for name, (_code, bits) in _core.dtypes().items() if bits >= 8)

_Call = tuple[str, dict[str, Any]]  # the target of a custom call, and its attributes by name


@dataclass(frozen=True, slots=True)
class Array:
    """An argument or a result of a program."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    donated: bool = False
    offset: int | None = None  # of its values in the data; None for a result, too


@dataclass(frozen=True, slots=True)
class Program:
    """The StableHLO of a program for one platform."""

    platform: str
    code: bytes
    inputs: Sequence[Array]
    outputs: Sequence[Array]


def exported_for(
    platform: str, fun: Callable[..., Any], args: Sequence[Any], other_targets: Sequence[str]
) -> Any:
    """Export a function, or an exported program, for one platform and fixed shapes."""
    checks = [export.DisabledSafetyCheck.custom_call(target) for target in other_targets]
    if not isinstance(fun, export.Exported):
        jitted = fun if isinstance(fun, jax.stages.Wrapped) else jax.jit(fun)
        try:
            return export.export(jitted, platforms=[platform], disabled_checks=checks)(*args)
        except NotImplementedError as e:
            if "callback" not in str(e):
                raise
            raise ExportError(
                "export_bundle: the function calls Python while it runs, which a host without "
                "Python cannot do; remove jax.pure_callback, jax.debug.print and similar "
                f"functions, and operations that run as Python. JAX reports: {e} [KB6103]"
            ) from None
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
    return export.export(jax.jit(fun.call), platforms=[platform], disabled_checks=checks)(*args)


def arguments_of(fun: Any) -> tuple[Any, ...]:
    """Return what an exported program is to be called with, as shapes; of a function, nothing."""
    if not isinstance(fun, export.Exported):
        return ()
    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in fun.in_avals]
    args, keywords = jax.tree.unflatten(fun.in_tree, shapes)
    if keywords:
        raise ExportError(
            "export_bundle: the program was exported with the keyword arguments "
            f"{', '.join(keywords)}; export a function whose arguments are positional"
            " [KB6103]"
        )
    return tuple(args)


def argument_names(fun: Any, args: Sequence[Any]) -> list[str]:
    """Return a name for every array: the parameter of the function, and the path in its value."""
    names = [f"args[{i}]" for i in range(len(args))]
    if not isinstance(fun, export.Exported):
        try:
            bound = inspect.signature(fun).bind(*args).arguments
            kinds = inspect.signature(fun).parameters
            plain = [n for n in bound if kinds[n].kind is not inspect.Parameter.VAR_POSITIONAL]
            names[: len(plain)] = plain
        except (TypeError, ValueError):  # a callable without a signature
            pass
    return [
        name + jax.tree_util.keystr(path)
        for name, arg in zip(names, args, strict=True)
        for path, _ in jax.tree_util.tree_leaves_with_path(arg)
    ]


def check_fixed(names: Sequence[str], args: Sequence[Any]) -> None:
    for name, leaf in zip(names, jax.tree.leaves(args), strict=True):
        shape = np.shape(leaf)
        if not all(isinstance(d, (int, np.integer)) for d in shape):
            raise ExportError(
                f"export_bundle: {name} has the symbolic shape ({', '.join(map(str, shape))}), and "
                "a program of a bundle has fixed shapes: pass arrays or jax.ShapeDtypeStructs with "
                "numbers, and write a bundle for each shape that the host needs"
                " [KB6103]"
            )


def make(
    platform: str,
    exported: Any,
    names: Sequence[str],
    offsets: Sequence[int | None],
    other_targets: Sequence[str],
    version: str | None,
) -> Program:
    """Return the program for a bundle, or raise ExportError if it needs Python to run."""
    if exported.nr_devices != 1:
        raise ExportError(
            f"export_bundle: the program is for {exported.nr_devices} devices, and a bundle's "
            "programs are for one; export the function without shardings"
            " [KB6103]"
        )
    if exported.ordered_effects:
        raise ExportError(
            "export_bundle: the program has ordered side effects "
            f"({', '.join(map(str, exported.ordered_effects))}), which need Python"
            " [KB6103]"
        )
    code, are_donated, calls = _read(exported, version)
    faults = {fault: None for call in calls if (fault := _fault(call, other_targets))}
    if faults:
        lines = "".join(f"\n- {fault}" for fault in faults)
        raise ExportError(
            f"export_bundle: a host without Python cannot run the program for {platform}: "
            f"[KB6103]{lines}"
        )
    kept = [(exported.in_avals[i], names[i], offsets[i]) for i in exported.module_kept_var_idx]
    if len(kept) != len(are_donated):
        raise ExportError(
            f"export_bundle: the program for {platform} takes {len(are_donated)} arguments, "
            f"but the function uses {len(kept)}; export a function whose arguments are only "
            "arrays [KB6103]"
        )
    inputs = [
        _array(name, aval, donated, offset)
        for (aval, name, offset), donated in zip(kept, are_donated, strict=True)
    ]
    results = jax.tree.unflatten(exported.out_tree, exported.out_avals)
    outputs = [
        _array("result" + jax.tree_util.keystr(path), aval)
        for path, aval in jax.tree_util.tree_leaves_with_path(results)
    ]
    return Program(platform, code, inputs, outputs)


def _array(name: str, aval: Any, donated: bool = False, offset: int | None = None) -> Array:
    dtype = str(aval.dtype)
    if dtype not in _DTYPES:
        keys = "; pass jax.random.key_data(key)" if dtype.startswith("key<") else ""
        raise ExportError(
            f"export_bundle: {name} is of dtype {dtype}, which a C program cannot pass{keys} "
            "[KB6103]"
        )
    return Array(name, dtype, tuple(aval.shape), donated, offset)


def _read(exported: Any, version: str | None) -> tuple[bytes, list[bool], list[_Call]]:
    """Return the code of an exported program, which arguments it donates, and its custom calls.

    The code is written for a version of StableHLO, by default that of JAX's exports.
    """
    code = bytes(exported.mlir_module_serialized)
    with mlir.make_ir_context():
        module = mlir.ir.Module.parse(exported.mlir_module())
    if exported.uses_global_constants:
        module, code = private_jax.fix_shapes(module)
    with module.context:
        functions = {
            op.attributes["sym_name"].value: op.operation
            for op in module.body.operations
            if op.operation.name == "func.func"
        }
        main, calls = functions["main"], list(_calls(module.operation))
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
    """Yield every custom call in a module."""
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
    """Return why a call cannot run without Python, or belongs to nobody; empty if it can."""
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
