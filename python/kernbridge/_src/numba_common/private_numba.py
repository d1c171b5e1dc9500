"""The names of Numba that kernbridge uses, looked up once.

No other module imports them. Imported only when a kernel is wrapped or compiled, since Numba takes
time to import.
"""

from __future__ import annotations

from typing import Any

from kernbridge._src.base import versions

NAMES = (
    "numba.core.caching.NullCache",
    "numba.core.callconv.CPUCallConv._get_return_status",
    "numba.core.callconv.CPUCallConv._return_errcode_raw",
    "numba.core.callconv.CPUCallConv.build_excinfo_struct",
    "numba.core.callconv.CPUCallConv.call_function",
    "numba.core.callconv.CPUCallConv.get_function_type",
    "numba.core.callconv.CPUCallConv.return_dynamic_user_exc",
    "numba.core.callconv.CPUCallConv.return_status_propagate",
    "numba.core.callconv.excinfo_ptr_t",
    "numba.core.cgutils.alloca_once",
    "numba.core.cgutils.do_boundscheck",
    "numba.core.cgutils.if_unlikely",
    "numba.core.cgutils.intp_t",
    "numba.core.cgutils.memset",
    "numba.core.cgutils.unpack_tuple",
    "numba.core.codegen.JITCPUCodegen.create_library",
    "numba.core.codegen.JITCPUCodegen.magic_tuple",
    "numba.core.codegen.JITCPUCodegen.set_env",
    "numba.core.codegen.JITCodeLibrary._disable_inspection",
    "numba.core.codegen.JITCodeLibrary.add_ir_module",
    "numba.core.codegen.JITCodeLibrary.codegen",
    "numba.core.codegen.JITCodeLibrary.create_ir_module",
    "numba.core.codegen.JITCodeLibrary.finalize",
    "numba.core.codegen.JITCodeLibrary.get_asm_str",
    "numba.core.codegen.JITCodeLibrary.get_llvm_str",
    "numba.core.codegen.JITCodeLibrary.get_pointer_to_function",
    "numba.core.codegen.JitEngine.get_global_value_address",
    "numba.core.compiler.CompileResult.environment",
    "numba.core.compiler.CompileResult.fndesc",
    "numba.core.compiler.CompileResult.library",
    "numba.core.compiler.CompileResult.signature",
    "numba.core.compiler.CompileResult.type_annotation",
    "numba.core.compiler.Flags.no_cfunc_wrapper",
    "numba.core.compiler.Flags.no_compile",
    "numba.core.compiler.Flags.no_cpython_wrapper",
    "numba.core.compiler.compile_extra",
    "numba.core.compiler_lock.global_compiler_lock",
    "numba.core.config.BOUNDSCHECK",
    "numba.core.config.CPU_FEATURES",
    "numba.core.config.DEBUGINFO_DEFAULT",
    "numba.core.config.DUMP_ASSEMBLY",
    "numba.core.config.DUMP_OPTIMIZED",
    "numba.core.config.ENABLE_PROFILING",
    "numba.core.config.LLVM_PASS_TIMINGS",
    "numba.core.config.LLVM_REFPRUNE_PASS",
    "numba.core.config.OPT",
    "numba.core.cpu.CPUContext.add_dynamic_addr",
    "numba.core.cpu.CPUContext.call_conv",
    "numba.core.cpu.CPUContext.cast",
    "numba.core.cpu.CPUContext.codegen",
    "numba.core.cpu.CPUContext.get_abi_sizeof",
    "numba.core.cpu.CPUContext.get_data_type",
    "numba.core.cpu.CPUContext.get_env_name",
    "numba.core.cpu.CPUContext.make_array",
    "numba.core.cpu.CPUContext.make_helper",
    "numba.core.dispatcher.Dispatcher.add_overload",
    "numba.core.dispatcher.Dispatcher.compile",
    "numba.core.dispatcher.Dispatcher.get_call_template",
    "numba.core.dispatcher._FunctionCompiler.fold_argument_types",
    "numba.core.errors.TypingError",
    "numba.core.ir.Arg",
    "numba.core.ir.Assign",
    "numba.core.ir.Const",
    "numba.core.ir.DelItem",
    "numba.core.ir.Expr",
    "numba.core.ir.FreeVar",
    "numba.core.ir.Global",
    "numba.core.ir.Return",
    "numba.core.ir.SetAttr",
    "numba.core.ir.SetItem",
    "numba.core.ir.StaticSetItem",
    "numba.core.ir.Var",
    "numba.core.ir.Yield",
    "numba.core.lowering.BaseLower.lower_block",
    "numba.core.lowering.Lower.loadvar",
    "numba.core.lowering.Lower.lower_inst",
    "numba.core.lowering.Lower.typeof",
    "numba.core.options.TargetOptions.parse_as_flags",
    "numba.core.registry.CPUDispatcher.get_call_template",
    "numba.core.runtime._nrt_python.c_helpers",
    "numba.core.serialize._numba_unpickle",
    "numba.core.serialize.runtime_build_excinfo_struct",
    "numba.core.types.Any",
    "numba.core.types.Array",
    "numba.core.types.Array.mutable",
    "numba.core.types.ArrayCTypes",
    "numba.core.types.BaseTuple",
    "numba.core.types.Boolean",
    "numba.core.types.BoundFunction",
    "numba.core.types.ClassInstanceType",
    "numba.core.types.ClassType",
    "numba.core.types.DType",
    "numba.core.types.Dispatcher.dispatcher",
    "numba.core.types.Dispatcher.get_call_type",
    "numba.core.types.ExternalFunctionPointer",
    "numba.core.types.Float",
    "numba.core.types.Function",
    "numba.core.types.FunctionType",
    "numba.core.types.Integer",
    "numba.core.types.Literal",
    "numba.core.types.MakeFunctionLiteral",
    "numba.core.types.NoneType",
    "numba.core.types.Number",
    "numba.core.types.NumberClass",
    "numba.core.types.NumpyFlatType",
    "numba.core.types.ObjModeDispatcher",
    "numba.core.types.Omitted",
    "numba.core.types.NumpyNdIterType",
    "numba.core.types.Optional",
    "numba.core.types.Pair",
    "numba.core.types.Record",
    "numba.core.types.RecursiveCall",
    "numba.core.types.Tuple",
    "numba.core.types.UniTuple",
    "numba.core.types.UnicodeType",
    "numba.core.types.int64",
    "numba.core.types.intp",
    "numba.core.types.none",
    "numba.extending.typeof_impl",
    "numba.from_dtype",
    "numba.get_num_threads",
    "numba.np.ufunc.gufunc.GUFunc",
    "numba.np.ufunc.wrappers._GufuncWrapper.gen_loop_body",
    "numba.parfors.parfor_lowering.call_parallel_gufunc",
    "numba.threading_layer",
)
OF_DISPATCHERS = (
    "_cache",
    "_can_compile",
    "_compiler",
    "_compiler._failed_cache",
    "_compiler.locals",
    "_compiler.pipeline_class",
    "_compiler.targetdescr.options",
    "_compiler.targetoptions",
    "overloads",
    "py_func",
    "targetctx.data_model_manager",
    "typingctx._get_attribute_templates",
    "typingctx.resolve_value_type",
)
OF_LIBRARIES = ("_linking_libraries",)
OF_OPEN_LIBRARIES = ("_finalize_final_module", "_final_module", "_optimize_final_module")
OF_OPTIMISERS = (
    "_recorded_timings",
    "codegen._customize_tm_options",
    "codegen._loopvect",
    "codegen._module_pass_manager",
    "codegen._opt_level",
    "codegen._tm",
)
OF_CODEGEN = ("_engine.get_global_value_address",)
OF_UFUNCS = ("_dispatcher", "_frozen")


def check_ufunc(ufunc: Any) -> None:
    """Raise UnknownVersionError if what numba.vectorize returned lacks attributes."""
    versions.look_up_attributes("Numba", ufunc, OF_UFUNCS)


versions.look_up("Numba", NAMES)
versions.warn_of_untested("Numba")

import numba
from numba.core import (
    callconv,
    cgutils,
    compiler,
    config,
    dispatcher,
    errors,
    ir,
    lowering,
    serialize,
    types,
)
from numba.core.caching import NullCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu import CPUContext
from numba.core.registry import CPUDispatcher
from numba.core.runtime import _nrt_python as runtime
from numba.extending import typeof_impl
from numba.np.ufunc import wrappers
from numba.np.ufunc.gufunc import GUFunc
from numba.parfors import parfor_lowering
