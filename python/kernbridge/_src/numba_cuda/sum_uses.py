"""Refuses kernels of `deterministic=` whose results would still depend on the order of additions.

Checks each instruction of the kernel and of its device functions when it is lowered. Imported only
when a kernel is compiled, since it imports Numba.
"""

from __future__ import annotations

from typing import Any, NoReturn

from kernbridge._src.base.errors import KernelCompilationError
from kernbridge._src.numba_common.numba_cuda_inside import stubs
from kernbridge._src.numba_common.numba_inside import types

_ADDITIONS = (stubs.atomic.add, stubs.atomic.sub)
_IN_ORDER = (*_ADDITIONS, stubs.atomic.exch, stubs.atomic.cas, stubs.atomic.compare_and_swap)
_ATTRIBUTES = ("T", "dtype", "itemsize", "nbytes", "ndim", "reshape", "shape", "size", "strides",
               "transpose")  # fmt: skip
_METHODS = ("array.reshape", "array.transpose")
_HANDS_ON = ("build_tuple", "cast", "exhaust_iter", "phi")
_NOT_OF_USERS = ("numba.",)  # how the names of modules begin
_REMEDY = (
    "the additions take effect when the kernel ends: read and write the elements in another kernel"
)


class Uses:
    """The instructions of one compilation; `refusal` is the first error."""

    def __init__(self, label: str, summed_type: Any, strict: bool) -> None:
        self._label, self._summed_type, self._strict = label, summed_type, strict
        self._names: dict[tuple[Any, str], str] = {}  # what the source calls a temporary variable
        self._lowered: Any = None  # what lowers the present instruction
        self._instruction: Any = None
        self.refusal: KernelCompilationError | None = None

    def check(self, lowered: Any, instruction: Any) -> None:
        """Refuse an instruction whose result depends on the order of additions."""
        if lowered.fndesc.modname.startswith(_NOT_OF_USERS):
            return
        self._lowered, self._instruction = lowered, instruction
        kind = type(instruction).__name__
        value: Any = instruction.value if kind == "Assign" else None
        operation = getattr(value, "op", "") if type(value).__name__ == "Expr" else ""
        if type(value).__name__ == "Var" and instruction.target.name.startswith("$"):
            self._names[lowered, instruction.target.name] = self._name(value)
        if operation == "call":
            self._check_call(value)
        elif kind in ("Del", "Return", "Jump", "Branch") or not self._strict:
            return
        elif kind in ("SetItem", "StaticSetItem") and self._is_summed(instruction.target):
            self._refuse(f"writes to elements of {self._named(instruction.target)}")
        elif kind != "Assign":
            self._refuse_arrays(instruction.list_vars())
        elif operation == "getattr" and value.attr not in _ATTRIBUTES:
            self._refuse_arrays([value.value], f"reads the attribute {value.attr!r} of")
        elif operation in ("getitem", "static_getitem"):
            if not self._is_summed(instruction.target):
                self._refuse_arrays(value.list_vars(), "reads elements of")
        elif operation and operation not in (*_HANDS_ON, "getattr"):
            self._refuse_arrays(value.list_vars())

    def _check_call(self, call: Any) -> None:
        function = self._type(call.func)
        key: Any = getattr(function, "typing_key", None)
        array = self._type(call.args[0]) if call.args else None
        if type(key).__name__ == "ExternFunction":
            self._refuse(
                f"calls {key.name!r}, a function in CUDA C++, whose additions are not seen",
                "write it in Python",
            )
        if key in _IN_ORDER and isinstance(array, types.Array):
            self._check_atomic(call, key, array)
        elif not self._strict or isinstance(function, types.Dispatcher):
            return
        elif isinstance(function, types.BoundFunction) and self._is_summed_type(function.this):
            if str(function.typing_key) not in _METHODS:
                self._refuse_arrays([call.func], f"calls {function.typing_key} of")
        elif key is not len:
            self._refuse_arrays(call.list_vars())

    def _check_atomic(self, call: Any, key: Any, array: Any) -> None:
        name = f"cuda.atomic.{key.__name__}"
        is_addition = key in _ADDITIONS
        if isinstance(array.dtype, types.Float) and not (
            is_addition and self._is_summed_type(array)
        ):
            self._refuse(
                f"calls {name} on {self._named(call.args[0])}, an array of {array.dtype} that is "
                "not an output of the operation, or that is one of several",
                "add to an output of float32 or float64, or use integers",
            )
        if self._strict and self._is_summed_type(array) and self._is_used(self._instruction.target):
            self._refuse(
                f"uses the value that {name} returns, of {self._named(call.args[0])}",
                "it depends on the order of the additions: do not use it, or add integers",
            )

    def _is_used(self, variable: Any) -> bool:
        """Whether anything but another name is made of a variable."""
        names = [variable.name]
        statements = [s for block in self._lowered.blocks.values() for s in block.body]
        for name in names:
            for statement in statements:
                kind = type(statement).__name__
                read = [] if kind == "Del" else [v.name for v in statement.list_vars()]
                if kind == "Assign" and statement.target.name == name:
                    read.remove(name)
                if name not in read:
                    continue
                if kind != "Assign" or type(statement.value).__name__ != "Var":
                    return True
                if statement.target.name not in names:
                    names.append(statement.target.name)
        return False

    def _type(self, variable: Any) -> Any:
        return self._lowered.fndesc.typemap.get(getattr(variable, "name", None))

    def _is_summed_type(self, kind: Any) -> bool:
        return isinstance(kind, self._summed_type)

    def _is_summed(self, variable: Any) -> bool:
        return self._is_summed_type(self._type(variable))

    def _refuse_arrays(self, variables: Any, does: str = "uses") -> None:
        """Refuse to do this with an array that receives additions, if one is among them."""
        for variable in variables:
            kind = self._type(variable)
            of_method = isinstance(kind, types.BoundFunction) and self._is_summed_type(kind.this)
            if self._is_summed_type(kind) or of_method:
                self._refuse(f"{does} {self._named(variable)}")

    def _name(self, variable: Any) -> str:
        return self._names.get((self._lowered, variable.name), variable.name)

    def _named(self, variable: Any) -> str:
        name = self._name(variable).split(".")[0]
        return "an array" if name.startswith("$") else repr(name)

    def _refuse(self, does: str, remedy: str = _REMEDY) -> NoReturn:
        place = self._instruction.loc
        which = ", to which it also adds with cuda.atomic" if remedy is _REMEDY else ""
        error = KernelCompilationError(
            f"{self._label}: deterministic= refuses the kernel, which {does}{which}; {remedy} "
            f"[KB4017]\n  at {place.filename}:{place.line}"
        )
        if self.refusal is None:
            self.refusal = error
        raise error
