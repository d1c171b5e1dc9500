"""The names of numba-cuda-mlir, the successor of Numba-CUDA, that kernbridge uses, looked up once.

No other module imports them. Imported only when one of its kernels is compiled, since the package
loads MLIR.
"""

from __future__ import annotations

from kernbridge._src.base import versions

NAMES = (
    "numba_cuda_mlir._mlir.dialects.llvm.translate_module_to_llvmir",
    "numba_cuda_mlir._mlir.ir.Module.parse",
    "numba_cuda_mlir._mlir.passmanager.PassManager.parse",
    "numba_cuda_mlir.descriptor.MLIRDispatcher._resolve_target_options",
    "numba_cuda_mlir.descriptor.mlir_target.ensure_initialized",
    "numba_cuda_mlir.linker.Linker.recreate_with_lto",
    "numba_cuda_mlir.lowering_utilities.context.get_context",
    "numba_cuda_mlir.mlir_compiler.compile_mlir",
    "numba_cuda_mlir.mlir_optimization._call_llvm70_capi",
    "numba_cuda_mlir.mlir_optimization._compile_to_ptx",
    "numba_cuda_mlir.mlir_optimization._needs_llvm70_path",
    "numba_cuda_mlir.mlir_optimization._nvvm_options",
    "numba_cuda_mlir.mlir_optimization._prepare_llvm_ir",
    "numba_cuda_mlir.mlir_optimization.get_base_pipeline",
    "numba_cuda_mlir.numba_cuda.core.compiler_lock.global_compiler_lock",
    "numba_cuda_mlir.numba_cuda.cudadrv.nvvm.LibDevice",
    "numba_cuda_mlir.numba_cuda.np.numpy_support.from_dtype",
    "numba_cuda_mlir.numba_cuda.types.BaseTuple.from_types",
    "numba_cuda_mlir.numba_cuda.types.Omitted",
    "numba_cuda_mlir.numba_cuda.typing.typeof.typeof",
    "numba_cuda_mlir.optimization.run_pre_codegen_patterns",
    "numba_cuda_mlir.tools._cached_cc",
    "numba_cuda_mlir.types.Array",
)

versions.look_up("numba-cuda-mlir", NAMES)
versions.warn_of_untested("numba-cuda-mlir")

from numba_cuda_mlir import descriptor, mlir_compiler, mlir_optimization, optimization, tools, types
from numba_cuda_mlir._mlir import ir
from numba_cuda_mlir._mlir.dialects import llvm
from numba_cuda_mlir._mlir.passmanager import PassManager
from numba_cuda_mlir.lowering_utilities.context import get_context
from numba_cuda_mlir.numba_cuda import types as numba_types
from numba_cuda_mlir.numba_cuda.core.compiler_lock import global_compiler_lock
from numba_cuda_mlir.numba_cuda.cudadrv.nvvm import LibDevice
from numba_cuda_mlir.numba_cuda.np import numpy_support
from numba_cuda_mlir.numba_cuda.typing.typeof import typeof

Omitted = numba_types.Omitted
