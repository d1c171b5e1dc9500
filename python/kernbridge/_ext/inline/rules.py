"""JAX's derivatives of inlined functions, which Enzyme takes in place of its own.

Enzyme would differentiate the text of a translation, which lacks the custom rules and the
`stop_gradient` of the JAX function, and has other derivatives at kinks. In a derivative, a kernel
calls a *node* in place of such a function of one real number, for each result. The derivative of a
node is a node, too, so that every order has JAX's derivatives. What has rules and more arguments is
refused.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from kernbridge._ext.inline import special, translate
from kernbridge._src.base import private_jax

_HARD = ("custom_jvp_call", "custom_vjp_call", "stop_gradient")
_SOFT = (*("abs", "max", "min", "pow", "reduce_max", "reduce_min", "tanh"), *special.FUNCTIONS)
NODE = "kb.node."
_serial = itertools.count()
roots: dict[str, Root] = {}  # by name


class NoRule(Exception):
    """The derivative of a function cannot be computed in kernels."""


class Node(NamedTuple):
    """A function of a real number, the dtypes of its argument and its result, and its derivative.

    It has no derivative if Enzyme does not need it, or should differentiate the text.
    """

    name: str
    text: str
    dtype: str
    result: str
    derivative: Node | None

    def all(self) -> Iterator[Node]:
        yield self
        if self.derivative is not None:
            yield from self.derivative.all()


class Root:
    """The result number `k` of an inlined function of a real number."""

    def __init__(
        self, label: str, function: Callable[..., Any], dtype: str, wide: bool, need: str, k: int
    ) -> None:
        self.name, self.label = f"{NODE}{next(_serial)}", label
        self._function = lambda x: jax.tree.leaves(function(x))[k]
        self._dtype, self._wide, self._need = dtype, wide, need
        self.node = functools.cache(self._node)
        roots[self.name] = self

    def _node(self, order: int) -> Node:
        """The function with its derivatives up to an order, or raise NoRule.

        What has no rule of its own may be left to Enzyme.
        """
        try:
            return self._made(self.name, self._function, order)
        except NoRule:
            if self._need == "hard" or order == 0:
                raise
            return self.node(0)

    def _made(self, name: str, function: Callable[..., Any], order: int) -> Node:
        try:
            with jax.enable_x64(self._wide), private_jax.own_lines():
                closed = jax.make_jaxpr(function)(jax.ShapeDtypeStruct((), np.dtype(self._dtype)))
            text = translate.translate(closed, False)
        except Exception as e:
            why = f"{self.label}, whose derivative cannot be inlined: {e}"
            raise NoRule(why.rstrip(".")) from e
        derivative = self._derivative(f"{name}.d", function, order - 1) if order else None
        return Node(name, text, self._dtype, str(closed.out_avals[0].dtype), derivative)

    def _derivative(self, name: str, function: Callable[..., Any], order: int) -> Node:
        def forward(x: Any) -> Any:
            return jax.jvp(function, (x,), (np.ones((), x.dtype),))[1]

        def backward(x: Any) -> Any:
            value, pullback = jax.vjp(function, x)
            return pullback(np.ones((), value.dtype))[0].astype(value.dtype)

        try:
            return self._made(name, forward, order)
        except NoRule:  # as of a custom_vjp
            return self._made(name, backward, order)


def needed(jaxpr: Any) -> str:
    """How the derivative by Enzyme would differ: "hard" by a rule, "soft" at kinks, or empty."""
    found = ""
    for eqn in translate.opened(jaxpr)[0].eqns:
        name = eqn.primitive.name
        inner = [x for p in eqn.params.values() for x in (p if isinstance(p, tuple) else (p,))]
        kinds = {needed(j) for j in inner if hasattr(translate.opened(j)[0], "eqns")}
        if name in _HARD or "hard" in kinds:
            return "hard"
        found = "soft" if name in _SOFT or "soft" in kinds else found
    return found


def described(functions: Sequence[Any], order: int) -> list[Any]:
    """What derivatives depend on, of those functions that the kernel may call."""
    found = []
    for i, function in enumerate(functions):
        for dtypes, translation in sorted(function.translations.items()):
            for k, root in enumerate(translation.roots):
                if root is not None:
                    with contextlib.suppress(NoRule):
                        found.append((i, dtypes, k, [n.text for n in root.node(order).all()]))
    return found


def unknown(functions: Sequence[Any], called: str, has_nodes: bool) -> str:
    """A function with rules that code calls without its derivative; empty if there is none.

    `called` contains the names of all functions that the code calls.
    """
    for function in functions:
        proven = function.__wrapped__ in (jax.nn.relu, jax.nn.relu6)  # their bodies are their rules
        for translation in () if proven else function.translations.values():
            known = has_nodes and translation.roots
            if translation.need == "hard" and not known and translation.name in called:
                return (
                    f"it calls {function.label}, "
                    "which contains a custom_jvp, a custom_vjp or stop_gradient; such a rule is "
                    "known only in kernels for CPUs, of a function of one real number"
                )
    return ""


def calling(made: Sequence[Root | None], plain: Any, dtype: str, is_tuple: bool) -> Any:
    """A function that calls nodes for those results that have one."""
    from kernbridge._src.numba_common.private_llvmlite import binding
    from kernbridge._src.numba_common.private_numba import types

    space: dict[str, Any] = {"plain": plain}
    results = []
    for k, root in enumerate(made):
        if root is None:
            results.append("plain(x)" + f"[{k}]" * is_tuple)
            continue
        binding.add_symbol(root.name, 1)  # Numba's code for derivatives does not run
        signature = getattr(types, root.node(0).result)(getattr(types, dtype))
        space[f"node{k}"] = types.ExternalFunction(root.name, signature)
        results.append(f"node{k}(x)")
    text = "".join(f"{r}, " for r in results)
    text = f"({text})" if is_tuple else text.removesuffix(", ")
    return jitted(f"def {translate.NAME}(x):\n    return {text}\n", "called", **space)


def jitted(text: str, name: str = translate.NAME, label: str = "string", **known: Any) -> Any:
    """A function of Numba, by the name that compiled code has for it, given its text."""
    from kernbridge._src.numba_common.private_numba import numba

    space = {"math": math, "np": np, "__name__": "kernbridge.inlined", **known}
    exec(compile(text, f"<{label}>", "exec"), space)
    made: Any = space[translate.NAME]
    made.__name__ = made.__qualname__ = name
    return numba.njit(error_model="numpy", forceinline=True)(made)
