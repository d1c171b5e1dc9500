"""A native entry for a Numba kernel, built as LLVM IR: one function of C type

    int32 entry(void **result, void **exception, void *const *inputs, void *const *outputs)

that reads addresses and extents from XLA's buffers (src/abi/kb_numba.h) and calls the kernel with
Numba's own convention. It is compiled in one library with the kernel, in place of the wrappers that
Numba makes for Python and for C, so that the optimiser sees both at once.

Numba keeps the code of a function with its dispatcher, and on disk if it has `cache=True`. Code
from there may come from an older source, and has no types, which show what it writes to. What
kernels call is therefore compiled again if Numba may take it from there. Code with checks is kept
apart, since a kernel without them would find it.
"""

from __future__ import annotations

import copy
import dis
import itertools
import threading
import weakref
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from kernbridge._src.base.errors import defect
from kernbridge._src.base.patched import patched
from kernbridge._src.numba_common import cpu_features, private_numba, vector_math
from kernbridge._src.numba_common.defaults import change_of
from kernbridge._src.numba_common.private_llvmlite import DISPOSE_CHANGES, binding, ir
from kernbridge._src.numba_common.private_numba import CPUContext, CPUDispatcher, NullCache, types
from kernbridge._src.numba_cpu import errors as kernel_errors

INT64 = ir.IntType(64)
INT32 = ir.IntType(32)
POINTER = ir.IntType(8).as_pointer()
# kb_xla_buffer: size, extensions, dtype, data, rank, dims
_BUFFER = ir.LiteralStructType((INT64, POINTER, INT32, POINTER, INT64, INT64.as_pointer()))
_DATA, _DIMS = 3, 5
_Parameters = Sequence["HostParameter | None"]  # None stands for a default value
serial = itertools.count()
_overloads: dict[str, weakref.WeakKeyDictionary[Any, Any]] = {}  # of each purpose
# Of functions that are passed to functions: their addresses are in the code, which never uses them.
addresses_of_dispatchers: set[int] = set()


@dataclass(frozen=True, slots=True)
class HostParameter:
    """What one kernel parameter is filled from: an input or output of the call, by its index."""

    is_output: bool
    index: int
    type: Any  # of Numba: a C-ordered types.Array, or a scalar type
    zeroed: bool = False  # filled with zeros first, if it is an output of its own memory


class Overload(NamedTuple):
    kernel: Any  # the dispatcher
    arguments: tuple[Any, ...]  # types as compiled, in the order of the kernel's parameters
    compiled: Any  # Numba's compile result
    finished: bool  # whether machine code exists, or the library is still open for the entry
    loops: tuple[Any, ...] = ()  # compile results of its parallel loops

    @property
    def result(self) -> Any:
        return self.compiled.signature.return_type


@dataclass(slots=True)
class Entry:
    """A native entry, linked with its kernel."""

    name: str
    library: Any
    llvm_ir: str  # the text of the library, optimised
    _overload: Overload
    _finish: Callable[[], None]

    @property
    def parallel(self) -> bool:
        """Whether it enters Numba's thread pool."""
        kernel = self._overload
        text = kernel.compiled.library.get_llvm_str() if kernel.finished else self.llvm_ir
        return "numba_parallel_for" in text

    @private_numba.global_compiler_lock
    def address(self) -> int:
        """Return the address of its machine code, which Numba makes now. To be called once."""
        self._finish()
        codegen, kernel = self.library.codegen, self._overload
        # Numba sets no environment of loop bodies, which exceptions with values need.
        for each in (kernel.compiled, *kernel.loops):
            name = kernel.kernel.targetctx.get_env_name(each.fndesc)
            if codegen._engine.get_global_value_address(name):
                codegen.set_env(name, each.environment)
        return int(self.library.get_pointer_to_function(self.name))


@private_numba.global_compiler_lock
def compile_kernel(kernel: Any, positional: Sequence[Any], named: Mapping[str, Any]) -> Overload:
    """Type and lower the kernel for these argument types, or for a signature that it declares."""
    # Kernel and entry share a library, unless the kernel has `with` blocks, which Numba makes into
    # functions of their own. Code from Numba's cache on disk is compiled again: it has no types
    # that show which inputs it writes to.
    with_blocks = {"BEFORE_WITH", "LOAD_SPECIAL"}
    apart = with_blocks.isdisjoint(i.opname for i in dis.get_instructions(kernel.py_func))
    given = tuple(positional), dict(named)
    kernel_errors.loops.clear()
    with patched(*DISPOSE_CHANGES, *kernel_errors.CHANGES, change_of(types.Omitted)):
        if apart and kernel._can_compile:
            arguments = tuple(kernel._compiler.fold_argument_types(*given)[1])
        else:
            signature = types.Dispatcher(kernel).get_call_type(kernel.typingctx, *given)
            if signature is None:
                declared = "; ".join(", ".join(map(str, s)) for s in kernel.signatures)
                raise private_numba.errors.TypingError(
                    f"The kernel is declared for ({declared}), but the call passes "
                    f"({', '.join(map(str, positional))}). Convert the arrays, or decorate the "
                    "kernel without a signature"
                )
            arguments = signature.args
        compiled = compile_again(kernel, arguments) if apart else kernel.overloads[arguments]
    loops = tuple(kernel_errors.loops)
    return Overload(kernel, arguments, compiled, finished=not apart, loops=loops)


@private_numba.global_compiler_lock
def compile_again(kernel: Any, arguments: Sequence[Any]) -> Any:
    """Compile as the dispatcher itself does, without its wrappers and without machine code."""

    def customized(flags: Any) -> Any:
        flags.no_cpython_wrapper = True
        flags.no_cfunc_wrapper = True
        flags.no_compile = True
        return flags

    front = kernel._compiler
    with patched(*DISPOSE_CHANGES, (front, "_customize_flags", customized)):
        return front._compile_core(tuple(arguments), None)


@private_numba.global_compiler_lock
def build_entry(overload: Overload, parameters: _Parameters, has_vector_math: bool) -> Entry:
    """Generate the entry. `parameters` follow the kernel's own."""
    compiled, context = overload.compiled, overload.kernel.targetctx
    name = f"kb_entry_{next(serial)}"
    library = context.codegen().create_library(name) if overload.finished else compiled.library
    module = library.create_ir_module(name)
    kernel_type = context.call_conv.get_function_type(overload.result, overload.arguments)
    result, exception, *argument_types = kernel_type.args
    lists = [_BUFFER.as_pointer().as_pointer()] * 2
    entry = ir.Function(module, ir.FunctionType(INT32, [result, exception, *lists]), name)
    builder = ir.IRBuilder(entry.append_basic_block())

    buffers = _OfXLA(builder, *entry.args[2:])
    arguments = list(arguments_of(context, builder, buffers, overload, parameters))
    got, expected = [a.type for a in arguments], list(argument_types)
    if got != expected:
        raise AssertionError(defect(f"Numba passes {expected}, the entry was built for {got}"))
    zero_outputs(context, builder, buffers, parameters)
    symbol = compiled.fndesc.llvm_func_name
    if overload.finished:
        address = compiled.library.get_pointer_to_function(symbol)
        kernel = builder.inttoptr(INT64(address), kernel_type.as_pointer())
    else:
        kernel = ir.Function(module, kernel_type, symbol)
    builder.ret(builder.call(kernel, [entry.args[0], entry.args[1], *arguments]))

    finish = link(library, module, lambda: _optimise(library, has_vector_math))
    return Entry(name, library, library.get_llvm_str(), overload, finish)


@private_numba.global_compiler_lock
def optimised(text: str, library: Any, has_vector_math: bool) -> str:
    """Optimise a module as Numba optimises a library; return its text."""
    given = copy.copy(library)
    given._final_module = binding.parse_assembly(text)
    with patched(*DISPOSE_CHANGES):
        _optimise(given, has_vector_math)
    return str(given._final_module)


def _optimise(library: Any, has_vector_math: bool) -> None:
    """Optimise a library as Numba does; with vector math, its loops may call libmvec."""
    if has_vector_math and vector_math.provided():
        features, _ = cpu_features.known(library.codegen.magic_tuple()[2])
        name, text = library._final_module.name, str(library._final_module)
        changed = vector_math.with_vectors(text, features)
        if changed != text:
            binding.load_library_permanently(vector_math.LIBRARY)  # for code that stays here
            library._final_module = binding.parse_assembly(changed)
            library._final_module.name = name
    type(library)._optimize_final_module(library)


def link(library: Any, module: Any, optimise: Callable[[], None]) -> Callable[[], None]:
    """Link a library with a module, and optimise it. Return what makes its machine code.

    Numba links, optimises and makes machine code in one call.
    """
    finish: Callable[[], None] = library._finalize_final_module
    with patched(
        *DISPOSE_CHANGES,
        (library, "_finalize_final_module", lambda: None),
        (library, "_optimize_final_module", optimise),
    ):
        library.add_ir_module(module)
        library.finalize()
    return finish


def arguments_of(
    context: Any, builder: Any, buffers: Any, overload: Overload, parameters: Sequence[Any]
) -> Iterator[Any]:
    """Yield the kernel's arguments as Numba flattens them; a default value takes none."""
    flat = iter(parameters)
    for place, compiled_type in enumerate(overload.arguments):
        is_tuple = isinstance(compiled_type, types.BaseTuple)  # of the kernel's *args
        for member in compiled_type if is_tuple else (compiled_type,):
            parameter = next(flat)
            if parameter is None:
                continue
            if isinstance(parameter.type, types.Array):
                yield from _array(context, builder, buffers, parameter)
                continue
            given = context.data_model_manager[parameter.type]  # converted to the compiled type
            pointer = builder.bitcast(buffers.data(parameter), given.get_data_type().as_pointer())
            value = given.load_from_data_pointer(builder, pointer)
            if isinstance(buffers, _OfXLA) and isinstance(member, types.Integer):
                name = overload.kernel.py_func.__code__.co_varnames[place]
                _refuse_unfit(context, builder, name, value, parameter.type, member)
            value = context.cast(builder, value, parameter.type, member)
            yield from private_numba.flattened(
                (context.data_model_manager[member].as_argument(builder, value),)
            )


def _refuse_unfit(
    context: Any, builder: Any, name: str, value: Any, given: Any, declared: Any
) -> None:
    """Let the entry fail if a number would wrap around, or lose a fraction."""
    low, high, number = declared.minval, declared.maxval, value.type
    if isinstance(given, types.Float):
        whole = builder.call(builder.module.declare_intrinsic("llvm.trunc", [number]), [value])
        in_range = builder.and_(
            builder.fcmp_ordered(">=", value, number(float(low))),
            builder.fcmp_ordered("<", value, number(float(high + 1))),
        )
        fits = builder.and_(in_range, builder.fcmp_ordered("==", value, whole))
    elif isinstance(given, types.Integer) and given != declared:
        compare = builder.icmp_signed if given.signed else builder.icmp_unsigned
        fits = builder.and_(
            compare(">=", value, number(max(low, given.minval))),
            compare("<=", value, number(min(high, given.maxval))),
        )
    else:
        return
    with private_numba.cgutils.if_unlikely(builder, builder.not_(fits)):
        text = (
            f"{name!r} is no number of {declared} ({low} to {high}), for which the kernel is "
            "declared; pass one, or declare another type"
        )
        context.call_conv.return_user_exc(builder, OverflowError, (text,))


class _OfXLA:
    """Addresses and extents of parameters, from XLA's descriptions of buffers."""

    def __init__(self, builder: Any, inputs: Any, outputs: Any) -> None:
        self._builder, self._lists = builder, (inputs, outputs)

    def _field(self, parameter: HostParameter, field: int) -> Any:
        builder, buffers = self._builder, self._lists[parameter.is_output]
        buffer = builder.load(builder.gep(buffers, [INT32(parameter.index)]))
        return builder.load(builder.gep(buffer, [INT32(0), INT32(field)]))

    def data(self, parameter: HostParameter) -> Any:
        """Where the data is; never NULL, which XLA may pass for an array without elements."""
        builder, data = self._builder, self._field(parameter, _DATA)
        nowhere = builder.inttoptr(INT64(64), POINTER)
        is_null = builder.icmp_unsigned("==", data, POINTER(None))
        return builder.select(is_null, nowhere, data)

    def extents(self, parameter: HostParameter) -> list[Any]:
        builder, dims = self._builder, self._field(parameter, _DIMS)
        return [builder.load(builder.gep(dims, [INT64(d)])) for d in range(parameter.type.ndim)]


def _array(context: Any, builder: Any, buffers: Any, parameter: HostParameter) -> Iterator[Any]:
    """meminfo, parent, number of items, item size, data, extents, strides in bytes."""
    item = context.get_data_type(parameter.type.dtype)
    null = POINTER(None)
    size = INT64(context.get_abi_sizeof(item))
    extents = buffers.extents(parameter)
    sizes, n_items = [size], INT64(1)
    for extent in reversed(extents):
        sizes.append(builder.mul(sizes[-1], extent, flags=("nsw",)))
        n_items = builder.mul(n_items, extent, flags=("nsw",))
    data = builder.bitcast(buffers.data(parameter), item.as_pointer())
    yield from (null, null, n_items, size, data, *extents, *reversed(sizes[:-1]))


def zero_outputs(context: Any, builder: Any, buffers: Any, parameters: _Parameters) -> None:
    arrays = [p for p in parameters if p is not None and isinstance(p.type, types.Array)]
    shared = [buffers.data(p) for p in arrays if not p.is_output and p.type.mutable]
    for parameter in arrays:
        if not (parameter.is_output and parameter.zeroed):
            continue
        data = buffers.data(parameter)
        size = INT64(context.get_abi_sizeof(context.get_data_type(parameter.type.dtype)))
        for extent in buffers.extents(parameter):
            size = builder.mul(size, extent)
        for other in shared:
            size = builder.select(builder.icmp_unsigned("==", data, other), INT64(0), size)
        private_numba.cgutils.memset(builder, data, size, 0)


def pool_functions() -> tuple[int, int, bool]:
    """Addresses of Numba's get_num_threads and set_num_threads, and whether the threading layer
    takes one caller at a time. Starts the layer."""
    private_numba.numba.get_num_threads()  # starts it
    return (
        binding.address_of_symbol("get_num_threads") or 0,
        binding.address_of_symbol("set_num_threads") or 0,
        private_numba.numba.threading_layer() == "workqueue",
    )


def is_users(function: Any) -> bool:
    return not function.py_func.__code__.co_filename.startswith(kernel_errors.NUMBA)


@contextmanager
def compiling_apart(
    purpose: str, belongs: Callable[[Any], bool], **options: Any
) -> Iterator[Callable[[Any], None]]:
    """Compile the functions that belong to a purpose for it alone, with more target options.

    Yields what sets a function apart before Numba meets it. Holds Numba's lock.
    """
    of_dispatchers = private_numba.dispatcher.Dispatcher
    template_of, add_overload = of_dispatchers.get_call_template, of_dispatchers.add_overload
    address_of, dispatcher_name = CPUContext.add_dynamic_addr, CPUDispatcher.__name__
    seen: set[Any] = set()
    apart: set[Any] = set()
    kept = _overloads.setdefault(purpose, weakref.WeakKeyDictionary())

    def set_apart(function: Any) -> None:
        if function not in seen:
            seen.add(function)
            if belongs(function):
                apart.add(function)
                stack.enter_context(_apart(function, kept.setdefault(function, {}), options))

    def template_apart(self: Any, args: Any, kws: Any) -> Any:
        set_apart(self)
        return template_of(self, args, kws)

    def add_address(self: Any, builder: Any, address: int, info: str) -> Any:
        if info == dispatcher_name:
            addresses_of_dispatchers.add(address)
        return address_of(self, builder, address, info)

    def add_apart(self: Any, compiled: Any) -> None:
        if self in apart:
            self.overloads[tuple(compiled.signature.args)] = compiled
        else:
            add_overload(self, compiled)

    compiling = patched(
        (of_dispatchers, "get_call_template", template_apart),
        (of_dispatchers, "add_overload", add_apart),
        (CPUContext, "add_dynamic_addr", add_address),
    )
    with private_numba.global_compiler_lock, compiling, ExitStack() as stack:
        yield set_apart


def is_of_disk(function: Any) -> bool:
    """Whether Numba takes code of a function, or of what it calls, from its cache on disk."""
    own = function.overloads.values()
    return not isinstance(function._cache, NullCache) or any(is_of_cache(o.library) for o in own)


def is_of_cache(library: Any) -> bool:
    """Whether Numba took a library, or one that is linked into it, from its cache on disk."""
    return any(each._disable_inspection for each in private_numba.linked([library]))


class _Overloads(UserDict[Any, Any]):
    """What stands for a function's overloads meanwhile: those for the purpose in the thread that
    compiles, and the function's own for others, which may read them without Numba's lock."""

    def __init__(self, apart: dict[Any, Any], own: Any) -> None:
        self._apart = apart
        self._own = own
        self._thread = threading.get_ident()

    @property
    def data(self) -> Any:  # type: ignore[override]
        return self._apart if threading.get_ident() == self._thread else self._own


@contextmanager
def _apart(function: Any, kept: dict[Any, Any], options: dict[str, Any]) -> Iterator[None]:
    """Let a function be compiled apart; what it has otherwise comes back."""
    front = function._compiler
    overloads = _Overloads(kept, function.overloads)
    declared = () if function._can_compile else [o.signature for o in function.overloads.values()]
    with patched(
        (function, "overloads", overloads),
        (function, "_cache", NullCache()),
        (front, "targetoptions", {**front.targetoptions, **options}),
        (front, "_failed_cache", {}),
    ):
        with patched((function, "_can_compile", True)):
            for signature in declared:
                function.compile(signature)
        yield
