"""Operations that have rules for their derivatives: a primitive around the kernel's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbridge._src.operation import primitive
from kernbridge._src.operation.levels import NONE, Levels, vmapped
from kernbridge._src.operation.spec import Call
from kernbridge._src.operation.tangents import Rules, differentiate

operation_p = primitive.new_primitive("kernbridge_operation")


def bind(
    frontend: primitive.Frontend, call: Call, rules: Rules, operands: Sequence[Any]
) -> list[Any]:
    """Apply a kernel that has derivatives to operands (tracers or arrays)."""
    return operation_p.bind(
        *primitive.match_varying(operands), frontend=frontend, call=call, rules=rules, levels=NONE
    )


def _abstract_eval(
    *operands: Any, frontend: primitive.Frontend, call: Call, rules: Rules, levels: Levels
) -> Any:
    return primitive.abstract(frontend.label, operands, call.outs, levels, call.has_side_effect)


def _evaluate(
    *operands: Any, frontend: primitive.Frontend, call: Call, rules: Rules, levels: Levels
) -> list[Any]:
    return vmapped(lambda *own: primitive.bind(frontend, call, own), levels)(*operands)


def _jvp(
    primals: Any,
    tangents: Any,
    *,
    frontend: primitive.Frontend,
    call: Call,
    rules: Rules,
    levels: Levels,
) -> Any:
    results = operation_p.bind(*primals, frontend=frontend, call=call, rules=rules, levels=levels)
    return results, differentiate(rules, call.outs, levels, primals, results, tangents)


def _transpose(*_: Any, frontend: primitive.Frontend, **__: Any) -> Any:
    raise NotImplementedError(
        f"{frontend.label} is applied to a tangent, and JAX wants its transpose: give the "
        "operation whose tangent this is a vjp rule beside its jvp rule, or make this one an "
        "XLACustomKernel with def_transpose_rule"
    )


primitive.define_with_levels(operation_p, _abstract_eval, _evaluate, _jvp, _transpose)
