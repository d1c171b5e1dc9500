"""The interface between the core and the extension that makes automatic derivatives.

The core knows the word "enzyme" as a rule, and no more. Such a rule is an object `Automatic` (see
operation/tangents.py) of the extension, which the table in base/extensions.py calls "derivatives".
Each of its uses is one more step of differentiation, and the kernel after these steps is a front
end, too. The front end of the kernel itself does not know that it can be differentiated: a
`Differentiator` is registered for its class, or for a class that it inherits from. It compiles the
kernel after the steps, and describes the call as `Frontend.lower` does.

A package that has a front end of its own registers a differentiator for it in the same way::

    class MyDifferentiator(Differentiator):
        def lower(self, platform, wanted):
            return ...  # a NativeCall

    derivatives.register(MyFrontend, MyDifferentiator)
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from kernbridge._src.base import extensions
from kernbridge._src.base.errors import NoDerivativeError
from kernbridge._src.base.private_jax import ad
from kernbridge._src.calls.call import Call, Types
from kernbridge._src.operation.primitive import Frontend, NativeCall, call_p
from kernbridge._src.operation.spec import Step


class Differentiated(NamedTuple):
    """A derivative that is to be made: of which call, by which steps, and its own call."""

    operands: Types  # of the kernel
    call: Call
    steps: tuple[Step, ...]
    own_operands: Types
    own_call: Call


class Differentiator(ABC):
    """Makes the derivatives of the kernel of one front end.

    Attributes
    ----------
    halves_can_be_wide : bool
        Whether the kernel also compiles for float32 in place of float16 and bfloat16.
    joins : bool
        Whether one call on CPUs that makes the results and their tangents takes less time than two.
    why_not : str
        Why there are no derivatives of the kernel, as a clause of a message; empty if there are.
    """

    halves_can_be_wide = False
    joins = False
    why_not = ""

    def __init__(self, frontend: Any) -> None:
        self.frontend = frontend

    @abstractmethod
    def lower(self, platform: str, wanted: Differentiated) -> NativeCall:
        """Compile and register a derivative; the operands are without batch axes."""


plans: dict[int, Any] = {}  # tests of plans, by the key of a plan; None if it needs none any more
_registered: dict[str, type[Differentiator] | str] = {}  # by the names of front ends


def register(frontend: type[Frontend] | str, differentiator: type[Differentiator] | str) -> None:
    """Let kernels of a class of front ends have derivatives.

    A class may be given by its name, "module.Class". It is then not imported before it is needed.
    """
    _registered[frontend if isinstance(frontend, str) else _name(frontend)] = differentiator


def _name(frontend: type) -> str:
    return f"{frontend.__module__}.{frontend.__qualname__}"


def of(frontend: Frontend) -> Differentiator | None:
    """The differentiator of a front end; None if it has none, or the extension is missing."""
    if extensions.find("derivatives") is None:  # registers the ones that kernbridge has
        return None
    for kind in type(frontend).__mro__:
        if found := _registered.get(_name(kind)):
            if isinstance(found, str):
                module, _, name = found.rpartition(".")
                found = getattr(importlib.import_module(module), name)
            return found(frontend)
    return None


def why_not(frontend: Frontend) -> str:
    """Why kernels of a front end have no automatic derivatives; empty if they have."""
    found = of(frontend)
    return found.why_not if found else "Enzyme does not differentiate kernels of this front end"


def extension(label: str) -> Any:
    """The extension, for an operation whose rule is "enzyme"; raises if it is missing."""
    return extensions.load("derivatives", f'{label}: derivatives="enzyme"')


def check(label: str, frontend: Frontend) -> None:
    """Refuse the rule "enzyme" for kernels that have no automatic derivatives."""
    extension(label)
    if why := why_not(frontend):
        raise NoDerivativeError(f"{label}: {why}; pass a function as the rule [KB2107]")


def has_reverse(steps: Sequence[Step]) -> bool:
    return any(step.mode == "vjp" for step in steps)


def no_derivative(*_: Any, frontend: Frontend, **__: Any) -> Any:
    enzyme = "" if why_not(frontend) else 'derivatives="enzyme" or '
    raise NoDerivativeError(
        f"{frontend.label} has no derivative: JAX cannot look inside a kernel. Where it is "
        f"wrapped, pass {enzyme}a rule, vjp= (reverse mode) or jvp= (both modes). To treat its "
        "result as a constant, pass its inputs through jax.lax.stop_gradient. [KB2101]"
    )


ad.primitive_jvps[call_p] = no_derivative
