"""What a derivative of a CUDA kernel is made from: the kernel in LLVM IR, whatever its language.

`numba_cuda.CudaDerivativeJob` makes derivatives of kernels in the form that `HostModule` of the
emulator gives them. A `Primal` brings a kernel into that form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from kernbridge._src.base.errors import NoDerivativeError
from kernbridge._src.calls.call import Call, Types
from kernbridge._src.llvm.text import Module
from kernbridge._src.plan.launch import LaunchRule
from kernbridge._src.plan.program import Launch, Word
from kernbridge._src.plan.targets import Target


class Roles(NamedTuple):
    """What a kernel does with the buffers of a call."""

    operands: tuple[int, ...]
    outputs: tuple[int, ...] = ()
    aliases: tuple[tuple[int, int], ...] = ()  # pairs of an operand and the output in its memory
    zeroed: tuple[int, ...] = ()  # outputs that begin as zeros
    in_place: tuple[int, ...] = ()  # operands whose derivatives are made in place


def roles_of(operands: Types, call: Call, zero_outputs: bool) -> Roles:
    """What a kernel does with the operands and the outputs of a call."""
    n = len(operands)
    return Roles(
        operands=tuple(range(n)),
        outputs=tuple(range(n, n + len(call.outs))),
        aliases=tuple((i, n + o) for i, o in call.aliases),
        zeroed=call.fresh if zero_outputs else (),
    )


def check_launch(label: str, rule: LaunchRule | Launch, why_not: str = "") -> None:
    """Raise NoDerivativeError for `why_not`, or for options that Enzyme knows nothing of."""
    options = {"cluster=": rule.cluster, "pdl=True": rule.pdl, "cooperative=True": rule.cooperative}
    if why := why_not or next((name for name, given in options.items() if given), ""):
        raise NoDerivativeError(
            f"{label}: Enzyme cannot differentiate a kernel with {why}; write the derivative of "
            "this kernel as a function (vjp=, jvp=) [KB2107]"
        )


class Form(NamedTuple):
    """A kernel in that form, whose entry takes the words of a launch."""

    module: Any  # of LLVM, with all its code
    entry: str
    arrays: dict[int, tuple[str, int]]  # the dtype and the rank of each array of the call
    written: Collection[int]  # arrays that it may write to
    shared: Iterable[Any]  # shared arrays, with `item`, `size` and `offset`


class Primal(ABC):
    """The kernel that a derivative is made of, whatever its language, and its compiled code."""

    label: str
    name: str
    symbol: str  # a name for the entry that no other kernel has
    digest: bytes
    lasting = True  # whether other processes may use what is made of it
    target: Target
    kernel: Any = None  # of Numba
    why_not_portable = ""
    has_folders = False  # whether the names of files in its modules need their folders
    # Whether it is known what shared arrays hold, and which arrays the kernel writes to.
    says_what_arrays_hold = True

    @abstractmethod
    def made_of(self) -> tuple[Any, ...]:
        """What decides the form besides the digest."""

    @abstractmethod
    def form(self, words: Sequence[Sequence[Word]], roles: Roles) -> Form:
        """Compile the kernel, or raise Refused."""

    @abstractmethod
    def modules(self) -> list[Module]:
        """What `form` has compiled, with lines."""
