"""The dialect of numba-cuda-mlir, the successor of Numba-CUDA: compiles its kernels for GPUs.

numba-cuda-mlir generates MLIR for the kernel, whose parameters are then replaced in text. In MLIR,
the kernel is one function of the LLVM dialect. It takes an array as a memref (the address twice,
the index of the first element, extents, and strides in elements, or in bytes if the elements are
records), a scalar by value, a record by its address, and the members of a tuple. It becomes an
entry of 8-byte words (see numba_cuda/entry.py), from which its first instructions compute these
values. libNVVM and nvJitLink compile this to cubins.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from kernbridge._ext.mlir import private_mlir as inside
from kernbridge._src.base.errors import defect
from kernbridge._src.base.patched import patched
from kernbridge._src.numba_common.defaults import change_of
from kernbridge._src.numba_common.protect import ReturnsValue
from kernbridge._src.plan.program import DeviceParameter, Parameter, TupleParameter, Word, leaves

PACKAGE = "numba-cuda-mlir"
TAKES_FUNCTIONS = False

_KERNEL = re.compile(r"^ *llvm\.func @\S+?\(.*\) attributes \{.*nvvm\.kernel.*\{$")
_GLOBAL = re.compile(r"llvm\.mlir\.global (?:private|internal) [^@\n]*(@[\w.$]+)\(")
_DYNAMIC = re.compile(
    r"(llvm\.mlir\.global )(?:private|internal)( [^\n]*addr_space = 3 [^\n]*!llvm\.array<0 x )"
)

_READS = {"llvm.load", "llvm.icmp", "llvm.intr.lifetime.start", "llvm.intr.lifetime.end"}
_SAME = {  # whose results are pointers into the same memory, or have one in them
    *("llvm.addrspacecast", "llvm.bitcast", "llvm.freeze", "llvm.getelementptr", "llvm.select"),
    *("llvm.extractvalue", "llvm.insertvalue"),
}
_BRANCHES = {"llvm.br", "llvm.cond_br", "llvm.switch"}


def why_not_native(kernel: Any, raises: bool) -> str:
    return _unsupported(kernel)[0]


def _unsupported(kernel: Any) -> tuple[str, str]:
    """Return (feature, remedy) if the kernel needs the package's own launcher, else ("", "")."""
    options = kernel.targetoptions
    if options.get("debug"):
        return "debug=True", "remove it; only Numba's launcher supports it"
    if options.get("extensions"):
        return "extensions=", "pass arrays and scalars to the kernel"
    if options.get("link"):
        return "link=", "write the function in Python, or the kernel as a cuda_kernel"
    if any(
        p.kind is p.VAR_POSITIONAL for p in inspect.signature(kernel.py_func).parameters.values()
    ):
        return "a *parameter", "name the parameters"
    return "", ""


def check_kernel(label: str, kernel: Any) -> None:
    """Refuse kernels of this package that kernbridge does not support."""
    if kernel.targetoptions.get("device"):
        raise TypeError(
            f"{label}: `kernel` is a device function of {PACKAGE}, which kernels call; decorate it "
            "without device=True [KB1001]"
        )
    why, remedy = _unsupported(kernel)
    if why:
        raise ValueError(
            f"{label}: a kernel of {PACKAGE} with {why} is not supported by kernbridge; {remedy}"
            " [KB1001]"
        )


def parameter_type(parameter: Parameter) -> Any:
    if isinstance(parameter, TupleParameter):
        members = list(map(parameter_type, parameter.members))
        return inside.numba_types.BaseTuple.from_types(members, parameter.made_by or tuple)
    try:
        item = inside.numpy_support.from_dtype(np.dtype(parameter.dtype))
    except Exception as e:
        name = parameter.dtype.name
        raise ValueError(
            f"{PACKAGE} has no type for {name}; convert the array to another dtype [KB2003]"
        ) from e
    if parameter.enumeration is not None:
        return inside.typeof(next(iter(parameter.enumeration)))
    if parameter.kind != "array":
        return item
    if parameter.dtype.names is not None and (parameter.ndim, parameter.layout) != (1, "C"):
        raise ValueError(
            f"{PACKAGE} reads arrays of records that have one axis and no gaps; "
            f"{parameter.describe()} in the layout {parameter.layout} is another one: pass its "
            "fields as arrays [KB2003]"
        )
    return inside.types.Array(item, parameter.ndim, parameter.layout, readonly=parameter.read_only)


def check_strides(
    label: str, arguments: Iterable[tuple[Parameter, Sequence[Sequence[Word]]]]
) -> None:
    """Refuse arrays whose strides are not multiples of an element, the package's unit."""
    for parameter, words in arguments:
        for leaf, numbers in zip(leaves([parameter]), words, strict=True):
            if leaf.kind != "array" or leaf.layout == "C":
                continue
            strides = tuple(word.value for word in numbers[-leaf.ndim :])
            if any(stride % leaf.dtype.itemsize for stride in strides):
                raise ValueError(
                    f"{label}: {leaf.describe()} with strides of {strides} bytes cannot be passed "
                    f"to kernels of {PACKAGE}, which count strides in elements of "
                    f"{leaf.dtype.itemsize} bytes; copy it into an array without gaps [KB2003]"
                )


def refusal(label: str, architectures: Sequence[tuple[int, int]], error: Exception) -> str:
    return ""


def _symbol(job: Any) -> str:
    return re.sub(r"\W", "_", job.symbol, flags=re.ASCII)


class _Compiled:
    """A kernel with its entry, in MLIR, for one architecture.

    It has what kernbridge reads of a kernel of Numba-CUDA and of its library.
    """

    lost_fractions = ()
    _codelibrary = property(lambda self: self)

    def __init__(self, job: Any, architecture: tuple[int, int], metadata: dict[str, Any]) -> None:
        self.job, self.architecture = job, architecture
        self.metadata = metadata  # as in the package's results, of which this is one
        self.entry_name = _symbol(job)
        self.cooperative = metadata.get("use_cooperative")

    def get_llvm_str(self) -> str:
        with compiling_for(self.architecture):
            return str(inside.mlir_optimization.get_llvmir(self))

    def get_asm_str(self, cc: Any = None) -> str:
        with compiling_for(self.architecture):
            self.metadata["ptx"] = str(inside.mlir_optimization.get_ptx(self))
        return str(self.metadata["ptx"])

    def cubin_of(self, architecture: tuple[int, int]) -> bytes:
        if architecture != self.architecture:
            return compile_entry(self.job, architecture).cubin_of(architecture)
        ptx = self.get_asm_str()
        with compiling_for(architecture):
            linker = self.metadata["linker"].recreate_with_lto()
            linker.add_ptx(ptx.encode())
            return bytes(linker.complete().code)


def compile_entry(job: Any, architecture: tuple[int, int] | None = None) -> _Compiled:
    """Compile the kernel of a `KernelJob` for its first architecture, or for this one."""
    architecture = architecture or job.target.architectures[0]
    options = {**job.kernel.targetoptions, "chip": "sm_{}{}".format(*architecture)}
    options["lto"] = options["lineinfo"] = False  # the entry has no lines
    with compiling_for(architecture):
        # Of all parameters of the kernel, those left to their defaults among them.
        types = [parameter_type(p) for p in job.parameters if not p.keyword]
        named = {p.keyword: parameter_type(p) for p in job.parameters if p.keyword}
        rest = list(inspect.signature(job.kernel.py_func).parameters.values())[len(types) :]
        types += (named.get(f.name, inside.Omitted(f.default)) for f in rest)
        made = inside.mlir_compiler.compile_mlir(job.kernel.py_func, None, tuple(types), options)
        returned = made.signature.return_type
        if returned != inside.types.none:
            raise ReturnsValue(job.label, returned)
        metadata = made.metadata
        _check_made(metadata, made.library)
        with inside.get_context():
            module = metadata["mlir_module"]
            passes = inside.PassManager.parse(inside.mlir_optimization.get_base_pipeline())
            passes.run(module.operation)
            inside.optimization.run_pre_codegen_patterns(module)
            functions = _functions(module)
            (kernel,) = (f for f in functions.values() if "nvvm.kernel" in f.attributes)
            _check_read_only(job, kernel, functions)
            metadata["mlir_module_optimized"] = _with_entry(job, kernel, str(module))
        return _Compiled(job, architecture, metadata)


def _check_read_only(job: Any, kernel: Any, functions: dict[str, Any]) -> None:
    """Refuse a kernel that writes to a read-only input by atomics, which the package allows."""
    arguments = iter(kernel.regions[0].blocks[0].arguments)
    for parameter in leaves(job.parameters):
        size = 3 + 2 * parameter.ndim if parameter.kind == "array" else 1
        own = list(itertools.islice(arguments, size))
        if parameter.read_only and any(_may_write([argument], functions) for argument in own):
            raise TypeError("the kernel may write to a read-only input")


@contextmanager
def compiling_for(architecture: tuple[int, int]) -> Iterator[None]:
    """Let numba-cuda-mlir compile for this architecture, whatever GPU there is, or none.

    It must not write the name of the architecture into the options of device functions.
    """
    with inside.global_compiler_lock, patched(change_of(inside.Omitted)):
        inside.descriptor.mlir_target.ensure_initialized()
        with patched(
            (inside.tools, "_cached_cc", architecture),
            (inside.descriptor.MLIRDispatcher, "_resolve_target_options", lambda self: None),
        ):
            yield


def _check_made(metadata: dict[str, Any], library: Any) -> None:
    """Refuse a kernel that needs more than its machine code."""
    plan = metadata.get("link_plan")
    for is_needed, message in (
        (metadata.get("needs_nrt"), "the kernel counts references at run time, which kernbridge "
         "does not support: use cuda.local.array instead of arrays that the kernel allocates"),
        (metadata.get("setup_callbacks") or metadata.get("teardown_callbacks"), "the code that the "
         "kernel links has callbacks, which kernbridge does not call"),
        (library.referenced_objects, "the kernel reads an array on a GPU that is a global "
         "variable; pass it as an input"),
        (plan is not None and plan.compile_new_inputs_as_ltoir, "the kernel calls a function in "
         "CUDA C++ or LTO-IR, which kernbridge does not link for this package; write it in Python"),
    ):  # fmt: skip
        if is_needed:
            raise ValueError(message)


def _functions(module: Any) -> dict[str, Any]:
    (found,) = (op for op in module.body.operations if op.operation.name == "gpu.module")
    operations = found.operation.regions[0].blocks[0].operations
    functions = [op.operation for op in operations if op.operation.name == "llvm.func"]
    return {str(f.attributes["sym_name"]).strip('"'): f for f in functions}


def _may_write(pointers: list[Any], functions: dict[str, Any]) -> bool:
    """Whether a function may write through arguments, itself or in `functions`, which it may call.

    What is not known to read only counts as writing: a pointer that is stored, turned into a
    number, or passed to an instruction of its own.
    """
    if not str(pointers[0].type).startswith("!llvm.ptr"):
        return False
    seen = set(pointers)
    while pointers:
        for use in pointers.pop().uses:
            operation = use.owner.operation
            more: list[Any] = []
            if operation.name in _SAME:
                more = list(operation.results)
            elif operation.name in _BRANCHES:
                blocks = [block.arguments for block in operation.successors]
                more = [a for block in blocks for a in block if str(a.type).startswith("!llvm.")]
            elif operation.name == "llvm.call":
                attributes = operation.attributes  # none of it where a pointer is called
                callee = str(attributes["callee"]) if "callee" in attributes else ""
                called = functions.get(callee.removeprefix("@"))
                if called is None or not len(called.regions[0].blocks):
                    return True
                more = [called.regions[0].blocks[0].arguments[use.operand_number]]
            elif operation.name not in _READS and not (
                operation.name == "llvm.intr.memcpy" and use.operand_number == 1
            ):
                return True
            pointers += [value for value in more if value not in seen]
            seen.update(more)
    return False


def _with_entry(job: Any, kernel: Any, text: str) -> str:
    """The text of a module whose kernel has become the entry of the job.

    Variables, which numba-cuda-mlir numbers, get names that are the same in every process. Dynamic
    shared memory becomes external, so that it lies after the static one; numba-cuda-mlir defines an
    array without elements, which other arrays overlap.
    """
    kinds = [str(argument.type) for argument in kernel.regions[0].blocks[0].arguments]
    attributes = kernel.attributes
    kept = [
        name if str(attributes[name]) == "unit" else f"{name} = {attributes[name]}"
        for name in attributes
        if name == "gpu.kernel" or name.startswith("nvvm.")
    ]
    new = {name: f"@kb_global_{i}" for i, name in enumerate(dict.fromkeys(_GLOBAL.findall(text)))}
    text = re.sub(r"@[\w.$]+", lambda m: new.get(m[0], m[0]), text)
    lines = _DYNAMIC.sub(r"\1external\2", text).splitlines()
    (begin,) = (i for i, line in enumerate(lines) if _KERNEL.match(line))
    end = next(i for i in range(begin, len(lines)) if lines[i] == "    }")
    made = _Entry(kinds, job.batched)
    for parameter in leaves(job.parameters):
        made.add(parameter)
    if len(made.given) != len(kinds):
        takes = f"the kernel takes {len(kinds)} values ({', '.join(kinds)})"
        raise ValueError(defect(f"{takes}, and kernbridge has {len(made.given)} for them"))
    words = ", ".join(f"%kb_w{i}: i64" for i in range(made.n_words))
    body = "\n".join(lines[begin + 1 : end])
    lines[begin:end] = [
        f"    llvm.func @{_symbol(job)}({words}) attributes {{{', '.join(kept)}}} {{",
        *(f"      {line}" for line in made.lines),
        *([re.sub(r"%arg(\d+)\b", lambda m: made.given[int(m[1])], body)] if body else []),
    ]
    return "\n".join([*lines, ""])


class _Entry:
    """The first instructions of an entry, and the values that they compute."""

    def __init__(self, kinds: Sequence[str], batched: bool) -> None:
        self.n_words = 0
        self.given: list[str] = []
        self.lines: list[str] = []
        self._types = dict(enumerate(kinds))
        self._slice = ""
        if batched:
            index = self._value("nvvm.read.ptx.sreg.ctaid.z : i32")
            self._slice = self._value(f"llvm.zext {index} : i32 to i64")

    def add(self, parameter: DeviceParameter) -> None:
        is_scalar = parameter.kind == "scalar"
        address = self._stored(parameter.n_words(False)) if is_scalar else self._address()
        if parameter.kind == "array":
            self._add_array(parameter, address)
        elif parameter.kind == "record":
            self.given.append(address)
        else:
            kind = self._types.get(len(self.given), "i64")
            is_bit = kind == "i1"
            value = self._value(f"llvm.load {address} : !llvm.ptr -> {'i8' if is_bit else kind}")
            self.given.append(self._value(f"llvm.trunc {value} : i8 to i1") if is_bit else value)

    def _add_array(self, parameter: DeviceParameter, address: str) -> None:
        ndim, item_size = parameter.ndim, parameter.dtype.itemsize
        extents = [self._word() for _ in range(ndim)]
        if parameter.layout == "C":
            strides = [self._constant(1 if parameter.dtype.names is None else item_size)] * ndim
            for i in reversed(range(ndim - 1)):
                strides[i] = self._value(f"llvm.mul {strides[i + 1]}, {extents[i + 1]} : i64")
        else:
            size = self._constant(item_size)
            strides = [self._value(f"llvm.sdiv {self._word()}, {size} : i64") for _ in range(ndim)]
        self.given += [address, address, self._constant(0), *extents, *strides]

    def _stored(self, n_words: int) -> str:
        """The address of a variable with the bits of the next words."""
        variable = self._value(f"llvm.alloca {self._constant(n_words)} x i64 : (i64) -> !llvm.ptr")
        for i in range(n_words):
            at = self._value(f"llvm.getelementptr {variable}[{i}] : (!llvm.ptr) -> !llvm.ptr, i64")
            self.lines.append(f"llvm.store {self._word()}, {at} : i64, !llvm.ptr")
        return variable

    def _constant(self, value: int) -> str:
        return self._value(f"llvm.mlir.constant({value} : i64) : i64")

    def _address(self) -> str:
        address = self._word()
        if self._slice:
            offset = self._value(f"llvm.mul {self._slice}, {self._word()} : i64")
            address = self._value(f"llvm.add {address}, {offset} : i64")
        return self._value(f"llvm.inttoptr {address} : i64 to !llvm.ptr")

    def _word(self) -> str:
        self.n_words += 1
        return f"%kb_w{self.n_words - 1}"

    def _value(self, instruction: str) -> str:
        name = f"%kb_v{len(self.lines)}"
        self.lines.append(f"{name} = {instruction}")
        return name
