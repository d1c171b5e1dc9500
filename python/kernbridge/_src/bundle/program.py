"""Exports a function as a program that needs no Python, and checks that it does not call Python."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax import export

from kernbridge._src.base import stablehlo
from kernbridge._src.base.errors import ExportError
from kernbridge._src.base.stablehlo import CustomCall
from kernbridge._src.bundle import manifest
from kernbridge._src.bundle.manifest import Array, Program

# What XLA itself makes of a call, on any plugin. All other handlers are registered by somebody.
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
_OURS = "kernbridge."


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
    if fun.platforms == (platform,) and not fun.uses_global_constants and _same(fun, args):
        return fun
    return export.export(jax.jit(fun.call), platforms=[platform], disabled_checks=checks)(*args)


def _same(fun: Any, args: Sequence[Any]) -> bool:
    given = [(np.shape(a), jax.dtypes.result_type(a)) for a in jax.tree.leaves(args)]
    return given == [(aval.shape, aval.dtype) for aval in fun.in_avals]


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
    """Raise ExportError if a shape has dimensions that are no numbers."""
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
    try:
        content = stablehlo.read(exported, version)
    except ValueError as e:
        raise ExportError(f"export_bundle: {e} [KB6103]") from e
    check_calls(content.calls, platform, other_targets)
    kept = [(exported.in_avals[i], names[i], offsets[i]) for i in exported.module_kept_var_idx]
    if len(kept) != len(content.donated):
        raise ExportError(
            f"export_bundle: the program for {platform} takes {len(content.donated)} arguments, "
            f"but the function uses {len(kept)}; export a function whose arguments are only "
            "arrays [KB6103]"
        )
    return Program(
        platform,
        content.code,
        [
            _array(name, aval, donated, offset)
            for (aval, name, offset), donated in zip(kept, content.donated, strict=True)
        ],
        [_array(*named) for named in zip(_result_names(exported), exported.out_avals, strict=True)],
    )


def _array(name: str, aval: Any, donated: bool = False, offset: int | None = None) -> Array:
    dtype = str(aval.dtype)
    if dtype not in manifest.DTYPES:
        keys = "; pass jax.random.key_data(key)" if dtype.startswith("key<") else ""
        raise ExportError(
            f"export_bundle: {name} is of dtype {dtype}, which a C program cannot pass{keys} "
            "[KB6103]"
        )
    return Array(name, dtype, tuple(aval.shape), donated, offset)


def _result_names(exported: Any) -> Iterator[str]:
    places = jax.tree.unflatten(exported.out_tree, range(len(exported.out_avals)))
    for path, _ in jax.tree_util.tree_leaves_with_path(places):
        yield "result" + jax.tree_util.keystr(path)


def check_calls(calls: Sequence[CustomCall], platform: str, other_targets: Sequence[str]) -> None:
    """Raise ExportError if a call cannot run without Python, or belongs to nobody."""
    faults = {fault: None for call in calls if (fault := _fault(call, other_targets))}
    if faults:
        lines = "".join(f"\n- {fault}" for fault in faults)
        raise ExportError(
            f"export_bundle: a host without Python cannot run the program for {platform}: "
            f"[KB6103]{lines}"
        )


def _fault(call: CustomCall, other_targets: Sequence[str]) -> str:
    if not call.target.startswith(_OURS):
        if call.target in _OF_XLA or call.target in other_targets:
            return ""
        return (
            f"it calls {call.target}, which is registered in Python and is not part of a PJRT "
            "plugin. Avoid the function of JAX that calls it, or let the host register it and "
            f"pass other_targets=({call.target!r},)"
        )
    carried = "elsewhere" in call.flags  # by a call of its own, which is checked as well
    if not carried and call.arrays.get("program") is None:
        return call.texts.get("message") or _why_by_name(call.texts.get("origin"))
    return ""


def _why_by_name(origin: str | None) -> str:
    """Why a kernel of this origin comes without its code."""
    of = json.loads(origin or "{}")
    if of.get("kind") == "source":
        return (
            f"the function {of['function']} of the module {of['module']} was compiled from "
            "source, and the program does not contain its library; load a module of C or C++ "
            "with carry=True"
        )
    kernel = ":".join((str(of.get("module", "?")), str(of.get("qualname", "?"))))
    why = of.get("why_by_name") or "it was compiled without machine code for programs"
    return f"the program does not contain the kernel {kernel}, because {why}"
