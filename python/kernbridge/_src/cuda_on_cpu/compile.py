"""Numba-CUDA kernels on the CPU: the same typed LLVM IR, for another processor.

`ir` makes it; here it is compiled, and the machine code is given to src/hostcuda.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import threading
from typing import TYPE_CHECKING, Any

from kernbridge import _core
from kernbridge._src.base.errors import KernelNotAvailableError
from kernbridge._src.cuda_on_cpu import fma, ir
from kernbridge._src.cuda_on_cpu.copies import refused
from kernbridge._src.keys import generators
from kernbridge._src.numba_common import llvmlite_inside
from kernbridge._src.numba_common.llvmlite_inside import binding as llvm
from kernbridge._src.store import artefacts
from kernbridge._src.store.artefacts import Artefact

if TYPE_CHECKING:
    from kernbridge._src.cuda_on_cpu.checks import Checks

CC = _core.HOST_CC  # of images for the CPU
CACHE_KIND = "cuda_host_object"

# Of each digest. Never released: the core has the addresses of the machine code in plans that stay
# registered, and a program that was compiled before may call it at any time.
_engines: dict[str, Any] = {}
_lock = threading.RLock()


def artefact(
    label: str, compiled: Any, opened: tuple[int, ...], checks: Checks | None = None
) -> Artefact:
    """What is kept of a kernel that Numba-CUDA compiled, for the CPU; with `checks`, checked."""
    if compiled.cooperative and checks:
        raise refused(label, "cuda.cg.this_grid in checked mode")
    library = compiled._codelibrary
    image, uses_z = image_of(label, library, library._entry_name, checks)
    return Artefact(
        meta={
            "entry": compiled.entry_name,
            "architectures": [CC],
            "opened": list(opened),
            "uses_z": uses_z,
            "cooperative": bool(compiled.cooperative),
        },
        blobs=(image,),
    )


def image_of(
    label: str, library: Any, entry: str, checks: Checks | None = None
) -> tuple[bytes, bool]:
    """The image of a kernel for the CPU, and whether it reads z indices.

    It holds a digest and LLVM IR, which begins with the number of what the IR takes for granted.
    """
    body, uses_z = ir.host_ir(label, library, entry, checks)
    text = f"{_core.HOST_ABI_LINE}{_core.HOST_ABI}\n{body}"
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{digest}\n{text}\0".encode(), uses_z


def compile_image(image: bytes) -> None:
    """Make machine code of an image, unless this process did."""
    llvmlite_inside.check_for_cuda_on_cpu()
    digest, text = image[:-1].decode().split("\n", 1)
    with _lock:
        if digest in _engines:
            return
        if not _engines:
            for name, address in _core.host_symbols().items():
                llvm.add_symbol(name, address)
        machine = ir.machine()
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        _check_symbols(text)  # an engine knows what the process has
        engine.add_object_file(llvm.ObjectFileRef.from_data(_object_code(digest, text, machine)))
        engine.finalize_object()
        by_threads = "define void @kb_fibre(" in text
        form = by_threads + ("@kb_grid_barrier(" in text)
        stack, shared = (_number(engine, f"kb_{what}_size") for what in ("stack", "shared"))
        address = engine.get_function_address("kb_fibre" if by_threads else "kb_blocks")
        table = engine.get_global_value_address("kb_check_table") if _is_checked(text) else 0
        _core.add_host_code(digest.encode(), address, form, shared, stack, table)
        _engines[digest] = engine


def _is_checked(text: str) -> bool:
    return re.search(r'^@"?kb_check_table"? = ', text, flags=re.M) is not None


def _check_symbols(text: str) -> None:
    """Refuse an image that calls what is not here: LLVM would call a wrong address."""
    for name in re.findall(r"^declare [^@\n]*@\"?([\w.$]+)", text, flags=re.M):
        if not name.startswith("llvm.") and not llvm.address_of_symbol(name):
            raise KernelNotAvailableError(
                f"a CUDA kernel that was lowered for the CPU calls {name!r}, which this kernbridge "
                "does not have; lower it anew with this version"
            )


def _number(engine: Any, name: str) -> int:
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(engine.get_function_address(name))())


def _object_code(digest: str, text: str, machine: Any) -> bytes:
    """The machine code of an image for this processor, which is kept on disk."""
    features = llvm.get_host_cpu_features().flatten()
    made_of = (
        generators.digest(),
        digest,
        machine.triple,
        llvm.get_host_cpu_name(),
        features,
        llvmlite_inside.version,
        llvm.llvm_version_info,
    )
    key = hashlib.sha256(repr(made_of).encode()).digest()
    found = artefacts.load(CACHE_KIND, key)
    if found is None:
        found = Artefact(meta={}, blobs=(_optimised(text, machine),))
        artefacts.store(CACHE_KIND, key, found)
    return found.blobs[0]


def _optimised(text: str, machine: Any) -> bytes:
    module = llvm.parse_assembly(text)
    module.triple = llvm.get_default_triple()
    module.data_layout = str(machine.target_data)
    module.verify()
    module = _with_fused_products(module, machine)
    # Where each access is a call, little can be gained.
    options = llvm.create_pipeline_tuning_options(speed_level=1 if _is_checked(text) else 3)
    options.loop_vectorization = options.slp_vectorization = True
    options.loop_interleaving = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


def _with_fused_products(module: Any, machine: Any) -> Any:
    """The module with a kernel's products and sums fused as on a GPU, if the processor can.

    That is seen before the kernel is in the loops over threads, in the form that NVVM gives it.
    """
    features = llvm.get_host_cpu_features()
    if not (features.get("fma") or machine.triple.startswith("aarch64")):
        return module
    thread = module.get_function("kb_thread")
    if not re.search(r" fmul |@llvm\.fpto", str(thread)):
        return module
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    builder.getFunctionPassManager().run(thread, builder)
    fused = llvm.parse_assembly(fma.fused(str(module)))
    fused.verify()
    return fused


def provide(program: Any) -> None:
    """Make machine code of all kernels of a program for the CPU."""
    for function in program.functions:
        for cc, image in function.images:
            if cc == CC:
                compile_image(image)
