"""The names of JAX that JAX does not promise to keep, looked up once.

No other module imports them. Without those of `NAMES` kernbridge cannot be imported. Without one of
`jax._src` that effects and varying axes need, importing kernbridge warns, and what needs them is
refused where it is asked for: `HAS_INSIDES` is False, and `require_insides` raises.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.sharding import PartitionSpec

from kernbridge._src.base import versions
from kernbridge._src.base.errors import KernbridgeWarning, UnknownVersionError

NAMES = (
    "jax.core.ShapedArray",
    "jax.core.Tracer",
    "jax.core.eval_jaxpr",
    "jax.ffi.ffi_lowering",
    "jax.ffi.register_ffi_target",
    "jax.interpreters.ad.UndefinedPrimal",
    "jax.interpreters.ad.Zero",
    "jax.interpreters.ad.instantiate_zeros",
    "jax.interpreters.ad.is_undefined_primal",
    "jax.interpreters.ad.primitive_jvps",
    "jax.interpreters.ad.primitive_transposes",
    "jax.interpreters.batching.primitive_batchers",
    "jax.interpreters.mlir.LoweringRuleContext.avals_in",
    "jax.interpreters.mlir.LoweringRuleContext.avals_out",
    "jax.interpreters.mlir.LoweringRuleContext.module_context",
    "jax.interpreters.mlir.LoweringRuleContext.replace",
    "jax.interpreters.mlir.lower_fun",
    "jax.interpreters.mlir.register_lowering",
    "jax.make_user_context",
)
INSIDES = (
    "jax._src.core.Primitive",
    "jax._src.core.auto_insert_reshard or jax._src.core.standard_insert_pvary",
    "jax._src.core.get_cur_mesh_sharding",
    "jax._src.core.standard_vma_rule",
    "jax._src.effects.Effect",
    "jax._src.effects.control_flow_allowed_effects",
    "jax._src.effects.custom_derivatives_allowed_effects",
    "jax._src.effects.lowerable_effects",
    "jax._src.effects.remat_allowed_effects",
)

versions.look_up("JAX", NAMES)
versions.warn_of_untested("JAX")

from jax.core import ShapedArray, Tracer, eval_jaxpr  # noqa: E402
from jax.interpreters import ad, batching, mlir  # noqa: E402

__all__ = [
    "Primitive",
    "ShapedArray",
    "Tracer",
    "ad",
    "batching",
    "eval_jaxpr",
    "mlir",
]  # and what is defined here

_why_without_insides: UnknownVersionError | None = None
try:
    versions.look_up("JAX", INSIDES)
except UnknownVersionError as _error:
    _why_without_insides = _error
HAS_INSIDES = _why_without_insides is None

if HAS_INSIDES:
    from jax._src import core as _core
    from jax._src import effects as _effects

    Primitive = _core.Primitive
    match_varying_axes = getattr(_core, "auto_insert_reshard", None) or _core.standard_insert_pvary

    class _KernelEffect(_effects.Effect):
        """Keeps a call whose outputs nobody reads."""

        def __str__(self) -> str:
            return "kernbridge"

    for _set in (
        _effects.lowerable_effects,
        _effects.control_flow_allowed_effects,
        _effects.custom_derivatives_allowed_effects,
        _effects.remat_allowed_effects,
    ):
        _set.add_type(_KernelEffect)
    kernel_effect = _KernelEffect()
else:
    from jax.extend.core import Primitive  # type: ignore[no-redef]  # takes 30 ms to import

    warnings.warn(
        f"{_why_without_insides} Until then operations work, but has_side_effect=True and calls "
        "inside shard_map with check_vma=True are errors.",
        KernbridgeWarning,
        stacklevel=2,
    )


def require_insides(what: str) -> None:
    """Raise UnknownVersionError for what needs a name that this JAX lacks."""
    if _why_without_insides is not None:
        raise UnknownVersionError(f"{what}: {_why_without_insides}")


def varying_axes(label: str, avals: Sequence[Any]) -> frozenset[Any]:
    """Return the manual mesh axes over which the outputs of a call vary."""
    if HAS_INSIDES:
        axes: frozenset[Any] = _core.standard_vma_rule(label, *avals)
        return axes
    in_shard_map = bool(jax.sharding.get_abstract_mesh().manual_axes)
    if in_shard_map and any(_may_vary(aval) for aval in avals):
        require_insides(f"{label} is called inside shard_map with check_vma=True")
    return frozenset()


def _may_vary(aval: Any) -> bool:
    """Return whether an array of an unknown JAX varies over mesh axes, or may do so."""
    if hasattr(aval, "vma"):
        return bool(aval.vma)
    manual = getattr(aval, "manual_axis_type", None)
    return manual is None or bool(getattr(manual, "varying", True))


def on_mesh(aval: Any, axes: frozenset[Any]) -> Any:
    """Return an output as the mesh in use sees it: whole on each device, varying over `axes`."""
    if not HAS_INSIDES:
        return aval
    sharding = _core.get_cur_mesh_sharding(PartitionSpec(*[None] * aval.ndim))
    if not axes:
        return aval.update(sharding=sharding)
    if hasattr(_core, "ManualAxisType"):
        manual = _core.ManualAxisType(varying=axes)
        return aval.update(sharding=sharding, manual_axis_type=manual)
    return aval.update(sharding=sharding, vma=axes)


def is_for_export(ctx: Any) -> bool:
    """Return whether a lowering is for `jax.export`."""
    return bool(_of_context(ctx, "module_context.lowering_parameters.for_export"))


def platforms_of(ctx: Any) -> tuple[str, ...]:
    """Return the platforms that a program is lowered for."""
    return tuple(_of_context(ctx, "module_context.platforms"))


def _of_context(ctx: Any, name: str) -> Any:
    try:
        return operator.attrgetter(name)(ctx)
    except AttributeError as e:
        raise versions.unknown("JAX", [name]) from e


def new_user_context() -> Callable[[Any], None]:
    """Return a function that sets a new value which is part of the keys of JAX's caches."""
    context: Any = jax.make_user_context(default_value=None)
    for owner in (context, getattr(context, "_obj", None)):  # the latter in JAX before 0.10
        set_global: Callable[[Any], None] | None = getattr(owner, "set_global", None)
        if set_global is not None:
            return set_global
    raise versions.unknown("JAX", ["jax.make_user_context().set_global"])


def has_started() -> bool:
    """Return whether JAX has started its backends; False if this JAX does not say."""
    try:
        from jax._src import xla_bridge

        return bool(xla_bridge.backends_are_initialized())
    except (ImportError, AttributeError):
        return False
