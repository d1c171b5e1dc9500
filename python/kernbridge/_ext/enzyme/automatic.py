"""Derivatives that a front end makes by itself, as further kernels.

`ByEnzyme` takes the place of a user's rule in `tangents.Rules`. It calls a `Derivative`: the kernel
of a front end after one or more steps of differentiation, which is a front end, too. Its own
derivatives are automatic as well, so every order and mixture of modes is one more step.

`differentiated` makes the same steps of a function that calls such kernels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp

from kernbridge._src.base.private_jax import Jaxpr, eval_jaxpr
from kernbridge._src.calls.batch_axes import NONE, Arrays
from kernbridge._src.calls.call import ArrayType, Call, Terms, Types, is_inexact, wide_types
from kernbridge._src.operation import derivatives, tangents
from kernbridge._src.operation.inspection import Inspection
from kernbridge._src.operation.joined import Joined
from kernbridge._src.operation.primitive import Frontend, NativeCall, call_p
from kernbridge._src.operation.spec import Mode, Step


@dataclass(frozen=True)
class Derivative(Frontend):
    """A derivative of a kernel. Its operands are the kernel's, and then tangents or cotangents."""

    kernel: Frontend  # which is no derivative
    types: tuple[ArrayType, ...]  # of the kernel's operands, without batch axes
    call: Call  # of the kernel, without batch axes
    steps: tuple[Step, ...]  # the differentiations that lead from the kernel to this one
    n_shared: int  # operands before the tangents or cotangents of the last step

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"the {self.steps[-1].mode} of {self.kernel.label}"

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.kernel.name}_{'_'.join(s.mode for s in self.steps)}"

    @property
    def platforms(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.kernel.platforms

    def check(self, operands: Types, call: Call) -> None:
        """Nothing: the kernel's call was checked."""

    def lower(self, platform: str, operands: Types, call: Call) -> NativeCall:
        native = self._made(platform, self.steps, operands, call)
        if platform == "cpu" and derivatives.has_reverse(self.steps):
            self._watch(native, operands, call)
        return native

    def _made(
        self, platform: str, steps: tuple[Step, ...], operands: Types, call: Call
    ) -> NativeCall:
        types, of_kernel = self.types, self.call
        found = derivatives.of(self.kernel)
        assert found is not None
        if found.halves_can_be_wide:  # Enzyme knows no float16 and bfloat16
            types, outs = wide_types(types), wide_types(of_kernel.outs)
            of_kernel = replace(of_kernel, outs=outs)
        wanted = derivatives.Differentiated(types, of_kernel, steps, operands, call)
        return found.lower(platform, wanted)

    def _watch(self, native: NativeCall, operands: Types, call: Call) -> None:
        """Let the first call compare the derivative with the one of the other mode."""
        from kernbridge._ext.enzyme import adjoint

        if not native.for_extents and self.call.has_side_effect:
            return

        def other() -> tuple[NativeCall, Call]:
            # What one mode is given, the other one makes.
            given, n = (*operands[: self.n_shared], *call.outs), self.n_shared
            pairs = tuple((n + o, i - n) for i, o in call.aliases)
            outs = tuple(operands[n:])
            own = replace(call, n_inputs=len(given), outs=outs, aliases=pairs)
            changed = step._replace(mode="vjp" if step.mode == "jvp" else "jvp")
            return self._made("cpu", (*before, changed), given, own), own

        *before, step = self.steps
        adjoint.watch(step.mode, native, operands, call, other)

    def inspect(self, operands: Types, call: Call) -> tuple[Inspection, ...]:
        return self.kernel.inspect(self.types, self.call)


@dataclass(frozen=True)
class ByEnzyme(tangents.Automatic):
    """The derivative of one call, in one mode, by the front end itself."""

    frontend: Frontend
    call: Call

    def bind(self, step: Step, inputs: Sequence[Any], shadows: Sequence[Any]) -> list[Any]:
        call, types = self.call, tuple(map(ArrayType.of, inputs))
        operands = [*inputs, *(map(_conjugate, shadows) if step.mode == "vjp" else shadows)]
        wide = wide_types(map(ArrayType.of, operands))
        operands = [x.astype(t.dtype) for x, t in zip(operands, wide, strict=True)]
        found = tangents.bind(*self._derived(step, types), operands)
        made = [t for t in call.outs if is_inexact(t.dtype)]
        if step.mode == "vjp":
            made = [types[i] for i in step.active]
        found = [y.astype(t.dtype) for y, t in zip(found, made, strict=True)]
        return list(map(_conjugate, found)) if step.mode == "vjp" else found

    def with_values(self, step: Step, primals: Arrays, dots: Arrays, **params: Any) -> Any:
        frontend, call, rules, levels = (params[k] for k in ("frontend", "call", "rules", "levels"))
        found = derivatives.of(frontend)  # None for a derivative
        if not (found and found.joins and dots) or rules.n_read:
            return None
        shown = enumerate(map(jax.typeof, primals))
        types = [ArrayType(levels.own_shape(i, x.shape), x.dtype) for i, x in shown]
        is_narrow = wide_types((*types, *call.outs)) != (*types, *call.outs)
        if is_narrow or call.aliases or call.has_side_effect or call.vmap_method:
            return None
        n, (kernel, derived, of_derived) = len(types), self._derived(step, types)
        of_derived = replace(of_derived, linear=tuple(range(n, n + len(dots))))
        both = self._derived(step._replace(with_values=True), types)
        tangent = tangents.Tangent(rules, n, call.outs, step.active)
        joined = Joined((frontend, call, rules), tangent, both, (kernel, derived, of_derived))
        return joined.bind(levels, primals, dots)

    def _derived(
        self, step: Step, types: Sequence[ArrayType]
    ) -> tuple[Frontend, Call, tangents.Rules]:
        """The operation that one more step makes of an operation on inputs of these types."""
        call = self.call
        inexact = tuple(j for j, t in enumerate(call.outs) if is_inexact(t.dtype))
        sources, made, arrays, pairs = step.active, inexact, call.outs, call.aliases
        if step.mode == "vjp":
            sources, made, arrays = inexact, step.active, tuple(types)
            pairs = tuple((j, i) for i, j in call.aliases)
        kept = [(a, b) for a, b in pairs if a in sources and b in made]
        aliases = tuple((len(types) + sources.index(a), made.index(b)) for a, b in kept)
        values = range(len(call.outs)) if step.with_values else ()
        derived = replace(
            call,
            n_inputs=len(types) + len(sources),
            scalars=(),
            outs=wide_types(arrays[i] for i in (*values, *made)),
            aliases=aliases,
            vmap_method=None,
            has_side_effect=False,
            terms=_terms(call.terms, step.mode, sources, (*values, *made)),
        )
        frontend = self.frontend
        if isinstance(frontend, Derivative):
            frontend = replace(frontend, steps=(*frontend.steps, step), n_shared=len(types))
        else:
            frontend = Derivative(frontend, tuple(types), call, (step,), len(types))
        return frontend, derived, _rules(frontend, derived)


def _rules(frontend: Frontend, call: Call) -> tangents.Rules:
    rule = ByEnzyme(frontend, call)
    return tangents.Rules(frontend.label, None, rule, rule)


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


def differentiated(
    function: Callable[..., Any], outs: Types, types: Sequence[Any], steps: Sequence[Step]
) -> Callable[..., list[Any]]:
    """Return the derivative of a function, in whose calls of kernels Enzyme is the missing rule.

    Its operands, of these types, are the function's, and then for each step tangents or cotangents.
    """
    n_real, counts = sum(is_inexact(t.dtype) for t in outs), list[int]()
    for mode, active, *_ in steps:
        counts.append(len(active) if mode == "jvp" else n_real)
        n_real = n_real if mode == "jvp" else len(active)
    n = len(types) - sum(counts)
    program = jax.make_jaxpr(function)(*types[:n])
    jaxpr = _by_enzyme(program.jaxpr)
    derivative: Callable[..., Any] = functools.partial(eval_jaxpr, jaxpr, program.consts)
    for step, count in zip(steps, counts, strict=True):
        derivative = _after(derivative, step, n)
        n += count
    return derivative


def _by_enzyme(program: Any) -> Any:
    """A jaxpr in which kernels without a rule have Enzyme's, where their front end has it."""

    def inner(value: Any) -> Any:
        if isinstance(value, Jaxpr):
            return _by_enzyme(value)
        if isinstance(getattr(value, "jaxpr", None), Jaxpr):  # with constants, before JAX 0.12
            return value.replace(jaxpr=_by_enzyme(value.jaxpr))
        return tuple(map(inner, value)) if type(value) is tuple else value

    equations = []
    for eqn in program.eqns:
        primitive, params = eqn.primitive, eqn.params
        if primitive == call_p and not derivatives.why_not(params["frontend"]):
            frontend, call = params["frontend"], replace(params["call"], levels=NONE)
            levels = params["call"].levels
            primitive = tangents.operation_p
            params = {"frontend": frontend, "call": call, "levels": levels}
            params["rules"] = _rules(frontend, call)
        else:
            params = {name: inner(value) for name, value in params.items()}
        equations.append(eqn.replace(primitive=primitive, params=params))
    return program.replace(eqns=equations)


def _after(function: Callable[..., Any], step: Step, n: int) -> Callable[..., list[Any]]:
    def derivative(*operands: Any) -> list[Any]:
        inputs, given = operands[:n], list(operands[n:])

        def reals(*operands: Any) -> list[Any]:
            return [y for y in function(*operands) if is_inexact(y.dtype)]

        of_active = tangents.of_some(reals, inputs, step.active)
        active = [inputs[i] for i in step.active]
        if step.mode == "jvp":
            return list(jax.jvp(of_active, active, given)[1])
        return list(jax.vjp(of_active, *active)[1](given))

    return derivative


_DIFFERENTIATORS = {
    "_src.numba_cpu.kernel.NumbaCpu": "numba_cpu.OfKernel",
    "_src.numba_cpu.returning.Returning": "numba_cpu.OfKernel",
    "_src.source.frontend.SourceFrontend": "source.OfFunction",
}
if find_spec("kernbridge._ext.emulator"):  # which translates kernels of Numba-CUDA for Enzyme
    _DIFFERENTIATORS["_src.numba_cuda.kernel.NumbaCuda"] = "numba_cuda.OfKernel"
    _DIFFERENTIATORS["_src.record.callable.NumbaCudaCallable"] = "record.OfFunction"
    _DIFFERENTIATORS["_ext.nvrtc.kernel.CudaKernelFrontend"] = "cuda_cpp.OfCudaKernel"
for _frontend, _made in _DIFFERENTIATORS.items():
    derivatives.register(f"kernbridge.{_frontend}", f"kernbridge._ext.enzyme.{_made}")
