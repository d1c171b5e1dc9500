"""One call that makes the results of an operation and their tangents, where a rule has such a call.

`kernbridge_operation_and_tangent` is a primitive with the operands of both. JAX may take it apart:
for `jax.grad` and `jax.checkpoint`, the operation runs first, and the tangent is transposed later.
Where the tangents alone are mapped, as in `jax.jacfwd`, the results are computed once, and not for
each tangent. On CPUs, what is left is one call.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax

from kernbridge._src.base import private_jax
from kernbridge._src.base.private_jax import batching, mlir, partial_eval
from kernbridge._src.calls.batch_axes import Arrays, BatchAxes
from kernbridge._src.calls.call import Call, is_inexact
from kernbridge._src.operation import primitive
from kernbridge._src.operation.primitive import Frontend, bind_named, named
from kernbridge._src.operation.tangents import Rules, Tangent, dots_of, operation_p, pushed

Operation = tuple[Frontend, Call, Rules]
joined_p = primitive.new_primitive("kernbridge_operation_and_tangent")


class Joined(NamedTuple):
    """The operation and its tangent, which `both` makes in one call, and `alone` without results.

    The operands of `both` and of `alone` are the inputs, and then the tangents of some of them.
    """

    operation: Operation
    tangent: Tangent
    both: Operation
    alone: Operation

    @property
    def name(self) -> str:
        return self.both[0].name

    def __repr__(self) -> str:
        return repr(self.both[0])  # in jaxprs

    def bind(self, levels: BatchAxes, inputs: Arrays, dots: Arrays) -> list[Any]:
        """The results and their tangents; `levels` describes the inputs."""
        masks = levels.choose([*range(len(inputs)), *self.tangent.which])
        return bind_named(joined_p, [*inputs, *dots], joined=self, levels=masks)

    def values(self, levels: BatchAxes) -> dict[str, Any]:
        """The parameters of the operation, given the levels of all operands."""
        return _params(self.operation, levels.choose(range(self.tangent.n_inputs)))


def _params(operation: Operation, levels: BatchAxes) -> dict[str, Any]:
    frontend, call, rules = operation
    return {"frontend": frontend, "call": call, "rules": rules, "levels": levels}


def _abstract(*operands: Any, joined: Joined, levels: BatchAxes) -> Any:
    frontend, call, _ = joined.both
    return primitive.abstract_call(frontend.label, operands, call, levels)


def _apart(*operands: Any, joined: Joined, levels: BatchAxes) -> list[Any]:
    n = joined.tangent.n_inputs
    results = bind_named(operation_p, operands[:n], **joined.values(levels))
    return [*results, *joined.tangent.of(levels, operands[:n], results, operands[n:])]


def _together(*operands: Any, joined: Joined, levels: BatchAxes) -> list[Any]:
    return bind_named(operation_p, operands, **_params(joined.both, levels))


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    results, found = pushed(functools.partial(_apart, **params), primals, tangents)
    return results, dots_of(results, [t for t in found if is_inexact(t.dtype)])


def _transpose(cotangents: Any, *operands: Any, joined: Joined, **_: Any) -> list[Any]:
    # JAX takes the call apart before it transposes.
    return primitive.transpose_of_kernel(cotangents, *operands, frontend=joined.both[0])


def _batch(operands: Arrays, dims: Any, *, joined: Joined, levels: BatchAxes) -> Any:
    n = joined.tangent.n_inputs
    if any(d is not None for d in dims[:n]):
        return primitive.batch_with_levels(joined_p, operands, dims, joined=joined, levels=levels)
    results = bind_named(operation_p, operands[:n], **joined.values(levels))
    tangents = functools.partial(joined.tangent.of, levels, operands[:n], results)
    found = jax.vmap(lambda *dots: tangents(dots), tuple(dims[n:]))(*operands[n:])
    return [*results, *found], [*[None] * len(results), *[0] * len(found)]


primitive.define_with_levels(joined_p, _abstract, _apart, _jvp, _transpose)
batching.primitive_batchers[joined_p] = _batch
mlir.register_lowering(joined_p, mlir.lower_fun(_together, multiple_results=True), platform="cpu")


def _values_of(eqn: Any) -> Any:
    """The equation of the operation alone."""
    joined, params = eqn.params["joined"], eqn.params["joined"].values(eqn.params["levels"])
    n, n_values = joined.tangent.n_inputs, len(joined.tangent.outs)
    given = {"invars": eqn.invars[:n], "outvars": eqn.outvars[:n_values]}
    return eqn.replace(primitive=named(operation_p, params), params=params, **given)


def _without_unused(used: list[bool], *given: Any) -> tuple[list[bool], Any]:
    """Without results or tangents that nothing uses."""
    eqn = given[-1]  # after what of its operands is alive, from JAX 0.12 on
    joined, n = eqn.params["joined"], len(eqn.invars)
    n_values = len(joined.tangent.outs)
    if not any(used):
        return [False] * n, None
    if not any(used[n_values:]):
        return [i < joined.tangent.n_inputs for i in range(n)], _values_of(eqn)
    if not any(used[:n_values]):
        params = _params(joined.alone, eqn.params["levels"])
        outvars = eqn.outvars[n_values:]
        eqn = eqn.replace(primitive=named(operation_p, params), params=params, outvars=outvars)
    return [True] * n, eqn


def _known(trace: Any, *operands: Any, **params: Any) -> list[Any]:
    """The operation is known where its inputs are, and its tangent where all operands are."""
    with private_jax.set_current_trace(trace):
        return _apart(*operands, **params)


def _staged(_: Any, unknown: list[bool], instantiated: list[bool], eqn: Any) -> Any:
    """The same for `jax.checkpoint`, which computes again what it needs."""
    tangent = eqn.params["joined"].tangent
    is_known, n = not any(unknown[: tangent.n_inputs]), len(tangent.outs)
    are_unknown = [any(unknown) if k >= n else not is_known for k in range(len(eqn.outvars))]
    given = zip(eqn.invars, instantiated, strict=True)
    needed = [x for x, has in given if not has and not isinstance(x, private_jax.Literal)]
    known = _values_of(eqn) if any(unknown) else eqn
    return known if is_known else None, eqn, are_unknown, [True] * len(eqn.outvars), needed


if private_jax.HAS_INSIDES:
    partial_eval.dce_rules[joined_p] = _without_unused
    partial_eval.custom_partial_eval_rules[joined_p] = _known
    partial_eval.partial_eval_jaxpr_custom_rules[joined_p] = _staged
