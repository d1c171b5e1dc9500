"""Applies the derivative rules that users define for their kernels.

A rule for tangents (`jvp`) and one for cotangents (`vjp`) describe the same linear map. Where there
is a `vjp`, the tangents of a call are one linear equation, `kernbridge_tangent`: forward mode
evaluates it by `jvp`, or by transposing `vjp` where there is no `jvp`; reverse mode transposes it,
which is `vjp`. So every mode, and every mixture of them, works with either rule. The transpose by a
rule of kernbridge's own is such an equation as well, whose transpose is the first one.

A rule may read a value that exists only while JAX traces, but run later, when an outer function is
differentiated, batched or lowered. `close` traces such a rule together with the call. The values
that it reads become operands of the call, which every transformation of JAX follows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import jax
import jax.numpy as jnp

from kernbridge._src.base import private_jax
from kernbridge._src.base.errors import DerivativeRuleError, NoDerivativeError, quoted
from kernbridge._src.base.private_jax import Tracer, ad, eval_jaxpr
from kernbridge._src.calls.batch_axes import NONE, Arrays, BatchAxes, vmapped
from kernbridge._src.calls.call import ArrayType, Call, Types, has_type, is_inexact
from kernbridge._src.operation import derivatives, primitive
from kernbridge._src.operation.primitive import (
    Frontend,
    bind_named,
    define_with_levels,
    match_varying,
)
from kernbridge._src.operation.spec import OUTPUTS, Step, names_taken
from kernbridge._src.sharding import partition as sharding


class Automatic(ABC):
    """A rule of kernbridge's own, of which each use is one more step of differentiation."""

    @abstractmethod
    def bind(self, step: Step, inputs: Arrays, shadows: Arrays) -> list[Any]:
        """Call the derivative; `shadows` are tangents or cotangents.

        It returns the tangents of the outputs that have one, or the cotangents of `step.active`.
        """

    def with_values(self, step: Step, primals: Arrays, dots: Arrays, **params: Any) -> Any:
        """The results of an operation with such `params`, and then their tangents, by one call.

        It returns None if there is no such call, or if no time is saved by one.
        """
        return None


@dataclass(frozen=True)
class Returned:
    label: str
    rule: str  # such as "the jvp rule"
    error: type[Exception] = DerivativeRuleError

    def refusal(self, text: str) -> Exception:
        return self.error(f"{self.label}: {self.rule} returned {text} [KB2103]")

    def array(self, what: str, value: Any, expected: ArrayType, or_none: bool = False) -> Any:
        if isinstance(value, (int, float, complex)):
            value = jnp.asarray(value, expected.dtype)
        came = ArrayType.of(value) if has_type(value) else repr(value)
        if came != expected:
            also = ", or None for zero" if or_none and not has_type(value) else ""
            raise self.refusal(f"{came} as {what}, expected {expected}{also}")
        return value

    def or_zeros(self, what: str, value: Any, expected: ArrayType) -> Any:
        if value is None or type(value) is ad.Zero:
            return jnp.zeros(expected.shape, expected.dtype)
        return jnp.asarray(self.array(what, value, expected, or_none=True))

    def tangent(self, index: int, value: Any, output: Any) -> Any:
        """The tangent of an output, which is JAX's zero for None."""
        expected = ArrayType.of(output)
        if value is None or type(value) is ad.Zero or not is_inexact(expected.dtype):
            return zero_tangent(output)
        return self.array(f"the tangent of output {index}", value, expected, or_none=True)


@dataclass(frozen=True)
class Rules:
    """The derivatives of one call; a parameter of a primitive, hence hashable.

    `jvp(inputs, outputs, tangents, **keywords)` returns the tangents of the outputs, `vjp(inputs,
    outputs, cotangents, **keywords)` the cotangents of the inputs. Outputs and their tangents have
    the form of `tree`; inputs and their tangents are in the order of the signature, if there is
    one.
    """

    label: str
    tree: Any  # None if both rules are automatic
    jvp: Callable[..., Any] | Automatic | None = None
    vjp: Callable[..., Any] | Automatic | None = None
    keywords: tuple[tuple[str, Any], ...] = ()
    symbolic_zeros: bool = False  # whether `jvp` gets JAX's Zero for tangents that are zero
    exact: Hashable = None  # distinguishes keywords and rules that compare equal
    n_read: int = 0  # the number of the last operands, which are values that the rules read
    order: tuple[int, ...] = ()  # the operands in the order of the signature
    linear: tuple[int, ...] = ()  # the operands in which the call is linear

    def own(self, operands: Arrays) -> Arrays:
        """The operands without the values that the rules read."""
        return operands[: len(operands) - self.n_read]

    def ordered(self, operands: Arrays) -> tuple[Any, ...]:
        return tuple(operands[i] for i in self.order or range(len(operands)))

    def tangents(self, types: Types, inputs: Arrays, outputs: Arrays, given: Any) -> list[Any]:
        """Call `jvp`; return the tangents of the outputs that have one."""
        assert callable(self.jvp)
        n, unflatten = len(inputs) - self.n_read, self.tree.unflatten
        known = self.ordered(inputs[:n]), unflatten(outputs)
        result = self.jvp(*known, self.ordered(given[:n]), *inputs[n:], **dict(self.keywords))
        returned = Returned(self.label, "the jvp rule")
        if result is None and any(is_inexact(t.dtype) for t in types):
            raise returned.refusal(_nothing("tangent for each output", "outputs"))
        if len(types) == 1 and not isinstance(result, (tuple, list, dict)):
            leaves = [result]
        else:
            try:
                leaves = self.tree.flatten_up_to(result)
            except (ValueError, TypeError) as e:
                raise returned.refusal(
                    f"{jax.tree.structure(result)}, expected a tangent for each output, as "
                    f"{self.tree} (None for zero): {e}"
                ) from None
        return [
            returned.or_zeros(f"the tangent of output {i}", leaf, t)
            for i, (leaf, t) in enumerate(zip(leaves, types, strict=True))
            if is_inexact(t.dtype)
        ]

    def cotangents(self, inputs: Arrays, outputs: Arrays, given: Arrays) -> list[Any]:
        """Call `vjp`; return the cotangents of the inputs."""
        assert callable(self.vjp)
        n, unflatten = len(inputs) - self.n_read, self.tree.unflatten
        inputs, read = self.ordered(inputs[:n]), inputs[n:]
        known = inputs, unflatten(outputs)
        result = self.vjp(*known, unflatten(given), *read, **dict(self.keywords))
        returned = Returned(self.label, "the vjp rule")
        if result is None:
            raise returned.refusal(_nothing("cotangent for each input", "inputs"))
        if len(inputs) == 1 and not isinstance(result, (tuple, list)):
            result = (result,)
        if not isinstance(result, (tuple, list)) or len(result) != len(inputs):
            came = f"{len(result)}" if isinstance(result, (tuple, list)) else f"{result!r}"
            raise returned.refusal(
                f"{came}, expected a tuple of {len(inputs)} cotangents, one for each input (None "
                "for zero)"
            )
        found = [
            returned.or_zeros(f"the cotangent of input {i}", leaf, ArrayType.of(x))
            if is_inexact(x.dtype)
            else None
            for i, (leaf, x) in enumerate(zip(result, inputs, strict=True))
        ]
        return [found[self.order.index(i)] for i in range(n)] if self.order else found


@dataclass(frozen=True)
class InOrder:
    """A rule of the user that takes inputs by name, as one that takes them in order."""

    label: str
    mode: str
    rule: Callable[..., Any]
    inputs: tuple[str, ...]
    results: tuple[str, ...]  # in the kernel's order, as `tree` has them
    tree: Any
    is_alone: bool = False  # whether it takes the one output and its cotangent as they are

    def __call__(self, inputs: Any, outputs: Any, given: Any, **attributes: Any) -> Any:
        by_name = dict(zip(self.inputs, inputs, strict=True))
        results = zip(self.results, self.tree.flatten_up_to(outputs), strict=True)
        if self.is_alone:
            (outputs,), (given,) = outputs, given
        known = {OUTPUTS: outputs, **dict(results), **by_name, **attributes}
        known.pop("", None)
        if self.mode == "jvp":
            given = dict(zip(self.inputs, given, strict=True))
        taken = names_taken(self.rule)
        if lacking := [name for name in taken if name not in known and name != "**"]:
            raise DerivativeRuleError(
                f"{self.label}: the {self.mode} rule takes {lacking[0]!r} by name, but this call "
                f"has {', '.join(known)}; take these [KB2103]"
            )
        names = known if "**" in taken else taken
        found = self.rule(given, **{name: known[name] for name in names})
        if self.mode == "jvp" or found is None:
            return found
        returned = Returned(self.label, "the vjp rule")
        expected = f"a dict of cotangents by the names of inputs, which are {', '.join(by_name)}"
        if not isinstance(found, Mapping):
            raise returned.refusal(f"{found!r}, expected {expected}")
        if unknown := [name for name in found if name not in by_name]:
            raise returned.refusal(f"a cotangent for {unknown[0]!r}, expected {expected}")
        return tuple(map(found.get, by_name))


def in_order(
    frontend: Frontend, call: Call, tree: Any, order: Sequence[int], mode: str, rule: Any
) -> Any:
    """The rule of a call as a function of inputs, outputs and (co)tangents in order."""
    if not names_taken(rule):
        return rule
    names = frontend.buffer_names(call.n_inputs, call.scalars, len(call.outs))
    inputs = tuple(names[i] for i in order or range(call.n_operands))
    return InOrder(frontend.label, mode, rule, inputs, tuple(names[call.n_operands :]), tree)


def _nothing(expected: str, zeros_of: str) -> str:
    return (
        f"None, expected a {expected}; write `return` before the result. If all of them are zero, "
        f"return jax.tree.map(jnp.zeros_like, {zeros_of})"
    )


def zero_tangent(x: Any) -> Any:
    return ad.Zero(jax.typeof(x).to_tangent_aval())


@dataclass(frozen=True)
class Tangent:
    """A call of `kernbridge_tangent`: on inputs, outputs, and tangents of the inputs in `which`.

    If it is transposed, it takes cotangents of the outputs and returns cotangents of these inputs.
    """

    rules: Rules
    n_inputs: int
    outs: tuple[ArrayType, ...]
    which: tuple[int, ...]
    is_transposed: bool = False

    @property
    def name(self) -> str:
        return f"{'co' * self.is_transposed}tangent of {self.rules.label}"

    @property
    def n_known(self) -> int:
        return self.n_inputs + len(self.outs)

    @property
    def like(self) -> tuple[int, ...]:
        """The operands whose types the results have."""
        inexact = (j for j, t in enumerate(self.outs, self.n_inputs) if is_inexact(t.dtype))
        return self.which if self.is_transposed else tuple(inexact)

    def split(self, operands: Arrays) -> tuple[Arrays, Arrays, Arrays]:
        n = self.n_inputs
        return operands[:n], operands[n : self.n_known], operands[self.n_known :]

    def of(self, levels: BatchAxes, inputs: Arrays, results: Arrays, dots: Arrays) -> Arrays:
        """The tangents of the results; `levels` describes the inputs, and then their tangents."""
        n = len(inputs)
        everything = [*inputs, *results, *dots]
        masks = levels.choose([*range(n), *[None] * len(results), *range(n, n + len(dots))])
        if self.rules.vjp is None:
            return vmapped(self.forward, masks)(*match_varying(everything))
        return bind_named(tangent_p, everything, tangent=self, levels=masks)

    def forward(self, *operands: Any) -> list[Any]:
        """The tangents of the outputs of one slice."""
        inputs, outputs, given = self.split(operands)
        jvp = self.rules.jvp
        if jvp is None:
            return self._transposed(inputs, outputs, given)
        if isinstance(jvp, Automatic):
            return jvp.bind(Step("jvp", self.which), self.rules.own(inputs), given)
        moving = dict(zip(self.which, given, strict=True))
        none = zero_tangent if self.rules.symbolic_zeros else _zeros_or_none
        tangents = [moving[i] if i in moving else none(x) for i, x in enumerate(inputs)]
        return self.rules.tangents(self.outs, inputs, outputs, tangents)

    def _transposed(self, inputs: Arrays, outputs: Arrays, given: Arrays) -> list[Any]:
        def reverse(*cotangents: Any) -> tuple[Any, ...]:
            return tuple(self.backward(*inputs, *outputs, *cotangents))

        specs = [jax.typeof(y) for y in outputs if is_inexact(y.dtype)]
        jax.eval_shape(reverse, *specs)  # errors of the rule itself come as they are
        before = primitive.transposes_at_once.set(True)
        try:
            return list(jax.linear_transpose(reverse, *specs)(tuple(given)))
        except Exception as e:  # any error of a rule that is not a linear function of JAX
            raise NoDerivativeError(
                f"{self.rules.label} has only a vjp rule, which is for reverse mode (jax.grad, "
                "jax.vjp). Forward mode (jax.jvp, jax.jacfwd, jax.hessian) transposes this rule, "
                f"which failed: {quoted(e)}. Pass a jvp rule as well [KB2102]"
            ) from None
        finally:
            primitive.transposes_at_once.reset(before)

    def backward(self, *operands: Any) -> list[Any]:
        """The cotangents of the inputs of one slice, given the cotangents of the outputs."""
        inputs, outputs, given = self.split(operands)
        if isinstance(self.rules.vjp, Automatic):
            return self.rules.vjp.bind(Step("vjp", self.which), self.rules.own(inputs), given)
        rest = iter(given)
        every = [next(rest) if is_inexact(t.dtype) else None for t in self.outs]
        found = self.rules.cotangents(inputs, outputs, every)
        return [found[i] for i in self.which]


tangent_p = primitive.new_primitive("kernbridge_tangent")


def differentiate(
    rules: Rules, outs: Types, levels: BatchAxes, operands: Arrays, results: Arrays, dots: Arrays
) -> list[Any]:
    """Tangents of the results of a call, as a JVP rule of JAX returns them."""
    which = tuple(
        i
        for i, (x, t) in enumerate(zip(rules.own(operands), dots, strict=False))
        if type(t) is not ad.Zero and is_inexact(x.dtype)
    )
    if not which:
        return list(map(zero_tangent, results))
    n = len(operands)
    tangent = Tangent(rules, n, tuple(outs), which)
    masks = levels.choose([*range(n), *which])
    found = tangent.of(masks, operands, results, [dots[i] for i in which])
    return dots_of(results, found)


def dots_of(results: Arrays, found: Arrays) -> list[Any]:
    """The tangents of all results, given the tangents of the results that hold real numbers."""
    rest = iter(found)
    return [next(rest) if is_inexact(y.dtype) else zero_tangent(y) for y in results]


def _zeros_or_none(x: Any) -> Any:
    return jnp.zeros_like(x) if is_inexact(jnp.result_type(x)) else None  # also of a literal


def _abstract_eval(*operands: Any, tangent: Tangent, levels: BatchAxes) -> Any:
    like = {k: operands[k] for k in tangent.like}
    types = [ArrayType(levels.own_shape(k, x.shape), x.dtype) for k, x in like.items()]
    shardings = [sharding.with_all_levels(x, levels, k) for k, x in like.items()]
    return primitive.abstract(tangent.rules.label, operands, types, levels, shardings)


def _evaluate(*operands: Any, tangent: Tangent, levels: BatchAxes) -> list[Any]:
    one_slice = tangent.backward if tangent.is_transposed else tangent.forward
    return vmapped(one_slice, levels)(*operands)


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    """Linear in the tangent operands; a second derivative in the inputs and outputs."""
    n = params["tangent"].n_known
    known, linear = primals[:n], primals[n:]
    results = bind_named(tangent_p, primals, **params)
    parts = []
    dots = tangents[n:]
    if any(type(t) is not ad.Zero for t in dots):
        dots = [ad.instantiate_zeros(t) for t in dots]
        parts.append(bind_named(tangent_p, [*known, *dots], **params))
    if any(type(t) is not ad.Zero for t in tangents[:n]):
        parts.append(pushed(lambda *xs: _evaluate(*xs, *linear, **params), known, tangents)[1])
    if not parts:
        return results, [zero_tangent(r) for r in results]
    return results, [sum(each[1:], each[0]) for each in zip(*parts, strict=True)]


def pushed(function: Callable[..., Any], primals: Arrays, tangents: Arrays) -> Any:
    """The values of a function and their tangents; of the given tangents, some are not zero."""
    moving = [i for i in range(len(primals)) if type(tangents[i]) is not ad.Zero]
    given = [primals[i] for i in moving], [tangents[i] for i in moving]
    return jax.jvp(of_some(function, primals, moving), *given)


def of_some(function: Callable[..., Any], operands: Arrays, which: Sequence[int]) -> Any:
    """A function of the operands in `which` alone; the other operands stay as they are."""

    def of_these(*values: Any) -> list[Any]:
        given = dict(zip(which, values, strict=True))
        return list(function(*(given.get(i, x) for i, x in enumerate(operands))))

    return of_these


def _transpose(cotangents: Any, *operands: Any, tangent: Tangent, levels: BatchAxes) -> list[Any]:
    n = tangent.n_known
    known = [x if hasattr(x, "dtype") else jnp.asarray(x) for x in operands[:n]]
    given = [ad.instantiate_zeros(ct) for ct in cotangents]
    turned = replace(tangent, is_transposed=not tangent.is_transposed)
    masks = levels.choose([*range(n), *[None] * len(given)])
    found = _pulled_back(turned, masks, [*known, *given])
    return _as_cotangents(dict(enumerate(found, start=n)), operands, levels)


def _pulled_back(tangent: Tangent, levels: BatchAxes, operands: Arrays) -> list[Any]:
    # A rule of the user consists of operations of JAX, which transposes them by itself.
    if isinstance(tangent.rules.vjp, Automatic):
        return bind_named(tangent_p, operands, tangent=tangent, levels=levels)
    return _evaluate(*match_varying(operands), tangent=tangent, levels=levels)


def _as_cotangents(found: Mapping[int, Any], operands: Arrays, levels: BatchAxes) -> list[Any]:
    """What a transpose rule returns, given cotangents of operands with every batch axis."""
    result: list[Any] = [None] * len(operands)
    for k, ct in found.items():
        if ad.is_undefined_primal(operands[k]):
            ct = jnp.sum(ct, levels.axes_missing(k)) if levels else ct
            where = private_jax.explicit_sharding(operands[k].aval)
            result[k] = ct if where is None else jax.sharding.reshard(ct, where)
    return result


define_with_levels(tangent_p, _abstract_eval, _evaluate, _jvp, _transpose)


operation_p = primitive.new_primitive("kernbridge_operation")


def bind(frontend: Frontend, call: Call, rules: Rules, operands: Arrays) -> list[jax.Array]:
    params = {"frontend": frontend, "call": call, "rules": rules, "levels": NONE}
    return bind_named(operation_p, operands, **params)


def _abstract_operation(
    *operands: Any, frontend: Frontend, call: Call, rules: Rules, levels: BatchAxes
) -> Any:
    return primitive.abstract_call(frontend.label, rules.own(operands), call, levels)


def _evaluate_operation(
    *operands: Any, frontend: Frontend, call: Call, rules: Rules, levels: BatchAxes
) -> list[Any]:
    return vmapped(lambda *xs: primitive.bind(frontend, call, rules.own(xs)), levels)(*operands)


def _jvp_of_operation(primals: Any, tangents: Any, **params: Any) -> Any:
    rules, outs, levels = params["rules"], params["call"].outs, params["levels"]
    moving = {i for i, t in enumerate(tangents) if type(t) is not ad.Zero}
    others = moving.difference(rules.linear)
    if others and rules.jvp is rules.vjp is None:
        derivatives.no_derivative(**params)
    if moving == others and isinstance(rules.jvp, Automatic):
        which = tuple(i for i in sorted(others) if is_inexact(primals[i].dtype))
        dots = [tangents[i] for i in which]
        if found := rules.jvp.with_values(Step("jvp", which), primals, dots, **params):
            results = found[: len(outs)]
            return results, dots_of(results, found[len(outs) :])
    results = bind_named(operation_p, primals, **params)
    dots = [
        t if i in others else zero_tangent(x)
        for i, (x, t) in enumerate(zip(primals, tangents, strict=True))
    ]
    found = differentiate(rules, outs, levels, primals, results, dots)
    if moving != others:
        given = list(primals)
        for i in rules.linear:
            given[i] = ad.instantiate_zeros(tangents[i])
        found = list(map(ad.add_tangents, bind_named(operation_p, given, **params), found))
    return results, found


def _transpose_of_operation(cotangents: Any, *operands: Any, **params: Any) -> list[Any]:
    """The vjp rule of a call that is linear; a rule of the user must not read what is NaN here."""
    rules, levels, n = params["rules"], params["levels"], len(operands)
    unknown = tuple(i for i, x in enumerate(operands) if ad.is_undefined_primal(x))
    if rules.vjp is None or not set(unknown) <= set(rules.linear):
        return primitive.transpose_of_kernel(cotangents, *operands, **params)
    given = [ad.instantiate_zeros(ct) for ct in cotangents]
    unread = 0 if isinstance(rules.vjp, Automatic) or jax.config.jax_debug_nans else jnp.nan
    zeros = {i: ad.instantiate_zeros(ad.Zero(operands[i].aval)) for i in unknown}
    inputs = [zeros[i] + unread if i in zeros else x for i, x in enumerate(operands)]
    tangent = Tangent(rules, n, params["call"].outs, unknown, is_transposed=True)
    masks = levels.choose([*range(n), *[None] * 2 * len(given)])
    found = _pulled_back(
        tangent, masks, [*inputs, *(jnp.zeros_like(x) + unread for x in given), *given]
    )
    return _as_cotangents(dict(zip(unknown, found, strict=True)), operands, levels)


define_with_levels(
    *(operation_p, _abstract_operation, _evaluate_operation),
    *(_jvp_of_operation, _transpose_of_operation),
)


def close(rules: Rules, inputs: Types, outs: Types) -> tuple[Rules, list[Any]]:
    """Return rules that take the traced values that they read as further operands, and these."""
    arrays = [jax.ShapeDtypeStruct(t.shape, t.dtype) for t in (*inputs, *outs)]
    dots = [a if is_inexact(a.dtype) else None for a in arrays]
    n, unflatten = len(inputs), rules.tree.unflatten
    known = rules.ordered(arrays[:n]), unflatten(arrays[n:])
    jvp, vjp, values = rules.jvp, rules.vjp, list[Any]()
    keywords = dict(rules.keywords)
    if jvp is not None and not isinstance(jvp, Automatic):
        jvp = _closed(jvp, keywords, (*known, rules.ordered(dots[:n])), values)
    if vjp is not None and not isinstance(vjp, Automatic):
        vjp = _closed(vjp, keywords, (*known, unflatten(dots[n:])), values)
    # A reference from the rules would keep the values alive after the trace.
    rules = replace(rules, jvp=jvp, vjp=vjp, keywords=(), exact=None, n_read=len(values))
    return rules, values


_TRACED = object()  # replaces a leaf that is computed


def _closed(
    rule: Callable[..., Any], keywords: dict[str, Any], given: Any, values: list[Any]
) -> Callable[..., Any]:
    """Return a rule as a function of its arguments and all values; append the ones it reads."""
    found: list[Any] = []

    def run(*given: Any) -> list[Any]:
        leaves, tree = jax.tree.flatten(rule(*given, **keywords))
        traced = [leaf for leaf in leaves if isinstance(leaf, Tracer)]
        found[:] = tree, [_TRACED if isinstance(leaf, Tracer) else leaf for leaf in leaves]
        return traced

    program = jax.make_jaxpr(run)(*given)
    tree, leaves = found
    read = [c for c in program.consts if isinstance(c, Tracer)]
    first = len(values)
    values += read
    last = len(values)

    def evaluate(read: list[Any], *given: Any) -> list[Any]:
        left = iter(read)
        consts = [next(left) if isinstance(c, Tracer) else c for c in program.consts]
        return list(eval_jaxpr(program.jaxpr, consts, *given))

    # From JAX 0.12 on, a jaxpr holds its constants: it is traced again, with the values as inputs.
    without_values = jax.make_jaxpr(evaluate)(read, *jax.tree.leaves(given))
    jaxpr, constants = without_values.jaxpr, without_values.consts

    def closed(*given: Any) -> Any:
        given, read = given[:3], given[3:][first:last]
        computed = iter(eval_jaxpr(jaxpr, constants, *read, *jax.tree.leaves(given)))
        return tree.unflatten(next(computed) if leaf is _TRACED else leaf for leaf in leaves)

    return closed


def refuse(label: str, values: Arrays) -> NoReturn:
    """Raise the error of a rule that runs when the values that it reads no longer exist."""
    raise DerivativeRuleError(
        f"{label}: its derivative rule reads a traced value of an outer function, "
        f"{ArrayType.of(values[0])}, and runs where that value exists no longer; pass it to the "
        "operation as an input, and take it from the inputs in the rule [KB2103]"
    )
