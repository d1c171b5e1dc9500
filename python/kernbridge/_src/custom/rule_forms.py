"""Derivative and batching rules in the forms that JAX's primitives use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from kernbridge._src.base.errors import DerivativeRuleError
from kernbridge._src.base.private_jax import ad
from kernbridge._src.custom.rule_results import derivative_error, tangent
from kernbridge._src.operation.levels import loop, to_front
from kernbridge._src.operation.spec import check_rule

Rule = Callable[..., Any]


@dataclass(frozen=True)
class WholeRule:
    """A rule ``fun(primals, tangents, **params)``, which returns outputs and their tangents."""

    name: str
    function: Rule
    symbolic_zeros: bool

    def __call__(
        self, primals: Any, tangents: Any, /, **params: Any
    ) -> tuple[list[Any], list[Any]]:
        """Return outputs and tangents in the form that JAX expects."""
        given = list(tangents) if self.symbolic_zeros else _zeros_for(tangents)
        result = self.function(list(primals), given, **params)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise DerivativeRuleError(
                f"{self.name!r}: the jvp rule returned {result!r}, expected a pair of the outputs "
                "and their tangents [KB2103]"
            )
        outputs, dots = (list(r) if isinstance(r, (tuple, list)) else [r] for r in result)
        return outputs, dots

    def tangents(
        self, inputs: Any, outputs: Any, tangents: Any, /, **params: Any
    ) -> tuple[Any, ...]:
        """Return the tangents alone."""
        return tuple(self(inputs, tangents, **params)[1])


@dataclass(frozen=True)
class PerInputRules:
    """One rule ``rule(tangent, *primals, **params)`` for each input; their tangents add up."""

    name: str
    rules: tuple[Rule | None, ...]

    def check_count(self, n_inputs: int) -> None:
        if len(self.rules) != n_inputs:
            raise DerivativeRuleError(
                f"{self.name!r} has {len(self.rules)} jvp rules and is called with {n_inputs} "
                "inputs; give one rule for each input, None where the derivative is zero"
                " [KB2103]"
            )

    def tangents(
        self, inputs: Any, outputs: Any, tangents: Any, /, **params: Any
    ) -> tuple[Any, ...]:
        """Return the tangents of the outputs."""
        self.check_count(len(inputs))
        total: list[Any] = [None] * len(outputs)
        for i, (rule, t) in enumerate(zip(self.rules, tangents, strict=True)):
            if rule is None or type(t) is ad.Zero:
                continue
            for j, part in enumerate(self._parts(i, rule(t, *inputs, **params), len(outputs))):
                if part is not None and type(part) is not ad.Zero:
                    total[j] = part if total[j] is None else total[j] + part
        return tuple(total)

    def _parts(self, index: int, result: Any, n: int) -> Sequence[Any]:
        if n == 1 and not isinstance(result, (tuple, list)):
            return [result]
        if not isinstance(result, (tuple, list)):
            raise DerivativeRuleError(
                f"{self.name!r}: jvp rule {index} returned {type(result).__name__}, expected a "
                f"tuple or list of {n} tangents, one for each output [KB2103]"
            )
        if len(result) != n:
            raise DerivativeRuleError(
                f"{self.name!r}: jvp rule {index} returned {len(result)} tangents, expected {n}, "
                "one for each output [KB2103]"
            )
        return result


def defjvp(primitive: Any, *rules: Rule | None) -> None:
    """Give an operation or a JAX primitive one derivative rule for each input.

    Parameters
    ----------
    primitive : XLACustomKernel or jax.extend.core.Primitive
        The operation or primitive that gets the rules.
    *rules : function or None
        ``rule(tangent, *primals, **params)`` returns the contribution of this input to the tangents
        of the outputs, as a tuple or list if there are several outputs. None stands for no
        contribution.

    Raises
    ------
    TypeError
        If a rule is not a function; when differentiated, if it does not return a tuple or list for
        several outputs.
    ValueError
        If there are not as many rules as inputs, once their number is known.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, numba, kernbridge
    >>> @numba.njit
    ... def square(x, out):
    ...     for i in range(x.size):
    ...         out[i] = x[i] * x[i]
    >>> op = kernbridge.XLACustomKernel("doc_defjvp_square")
    >>> op.def_numba_kernel(lambda outs, **_: kernbridge.numba_kernel(square, outs))
    >>> kernbridge.defjvp(op, lambda t, x, **_: 2 * x * t)
    >>> jax.grad(lambda x: op(x, outs=x).sum())(jnp.arange(3.0))
    Array([0., 2., 4.], dtype=float32)
    """
    operation = getattr(primitive, "operation", primitive)
    if hasattr(operation, "def_jvp_rule2"):
        operation.def_jvp_rule2(*rules)
        return
    ad.primitive_jvps[primitive] = functools.partial(
        _primitive_jvp, primitive, per_input(primitive.name, rules)
    )


def per_input(name: str, rules: Sequence[Rule | None]) -> PerInputRules:
    """Return rules by input, each of which was checked."""
    for i, rule in enumerate(rules):
        if rule is not None:
            expected = "(tangent, *primals, **params)"
            check_rule(repr(name), f"the jvp rule {i}", rule, expected, 1 + len(rules), None)
    return PerInputRules(name, tuple(rules))


def _primitive_jvp(
    primitive: Any, rules: PerInputRules, primals: Any, tangents: Any, **params: Any
) -> Any:
    result = primitive.bind(*primals, **params)
    outputs = result if primitive.multiple_results else [result]
    found = rules.tangents(primals, outputs, tangents, **params)
    error = derivative_error(primitive.name)
    dots = [
        tangent(error, "jvp rules returned", i, dot, x)
        for i, (dot, x) in enumerate(zip(found, outputs, strict=True))
    ]
    return (result, dots) if primitive.multiple_results else (result, dots[0])


def general_batching_rule(prim: Any, args: Any, axes: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Batch any primitive or function by calling it for one slice after the other, in a scan.

    Parameters
    ----------
    prim : jax.extend.core.Primitive or callable
        Called with one slice of each mapped argument, and with the others as they are.
    args : sequence of arrays
        The arguments.
    axes : sequence of int or None
        The mapped axis of each argument.
    **kwargs
        For every call.

    Returns
    -------
    outs, dims
        The outputs, with the structure in which `prim` returns them and the batch as axis 0, and
        the axis for each output. If nothing is mapped, `prim` is called once, and the axes are
        None.

    Examples
    --------
    >>> import jax.numpy as jnp, kernbridge
    >>> kernbridge.general_batching_rule(jnp.dot, (jnp.eye(2), jnp.ones(2)), (0, None))
    (Array([1., 1.], dtype=float32), 0)
    """
    call = prim.bind if hasattr(prim, "bind") else prim
    if all(d is None for d in axes):
        outs = call(*args, **kwargs)
        return outs, jax.tree.map(lambda _: None, outs)
    size, mapped, front = to_front(args, axes)
    outs = loop(functools.partial(call, **kwargs), mapped, size)(*front)
    return outs, jax.tree.map(lambda _: 0, outs)


def _zeros_for(tangents: Sequence[Any]) -> list[Any]:
    """Return tangents with arrays of zeros in place of JAX's symbolic ones."""
    return [
        ad.instantiate_zeros(t)
        if type(t) is ad.Zero and jnp.issubdtype(t.aval.dtype, jnp.inexact)
        else t
        for t in tangents
    ]
