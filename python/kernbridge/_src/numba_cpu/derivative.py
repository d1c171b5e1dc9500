"""Derivatives of Numba kernels on the CPU, by Enzyme, as kernels of their own.

A derivative is machine code with the entry of any other kernel (numba_cpu/object_code.py). It is
made when a call of it is lowered, kept on disk, and carried by programs. Enzyme differentiates what
Numba has optimised, before loops are vectorised. Imported only when a derivative is lowered.
"""

from __future__ import annotations

import ctypes
import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from kernbridge import _core
from kernbridge._src.base.errors import NoDerivativeError
from kernbridge._src.base.patched import patched
from kernbridge._src.enzyme import function as ir
from kernbridge._src.enzyme import tool
from kernbridge._src.enzyme.function import Buffer, Function, Kind, Refused
from kernbridge._src.forge.artefacts import Artefact
from kernbridge._src.keys import fingerprint
from kernbridge._src.numba_common.private_llvmlite import binding
from kernbridge._src.numba_common.private_llvmlite import ir as llvm
from kernbridge._src.numba_common.private_numba import cgutils, config, global_compiler_lock, types
from kernbridge._src.numba_cpu import entry as entries
from kernbridge._src.numba_cpu import object_code
from kernbridge._src.numba_cpu.compile import Job, Native
from kernbridge._src.numba_cpu.entry import Entry
from kernbridge._src.operation.spec import Step

# What allocator.ll defines.
_ALLOCATING = re.compile(
    r"^(?:declare [^\n]*@(?:malloc|free|NRT_(?:incref|decref|Allocate|Free|MemInfo_call_dtor"
    r"|MemInfo_alloc(?:_aligned)?))\([^\n]*\n"
    r"|define [^\n]*@NRT_(?:incref|decref)\(.*?^}\n)",
    re.M | re.S,
)
# It computes strides from extents, and has no derivative.
_INACTIVE = re.compile(r"^(declare [^\n]*@numba_attempt_nocopy_reshape\([^\n]*?\)[^\n]*)$", re.M)
_internal_functions: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_LABELS = {"jvp": "tangents", "vjp": "cotangents"}


class DerivativeJob(Job):
    """The compilation of a derivative, given that of the kernel and the steps that lead to it."""

    kind = "numba_cpu_derivative"
    tool = "Enzyme"

    def __init__(
        self, primal: Job, aliases: tuple[tuple[int, int], ...], steps: tuple[Step, ...]
    ) -> None:
        self._primal, self._aliases, self._steps = primal, dict(aliases), steps
        self.kernel, self.options, self.label = primal.kernel, primal.options, primal.label
        self.name = f"{primal.name} ({_LABELS[steps[-1].mode]})"
        self.n_operands = self.n_outputs = 0  # which `make` sets
        self.fingerprint, self.why_not_portable = primal.fingerprint, primal.why_not_portable
        described = repr((aliases, [tuple(s) for s in steps]))
        self.identity = fingerprint.combine(self.fingerprint, primal.identity, "enzyme", described)
        self.key = fingerprint.key_of(self.identity)
        self.lasting = primal.lasting
        self._has_vector_math = primal._has_vector_math
        self._function: Function | None = None
        self._native: Native | None = None

    def made_of(self) -> tuple[Any, ...]:
        return (*self._primal.made_of(), tool.find().identity)

    def make(self) -> Artefact:
        enzyme = tool.find()
        try:
            function, library = self._derive()
            text = ir.run(function, enzyme)
            text = entries.optimised(text, library, self._has_vector_math)
            entry = SimpleNamespace(name=function.name, keep=(library,), llvm_ir=text)
            code = object_code.make(cast(Entry, entry))
        except (Refused, object_code.NotCarried) as e:
            raise NoDerivativeError(
                f"{self.label}: Enzyme cannot differentiate the kernel: {e}{self._place(e)}. Write "
                "the derivative of this kernel as a function (vjp=, jvp=), or leave this part out "
                "of it [KB2107]"
            ) from None
        self._function = function
        self.n_operands, self.n_outputs = len(function.operands), len(function.results)
        program = self._encode(code, function.written)
        _core.register_host_code(self.identity, program)
        self.lasting = self.lasting and code.lasting
        scratch = tuple((b.dtype, b.extents) for b in function.scratch)
        self._native = Native(function.written, program, scratch=scratch)
        meta = {"copied": list(function.written), "scratch": [[d, list(e)] for d, e in scratch]}
        return Artefact(meta, (program,))

    def _derive(self, debug: bool = False) -> tuple[Function, Any]:
        """The derivative before Enzyme has run, and Numba's library of the kernel."""
        with _compiling(self.kernel, debug):
            overload, written = self._primal.compile_kernel()
            function = self._primal_function(overload, frozenset(written))
        for step in self._steps:
            active = frozenset(function.operands[k] for k in step.active)
            function = ir.derive(function, step.mode, active)
        return ir.entry(function, "kb_derivative"), overload.compiled.library

    def _place(self, refused: Exception) -> str:
        """The line that Enzyme refused, which needs the kernel with its lines."""
        if not isinstance(refused, Refused):
            return ""
        try:
            ir.run(self._derive(debug=True)[0], tool.find())
        except Refused as again:
            return f" ({again.place})" if again.place else ""
        except Exception:  # the message only lacks the line
            return ""
        return ""

    def use(self, made: Artefact) -> Native:
        if self._native is None:
            _core.register_host_code(self.identity, made.blobs[0])
            scratch = tuple((str(d), tuple(map(int, e))) for d, e in made.meta["scratch"])
            self._native = Native(tuple(made.meta["copied"]), made.blobs[0], scratch=scratch)
        return self._native

    def _buffers(self, copied: tuple[int, ...]) -> tuple[tuple[int, int, str], ...]:
        function = self._function
        assert function is not None
        operands = [function.buffers[i] for i in function.operands]
        results = [function.buffers[i] for i in function.results]
        every = (*operands, *results, *(operands[i] for i in copied), *function.scratch)
        return tuple(
            (_core.dtypes()[b.dtype][0], len(b.extents), f"array {i}") for i, b in enumerate(every)
        )

    def _primal_function(self, overload: Any, written: frozenset[int]) -> Function:
        """The kernel as a function of its operands and of those outputs that are no operands."""
        primal = self._primal
        for dtype, _ in primal._buffer_types:
            if not ir.can_hold(dtype):
                raise Refused(f"it has arrays of {dtype}, whose numbers it treats as bits")
        by_buffer = primal.host_parameters()
        n, aliases = primal.n_operands, self._aliases
        of_output = {o: i for i, o in aliases.items()}
        shared = {by_buffer[n + o]: by_buffer[i] for i, o in aliases.items()}
        own = [b for b in by_buffer if b not in shared]
        given = [None if b is None else by_buffer[b] for b in primal._assignment.given]
        text, name, only_written = _build_primal(overload, given, own, shared)
        buffers: list[Buffer] = []
        n_extents = 0
        for i, parameter in enumerate(by_buffer):
            if parameter in shared:
                continue
            dtype, rank = primal._buffer_types[i]
            kind: Kind = "work" if i in written else "in"
            if i >= n or i in aliases:
                kind = "out" if i >= n else "inout"
            extents = tuple(range(n_extents, n_extents + rank))
            buffers.append(Buffer(dtype, extents, kind, len(buffers) not in only_written))
            n_extents += rank
        places = {p: k for k, p in enumerate(own)}
        results = tuple(
            places[by_buffer[of_output.get(o, n + o)]] for o in range(len(primal.signature.outputs))
        )
        return ir.around(text, name, tuple(buffers), n_extents, tuple(range(n)), results)


@contextmanager
def _compiling(kernel: Any, debug: bool) -> Iterator[None]:
    """Compile a kernel and all that it calls without vectorising loops or running them in parallel.

    This code is kept apart from other code. With `debug`, instructions have lines of the kernel.
    """
    context, front = kernel.targetctx, kernel._compiler
    internal = _internal_functions.setdefault(context, {})
    options = {"parallel": False}
    with (
        entries.compiling_apart("derivative", lambda _: True, **options),
        patched(
            (
                front,
                "targetoptions",
                {**front.targetoptions, **options, **({"debug": True} if debug else {})},
            ),
            (config, "LOOP_VECTORIZE", 0),
            (config, "SLP_VECTORIZE", 0),
            (context.codegen(), "_loopvect", False),
            (context, "cached_internal_func", internal),
        ),
    ):
        yield


@global_compiler_lock
def _build_primal(
    overload: entries.Overload,
    parameters: Sequence[entries.HostParameter | None],
    buffers: Sequence[entries.HostParameter],
    shared: Mapping[entries.HostParameter, entries.HostParameter],
) -> tuple[str, str, frozenset[int]]:
    """Generate a function of buffers (enzyme/function.py) that calls the kernel.

    Outputs in `shared` have the memory of an input. Returns the text of a module that Numba has
    optimised without vectorising its loops, the function's name in it, and the buffers that it only
    writes to.
    """
    if overload.finished:
        raise Refused("it has `with` blocks, which Numba compiles separately")
    compiled, context = overload.compiled, overload.kernel.targetctx
    library, name = compiled.library, f"kb_primal_{next(entries.serial)}"
    module = library.create_ir_module(name)
    kernel_type = context.call_conv.get_function_type(overload.result, overload.arguments)
    n_extents = sum(getattr(b.type, "ndim", 0) for b in buffers)
    status, exception = entries.INT32.as_pointer(), kernel_type.args[1]
    given = [status, exception, *[entries.POINTER] * len(buffers), *[entries.INT64] * n_extents]
    primal = llvm.Function(module, llvm.FunctionType(llvm.VoidType(), given), name)
    builder = llvm.IRBuilder(primal.append_basic_block())
    rest = iter(primal.args[2 + len(buffers) :])
    data = dict(zip(buffers, primal.args[2:], strict=False))
    extents = {b: [next(rest) for _ in range(getattr(b.type, "ndim", 0))] for b in buffers}
    for output, operand in shared.items():
        data[output], extents[output] = data[operand], extents[operand]
    found = entries.Given(data, extents)
    entries.zero_outputs(context, builder, found, [p for p in parameters if p not in shared])
    kernel = llvm.Function(module, kernel_type, compiled.fndesc.llvm_func_name)
    result = cgutils.alloca_once(builder, kernel_type.args[0].pointee)
    arguments = entries.arguments_of(context, builder, found, overload, parameters)
    code = builder.call(kernel, [result, primal.args[1], *arguments])
    builder.store(code, primal.args[0])
    builder.ret_void()
    _, unoptimised = entries.link(library, module, has_vector_math=False, by_numba=False)
    if unoptimised is None:
        raise Refused("Numba's settings LLVM_PASS_TIMINGS and LLVM_REFPRUNE_PASS exclude it")
    has_lines = overload.kernel._compiler.targetoptions.get("debug")
    # Inlining early loses lines.
    simple = unoptimised.simplified(lambda module: None if has_lines else _inlined(module, name))
    items = [getattr(b.type, "dtype", b.type) for b in buffers]
    of_reals = [isinstance(item, (types.Float, types.Complex)) for item in items]
    if _reinterprets(simple, name, of_reals):
        raise Refused("it uses the bits of real numbers as integers")
    attributes = [a.attributes for a in simple.get_function(name).arguments]
    written = frozenset(i for i in range(len(buffers)) if b"writeonly" in [*attributes[2 + i]])
    return str(_to_inline(_ALLOCATING.sub("", str(simple)))), name, written


def _reinterprets(module: Any, primal: str, of_reals: Sequence[bool]) -> bool:
    """Whether code uses memory, or a value, both as a real number and as an integer.

    Enzyme would take what depends on the bits of a number as constant. The function `primal` calls
    the kernel, and all others are inlined into it; `of_reals` says what each of its buffers holds.
    Memory on the stack does not count, since it may be a structure of both.
    """
    reals = {"float": "i32", "double": "i64"}

    def is_mixed(*kinds: str) -> bool:
        return any(real in kinds and integer in kinds for real, integer in reals.items())

    def name(value: Any) -> int:
        return int(ctypes.cast(value._ptr, ctypes.c_void_p).value or 0)

    for function in module.functions:
        arguments = list(function.arguments)[2:] if function.name == primal else []
        found = {name(a): set(reals) for a, real in zip(arguments, of_reals, strict=False) if real}
        roots: dict[int, int] = {}
        on_stack: set[int] = set()
        for instruction in (i for block in function.blocks for i in block.instructions):
            operation, operands = instruction.opcode, list(instruction.operands)
            if operation == "bitcast" and is_mixed(str(instruction.type), str(operands[0].type)):
                return True
            if operation == "alloca":
                on_stack.add(name(instruction))
            elif operation == "getelementptr":
                roots[name(instruction)] = roots.get(name(operands[0]), name(operands[0]))
            elif operation in ("load", "store"):
                address = name(operands[operation == "store"])
                value = operands[0] if operation == "store" else instruction
                found.setdefault(roots.get(address, address), set()).add(str(value.type))
        if any(is_mixed(*kinds) for root, kinds in found.items() if root not in on_stack):
            return True
    return False


def _to_inline(text: str) -> Any:
    """A module whose functions are to be inlined into one, with an allocator in LLVM IR."""
    text = _INACTIVE.sub(r'\1 nofree "enzyme_inactive"', text)
    allocator = Path(__file__).with_name("allocator.ll").read_text()
    return _inlined(binding.parse_assembly(text + allocator, binding.create_context()))


def _inlined(module: Any, kept: str = "") -> Any:
    """Let all functions of a module be inlined, except those that Numba keeps and one other."""
    for function in module.functions:
        if not function.is_declaration and function.name != kept:
            function.linkage = "internal"
            if not any(b"noinline" in attributes for attributes in function.attributes):
                function.add_function_attribute("alwaysinline")
    return module
