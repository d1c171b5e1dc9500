"""The JAX primitive of an `XLACustomKernel`, through which JAX's transformations use its kernels.

Its parameters are the user's (`outs` and the static keywords) and one of kernbridge, which contains
the chosen kernels and the `vmap`s around the call, and is not passed to users' functions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kernbridge._src.base import errors, private_jax
from kernbridge._src.base.exact import exact
from kernbridge._src.base.private_jax import Primitive, ShapedArray, Tracer, ad, batching, mlir
from kernbridge._src.base.reports import instead_of
from kernbridge._src.calls.batch_axes import NONE, Arrays, BatchAxes, to_front, vmapped
from kernbridge._src.calls.call import ArrayType, Terms, has_type, is_inexact
from kernbridge._src.custom import rules
from kernbridge._src.operation import derivatives, missing_platform
from kernbridge._src.operation import primitive as operation_primitive
from kernbridge._src.operation.primitive import match_varying, no_transpose
from kernbridge._src.operation.spec import Outputs, Step
from kernbridge._src.operation.tangents import Automatic, Rules, close, differentiate, refuse
from kernbridge._src.sharding.partition import output_shardings

OURS = "kernbridge"  # the parameter that users' functions do not see
TAKEN = frozenset(("ctx", "dims", OURS, "primitive"))
"""Names of arguments that JAX passes by keyword to the functions of primitives."""


@dataclass(frozen=True)
class Bound:
    """What a call carries besides its keywords, which `exact` holds with their types.

    A call that `outlives` is part of a program, and is used after the traced values that its rules
    read are gone.

    After `steps` of differentiation by Enzyme, the call returns `made` in place of its outputs.
    """

    choice: Any  # of kernels, by platform
    exact: tuple[Any, ...]
    levels: BatchAxes = NONE
    outlives: bool = False
    steps: tuple[Step, ...] = ()
    made: tuple[ArrayType, ...] = ()

    def __repr__(self) -> str:
        steps = "".join(f" {step.mode}" for step in self.steps)
        vmap = f" vmap{list(self.levels.shape)}" if self.levels else ""
        return f"<{self.choice}{steps}{vmap}>"


def exact_keywords(name: str, keywords: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return keywords with their types, to be compared; refuse what is not static."""
    if not keywords:
        return ()
    if not TAKEN.isdisjoint(keywords):
        taken = min(TAKEN & keywords.keys())
        raise TypeError(
            f"{name!r}: a keyword cannot be called {taken!r}, a name that JAX or kernbridge "
            "uses for another argument; choose another name [KB8008]"
        )
    return tuple((k, _exact(name, k, keywords[k])) for k in sorted(keywords))


def _exact(name: str, keyword: str, value: Any) -> Any:
    if isinstance(value, Tracer):
        raise TypeError(
            f"{name!r}: keyword {keyword!r} is traced, {value.aval}, but must be known while "
            "tracing, since kernels are generated for its value. Make it static with jax.jit(f, "
            f"static_argnames={keyword!r}), close over a number, or pass it as an input array and "
            "read it in the kernel [KB8008]"
        )
    try:
        return exact(value)
    except TypeError:
        for part in value if isinstance(value, tuple) else ():  # name the part that is wrong
            _exact(name, keyword, part)
        remedy = "a tuple" if isinstance(value, (list, set, dict)) else "a number or a tuple"
        if isinstance(value, (jax.Array, np.ndarray)):
            remedy = f"a number, {keyword}.item(), or pass it as an input"
        raise TypeError(
            f"{name!r}: keyword {keyword!r} is {value!r} of type {type(value).__name__}, which is "
            f"not hashable, but keywords are part of JAX's cache keys; pass {remedy} [KB8008]"
        ) from None


class KernelPrimitive(Primitive):
    """A primitive that the rules of users may bind with their own parameters alone."""

    operation: Any

    def bind(self, *operands: Any, **params: Any) -> Any:
        return super().bind(*operands, **self.with_ours(len(operands), params))

    def with_ours(self, n_inputs: int, params: dict[str, Any]) -> dict[str, Any]:
        """Add kernbridge's own parameter, which is missing if a user binds the primitive."""
        if OURS in params:
            return params
        name, keywords = self.operation.name, dict(params)
        outs = tuple(jax.tree.leaves(keywords.pop("outs", ())))
        choice = self.operation._choice(keywords.get("backend"))
        bound = Bound(choice, exact_keywords(name, keywords))
        return params_of(self.operation, n_inputs, Outputs.of(repr(name), outs), bound, keywords)


def params_of(
    operation: Any, n_inputs: int, outputs: Outputs, bound: Bound, keywords: dict[str, Any]
) -> dict[str, Any]:
    operation._check_known(n_inputs, ("outs", *keywords))
    types = outputs.canonical(repr(operation.name)).types
    return {**keywords, "outs": tuple(ShapedArray(t.shape, t.dtype) for t in types), OURS: bound}


def make(operation: Any) -> KernelPrimitive:
    primitive: KernelPrimitive = operation_primitive.new_primitive(operation.name, KernelPrimitive)
    primitive.operation = operation
    primitive.def_effectful_abstract_eval(partial(_abstract_eval, operation.name))
    for lowered, platform in (("cpu", "cpu"), ("cuda", "gpu"), ("rocm", "gpu"), ("tpu", "tpu")):
        mlir.register_lowering(primitive, partial(_lower, operation, platform), platform=lowered)
    mlir.register_lowering(primitive, partial(_lower_elsewhere, operation))
    batching.primitive_batchers[primitive] = partial(_batch, primitive)
    ad.primitive_jvps[primitive] = partial(_jvp, primitive)
    ad.primitive_transposes[primitive] = partial(_transpose, operation)
    return primitive


def types_of(outs: Sequence[Any]) -> tuple[ArrayType, ...]:
    return tuple(map(ArrayType.of, outs))


@dataclass(frozen=True)
class OfKernels(Automatic):
    """The derivative of a call by Enzyme, in the kernels that it is lowered to."""

    primitive: KernelPrimitive
    params: tuple[tuple[str, Any], ...]

    def bind(self, step: Step, inputs: Arrays, shadows: Arrays) -> list[Any]:
        params = dict(self.params)
        bound, made = params[OURS], types_of([inputs[i] for i in step.active])
        if step.mode == "jvp":
            outs = bound.made or types_of(params["outs"])
            made = tuple(t for t in outs if is_inexact(t.dtype))
        params[OURS] = replace(bound, levels=NONE, steps=(*bound.steps, step), made=made)
        return list(self.primitive.bind(*match_varying([*inputs, *shadows]), **params))


def _abstract_eval(name: str, /, *operands: Any, outs: Any, **params: Any) -> Any:
    levels, types = params[OURS].levels, params[OURS].made or types_of(outs)
    terms = Terms.undeclared(_slices(levels, operands), 0, types)
    shardings = output_shardings(name, terms, levels, operands)
    return operation_primitive.abstract(name, operands, types, levels, shardings)


def _lower(operation: Any, platform: str, ctx: Any, /, *operands: Any, **params: Any) -> Any:
    bound: Bound = params.pop(OURS)
    try:
        entry = operation._entry(platform, bound.choice)
    except errors.KernelFallbackExhaustedError as e:
        return missing_platform.lower(ctx, operands, platform, e, has_side_effect=False)
    operation._tell_ignored(bound.choice, platform)
    visible = {name: value for name, value in params.items() if name != "backend"}
    try:
        kernel = _checked(operation.name, entry.kernel_generator(**visible), params["outs"])
        if bound.steps:
            kernel = _derivative(operation.name, entry, kernel, params["outs"], bound, ctx.avals_in)
        whole = _batched(kernel, entry.backend, bound.levels, ctx.avals_in)
        return mlir.lower_fun(whole, multiple_results=True)(ctx, *operands)
    except (errors.UnknownVersionError, errors.NoDerivativeError):  # not the kernel's fault
        raise
    except Exception as e:
        others = [repr(b) for b in operation._kernels[entry.platform] if b != entry.backend]
        remedy = f"There is no other backend on {entry.platform}"
        if others:
            remedy = (
                f"Other backends on {entry.platform}: {', '.join(others)}; choose one with "
                "backend=, set_default or kernbridge.config.set_backend"
            )
        why = (
            f"{operation.name!r}: the kernel of backend {entry.backend!r} on {entry.platform} "
            f"cannot be used: {type(e).__name__}: {e}\n{remedy}"
        )
        error = errors.KernelCompilationError(errors.coded(why, "KB4015"))
        if "[KB4015]" in str(e):  # it was raised here, and has no line of the user's to show
            raise instead_of(e, error)  # noqa: B904
        raise error from e


def _lower_elsewhere(operation: Any, ctx: Any, /, *_: Any, **__: Any) -> Any:
    raise operation._no_kernel(", ".join(private_jax.platforms_of(ctx)))


def _checked(name: str, kernel: Any, outs: Sequence[Any]) -> Callable[..., list[Any]]:
    """Return the generator's function, extended so that it checks its outputs and lists them."""
    if not callable(kernel) or hasattr(kernel, "py_func"):
        raise TypeError(
            f"{name!r}: the generator returned {kernel!r}, expected an operation, such as "
            "numba_kernel(kernel, outs), or another function of the inputs [KB4015]"
        )
    expected = types_of(outs)

    def call(*inputs: Any) -> list[Any]:
        result = kernel(*inputs)
        values = list(result) if isinstance(result, (tuple, list)) else [result]
        if len(values) != len(expected):
            raise errors.KernelError(
                f"{name!r}: the kernel returned {errors.counted(len(values), 'output')}, but "
                f"`outs` declares {len(expected)} [KB4015]"
            )
        for i, (value, t) in enumerate(zip(values, expected, strict=True)):
            came = ArrayType.of(value) if has_type(value) else repr(value)
            if came != t:
                but = "but `outs` declares" if has_type(value) else "expected an array,"
                raise errors.KernelError(
                    f"{name!r}: the kernel returned {came} as output {i}, {but} {t} [KB4015]"
                )
        return values

    return call


def _derivative(
    name: str, entry: Any, kernel: Callable[..., Any], outs: Any, bound: Bound, avals: Arrays
) -> Callable[..., list[Any]]:
    slices = _slices(bound.levels, avals)
    automatic = derivatives.extension(repr(name))
    derivative = automatic.differentiated(kernel, types_of(outs), slices, bound.steps)
    try:
        jax.eval_shape(derivative, *slices)
    except Exception as e:  # any error of JAX or of a rule inside the kernel
        raise errors.NoDerivativeError(
            f"{name!r}: the kernel of backend {entry.backend!r} on {entry.platform} cannot be "
            f"differentiated: {errors.quoted(e).rstrip('.')}. Give the operation a rule with "
            "def_vjp_rule or def_jvp_rule2, or choose another backend [KB2107]"
        ) from None
    return derivative


def _slices(levels: BatchAxes, avals: Arrays) -> list[Any]:
    shapes = [levels.own_shape(i, aval.shape) for i, aval in enumerate(avals)]
    return [ShapedArray(shape, aval.dtype) for shape, aval in zip(shapes, avals, strict=True)]


def _batched(
    kernel: Callable[..., Any], backend: str, levels: BatchAxes, avals: Arrays
) -> Callable[..., Any]:
    """Return the kernel over its batch: by its own batching, if it has one, or slice by slice."""
    if not levels:
        return kernel
    # Errors of the kernel itself are raised unchanged.
    jax.eval_shape(kernel, *_slices(levels, avals))
    if backend != "warp":  # which batches itself by shapes that it infers: one slice at a time
        whole = vmapped(kernel, levels)
        with contextlib.suppress(NotImplementedError):
            jax.eval_shape(whole, *(ShapedArray(aval.shape, aval.dtype) for aval in avals))
            return whole
    return vmapped(jax.custom_batching.sequential_vmap(kernel), levels)


def _batch(primitive: KernelPrimitive, operands: Any, dims: Any, /, **params: Any) -> Any:
    operation, bound = primitive.operation, params[OURS]
    rule = operation._rules.get("the batching rule")
    if rule is not None and not bound.levels and not bound.steps:
        del params[OURS]
        size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
        found = rule(operands, dims, **params)
        return rules.checked_batch(operation.name, types_of(params["outs"]), size, found)
    size, mapped, front = to_front(operands, dims)
    params[OURS] = replace(bound, levels=bound.levels.inside(size, mapped))
    outs = primitive.bind(*front, **params)
    return outs, [0] * len(outs)


def _jvp(primitive: KernelPrimitive, primals: Any, tangents: Any, /, **params: Any) -> Any:
    operation, params = primitive.operation, primitive.with_ours(len(primals), params)
    bound = params[OURS]
    read = operation.watched.tracing().traced
    if read and (bound.levels or bound.outlives):
        refuse(repr(operation.name), read)
    try:
        return _tangents(primitive, primals, tangents, bool(read), **params)
    except jax.errors.UnexpectedTracerError:
        if read:
            refuse(repr(operation.name), read)
        raise


def _tangents(
    primitive: KernelPrimitive, primals: Any, tangents: Any, reads: bool, /, **params: Any
) -> Any:
    operation, bound = primitive.operation, params.pop(OURS)
    jvp, outs = operation._rules.get("the jvp rule"), bound.made or types_of(params["outs"])
    by_enzyme = OfKernels(primitive, tuple({**params, OURS: bound}.items()))
    if bound.steps:
        derivative = Rules(repr(operation.name), None, by_enzyme, by_enzyme)
    else:
        is_alone = isinstance(jvp, rules.JvpRule) and operation._rules.get("the vjp rule") is None
        if is_alone and not jvp.per_input and not bound.levels:  # it makes the outputs, too
            return jvp.whole(outs, primals, tangents, **params)
        derivative = operation.rules(params, by_enzyme)
    if derivative is None:
        raise errors.NoDerivativeError(
            f"{operation.name!r} has no derivative: JAX cannot look inside a kernel. Give it a "
            "rule with def_jvp_rule2, def_jvp_rule or def_vjp_rule, or pass derivatives='enzyme' "
            "to XLACustomKernel. To treat its result as a constant, pass its inputs through "
            "jax.lax.stop_gradient. [KB2101]"
        )
    results = primitive.bind(*primals, **params, **{OURS: bound})
    if reads and derivative.jvp is None:
        derivative, values = close(derivative, types_of(primals), outs)
        primals = [*primals, *values]
    return results, differentiate(derivative, outs, bound.levels, primals, results, tangents)


def _transpose(operation: Any, cotangents: Any, /, *operands: Any, **params: Any) -> Any:
    bound = params.pop(OURS, None)
    levels = bound.levels if bound else NONE
    rule = None if bound and bound.steps else operation._rules.get("the transpose rule")
    if rule is None:
        why = (
            f"JAX cannot transpose {operation.name!r}, since it cannot look inside a kernel. "
            "Give it a rule with def_transpose_rule, or, if a jvp rule calls it, define a vjp rule "
            "beside that jvp rule. [KB2102]"
        )
        return no_transpose(cotangents, operands, why)

    def transposed(cotangents: Any, operands: Arrays) -> Any:
        found = rule(cotangents, *operands, **params)
        return rules.checked_cotangents(operation.name, operands, found)

    if not levels:
        return transposed(cotangents, operands)
    linear = {
        i: ad.UndefinedPrimal(ShapedArray(levels.own_shape(i, x.aval.shape), x.aval.dtype))
        for i, x in enumerate(operands)
        if ad.is_undefined_primal(x)
    }
    known = [i for i in range(len(operands)) if i not in linear]

    def one_slice(*values: Any) -> list[Any]:
        args = {**linear, **dict(zip(known, values, strict=False))}
        found = transposed(list(values[len(known) :]), [args[i] for i in range(len(operands))])
        dots = (ad.Zero(x.aval) if found[i] is None else found[i] for i, x in linear.items())
        return [ad.instantiate_zeros(ct) for ct in dots]

    given = [ad.instantiate_zeros(ct) for ct in cotangents]
    values = match_varying([*(operands[i] for i in known), *given])
    found = vmapped(one_slice, levels.choose([*known, *[None] * len(given)]))(*values)
    sums = {i: jnp.sum(ct, levels.axes_missing(i)) for i, ct in zip(linear, found, strict=True)}
    return [sums.get(i) for i in range(len(operands))]
