"""Stores the rules of an operation for derivatives, transposition and batching."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax

from kernbridge._src.base.exact import exact_items
from kernbridge._src.base.reports import hides_frames
from kernbridge._src.custom import rule_forms
from kernbridge._src.custom.rule_forms import PerInputRules, WholeRule
from kernbridge._src.operation.spec import check_rule
from kernbridge._src.operation.tangents import Rules
from kernbridge._src.operation.watched import Functions, Watched

Rule = Callable[..., Any]


class RuleTable:
    """Rules, each in the form in which it was defined."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.RLock()
        self._jvp_rule: WholeRule | PerInputRules | None = None
        self._vjp_rule: Rule | None = None
        self.batching_rule: Rule | None = None
        self.transpose_rule: Rule | None = None
        self._rules_version = 0
        self.watched = Watched(self._functions)

    def _change(self) -> None:
        """Publish a change; called with the lock held."""
        raise NotImplementedError

    def _rules_changed(self) -> None:
        with self._lock:
            self._rules_version += 1
            self._change()

    @hides_frames
    def def_jvp_rule(self, fun: Rule, *, symbolic_zeros: bool = True) -> None:
        """Define the derivative as JAX's primitives do.

        Parameters
        ----------
        fun : callable
            ``fun(primals, tangents, **params)`` returns a pair: the list of outputs, and the list
            of their tangents. `params` are `outs` and the keywords of the call.
        symbolic_zeros : bool, default True
            Tangents that are zero come as ``jax.interpreters.ad.Zero``; with False they come as
            arrays of zeros, but for inputs of integers.

        Raises
        ------
        TypeError
            If `fun` does not take two arguments; when called, if it does not take the keywords.
        """
        expected = "(primals, tangents, **params)"
        check_rule(repr(self.name), "the jvp rule", fun, expected, 2, None)
        self._jvp_rule = WholeRule(self.name, fun, bool(symbolic_zeros))
        self._rules_changed()

    @hides_frames
    def def_jvp_rule2(self, *rules: Rule | None) -> None:
        """Define the derivative by inputs.

        Parameters
        ----------
        *rules : function or None
            One for each input: ``rule(tangent, *primals, **params)`` returns the tangents of the
            outputs that come from this input; None: there are none.

        Raises
        ------
        TypeError
            If a rule is no function, or does not take these arguments.
        ValueError
            When called, if there are not as many rules as inputs.
        """
        self._jvp_rule = rule_forms.per_input(self.name, rules)
        self._rules_changed()

    @hides_frames
    def def_vjp_rule(self, fun: Rule) -> None:
        """Define the reverse derivative.

        Forward mode uses the jvp rule if there is one, or else transposes `fun`.

        Parameters
        ----------
        fun : callable
            ``fun(primals, results, cotangents, **params)`` returns a tuple with the cotangent of
            each input; None: zero. `primals`, `results` and `cotangents` are tuples; the cotangent
            of a result of integers is None. `params` are `outs` and the keywords of the call.

        Raises
        ------
        TypeError
            If `fun` does not take three arguments, or, when called, the keywords; when
            differentiated, if a cotangent is not of its input's shape and dtype.
        """
        expected = "(primals, results, cotangents, **params)"
        check_rule(repr(self.name), "the vjp rule", fun, expected, 3, None)
        self._vjp_rule = fun
        self._rules_changed()

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
        expected = "(cotangents, *args, **params)"
        check_rule(repr(self.name), "the transpose rule", fun, expected, 1, None)
        self.transpose_rule = fun
        self._rules_changed()

    @hides_frames
    def def_batching_rule(self, fun: Rule) -> None:
        """Define what `jax.vmap` does, in place of `register_general_batching`.

        Parameters
        ----------
        fun : callable
            ``fun(args, axes, **params)`` returns the outputs, and the axis of the batch in each.
        """
        expected = "(args, axes, **params)"
        check_rule(repr(self.name), "the batching rule", fun, expected, 2, None)
        self.batching_rule = fun
        self._rules_changed()

    def register_general_batching(self) -> None:
        """Let `jax.vmap` batch as it does by default.

        Operations of kernbridge in a kernel run their own loop over the batch, in C, and what JAX
        can batch, it batches. Where JAX cannot, the kernel runs slice by slice in a scan.
        """
        self.batching_rule = None
        self._rules_changed()

    def whole_jvp_rule(self) -> WholeRule | None:
        """Return the rule for outputs and tangents at once, if it is all that there is."""
        rule = self._jvp_rule
        return rule if isinstance(rule, WholeRule) and self._vjp_rule is None else None

    def rules(self, params: dict[str, Any]) -> Rules | None:
        """Return the derivative of a call with these keywords, or None."""
        rule = self._jvp_rule
        if rule is None and self._vjp_rule is None:
            return None
        return Rules(
            repr(self.name),
            jax.tree.structure((0,) * len(params["outs"])),
            None if rule is None else rule.tangents,
            self._vjp_rule,
            tuple(sorted(params.items())),
            symbolic_zeros=True,
            exact=(exact_items(params), self.watched.tracing()),
        )

    def _functions(self) -> Functions:
        """All functions of the user that run as a call is traced or lowered."""
        raise NotImplementedError

    def _kernbridge_runs(self) -> Functions:  # as it is traced: see keys/host_state.py
        rule = self._jvp_rule
        jvp = rule.rules if isinstance(rule, PerInputRules) else (rule and rule.function,)
        rules = (self._vjp_rule, self.transpose_rule, self.batching_rule, *jvp)
        return [(f"rule {i}", rule) for i, rule in enumerate(rules) if rule is not None]

    def check_rules_take(self, n_inputs: int, keywords: Sequence[str]) -> None:
        """Check what can be checked once the number of inputs and the keywords are known."""
        rules = [
            ("the vjp rule", self._vjp_rule, 3),
            ("the batching rule", self.batching_rule, 2),
            ("the transpose rule", self.transpose_rule, 1 + n_inputs),
        ]
        if isinstance(self._jvp_rule, PerInputRules):
            self._jvp_rule.check_count(n_inputs)
            each = enumerate(self._jvp_rule.rules)
            rules += [(f"the jvp rule {i}", rule, 1 + n_inputs) for i, rule in each]
        elif self._jvp_rule is not None:
            rules.append(("the jvp rule", self._jvp_rule.function, 2))
        named = "".join(f", {keyword}=..." for keyword in keywords)
        for what, rule, n in rules:
            if rule is not None:
                check_rule(repr(self.name), what, rule, f"({n} arguments{named})", n, keywords)
