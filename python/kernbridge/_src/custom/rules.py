"""The rules of an operation for derivatives, transposition and batching, in the forms of JAX.

JAX takes what such rules return as it is. An array of another shape or dtype would be a wrong
number in the program, so every result is checked.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from kernbridge._src.base.errors import DerivativeRuleError, KernelError
from kernbridge._src.base.exact import exact_items
from kernbridge._src.base.private_jax import ad
from kernbridge._src.base.reports import hides_frames
from kernbridge._src.calls.batch_axes import Arrays, to_front
from kernbridge._src.calls.call import ArrayType, Types, has_type, is_inexact
from kernbridge._src.operation import derivatives
from kernbridge._src.operation.operation import Watched
from kernbridge._src.operation.spec import ENZYME, Functions, OperationSpec, check_rule, names_taken
from kernbridge._src.operation.tangents import Automatic, InOrder, Returned, Rules
from kernbridge._src.signatures.call_signature import CallSignature

Rule = Callable[..., Any]

lock = threading.RLock()  # for the rules and kernels of all operations

# By the names that messages use: the arguments of a rule, and their number without `*args`.
_CALLED = {
    "the vjp rule": ("(primals, results, cotangents, **params)", 3),
    "the batching rule": ("(args, axes, **params)", 2),
    "the transpose rule": ("(cotangents, *args, **params)", 1),
}


@dataclass(frozen=True)
class JvpRule:
    """The derivative of an operation: one function for all inputs, or one for each of them."""

    name: str
    functions: tuple[Any, ...]
    per_input: bool
    symbolic_zeros: bool = True

    def __post_init__(self) -> None:
        expected = f"({'tangent, *primals' if self.per_input else 'primals, tangents'}, **params)"
        for what, function, n in self.each(len(self.functions)):
            check_rule(repr(self.name), what, function, expected, n, None)

    def each(self, n_inputs: int) -> list[tuple[str, Rule, int]]:
        """Every function, what messages call it, and the number of its arguments."""
        if not self.per_input:
            return [("the jvp rule", self.functions[0], 2)]
        each = enumerate(self.functions)
        return [(f"the jvp rule {i}", f, 1 + n_inputs) for i, f in each if f is not None]

    def check_count(self, n_inputs: int) -> None:
        if self.per_input and len(self.functions) != n_inputs:
            raise DerivativeRuleError(
                f"{self.name!r} has {len(self.functions)} jvp rules and is called with {n_inputs} "
                "inputs; give one rule for each input, None where the derivative is zero"
                " [KB2103]"
            )

    def whole(
        self, types: Types, primals: Any, tangents: Any, /, **params: Any
    ) -> tuple[list[Any], list[Any]]:
        """Call the function for all inputs; return outputs of these types, and their tangents."""
        (function,) = self.functions
        given = list(tangents)
        for i, t in enumerate(given):
            if not self.symbolic_zeros and type(t) is ad.Zero and is_inexact(t.aval.dtype):
                given[i] = ad.instantiate_zeros(t)
        result = function(list(primals), given, **params)
        returned = Returned(repr(self.name), "the jvp rule")
        outputs, dots = _listed(returned, result, "pair of lists, outputs and tangents", 2)
        outputs = _listed(returned, outputs, "outputs", len(types))
        dots = _listed(returned, dots, "tangents", len(types))
        values = [returned.array(f"output {i}", outputs[i], t) for i, t in enumerate(types)]
        return values, [returned.tangent(i, dots[i], value) for i, value in enumerate(values)]

    def tangents(
        self, inputs: Any, outputs: Any, tangents: Any, /, **params: Any
    ) -> tuple[Any, ...]:
        """Return the tangents of the outputs; those from each input are added up."""
        if not self.per_input:
            types = list(map(ArrayType.of, outputs))
            return tuple(self.whole(types, inputs, tangents, **params)[1])
        self.check_count(len(inputs))
        total: list[Any] = [None] * len(outputs)
        for i, (rule, t) in enumerate(zip(self.functions, tangents, strict=True)):
            if rule is None or type(t) is ad.Zero:
                continue
            returned = Returned(repr(self.name), f"the jvp rule {i}")
            found = rule(t, *inputs, **params)
            for j, part in enumerate(_listed(returned, found, "tangents", len(outputs))):
                if part is not None and type(part) is not ad.Zero:
                    total[j] = part if total[j] is None else total[j] + part
        return tuple(total)


class RuleTable:
    _change: Callable[[], None]  # publishes a change; called with the lock held
    signature: CallSignature | None
    _functions: Callable[[], Functions]  # all that run while a call is traced or lowered

    def __init__(self, name: str, by_enzyme: bool) -> None:
        self.name, self._rules_version = name, 0
        self._rules: dict[str, Any] = {}  # as `_CALLED` names them
        if by_enzyme:
            derivatives.extension(repr(name))
            self._rules = {"the jvp rule": ENZYME, "the vjp rule": ENZYME}
        self.watched = Watched(self._functions)

    def _set(self, what: str, rule: Rule | JvpRule | str | None) -> None:
        if what == "the vjp rule" and names_taken(rule):
            if self.signature is None:
                raise TypeError(
                    f"{self.name!r}: the vjp rule takes {names_taken(rule)[0]!r} by name, but the "
                    "inputs have no names; pass signature= to XLACustomKernel, or write "
                    f"{_CALLED[what][0]} [KB1007]"
                )
        elif rule == ENZYME:
            derivatives.extension(repr(self.name))
        elif rule is not None and not isinstance(rule, JvpRule):
            check_rule(repr(self.name), what, rule, *_CALLED[what], None)
        with lock:
            self._rules[what] = rule
            self._rules_version += 1
            self._change()

    @hides_frames
    def def_jvp_rule(self, fun: Rule | Literal["enzyme"], *, symbolic_zeros: bool = True) -> None:
        """Define the derivative as JAX's primitives do.

        Parameters
        ----------
        fun : callable or "enzyme"
            ``fun(primals, tangents, **params)`` returns a pair: the list of outputs, and the list
            of their tangents. `params` are `outs` and the keywords of the call. "enzyme": the
            kernels differentiate themselves.
        symbolic_zeros : bool, default True
            Tangents that are zero come as ``jax.interpreters.ad.Zero``; with False they come as
            arrays of zeros, but for inputs of integers.

        Raises
        ------
        TypeError
            If `fun` does not take two arguments; when called, if it does not take the keywords.
        """
        rule = fun if fun == ENZYME else JvpRule(self.name, (fun,), False, bool(symbolic_zeros))
        self._set("the jvp rule", rule)

    @hides_frames
    def def_jvp_rule2(self, *rules: Rule | None) -> None:
        """Define the derivative by one rule for each input.

        `jax.grad` transposes what the rules do with the tangents.

        Parameters
        ----------
        *rules : callable or None
            ``rule(tangent, *primals, **params)`` returns the contribution of its input to the
            tangent of the output, or a tuple or list with one for each of several outputs. None
            stands for no contribution. `params` are `outs` and the keywords of the call.

        Raises
        ------
        TypeError
            If a rule is not a function, or, when differentiated, does not take these arguments.
        ValueError
            If there are not as many rules as inputs, once their number is known.
        DerivativeRuleError
            When differentiated, if a rule does not return one tangent for each output.

        Examples
        --------
        >>> import jax, jax.numpy as jnp, kernbridge
        >>> op = kernbridge.XLACustomKernel("doc_rule2_product")
        >>> op.def_kernel("jax", "cpu", lambda outs: lambda x, y: x * y)
        >>> op.def_jvp_rule2(lambda t, x, y, **_: t * y, lambda t, x, y, **_: x * t)
        >>> x, y = jnp.arange(3.0), jnp.array([2.0, 3.0, 5.0])
        >>> jax.grad(lambda x: op(x, y, outs=x).sum())(x)
        Array([2., 3., 5.], dtype=float32)
        """
        self._set("the jvp rule", JvpRule(self.name, rules, per_input=True))

    @hides_frames
    def def_vjp_rule(self, fun: Rule | Literal["enzyme"]) -> None:
        """Define the reverse derivative.

        Forward mode uses the jvp rule if there is one, or else transposes `fun`.

        Parameters
        ----------
        fun : callable or "enzyme"
            ``fun(primals, results, cotangents, **params)`` returns a tuple with the cotangent of
            each input; None: zero. `primals`, `results` and `cotangents` are tuples; the cotangent
            of a result of integers is None. `params` are `outs` and the keywords of the call.
            "enzyme": the kernels differentiate themselves. If the operation has a signature, inputs
            may be taken by name, as in ``fun(ct, *, x, w)``, which returns a dict of cotangents;
            see `numba_kernel`. There, `ct` is an array if the operation has one output, and else a
            tuple.

        Raises
        ------
        TypeError
            If `fun` does not take three arguments, or, when called, the keywords; when
            differentiated, if a cotangent is not of its input's shape and dtype.
        """
        self._set("the vjp rule", fun)

    @hides_frames
    def def_transpose_rule(self, fun: Rule) -> None:
        """Define the transpose, for an operation that is linear in some inputs.

        Parameters
        ----------
        fun : callable
            ``fun(cotangents, *args, **params)``: the linear inputs among `args` are
            ``jax.interpreters.ad.UndefinedPrimal``. It returns a list with the cotangent of each
            of them, and None for the others.
        """
        self._set("the transpose rule", fun)

    @hides_frames
    def def_batching_rule(self, fun: Rule) -> None:
        """Define what `jax.vmap` does, in place of `register_general_batching`.

        Parameters
        ----------
        fun : callable
            ``fun(args, axes, **params)`` returns the outputs, and the axis of the batch in each.
        """
        self._set("the batching rule", fun)

    def register_general_batching(self) -> None:
        """Let `jax.vmap` batch as it does by default.

        Operations of kernbridge in a kernel run their own loop over the batch, in C, and what JAX
        can batch, it batches. Where JAX cannot, the kernel runs slice by slice in a scan.
        """
        self._set("the batching rule", None)

    def rules(self, params: dict[str, Any], by_enzyme: Automatic) -> Rules | None:
        """Return the derivative of a call with these keywords, or None."""
        jvp: Any = self._rules.get("the jvp rule")
        vjp: Any = self._rules.get("the vjp rule")
        if jvp is None and vjp is None:
            return None
        tree = jax.tree.structure((0,) * len(params["outs"]))
        if self.signature is not None and names_taken(vjp):
            is_alone = len(params["outs"]) == 1
            vjp = InOrder(repr(self.name), "vjp", vjp, *self.signature.bound, tree, is_alone)
        return Rules(
            repr(self.name),
            tree,
            jvp.tangents if isinstance(jvp, JvpRule) else jvp and by_enzyme,
            by_enzyme if vjp == ENZYME else vjp,
            tuple(sorted(params.items())),
            symbolic_zeros=True,
            exact=(exact_items(params), self.watched.tracing()),
        )

    def _each(self, n_inputs: int) -> list[tuple[str, Rule, int]]:
        """Every function, what messages call it, and the number of its arguments."""
        found: list[tuple[str, Any, int]] = []
        for what, rule in self._rules.items():
            if isinstance(rule, JvpRule):
                found += rule.each(n_inputs)
            elif rule is not None and rule != ENZYME:
                n = _CALLED[what][1] + n_inputs * (what == "the transpose rule")
                found.append((what, rule, n))
        return found

    def _kernbridge_runs(self) -> Functions:  # see keys/function_state.py
        return [(what, function) for what, function, _ in self._each(0)]

    def check_rules_take(self, n_inputs: int, keywords: Sequence[str]) -> None:
        """Check what can be checked once the number of inputs and the keywords are known."""
        jvp = self._rules.get("the jvp rule")
        if isinstance(jvp, JvpRule):
            jvp.check_count(n_inputs)
        named = "".join(f", {keyword}=..." for keyword in keywords)
        for what, function, n in self._each(n_inputs):
            if self.signature and what == "the vjp rule" and names_taken(function):
                names = [name for side in self.signature.bound for name in side]
                OperationSpec(repr(self.name), (), vjp=function).check_names(names, keywords)
            else:
                check_rule(repr(self.name), what, function, f"({n} arguments{named})", n, keywords)


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
    rule = JvpRule(primitive.name, rules, per_input=True)

    def jvp(primals: Any, tangents: Any, /, **params: Any) -> Any:
        result = primitive.bind(*primals, **params)
        outputs = result if primitive.multiple_results else [result]
        found = rule.tangents(primals, outputs, tangents, **params)
        returned = Returned(repr(primitive.name), "the jvp rules")
        dots = [returned.tangent(i, found[i], output) for i, output in enumerate(outputs)]
        return (result, dots) if primitive.multiple_results else (result, dots[0])

    ad.primitive_jvps[primitive] = jvp


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
    _, mapped, front = to_front(args, axes)

    def one(slices: tuple[Any, ...]) -> Any:
        own = iter(slices)
        return call(*(next(own) if m else x for m, x in zip(mapped, args, strict=True)), **kwargs)

    outs = jax.lax.map(one, tuple(itertools.compress(front, mapped)))
    return outs, jax.tree.map(lambda _: 0, outs)


def _listed(returned: Returned, value: Any, what: str, n: int) -> list[Any]:
    found = list(value) if isinstance(value, (tuple, list)) else [value]
    if len(found) != n:
        came = f"a list of {len(found)}" if isinstance(value, (tuple, list)) else repr(value)
        raise returned.refusal(f"{came} as the {what}, expected {n}")
    return found


def checked_cotangents(name: str, operands: Arrays, found: Any) -> list[Any]:
    """Return what a transpose rule returned for these operands, or raise.

    A cotangent may be of another precision than the operand, as in BrainEvent.
    """
    returned = Returned(repr(name), "the transpose rule")
    what = "cotangents, which are None for operands that are not linear"
    found, checked = _listed(returned, found, what, len(operands)), list[Any]()
    kinds = (jnp.floating, jnp.complexfloating)
    for i, (ct, operand) in enumerate(zip(found, operands, strict=True)):
        if ct is not None and type(ct) is not ad.Zero and ad.is_undefined_primal(operand):
            expected = ArrayType(operand.aval.shape, np.dtype(operand.aval.dtype))
            same = [k for k in kinds if jnp.issubdtype(expected.dtype, k)]
            fits = has_type(ct) and tuple(ct.shape) == expected.shape
            if not fits or not any(jnp.issubdtype(ct.dtype, k) for k in same):
                ct = returned.array(f"the cotangent of operand {i}", ct, expected)
        checked.append(ct)
    return checked


def checked_batch(
    name: str, types: Types, size: Any, found: Any
) -> tuple[list[Any], list[int | None]]:
    """Return the outputs of a batching rule for slices of these types, and their axes, or raise."""
    returned = Returned(repr(name), "the batching rule", KernelError)
    outputs, axes = _listed(returned, found, "pair of lists, outputs and batch axes", 2)
    outputs = _listed(returned, outputs, "outputs", len(types))
    axes = _listed(returned, axes, "axes", len(types))
    for i, (t, axis) in enumerate(zip(types, axes, strict=True)):
        rank, shape = len(t.shape), t.shape
        if axis is not None:
            if not isinstance(axis, (int, np.integer)) or not 0 <= axis <= rank:
                raise returned.refusal(
                    f"the axis {axis!r}, expected a number from 0 to {rank}, or None for an "
                    "output that is the same for the whole batch"
                )
            shape = (*shape[:axis], size, *shape[axis:])
        what = f"output {i} with axis {axis}"
        outputs[i] = returned.array(what, outputs[i], ArrayType(shape, t.dtype))
    return outputs, axes
