"""The names of JAX that kernbridge uses and JAX does not promise to keep.

No other module imports them. Without one of `jax._src` that effects and varying axes need,
importing kernbridge warns, and what needs them is refused where it is asked for: `HAS_INSIDES` is
False, and `require_insides` raises. Without one that partitioning needs, operands are gathered.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import operator
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray, Tracer, eval_jaxpr
from jax.interpreters import ad, batching, mlir, partial_eval, xla
from jax.sharding import PartitionSpec

from kernbridge._src.base import versions
from kernbridge._src.base.errors import KernbridgeWarning, UnknownVersionError, without_code
from kernbridge._src.base.patched import patched

versions.warn_of_untested("JAX")


def _warn_of(missing: UnknownVersionError, lost: str) -> None:
    text = f"{without_code(str(missing))} Until then {lost}. [KB8003]"
    warnings.warn(text, KernbridgeWarning, stacklevel=3)


# What traces the calls of this thread: `EVAL_TRACE` if no transformation does. A function of C, as
# each call of an operation asks. Where this JAX does not say, it never is `EVAL_TRACE`.
EVAL_TRACE: Any = object()
current_trace: Callable[[], Any] = object
_tracers_of_programs: Any = ()

_why_without_insides: UnknownVersionError | None = None
try:
    with versions.explained():
        from jax._src import core as _core
        from jax._src.core import Jaxpr, Literal, Primitive, get_cur_mesh_sharding
        from jax._src.effects import custom_derivatives_allowed_effects, remat_allowed_effects
        from jax._src.ffi import FfiEffect
        from jax.interpreters.partial_eval import DynamicJaxprTracer

        standard_vma_rule = _core.standard_vma_rule
        set_current_trace = _core.set_current_trace
        _tracers_of_programs = DynamicJaxprTracer
        current_trace = functools.partial(getattr, _core.trace_ctx, "trace")
        EVAL_TRACE = _core.eval_trace
        match_varying_axes = (
            getattr(_core, "auto_insert_reshard", None) or _core.standard_insert_pvary
        )
except UnknownVersionError as _error:
    from jax.extend.core import Jaxpr, Literal, Primitive  # takes 30 ms to import

    _why_without_insides = _error
    _warn_of(
        _error,
        "operations work, but has_side_effect=True and calls inside shard_map with check_vma=True "
        "are errors",
    )
HAS_INSIDES = _why_without_insides is None

if HAS_INSIDES:
    for _allowed in (custom_derivatives_allowed_effects, remat_allowed_effects):
        _allowed.add_type(FfiEffect)  # as JAX does from 0.12 on
    kernel_effect = FfiEffect()  # keeps a call whose outputs are not used

special: Any = None  # implementations of special functions by other primitives
_source_info: Any = None
with contextlib.suppress(ImportError):
    special = importlib.import_module("jax._src.lax.special")
    _source_info = importlib.import_module("jax._src.source_info_util")

HAS_PARTITIONING = False
func: Any = None
hlo: Any = None
try:
    with versions.explained():
        import jax._src.custom_partitioning_sharding_rule as _rules
        from jax._src.lib import xla_client as _xla_client
        from jax._src.sharding_impls import ShardingContext, SPMDAxisContext
        from jax._src.xla_bridge import register_plugin_callbacks
        from jaxlib.mlir.dialects import func
        from jaxlib.mlir.dialects import stablehlo as hlo

        HloSharding, OpSharding = _xla_client.HloSharding, _xla_client.OpSharding
        register_custom_call_partitioner = _xla_client.register_custom_call_partitioner
    HAS_PARTITIONING = HAS_INSIDES
except UnknownVersionError as _error:
    _warn_of(_error, "a sharded operand is gathered before every call outside shard_map")


def let_checkify_see(primitive: Any, named: Callable[..., Any] = lambda p, _: p) -> None:
    """Let the NaN checks of checkify, if that is imported, see what a primitive returns."""
    checkify = sys.modules.get("jax._src.checkify")
    rules: dict[Any, Any] = getattr(checkify, "error_checks", {})
    check: Any = getattr(checkify, "nan_error_check", None)
    if check and primitive not in rules:
        rules[primitive] = lambda *given, **params: check(
            named(primitive, params), *given, **params
        )


def own_lines() -> AbstractContextManager[None]:
    """Give equations the lines at which they are traced, even while JAX lowers another one."""
    of_thread: Any = getattr(_source_info, "_source_info_context", None)
    if getattr(of_thread, "context", None) is None:
        return contextlib.nullcontext()
    return patched((of_thread, "context", _source_info.new_source_info()))


def is_part_of_program(values: Sequence[Any]) -> bool:
    """Return whether what is computed of these values becomes a part of a program being traced.

    It is False where another transformation sees the values first, such as `jax.vmap`, and where
    this JAX does not say.
    """
    found = [isinstance(x, _tracers_of_programs) for x in values if isinstance(x, Tracer)]
    return bool(found) and all(found)


def require_insides(what: str) -> None:
    """Raise UnknownVersionError for what needs a name that this JAX lacks."""
    if _why_without_insides is not None:
        raise UnknownVersionError(f"{what}: {_why_without_insides}")


def varying_axes(label: str, avals: Sequence[Any]) -> frozenset[Any]:
    """Return the manual mesh axes over which the outputs of a call vary."""
    if HAS_INSIDES:
        return standard_vma_rule(label, *avals)
    if jax.sharding.get_abstract_mesh().manual_axes:
        for aval in avals:
            manual = getattr(aval, "manual_axis_type", None)
            if aval.vma if hasattr(aval, "vma") else getattr(manual, "varying", True):
                require_insides(f"{label} is called inside shard_map with check_vma=True")
    return frozenset()


def explicit_sharding(aval: Any) -> Any:
    """Return the sharding of an abstract array that an explicit mesh splits, else None."""
    sharding = getattr(aval, "sharding", None) if HAS_PARTITIONING else None
    return sharding if sharding is not None and any(sharding.spec) else None


def on_mesh(aval: Any, axes: frozenset[Any], sharding: Any = None) -> Any:
    """Return the output as the mesh in use types it, varying over manual `axes`.

    Without a sharding it is whole on every device.
    """
    if not HAS_INSIDES:
        return aval
    if sharding is None:
        if not axes and jax.sharding.get_abstract_mesh().empty:
            return aval  # as it is made
        sharding = get_cur_mesh_sharding(PartitionSpec(*[None] * aval.ndim))
    if not axes:
        return aval.update(sharding=sharding)
    if not hasattr(_core, "ManualAxisType"):
        return aval.update(sharding=sharding, vma=axes)
    return aval.update(sharding=sharding, manual_axis_type=_core.ManualAxisType(varying=axes))


def is_for_export(ctx: Any) -> bool:
    return bool(ctx.module_context.lowering_parameters.for_export)


def hide_frames_of(folder: str) -> None:
    """Let JAX leave the frames of a folder out of tracebacks and programs, as it does with its own.

    Operations in jaxprs and in compiled programs then have the places of the user's calls.
    """
    for name in ("traceback_util", "source_info_util"):
        with contextlib.suppress(ImportError, AttributeError):
            importlib.import_module(f"jax._src.{name}").register_exclusion(folder)


def allow_in_exports(targets: Iterable[str]) -> None:
    """Let `jax.export` take calls of these targets without ``disabled_checks``.

    Does nothing if this JAX keeps its list of such targets elsewhere.
    """
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src.export import _export

        _export._CUSTOM_CALL_TARGETS_GUARANTEED_STABLE.update(targets)


def fix_shapes(module: Any) -> tuple[Any, bytes]:
    """Return a module as XLA compiles it, and its bytes in an exported program.

    What was exported for several platforms or symbolic shapes, and is called by the module, is
    fixed to the extents of the call. JAX does that when it compiles, and not when it exports.
    """
    from jax._src.export._export import _module_to_bytecode
    from jax._src.interpreters.mlir import refine_polymorphic_shapes

    fixed = refine_polymorphic_shapes(module)
    return fixed, bytes(_module_to_bytecode(fixed))


def platforms_of(ctx: Any) -> tuple[str, ...]:
    return tuple(ctx.module_context.platforms)


def main_of_one_platform(ctx: Any) -> Any:
    """Return the first block of the main function of a program for one platform.

    None if this JAX keeps the function elsewhere, or does not let XLA ask how calls are partitioned
    in a program that may be for several devices.
    """
    if len(platforms_of(ctx)) > 1:
        return None
    with contextlib.suppress(AttributeError, KeyError):
        module = ctx.module_context.module.operation
        one = module.attributes["mhlo.num_partitions"].value == 1 and not is_for_export(ctx)
        if one or HAS_PARTITIONING:
            return ctx.module_context.symbol_table["main"].entry_block
    return None


def n_devices(ctx: Any) -> int:
    context = ctx.module_context.axis_context
    if isinstance(context, ShardingContext):
        return int(context.num_devices)
    return int(context.mesh.size) if isinstance(context, SPMDAxisContext) else 1


def devices_to_split_among(ctx: Any) -> int:
    """Return for how many devices XLA partitions what is lowered.

    1 inside `jax.shard_map` if no axis is automatic, or each automatic axis has one device only:
    XLA then takes the operands for one device's arrays, and aborts where it must partition a call.
    """
    context = ctx.module_context.axis_context
    if not HAS_PARTITIONING:
        return 1
    if isinstance(context, SPMDAxisContext):
        sizes = context.mesh.shape
        if all(sizes[name] == 1 for name in sizes.keys() - context.manual_axes):
            return 1
    return n_devices(ctx)


def is_partly_manual(ctx: Any) -> bool:
    """Return whether what is lowered is inside shard_map, and some axes are automatic."""
    return bool(getattr(ctx.module_context.axis_context, "manual_axes", ()))


def shardy_rule(
    ctx: Any, ins: Sequence[list[str]], outs: Sequence[list[str]], whole: Sequence[str]
) -> Any:
    """Return Shardy's rule of an operation with these dimensions, of which some are not split.

    None where there is no such rule, since an extent is not known or is zero.
    """
    avals = [*ctx.avals_in, *ctx.avals_out]
    uses_shardy = getattr(jax.config, "jax_use_shardy_partitioner", True)
    extents = (d for aval in avals for d in aval.shape)
    if not uses_shardy or not all(isinstance(d, int) and d > 0 for d in extents):
        return None
    types = [
        mlir.ir.RankedTensorType.get(aval.shape, mlir.dtype_to_ir_type(np.dtype(aval.dtype)))
        for aval in avals
    ]
    mapped = [tuple(_rules.ArrayMapping(*term) for term in terms) for terms in (ins, outs)]
    rule = _rules.SdyShardingRule(*mapped, need_replication_factors=tuple(whole))
    n = len(ctx.avals_in)
    return _rules.sdy_sharding_rule_to_mlir(rule, types[:n], types[n:])


def hlo_sharding(counts: Sequence[int], devices: np.ndarray) -> Any:
    """Return XLA's sharding of an array that is cut into so many parts along its dimensions.

    `devices` lists the devices of the first part, then of the second, and so on.
    """
    tiles = devices.reshape(*counts, -1)
    of_copies = [OpSharding.Type.REPLICATED]
    return HloSharding.subgroup_with_device_ordering(tiles, subgroup_types=of_copies)


def tuple_sharding(shape: Any, shardings: Sequence[Any]) -> Any:
    if not shape.is_tuple():
        return shardings[0]
    each = list(shardings) or [HloSharding.replicate()]  # an empty tuple has one
    return HloSharding.tuple_sharding(shape, each)


def register_partitioner(target: str, infer: Any, partition: Any) -> None:
    """Let XLA ask these functions how to partition calls of a target, on every platform."""
    register = functools.partial(
        register_custom_call_partitioner,
        name=target,
        prop_user_sharding=lambda sharding, shape, backend: sharding,
        partition=partition,
        infer_sharding_from_operands=infer,
        can_side_effecting_have_replicated_sharding=True,
    )
    register()
    register_plugin_callbacks(register)


def new_user_context() -> Callable[[Any], None]:
    """Return a function that sets a new value which is part of the keys of JAX's caches."""
    context: Any = jax.make_user_context(default_value=None)
    has_it = hasattr(context, "set_global")
    set_global: Callable[[Any], None] = (context if has_it else context._obj).set_global
    return set_global  # `_obj` has it in JAX before 0.10


def has_started() -> bool:
    """Return whether JAX has started its backends, or a thread does so; False if it is unknown.

    No lock is taken: in a process that was forked, its owner may not exist.
    """
    try:
        from jax._src import xla_bridge

        backends, is_locked = operator.attrgetter("_backends", "_backend_lock.locked")(xla_bridge)
        return bool(backends) or bool(is_locked())
    except (ImportError, AttributeError):
        return False
