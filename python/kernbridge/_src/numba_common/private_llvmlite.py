"""The names of llvmlite that kernbridge uses, looked up once.

No other module imports them. Imported only when a kernel is wrapped or compiled, since llvmlite
takes time to import.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernbridge._src.base import versions
from kernbridge._src.base.errors import UnknownVersionError
from kernbridge._src.base.patched import patched

NAMES = (
    "llvmlite.binding.address_of_symbol",
    "llvmlite.binding.get_host_cpu_name",
    "llvmlite.binding.llvm_version_info",
    "llvmlite.binding.load_library_permanently",
    "llvmlite.binding.parse_assembly",
    "llvmlite.ir.Constant",
    "llvmlite.ir.Function",
    "llvmlite.ir.FunctionType",
    "llvmlite.ir.IRBuilder",
    "llvmlite.ir.IntType",
    "llvmlite.ir.LiteralStructType",
    "llvmlite.ir.PointerType",
    "llvmlite.ir.Value",
    "llvmlite.ir.VoidType",
)
CUDA_ON_CPU_NAMES = (
    "llvmlite.binding.Target.from_default_triple",
    "llvmlite.binding.create_new_function_pass_manager",
    "llvmlite.binding.create_new_module_pass_manager",
    "llvmlite.binding.create_pass_builder",
    "llvmlite.binding.create_pipeline_tuning_options",
    "llvmlite.binding.create_target_data",
    "llvmlite.binding.get_default_triple",
    "llvmlite.binding.get_host_cpu_features",
    "llvmlite.binding.initialize_native_asmprinter",
    "llvmlite.binding.initialize_native_target",
    "llvmlite.binding.llvm_version_info",
    "llvmlite.binding.ffi.ObjectRef._dispose",
    "llvmlite.binding.newpassmanagers.NewPassManager._dispose",
    "llvmlite.binding.newpassmanagers.FunctionPassManager.add_instruction_combine_pass",
    "llvmlite.binding.newpassmanagers.FunctionPassManager.add_sroa_pass",
    "llvmlite.binding.newpassmanagers.FunctionPassManager.run",
    "llvmlite.binding.newpassmanagers.ModulePassManager.add_always_inliner_pass",
    "llvmlite.binding.newpassmanagers.ModulePassManager.add_global_dead_code_eliminate_pass",
    "llvmlite.binding.newpassmanagers.ModulePassManager.run",
    "llvmlite.binding.newpassmanagers.PassBuilder.getModulePassManager",
    "llvmlite.binding.parse_assembly",
    "llvmlite.binding.parse_bitcode",
    "llvmlite.binding.targets.TargetMachine.emit_object",
    "llvmlite.binding.targets.TargetMachine.target_data",
    "llvmlite.binding.targets.TargetMachine.triple",
    "llvmlite.binding.module.ModuleRef.get_global_variable",
    "llvmlite.binding.module.ModuleRef.link_in",
    "llvmlite.ir.Aggregate",
    "llvmlite.ir.AllocaInstr",
    "llvmlite.ir.ArrayType",
    "llvmlite.ir.CallInstr",
    "llvmlite.ir.CastInstr",
    "llvmlite.ir.DoubleType",
    "llvmlite.ir.FloatType",
    "llvmlite.ir.FormattedConstant",
    "llvmlite.ir.GlobalVariable",
    "llvmlite.ir.HalfType",
    "llvmlite.ir.InlineAsm",
    "llvmlite.ir.LoadInstr",
    "llvmlite.ir.instructions.LoadAtomicInstr",
    "llvmlite.ir.Module",
    "llvmlite.ir.PhiInstr",
    "llvmlite.ir.StoreInstr",
    "llvmlite.ir.VectorType",
    "llvmlite.ir._utils._StrCaching._clear_string_cache",
    "llvmlite.ir.instructions.InsertValue",
    "llvmlite.ir.types.PointerType._to_string",
    "llvmlite.ir.types.Type",
    "llvmlite.ir.types.ir_layer_typed_pointers_enabled",
)
OBJECT_CODE_NAMES = (
    "llvmlite.binding.Target.from_triple",
    "llvmlite.binding.create_new_module_pass_manager",
    "llvmlite.binding.create_pass_builder",
    "llvmlite.binding.create_pipeline_tuning_options",
    "llvmlite.binding.ffi.ObjectRef._dispose",
    "llvmlite.binding.newpassmanagers.NewPassManager._dispose",
    "llvmlite.binding.create_context",
    "llvmlite.binding.ffi.OutputString",
    "llvmlite.binding.ffi.lib.LLVMPY_DisposeMemoryBuffer._cfn",
    "llvmlite.binding.ffi.lib.LLVMPY_GetBufferSize._cfn",
    "llvmlite.binding.ffi.lib.LLVMPY_GetBufferStart._cfn",
    "llvmlite.binding.ffi.lib.LLVMPY_TargetMachineEmitToMemory._cfn",
    "llvmlite.binding.get_process_triple",
    "llvmlite.binding.module.ModuleRef.functions",
    "llvmlite.binding.module.ModuleRef.get_function",
    "llvmlite.binding.module.ModuleRef.global_variables",
    "llvmlite.binding.newpassmanagers.ModulePassManager.add_global_dead_code_eliminate_pass",
    "llvmlite.binding.newpassmanagers.ModulePassManager.run",
    "llvmlite.binding.parse_assembly",
    "llvmlite.binding.value.ValueRef.add_function_attribute",
    "llvmlite.binding.value.ValueRef.linkage",
)
PASS_MANAGER_NAMES = (
    "llvmlite.binding.ffi.ObjectRef._dispose",
    "llvmlite.binding.newpassmanagers.FunctionPassManager",
    "llvmlite.binding.newpassmanagers.ModulePassManager",
    "llvmlite.binding.newpassmanagers.NewPassManager._dispose",
)
OWN_CONTEXT_NAMES = (  # since llvmlite 0.45, whose pass managers take the place of the older ones
    "llvmlite.binding.Target.from_triple",
    "llvmlite.binding.create_context",
    "llvmlite.binding.ffi.lib.LLVMPY_RunNewModulePassManager._cfn",
    "llvmlite.binding.get_process_triple",
    "llvmlite.binding.module.ModuleRef.as_bitcode",
    "llvmlite.binding.module.ModuleRef.verify",
    "llvmlite.binding.parse_assembly",
    "llvmlite.binding.parse_bitcode",
)


@functools.cache
def check_for_own_contexts() -> None:
    """Raise UnknownVersionError if names are missing by which a thread uses LLVM beside others."""
    versions.look_up("llvmlite", OWN_CONTEXT_NAMES)


@functools.cache
def check_for_cuda_on_cpu() -> None:
    """Raise UnknownVersionError if names that CUDA kernels on the CPU need are missing."""
    versions.look_up("llvmlite", CUDA_ON_CPU_NAMES)


versions.look_up("llvmlite", NAMES)
versions.warn_of_untested("llvmlite")

from llvmlite import __version__ as version
from llvmlite import binding, ir


class _OffHere:
    """Replaces llvmlite's switch for typed pointers: off in one thread, unchanged in others."""

    def __init__(self, before: Any) -> None:
        self._before = before
        self._thread = threading.get_ident()

    def __bool__(self) -> bool:
        return bool(self._before) and threading.get_ident() != self._thread


@contextmanager
def opaque_pointers() -> Iterator[None]:
    """Let this thread print IR with opaque pointers of one address space.

    The caller holds Numba's compiler lock. Other threads print as before, and what this thread
    prints is not cached in the IR's objects.
    """
    import llvmlite.ir._utils as utils
    import llvmlite.ir.types as types

    thread = threading.get_ident()
    typed, cached = types.ir_layer_typed_pointers_enabled, utils._StrCaching.__str__
    pointer = types.PointerType._to_string
    of_types: dict[int, tuple[Any, str]] = {}  # by identity, with the type, which keeps it alive

    def printed(self: Any) -> str:
        if threading.get_ident() != thread:
            text: str = cached(self)
            return text
        if not isinstance(self, types.Type):
            return self._to_string()
        if id(self) not in of_types:
            of_types[id(self)] = self, self._to_string()
        return of_types[id(self)][1]

    def printed_pointer(self: Any) -> str:
        return "ptr" if threading.get_ident() == thread else pointer(self)

    with patched(
        (types, "ir_layer_typed_pointers_enabled", _OffHere(typed)),
        (utils._StrCaching, "__str__", printed),
        (types.PointerType, "_to_string", printed_pointer),
    ):
        yield


def run_once(manager: Any, code: Any, builder: Any, locked: bool = True) -> None:
    """Run a pass manager on a module or a function, and free it.

    llvmlite admits one thread to LLVM. Without its lock, the module and the target machine of
    the builder must belong to this thread alone, and the module to a context of its own.

    llvmlite's pass managers inherit the `_dispose` of `ObjectRef`, which does nothing, before their
    own, so that closing one frees nothing: 32 KiB and more for each.
    """
    if locked:
        manager.run(code, builder)
    else:
        binding.ffi.lib.LLVMPY_RunNewModulePassManager._cfn(manager, code, builder)
    if type(manager)._dispose is not binding.ffi.ObjectRef._dispose:
        manager.close()
    elif not manager.closed:
        binding.newpassmanagers.NewPassManager._dispose(manager)
        manager.detach()  # if another thread is freeing pass managers, close() would free it twice


def emit_object(machine: Any, module: Any) -> bytes:
    """The machine code of a module, without llvmlite's lock; see `run_once`."""
    lib = binding.ffi.lib
    with binding.ffi.OutputString() as error:
        buffer = lib.LLVMPY_TargetMachineEmitToMemory._cfn(machine, module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        begin, size = lib.LLVMPY_GetBufferStart._cfn(buffer), lib.LLVMPY_GetBufferSize._cfn(buffer)
        return ctypes.string_at(begin, size)
    finally:
        lib.LLVMPY_DisposeMemoryBuffer._cfn(buffer)


@functools.cache
def _without_dispose() -> tuple[tuple[Any, str, Any], ...]:
    """llvmlite's kinds of pass managers that free nothing, with the method that would."""
    try:
        versions.look_up("llvmlite", PASS_MANAGER_NAMES)
    except UnknownVersionError:
        return ()
    managers = binding.newpassmanagers
    return tuple(
        (kind, "_dispose", managers.NewPassManager._dispose)
        for kind in (managers.ModulePassManager, managers.FunctionPassManager)
        if kind._dispose is binding.ffi.ObjectRef._dispose
    )


@contextmanager
def freeing_pass_managers() -> Iterator[None]:
    """Let the pass managers that Numba makes and drops meanwhile be freed, about 220 KiB a kernel.

    The caller holds Numba's compiler lock.
    """
    with patched(*_without_dispose()):
        yield
