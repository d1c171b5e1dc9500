"""Derivatives that a front end makes by itself, as further kernels.

`ByEnzyme` takes the place of a user's rule in `tangents.Rules`. It calls a `Derivative`: the kernel
of a front end after one or more steps of differentiation, which is a front end, too. Its own
derivatives are automatic as well, so every order and mixture of modes is one more step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from kernbridge._src.base.private_jax import ad
from kernbridge._src.operation import tangents
from kernbridge._src.operation.inspection import Inspection
from kernbridge._src.operation.primitive import Frontend, NativeCall
from kernbridge._src.operation.sharding_rule import Terms
from kernbridge._src.operation.spec import ArrayType, Call, Mode, Step, is_inexact


@dataclass(frozen=True)
class Derivative(Frontend):
    """A derivative of a kernel. Its operands are the kernel's, and then tangents or cotangents.

    Attributes
    ----------
    kernel : Frontend
        The kernel, which is no derivative.
    types, call :
        The operands and the call of the kernel, without batch axes.
    """

    kernel: Frontend
    types: tuple[ArrayType, ...]
    call: Call
    steps: tuple[Step, ...]

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"the {self.steps[-1].mode} of {self.kernel.label}"

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.kernel.name}_{'_'.join(s.mode for s in self.steps)}"

    @property
    def platforms(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.kernel.platforms

    @property
    def parameter_names(self) -> Sequence[str]:
        return ()

    def check(self, operands: Sequence[ArrayType], call: Call) -> None:
        """Nothing: the kernel's call was checked."""

    def lower(self, platform: str, operands: Sequence[ArrayType], call: Call) -> NativeCall:
        return self.kernel.lower_derivative(platform, self.types, self.call, self.steps)

    def inspect(self, operands: Sequence[ArrayType], call: Call) -> tuple[Inspection, ...]:
        return self.kernel.inspect(self.types, self.call)


@dataclass(frozen=True)
class ByEnzyme(tangents.Automatic):
    """The derivative of one call, in one mode, by the front end itself."""

    frontend: Frontend
    call: Call

    def tangents(self, inputs: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """The tangents of the outputs that have one, given those of the inputs, or JAX's Zero."""
        active = tuple(
            i
            for i, (x, t) in enumerate(zip(inputs, given, strict=True))
            if is_inexact(x.dtype) and type(t) is not ad.Zero
        )
        return self._bind(Step("jvp", active), inputs, [given[i] for i in active])

    def cotangents(
        self, inputs: Sequence[Any], given: Sequence[Any], which: Sequence[int]
    ) -> list[Any]:
        """The cotangents of some inputs, and None for the others."""
        cts = [_conjugate(ct) for ct in given if ct is not None]
        found = self._bind(Step("vjp", tuple(which)), inputs, cts)
        result: list[Any] = [None] * len(inputs)
        for i, ct in zip(which, found, strict=True):
            result[i] = _conjugate(ct)
        return result

    def _bind(self, step: Step, inputs: Sequence[Any], shadows: Sequence[Any]) -> list[Any]:
        call, types = self.call, tuple(map(ArrayType.of, inputs))
        inexact = tuple(j for j, t in enumerate(call.outs) if is_inexact(t.dtype))
        if step.mode == "jvp":
            sources, made = step.active, inexact
            outs = tuple(call.outs[j] for j in made)
            pairs = call.aliases
        else:
            sources, made = inexact, step.active
            outs = tuple(types[i] for i in made)
            pairs = tuple((j, i) for i, j in call.aliases)
        aliases = tuple(
            (len(inputs) + sources.index(a), made.index(b))
            for a, b in pairs
            if a in sources and b in made
        )
        derived = replace(
            call,
            n_inputs=len(inputs) + len(sources),
            scalars=(),
            outs=outs,
            aliases=aliases,
            vmap_method=None,
            has_side_effect=False,
            terms=_terms(call.terms, step.mode, sources, made),
        )
        known = self.frontend
        if isinstance(known, Derivative):
            frontend = replace(known, steps=(*known.steps, step))
        else:
            frontend = Derivative(known, types, call, (step,))
        rule = ByEnzyme(frontend, derived)
        tree = jax.tree.structure([0] * len(outs))
        rules = tangents.Rules(frontend.label, tree, rule, rule, symbolic_zeros=True)
        return tangents.bind(frontend, derived, rules, [*inputs, *shadows])


def _conjugate(x: Any) -> Any:
    """JAX's cotangent of a complex number is the conjugate of the pair of partial derivatives."""
    return jnp.conj(x) if jnp.iscomplexobj(x) else x


def _terms(terms: Terms, mode: Mode, sources: Sequence[int], made: Sequence[int]) -> Terms:
    """The dimensions of a derivative's arrays; one that a cotangent lacks is summed."""
    ins, outs = (terms.ins, terms.outs) if mode == "jvp" else (terms.outs, terms.ins)
    operands = (*terms.ins, *(ins[i] for i in sources))
    results = tuple(outs[i] for i in made)
    sums = terms.sums
    if mode == "vjp":
        names = {n for term in operands for n in term}
        sums = tuple(sorted(n for n in names if terms.can_split(n)))
    return replace(terms, ins=operands, outs=results, sums=sums)
