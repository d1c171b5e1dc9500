"""Derivatives of Numba kernels on the CPU, by Enzyme, as kernels of their own.

A derivative is machine code with the entry of any other kernel (numba_cpu/object_code.py). It is
made when a call of it is lowered, kept on disk, and carried by programs. Enzyme differentiates what
Numba has optimised, before loops are vectorised. Imported only when a derivative is lowered.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from kernbridge._ext.enzyme import clang, guards, registered
from kernbridge._ext.enzyme import function as ir
from kernbridge._ext.enzyme.function import Buffer, Function, Refused
from kernbridge._ext.enzyme.kernel import HostDerivativeJob, Kernel
from kernbridge._src.base import extensions
from kernbridge._src.base.packing import HostCode
from kernbridge._src.base.patched import patched
from kernbridge._src.llvm.text import Module, declared_once, renamed
from kernbridge._src.numba_common import private_numba
from kernbridge._src.numba_common.private_llvmlite import binding, run_once
from kernbridge._src.numba_common.private_llvmlite import ir as llvm
from kernbridge._src.numba_common.private_numba import arraymath, arrayobj, debuginfo, linalg, types
from kernbridge._src.numba_cpu import entry as entries
from kernbridge._src.numba_cpu import object_code
from kernbridge._src.numba_cpu.compile import CpuJob
from kernbridge._src.numba_cpu.errors import NUMBA
from kernbridge._src.numba_cpu.kernel import NumbaCpu
from kernbridge._src.numba_cpu.returning import Returning
from kernbridge._src.numba_cpu.signature import Signature
from kernbridge._src.operation.derivatives import Differentiated, Differentiator
from kernbridge._src.operation.primitive import NativeCall
from kernbridge._src.operation.spec import Step

_ALLOCATOR = Path(__file__).with_name("allocator.ll").read_text()
_ALLOCATING = Module(_ALLOCATOR).functions.keys()
_IN_C = {"NRT_Allocate": "malloc", "NRT_Free": "free"}
_RESHAPE = "numba_attempt_nocopy_reshape"  # computes strides from extents
_RAISED = "kb.raised"  # allocates memory of an exception, which Enzyme would free
_DTOR = ".dtor.list."  # and the type of the items that it releases
# Calls that say what an array of the kernel's own holds.
_HOLDS = "kb.holds."
_no_lines = debuginfo.DummyDIBuilder
_untyped_array = arrayobj._empty_nd_impl
# Of functions of JAX in kernels, if this installation has that extension.
inline, rules = map(extensions.find, ("inline", "inlined_rules"))
_internal_functions: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


class OfKernel(Differentiator):
    frontend: NumbaCpu | Returning

    @property
    def joins(self) -> bool:  # type: ignore[override]
        """Derivatives check no indices, run parallel loops serially, and do not test shapes."""
        kernel = self.frontend
        if not isinstance(kernel, NumbaCpu) or kernel.options.checked:
            return False
        return not kernel.kernel.targetoptions.get("parallel")

    def lower(self, platform: str, wanted: Differentiated) -> NativeCall:
        operands, call, steps, *_ = wanted
        kernel = self.frontend
        if isinstance(kernel, Returning):
            kernel = kernel.kernel_of(operands, call)
        # The kernel's own call checks.
        primal = kernel.new_job(Signature.of(operands, call), checked=False)
        return NumbaDerivative(primal, call.aliases, steps).lowered(operands, call)


class NumbaDerivative(HostDerivativeJob):
    """The compilation of a derivative, given the kernel's compilation and the steps."""

    kind = "numba_cpu_derivative"

    def __init__(
        self, primal: CpuJob, aliases: tuple[tuple[int, int], ...], steps: tuple[Step, ...]
    ) -> None:
        inlined, name = primal.fingerprint.inlined, primal.kernel.py_func.__name__
        given = aliases, rules.described(inlined, len(steps)) if inlined else []
        super().__init__(primal.label, name, primal.identity, given, steps, primal.lasting)
        self._primal, self._aliases = primal, aliases
        self.source = primal.place
        self.why_not_portable = primal.why_not_portable

    def made_of(self) -> tuple[Any, ...]:
        return (*self._primal.made_of(), *super().made_of())

    def primal(self) -> Kernel:
        with _compiling(self._primal.kernel):
            overload, written = self._primal.compile_kernel()
            function = self._function(overload, frozenset(written))
            return function, overload.compiled.library

    def machine_code(self, function: Function, text: str) -> HostCode:
        assert self._kernel is not None
        library = self._kernel[1]
        lines = (line for line in text.splitlines() if f"@{_HOLDS}" not in line)
        text, name = registered.released("\n".join([*lines, ""])), function.name
        kept = {"malloc": "kb_malloc", _RAISED: "kb_malloc", "realloc": "kb_realloc"}
        # Only the entry stays, with what Enzyme has made for each of its two calls.
        text = re.sub(r"^define void ", "define internal void ", text, flags=re.M)
        text = re.sub(
            r"^(define .*@\w*diffekernel\b.*) \{$", r"\1 alwaysinline {", text, flags=re.M
        )
        if any(i.callee in kept for i in Module(text).instructions("call")):
            text = declared_once(renamed(text, lambda name: kept.get(name, name)))
            text, name = ir.guarded(text, name, "icmp eq i32 0, 0")
        text = entries.optimised(text, library, self._primal.has_vector_math)
        entry = SimpleNamespace(name=name, library=library, llvm_ir=text)
        try:
            return object_code.make(cast(entries.Entry, entry))
        except object_code.NotCarried as e:
            raise Refused(str(e), None) from None

    def _function(self, overload: Any, written: frozenset[int]) -> Function:
        """The kernel as a function of its operands and of those outputs that are no operands.

        Numba has optimised its module without vectorising loops.
        """
        primal = self._primal
        for dtype, _ in primal._buffer_types:
            if not ir.can_hold(dtype):
                raise Refused(f"it has arrays of {dtype}, whose numbers it treats as bits")
        if overload.finished:
            raise Refused("it has `with` blocks, which Numba compiles separately")
        parameters, n = primal.host_parameters(), primal.n_operands  # by buffer of the call
        zeroed = (i for i, p in enumerate(parameters) if p.zeroed)
        roles = ir.roles_of(n, len(parameters), self._aliases, zeroed)
        buffers, places = ir.buffers_of(dict(enumerate(primal._buffer_types)), roles, written)
        by_parameter = {parameters[i]: k for i, k in places.items()}
        given = [None if b is None else parameters[b] for b in primal._assignment.given]
        name = f"kb_primal_{next(entries.serial)}"
        simple = _linked(name, overload, given, buffers, by_parameter)
        inlined = primal.fingerprint.inlined
        names = sorted(f.name for f in simple.functions)
        if inlined and (why := rules.unknown(inlined, " ".join(names), has_nodes=True)):
            raise Refused(why)
        if inlined and (names := [n for n in names if n.startswith(rules.NODE)]):
            simple.link_in(_nodes(overload.kernel.targetctx, names, len(self.steps)))
        simple = binding.parse_assembly(guards.hidden(str(simple)))
        simplify(_inlined(simple, name))
        if text := guards.without_overlaps(str(simple), name):
            simple = binding.parse_assembly(text)
            simplify(simple)
        read = Module(renamed(guards.shown(str(simple)), lambda name: _IN_C.get(name, name)))
        for f in read.defined.values():
            if drawn := next((i for i in f.instructions if "_random_state" in i.callee), None):
                place = clang.place_of(read, drawn, *f.users.get(drawn.result, ()))
                raise Refused("it draws random numbers", place)
        if found := guards.reinterprets(read, name, [b.is_inexact for b in buffers]):
            why = "it uses the bits of real numbers as integers, or has a list of real numbers"
            raise Refused(why, clang.place_of(read, found))
        for name_of, f in read.functions.items():
            if name_of in _ALLOCATING:
                read.lines.remove(f)
            is_list = name_of.startswith(_DTOR) and not name_of.startswith(f"{_DTOR}unicode_type")
            if is_list and not f.is_declaration and next(f.instructions).text != "  ret void":
                raise Refused("it has a list of arrays or other objects")
        said = read.functions[name].parameters[2:]
        buffers = [b._replace(is_read="writeonly" not in said[k]) for k, b in enumerate(buffers)]
        of_call = [places[i] for i in range(len(parameters))]
        with _to_inline(read) as module:
            return ir.around(str(module), name, buffers, of_call[:n], of_call[n:])


@contextmanager
def _compiling(kernel: Any) -> Iterator[None]:
    """Compile a kernel and all that it calls without vectorising loops or running them in parallel.

    This code is kept apart from other code. Instructions have the lines of the user's functions.
    """
    context, front = kernel.targetctx, kernel._compiler
    internal = _internal_functions.setdefault(context, {})
    library = context.codegen()._library_class
    options = {"parallel": False}
    with (
        entries.compiling_apart("derivative", lambda _: True, **options),
        patched(
            (front, "targetoptions", {**front.targetoptions, **options, "debug": False}),
            (debuginfo, "DummyDIBuilder", _lines),
            *([(inline, "in_derivative", True)] if inline else ()),
            (library, "_optimize_functions", _lay_out),
            (library, "_optimize_final_module", _keep_for_linking),
            (context, "cached_internal_func", internal),
            (arrayobj, "raise_with_shape_context", _raising_unequal),
            (private_numba.npyimpl._ArrayIndexingHelper, "update_indices", _update_indices),
            *((m, "_empty_nd_impl", _typed_array) for m in (arrayobj, arraymath, linalg)),
        ),
    ):
        yield


def _update_indices(self: Any, loop_indices: Sequence[Any], _: Any) -> None:
    """Choose the index into an array that is broadcast, which Numba leaves as the last step did."""
    builder = self.array.builder
    inner = loop_indices[len(loop_indices) - len(self.indices) :]
    for index, place, extent in zip(inner, self.indices, self.array.shape, strict=True):
        is_long = builder.icmp_unsigned(">", extent, extent.type(1))
        builder.store(builder.select(is_long, index, index.type(0)), place)


class UnequalShapes(ValueError):
    """Of an assignment to a slice: what makes Numba's text of it takes seconds to compile."""

    def __str__(self) -> str:
        of_slice, given = self.args
        return f"cannot assign slice of shape {of_slice} from input of shape {given}"


UnequalShapes.__name__ = ValueError.__name__  # in the message


def _raise_unequal(given: Any, of_slice: Any) -> None:
    """In place of `raise_with_shape_context`."""
    raise UnequalShapes(of_slice, given)


# As a function of Numba's library, for which messages name the line of the user.
_raise_unequal.__code__ = _raise_unequal.__code__.replace(co_filename=arrayobj.__file__)
_raising_unequal = private_numba.numba.njit(_raise_unequal)


class _Lines(debuginfo.DIBuilder):
    """Gives instructions their lines, and nothing that changes the code."""

    def mark_variable(self, *_: Any, **__: Any) -> None:
        pass

    def _di_subroutine_type(self, *_: Any) -> Any:
        return self.module.add_debug_info(
            "DISubroutineType", {"types": self.module.add_metadata([])}
        )


def _lines(module: Any, filepath: str, **given: Any) -> Any:
    """In place of what gives no lines: Numba's own functions, and generated ones, have none."""
    made = _no_lines if filepath.startswith((NUMBA, "<")) else _Lines
    return made(module=module, filepath=filepath, **given)


def _lay_out(library: Any, module: Any) -> None:
    """In place of Numba's optimisation of a module, which loses what its memory holds."""
    module.data_layout = library._codegen._data_layout


def _keep_for_linking(library: Any) -> None:
    """Keep the code of a function as it is, before Numba makes machine code, which changes it."""
    library._finalized = True
    library._get_module_for_linking()
    library._finalized = False


def _typed_array(context: Any, builder: Any, array_type: Any, shapes: Any) -> Any:
    """Make an array whose data is where allocator.ll has it, and say what it holds."""
    array = _untyped_array(context, builder, array_type, shapes)
    array.data = builder.bitcast(builder.gep(array.meminfo, [entries.INT64(64)]), array.data.type)
    if ir.can_hold(dtype := str(array_type.dtype)):
        kind = llvm.FunctionType(llvm.VoidType(), [entries.POINTER])
        says = private_numba.cgutils.get_or_insert_function(builder.module, kind, _HOLDS + dtype)
        says.attributes.add("inaccessiblememonly")
        says.attributes.add("nounwind")
        # Numba's code does not run.
        binding.add_symbol(_HOLDS + dtype, private_numba.runtime.c_helpers["Free"])
        builder.call(says, [builder.bitcast(array.data, entries.POINTER)])
    return array


def _linked(
    name: str,
    overload: entries.Overload,
    parameters: Sequence[entries.HostParameter | None],
    buffers: Sequence[Buffer],
    places: Mapping[entries.HostParameter, int],
) -> Any:
    """The kernel's module with a function that calls it; `places` has each parameter's buffer."""
    compiled, context = overload.compiled, overload.kernel.targetctx
    library = compiled.library
    module = library.create_ir_module(name)
    kernel_type = context.call_conv.get_function_type(overload.result, overload.arguments)
    n_extents = sum(len(b.extents) for b in buffers)
    status, exception = entries.INT32.as_pointer(), kernel_type.args[1]
    given = [status, exception, *[entries.POINTER] * len(buffers), *[entries.INT64] * n_extents]
    primal = llvm.Function(module, llvm.FunctionType(llvm.VoidType(), given), name)
    for name_in_c in ("memset", "memcpy", "memmove"):  # loops keep the types of what they move
        set.add(primal.attributes, f'"no-builtin-{name_in_c}"')  # `add` knows none with quotes
    builder = llvm.IRBuilder(primal.append_basic_block())
    data, extents = primal.args[2:], primal.args[2 + len(buffers) :]
    found = SimpleNamespace(
        data=lambda p: data[places[p]],
        extents=lambda p: [extents[e] for e in buffers[places[p]].extents],
    )
    kernel = llvm.Function(module, kernel_type, compiled.fndesc.llvm_func_name)
    lines = _Lines(module, name, context, True)  # without any here, calls would lose theirs
    lines.mark_subprogram(primal, name, (), (), 0)
    lines.mark_location(builder, 0)
    lines.finalize()
    result = private_numba.cgutils.alloca_once(builder, kernel_type.args[0].pointee)
    arguments = entries.arguments_of(context, builder, found, overload, parameters)
    code = builder.call(kernel, [result, primal.args[1], *arguments])
    builder.store(code, primal.args[0])
    builder.ret_void()
    entries.link(library, module, lambda: None)
    return binding.parse_bitcode(library._final_module.as_bitcode())


def _nodes(context: Any, names: Sequence[str], order: int) -> Any:
    """A module that defines functions with JAX's derivatives up to an order."""
    try:
        nodes = [node for n in names for node in rules.roots[n].node(order).all()]
    except rules.NoRule as e:
        raise Refused(f"it calls {e}") from e
    library = context.codegen().create_library("kb_nodes")
    module = library.create_ir_module("kb_nodes")
    described = []
    for node in nodes:
        result, argument = (getattr(types, d) for d in (node.result, node.dtype))
        jitted = rules.jitted(node.text)
        jitted.compile((argument,))
        (compiled,) = jitted.overloads.values()
        library.add_linking_library(compiled.library)
        kind = context.call_conv.get_function_type(result, [argument])
        called = llvm.Function(module, kind, compiled.fndesc.llvm_func_name)
        kind = llvm.FunctionType(context.get_value_type(result), [kind.args[2]])
        plain = llvm.Function(module, kind, f"{node.name}.plain")
        builder = llvm.IRBuilder(plain.append_basic_block())
        call = context.call_conv.call_function
        builder.ret(call(builder, called, result, [argument], plain.args)[1])
        derivative = node.derivative and node.derivative.name
        described.append((node.name, node.result, node.dtype, derivative))
    entries.link(library, module, lambda: None)
    made = binding.parse_bitcode(library._final_module.as_bitcode())
    made.link_in(binding.parse_assembly(registered.text(described)))
    return made


def simplify(module: Any, unrolls: bool = False) -> None:
    """Run passes that do not vectorise loops, and may leave them as they are."""
    target = binding.Target.from_triple(binding.get_process_triple())
    tuning = binding.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = tuning.slp_vectorization = False
    tuning.loop_unrolling = unrolls
    builder = binding.create_pass_builder(target.create_target_machine(), tuning)
    manager = builder.getModulePassManager()
    manager.add_refprune_pass()
    run_once(manager, module, builder)


def _to_inline(read: Module) -> Any:
    """A module whose functions LLVM will inline into one, with an allocator in LLVM IR."""
    inactive = ' nofree "enzyme_inactive" "enzyme_no_escaping_allocation"'
    for f in read.functions.values():
        if f.is_declaration and (f.name.startswith(_HOLDS) or f.name == _RESHAPE):
            f.head += inactive
    for i in (i for i in read.instructions("call") if i.callee.startswith(_HOLDS)):
        holds = ir.holds(i.callee.removeprefix(_HOLDS))
        i.text = i.text.replace("(ptr ", f"(ptr {holds} ", 1)
    for function in read.defined.values():
        for i in (i for i in function.instructions if i.callee == "malloc"):
            if _is_stored(function, i.result):
                i.text = i.text.replace("@malloc(", f"@{_RAISED}(", 1)
    raised = f'declare noalias ptr @{_RAISED}(i64) nofree "enzyme_inactive"'
    text = ir.placed(f"{read}{_ALLOCATOR}{raised}\n")
    return _inlined(binding.parse_assembly(text, binding.create_context()))


def _is_stored(function: Any, address: str) -> bool:
    """Whether code stores an address, or what it chooses between this one and others."""
    known = [address]
    for name in known:  # which grows
        for i in function.users.get(name, []):
            if i.opcode == "store" and i.operands[0].value == name:
                return True
            if i.opcode in ("phi", "select") and i.result not in known:
                known.append(i.result)
    return False


def _inlined(module: Any, kept: str = "") -> Any:
    """Let all functions of a module be inlined, except Numba's `noinline` ones and `kept`."""
    for function in module.functions:
        is_kept = function.name == kept or function.name.startswith(registered.REGISTERED)
        if not function.is_declaration and not is_kept:
            function.linkage = "internal"
            if not any(b"noinline" in attributes for attributes in function.attributes):
                function.add_function_attribute("alwaysinline")
    return module
