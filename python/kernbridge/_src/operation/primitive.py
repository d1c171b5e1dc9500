"""kernbridge's JAX primitive: abstract evaluation, lowering and batching."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from kernbridge._src.base import extensions, private_jax, settings, versions
from kernbridge._src.base.errors import KernelNotAvailableError, NoDerivativeError
from kernbridge._src.base.private_jax import Primitive, ShapedArray, ad, batching, mlir, xla
from kernbridge._src.base.struct import Struct
from kernbridge._src.calls.batch_axes import NONE, Arrays, BatchAxes, Dim, to_front
from kernbridge._src.calls.call import ArrayType, Call, Terms, Types
from kernbridge._src.operation import embed_once, missing_platform, origin
from kernbridge._src.operation.inspection import Inspection, Plan
from kernbridge._src.operation.spec import Functions
from kernbridge._src.sharding import partition as sharding

BATCH_LEVELS_MAX = 16  # KB_BATCH_LEVELS_MAX of the core
_BATCH_ORDER = 256  # KB_BATCH_ORDER of the core, and its kb_slice_order
_SLICES_AUTO, _SLICES_IN_ORDER, _SLICES_AT_ONCE, _SLICES_OF_ROWS = range(4)


class NativeCall(Struct):
    """A call on one platform, as a front end describes it."""

    target: str
    digest: bytes  # identity of the kernel; its first eight bytes are the key
    key: int
    origin: str  # where another process finds the kernel; empty if the program contains it
    copied: tuple[int, ...]  # inputs that the kernel may modify although they are not aliased
    why_not_portable: str  # empty, or why this call cannot be exported
    temporaries: tuple[ArrayType, ...] = ()  # results that only the kernel sees, for each slice
    program: bytes = b""  # the code from which another process makes the kernel
    keep: Any = None  # lives as long as the compiled program
    named: str = ""  # "module:qualname", if another process looks the kernel up by it
    for_extents: bool = False  # the call fits only arrays of these extents, with any batch
    row_axes: int = 0  # leading axes of the results along which the kernel may be cut
    has_rows: tuple[bool, ...] = ()  # whether an operand has them
    shapes: str = ""  # "declared" or "tried", if it fails where its results have others

    # What follows is of the call in a program, whose results are the outputs, the copies and the
    # temporaries.

    def aliases(self, call: Call) -> dict[int, int]:
        """The results that use the memory of operands, by operand."""
        n = len(call.outs)
        return dict(call.aliases) | {i: n + k for k, i in enumerate(self.copied)}

    def hidden(self, operands: Arrays, batch: Sequence[Dim]) -> list[Any]:
        """The results after the outputs; temporaries have these batch axes."""
        more = [ArrayType((*batch, *t.shape), t.dtype) for t in self.temporaries]
        return [operands[i] for i in self.copied] + more

    def levels(self, call: Call) -> BatchAxes:
        """The levels that its operands have; copies have all."""
        n = len(call.levels.masks)
        return call.levels.choose([None if i in self.copied else i for i in range(n)])

    def attributes(self, call: Call) -> dict[str, Any]:
        """What names the kernel and the batch; see src/core/kb_handler.h."""
        return {
            "call": np.array([self.key, *self._batch(call)], np.int64),
            "digest": np.frombuffer(self.digest, np.uint8),
        }

    def _batch(self, call: Call) -> list[int]:
        """The description of the batch, or of the rows along which the kernel may be cut.

        It contains the number of levels or axes, the order of slices (one after the other, several
        at once, or as the core decides), and what each operand has of them. Empty without both.
        """
        in_order = call.vmap_threads is False or call.has_side_effect
        if call.levels:
            order = _SLICES_IN_ORDER if in_order else _SLICES_AUTO
            order = _SLICES_AT_ONCE if call.vmap_threads else order
            return [len(call.levels.sizes) + _BATCH_ORDER * order, *self.levels(call).masks]
        if in_order or not self.row_axes:
            return []
        return [self.row_axes + _BATCH_ORDER * _SLICES_OF_ROWS, *self.has_rows]


class Frontend(ABC):
    """A kernel of some language: how calls of it are checked and lowered. Hashed by identity."""

    label: str
    name: str
    place = ""  # where the kernel begins, as messages say
    platforms: tuple[str, ...]
    parameters: Any = None  # of the kernel, as messages show them
    check_numbers: Any = None  # refuses integers that would wrap around, before a call is traced

    def __repr__(self) -> str:
        return f"<{self.label}>"  # in jaxprs

    @property
    def parameter_names(self) -> Sequence[str]:
        """The known names of the kernel's parameters."""
        return ()

    def buffer_names(self, n_inputs: int, scalars: Sequence[str], n_outputs: int) -> Sequence[str]:
        """The parameter for each input, scalar and output of a call; "" where it has no name."""
        return ("",) * (n_inputs + len(scalars) + n_outputs)

    def vjp_of_call(self, rule: Any) -> Any:
        """The vjp rule of a call, given what the user passed."""
        return rule

    def bind(self, inputs: Arrays, scalars: Mapping[str, Any]) -> tuple[Arrays, Mapping[str, Any]]:
        """The inputs and the keyword scalars that the arguments of a call stand for."""
        return inputs, scalars

    def arranged(self, operands: Arrays, types: Types) -> Types:
        """The types that the kernel takes; they may have more leading axes and other dtypes."""
        return types

    def widened(self, types: Types) -> Types:
        """The types in which the kernel computes; operands are converted to them, and results are
        converted from them."""
        return types

    def terms(self, inputs: Types, n_scalars: int, outs: Types) -> Terms:
        """The dimensions of a call that has no sharding rule."""
        return Terms.undeclared(inputs, n_scalars, outs)

    def functions(self) -> Functions:
        """Functions of the user that run as a call is traced or lowered, besides the spec's."""
        return []

    def calling(self, functions: Mapping[str, Any], spec: Any) -> Any:
        """Return the operation whose kernel has these functions as static arguments, if any."""
        return None

    @abstractmethod
    def check(self, operands: Types, call: Call) -> None:
        """Raise TypeError or ValueError if the kernel cannot take these arguments."""

    @abstractmethod
    def lower(self, platform: str, operands: Types, call: Call) -> NativeCall:
        """Compile and register; `operands` are without batch axes."""

    def program(self, operands: Types, call: Call) -> Plan:
        raise TypeError(
            f"{self.label} runs on CPUs, where it is one call; inspect() shows its code [KB2106]"
        )

    @abstractmethod
    def inspect(self, operands: Types, call: Call) -> tuple[Inspection, ...]:
        """Code and resources of the kernels that this call runs."""


def new_primitive(name: str, kind: type = Primitive) -> Any:
    """Return a primitive with several outputs, which is compiled also outside of `jax.jit`."""
    primitive = kind(name)
    primitive.multiple_results = True
    primitive.def_impl(functools.partial(xla.apply_primitive, primitive))
    return primitive


class _Named(Primitive):
    """A primitive under the name of a kernel. For all else, JAX takes it for the one without."""

    def __init__(self, of: Any, name: str) -> None:
        self.__dict__.update(vars(of), name=name, of=of)
        self.def_impl(functools.partial(xla.apply_primitive, self))

    def __eq__(self, other: object) -> bool:
        return getattr(other, "of", other) is self.of

    def __hash__(self) -> int:
        return hash(self.of)


_named = functools.cache(_Named)


def named(primitive: Any, params: Mapping[str, Any]) -> Any:
    """The primitive under the name of the kernel that its parameters are about."""
    about = params.get("joined") or params.get("tangent") or params["frontend"]
    private_jax.let_checkify_see(primitive, named)
    return _named(primitive, about.name)


call_p = new_primitive("kernbridge_call")
watching: list[Any] = []  # called with each front end and "" when it is traced, or its platform


def define_with_levels(
    primitive: Any, abstract_eval: Any, evaluate: Any, jvp: Any, transpose: Any
) -> None:
    """Define a primitive that JAX evaluates, and whose parameter `levels` holds its `vmap`s."""
    primitive.def_effectful_abstract_eval(abstract_eval)
    mlir.register_lowering(primitive, mlir.lower_fun(evaluate, multiple_results=True))
    batching.primitive_batchers[primitive] = functools.partial(batch_with_levels, primitive)
    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = transpose


def batch_with_levels(
    primitive: Any, operands: Any, dims: Any, *, levels: BatchAxes, **params: Any
) -> Any:
    size, mapped, front = to_front(operands, dims)
    outs = primitive.bind(*front, levels=levels.inside(size, mapped), **params)
    return outs, [0] * len(outs)


def match_varying(operands: Arrays) -> Arrays:
    """The operands, each varying over all manual mesh axes that any of them varies over."""
    if not operands or not private_jax.HAS_INSIDES:
        return operands
    return private_jax.match_varying_axes(*operands)


def bind(frontend: Frontend, call: Call, operands: Arrays) -> list[jax.Array]:
    for watch in watching:
        watch(frontend, "")
    return bind_named(call_p, operands, frontend=frontend, call=call)


def bind_named(primitive: Any, operands: Arrays, **params: Any) -> list[Any]:
    return list(named(primitive, params).bind(*match_varying(operands), **params))


def abstract_call(label: str, operands: Arrays, call: Call, levels: BatchAxes) -> Any:
    """Abstract outputs and effects of a kernel's call with these `vmap`s around it."""
    shardings = sharding.output_shardings(label, call.terms, levels, operands)
    avals = abstract(label, operands, call.outs, levels, shardings)[0]
    return avals, {private_jax.kernel_effect} if call.has_side_effect else set()


def abstract(
    label: str, operands: Arrays, outs: Types, levels: BatchAxes, shardings: Sequence[Any]
) -> tuple[list[Any], set[Any]]:
    """Abstract outputs of a call on abstract operands, and no effects.

    Where a sharding is None, the output is whole on every device of an explicit mesh.
    """
    avals = [ShapedArray((*levels.shape, *t.shape), t.dtype) for t in outs]
    varying = private_jax.varying_axes(label, operands)
    placed = zip(avals, shardings, strict=True)
    return [private_jax.on_mesh(aval, varying, where) for aval, where in placed], set()


call_p.def_effectful_abstract_eval(
    lambda *operands, frontend, call: abstract_call(frontend.label, operands, call, call.levels)
)


def _lower(platform: str, ctx: Any, *operands: Any, **params: Any) -> Any:
    with versions.explained():
        return _lowered(platform, ctx, operands, **params)


def _lowered(platform: str, ctx: Any, operands: Any, frontend: Frontend, call: Call) -> Any:
    if platform not in frontend.platforms:
        error = missing_platform.no_kernel(frontend.label, frontend.platforms, [platform])
        return missing_platform.lower(ctx, operands, platform, error, call.has_side_effect)
    for_export = private_jax.is_for_export(ctx)
    types = [
        ArrayType(call.levels.own_shape(i, aval.shape), np.dtype(aval.dtype))
        for i, aval in enumerate(ctx.avals_in)
    ]
    for watch in watching:
        watch(frontend, platform)
    try:
        native = frontend.lower(platform, types, call)
    except KernelNotAvailableError as e:
        return missing_platform.lower(ctx, operands, platform, e, call.has_side_effect)
    if native.why_not_portable and for_export:
        raise ValueError(f"{frontend.label} cannot be exported: {native.why_not_portable} [KB6101]")
    if for_export:
        origin.warn_if_not_found(frontend.label, native.named, native.program)

    if native.shapes and any(0 in t.shape for t in call.outs):
        if native.shapes == "tried" and private_jax.n_devices(ctx) > 1:
            raise ValueError(
                f"{frontend.label}: it returned an empty array when its shapes were tried, and "
                "whether a call does so cannot be checked on several devices, where XLA drops "
                "errors of empty results; pass outs= with a function that returns the shapes "
                "[KB1002]"
            )
        call = replace(call, has_side_effect=True)  # XLA removes other calls with empty results
    if native.keep is not None:
        ctx.module_context.add_keepalive(native.keep)

    levels = call.levels
    operands_in, avals_in = list(operands), list(ctx.avals_in)
    for i in native.copied:
        operands_in[i], avals_in[i] = _with_all_levels(ctx, operands[i], avals_in[i], levels, i)
    aliases, attributes = native.aliases(call), native.attributes(call)
    hidden = [ShapedArray(t.shape, t.dtype) for t in native.hidden(avals_in, levels.shape)]
    if native.origin:
        attributes["origin"] = native.origin
    if native.program and (for_export or not native.origin or settings.carries_kernels()):
        attributes = embed_once.embed(ctx, native.target, attributes, native.program)
    wide = ctx.replace(avals_in=avals_in, avals_out=[*ctx.avals_out, *hidden]) if hidden else ctx
    target, more, options = sharding.lowering_of(platform, wide, frontend, call, native)
    rule = jax.ffi.ffi_lowering(
        target, operand_output_aliases=aliases, has_side_effect=call.has_side_effect, **options
    )
    return rule(wide, *operands_in, **attributes, **more)[: len(call.outs)]


def _with_all_levels(
    ctx: Any, operand: Any, aval: Any, levels: BatchAxes, index: int
) -> tuple[Any, Any]:
    """Broadcast an operand to every level of the batch, so that each slice has its own copy."""
    missing = levels.axes_missing(index)
    if not missing:
        return operand, aval
    where = sharding.with_all_levels(aval, levels, index)
    placed = {} if where is None else {"sharding": where}
    wide = aval.update(shape=(*levels.shape, *levels.own_shape(index, aval.shape)), **placed)

    def spread(x: Any) -> Any:
        return jnp.broadcast_to(jnp.expand_dims(x, missing), wide.shape)

    inner = ctx.replace(avals_in=[aval], avals_out=[wide])
    (result,) = mlir.lower_fun(spread, multiple_results=False)(inner, operand)
    return result, wide


def _lower_elsewhere(ctx: Any, *operands: Any, frontend: Frontend, call: Call) -> Any:
    """Lower for a platform of an extension."""
    lowered_for, failed = private_jax.platforms_of(ctx), ""
    if not set(lowered_for).issubset(frontend.platforms):
        failed = extensions.load_installed()
    if len(lowered_for) == 1 and lowered_for[0] in frontend.platforms:
        return _lower(lowered_for[0], ctx, *operands, frontend=frontend, call=call)
    raise missing_platform.no_kernel(frontend.label, frontend.platforms, lowered_for, failed)


for _platform in ("cpu", "cuda"):
    mlir.register_lowering(call_p, functools.partial(_lower, _platform), platform=_platform)
mlir.register_lowering(call_p, _lower_elsewhere)


def _batch(operands: Arrays, dims: Sequence[Any], *, frontend: Frontend, call: Call) -> Any:
    size, mapped, front = to_front(operands, dims)
    for i, _ in call.aliases:  # the output uses its memory, so each slice needs its own
        if not mapped[i]:
            front[i] = jnp.broadcast_to(front[i], (size, *front[i].shape))
            mapped[i] = True
    if call.vmap_method in (None, "sequential", "sequential_unrolled"):
        # One call in the program; the core runs the kernel slice by slice.
        if len(call.levels.sizes) == BATCH_LEVELS_MAX:
            raise NotImplementedError(
                f"{frontend.label} is inside {BATCH_LEVELS_MAX + 1} nested vmaps, but at most "
                f"{BATCH_LEVELS_MAX} are supported; merge some axes before the call [KB2104]"
            )
        call = replace(call, levels=call.levels.inside(size, mapped))
    else:
        call = _with_leading(frontend.label, call, size, front, mapped)
    outs = bind(frontend, call, front)
    return outs, [0] * len(outs)


def _with_leading(label: str, call: Call, size: Dim, front: list[Any], mapped: list[bool]) -> Call:
    """Pass the batch to the kernel as one more leading axis, as JAX's named methods do."""
    for i, name in enumerate(call.scalars, start=call.n_inputs):
        if mapped[i]:
            raise ValueError(
                f"{label}: the keyword scalar {name!r} is mapped, and "
                f"vmap_method={call.vmap_method!r} would pass an array for it to the kernel; "
                "leave vmap_method unset, or pass the scalar as a positional input [KB2005]"
            )
    new_axis = {"expand_dims": 1, "broadcast_all": size}.get(call.vmap_method or "")
    batch: list[bool | None] = [m or None for m in mapped]
    for i in range(call.n_inputs):
        if not mapped[i] and new_axis is not None:
            front[i] = jnp.broadcast_to(front[i], (new_axis, *front[i].shape))
            batch[i] = call.vmap_method == "broadcast_all"
    outs = tuple(ArrayType((size, *t.shape), t.dtype) for t in call.outs)
    return replace(call, outs=outs, terms=call.terms.with_leading(batch))


batching.primitive_batchers[call_p] = _batch


_no_transpose_p = new_primitive("kernbridge_no_transpose")
transposes_at_once = ContextVar("transposes_at_once", default=False)
"""Whether the transpose of a kernel that has none is an error where JAX asks for it."""


def no_transpose(cotangents: Any, operands: Arrays, why: str) -> list[Any]:
    """Stand for the transpose of a kernel that has none: lowering it raises `NoDerivativeError`.

    JAX's linear solvers trace the transpose of a matrix even if the solution is not differentiated.
    """
    if transposes_at_once.get():
        raise NoDerivativeError(why)
    unknown = [x.aval for x in operands if ad.is_undefined_primal(x)]
    given = map(ad.instantiate_zeros, cotangents)
    found = iter(_no_transpose_p.bind(*given, avals=tuple(unknown), why=why, levels=NONE))
    return [next(found) if ad.is_undefined_primal(x) else None for x in operands]


def _abstract_no_transpose(*_: Any, avals: Any, levels: BatchAxes, **__: Any) -> Any:
    if not levels:
        return list(avals), set()
    return [ShapedArray((*levels.shape, *aval.shape), aval.dtype) for aval in avals], set()


def _refuse_transpose(*_: Any, why: str, **__: Any) -> NoReturn:
    raise NoDerivativeError(why)


define_with_levels(_no_transpose_p, _abstract_no_transpose, *[_refuse_transpose] * 3)


def transpose_of_kernel(cotangents: Any, *operands: Any, frontend: Frontend, **_: Any) -> list[Any]:
    why = (
        f"JAX cannot transpose {frontend.label}, since it cannot look inside a kernel. If a jvp "
        "rule calls it, pass a vjp rule beside that jvp rule, or define it as an XLACustomKernel "
        "with def_transpose_rule. [KB2102]"
    )
    return no_transpose(cotangents, operands, why)


ad.primitive_transposes[call_p] = transpose_of_kernel
