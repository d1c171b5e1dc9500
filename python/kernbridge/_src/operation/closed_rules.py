"""Makes operands of the traced values that derivative rules close over.

A rule may read a value that exists only while JAX traces, and would run after that: where an outer
function is differentiated, batched or lowered. So it is traced where the call is, and what it reads
becomes an operand of the call, which every transformation of JAX follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import jax

from kernbridge._src.base.errors import DerivativeRuleError
from kernbridge._src.base.private_jax import Tracer, eval_jaxpr
from kernbridge._src.operation.spec import ArrayType
from kernbridge._src.operation.tangents import Rules, is_inexact


def close(
    rules: Rules, inputs: Sequence[ArrayType], outs: Sequence[ArrayType]
) -> tuple[Rules, list[Any]]:
    """Return rules that take the traced values that they read as further operands, and these."""
    arrays = [jax.ShapeDtypeStruct(t.shape, t.dtype) for t in (*inputs, *outs)]
    dots = [a if is_inexact(a.dtype) else None for a in arrays]
    n, unflatten = len(inputs), rules.tree.unflatten
    known = tuple(arrays[:n]), unflatten(arrays[n:])
    jvp, vjp, values = rules.jvp, rules.vjp, list[Any]()
    keywords = dict(rules.keywords)
    if jvp is not None:
        jvp = _closed(jvp, keywords, (*known, tuple(dots[:n])), values)
    if vjp is not None:
        vjp = _closed(vjp, keywords, (*known, unflatten(dots[n:])), values)
    # Nothing of these may keep the values alive, which outlive the trace then.
    rules = replace(rules, jvp=jvp, vjp=vjp, keywords=(), exact=None, n_read=len(values))
    return rules, values


def _closed(
    rule: Callable[..., Any], keywords: dict[str, Any], given: Any, values: list[Any]
) -> Callable[..., Any]:
    """Return a rule as a function of its arguments and all values; append those that it reads."""
    found: list[Any] = []

    def run(*given: Any) -> list[Any]:
        leaves, tree = jax.tree.flatten(rule(*given, **keywords))
        traced = [isinstance(leaf, Tracer) for leaf in leaves]
        found[:] = (
            tree,
            [None if t else leaf for t, leaf in zip(traced, leaves, strict=True)],
            traced,
        )
        return [leaf for t, leaf in zip(traced, leaves, strict=True) if t]

    program = jax.make_jaxpr(run)(*given)
    tree, leaves, traced = found
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
        own = (next(computed) if t else leaf for t, leaf in zip(traced, leaves, strict=True))
        return tree.unflatten(own)

    return closed


def refuse(label: str, values: Sequence[Any]) -> NoReturn:
    """Raise for rules that would run where the values that they read exist no longer."""
    raise DerivativeRuleError(
        f"{label}: its derivative rule reads a traced value of an outer function, "
        f"{values[0].aval.str_short()}, and runs where that value exists no longer; pass it to the "
        "operation as an input, and take it from the inputs in the rule [KB2103]"
    )
