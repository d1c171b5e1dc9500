"""Compiles Numba-CUDA kernels for the CPU.

`ir` generates the LLVM IR from the IR that Numba has typed. This module compiles it to machine
code, which src/object loads and src/hostcuda runs.
"""

from __future__ import annotations

import hashlib
import re
import struct
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kernbridge import _core
from kernbridge._src.base.errors import KernelCompilationError, KernelNotAvailableError
from kernbridge._src.base.packing import sealed
from kernbridge._src.cuda_on_cpu import fma, ir
from kernbridge._src.forge import artefacts
from kernbridge._src.forge.artefacts import Artefact
from kernbridge._src.keys import package_digest
from kernbridge._src.numba_common import cpu_features, elf, private_llvmlite, vector_math
from kernbridge._src.numba_common.private_llvmlite import binding as llvm

if TYPE_CHECKING:
    from kernbridge._src.cuda_on_cpu.checks import Checks

CC = _core.HOST_CC  # of images for the CPU: LLVM IR
CODE_CC = _core.HOST_CODE_CC  # of images beside them: machine code of that IR
CACHE_KIND = "cuda_host_code"
_WITH_VECTORS = "; kernbridge vector math\n"
_DIGITS = 64  # of the digest that an image begins with

# Of each digest, what the machine code defines. Never released: the core has its addresses in plans
# that stay registered, and a program that was compiled before may call it at any time.
_registered: dict[str, dict[str, int]] = {}
_names: dict[str, str] = {}  # of digests: the modules and names of kernels
_lock = threading.RLock()

refusals: dict[str, str] = {}
"""Messages about kernels that do not run on CPUs, by what messages call the kernels."""


def artefact(
    label: str,
    compiled: Any,
    opened: tuple[int, ...],
    checks: Checks | None = None,
    is_fast: bool = False,
) -> Artefact:
    """What is kept of a kernel that Numba-CUDA compiled, for the CPU; with `checks`, checked."""
    library = compiled._codelibrary
    image, uses_z = image_of(label, library, library._entry_name, checks, is_fast)
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
    label: str, library: Any, entry: str, checks: Checks | None = None, is_fast: bool = False
) -> tuple[bytes, bool]:
    """The image of a kernel for the CPU, and whether it reads z indices.

    It holds a digest and LLVM IR, which begins with the number of what the IR takes for granted.
    Where the kernel `is_fast`, its loops may call libmvec.
    """
    try:
        body, uses_z = ir.host_ir(label, library, entry, checks)
    except (KernelCompilationError, KernelNotAvailableError) as e:
        refusals[label] = str(e)
        raise
    options = _WITH_VECTORS if is_fast else ""
    text = f"{_core.HOST_ABI_LINE}{_core.HOST_ABI}\n{options}{body}"
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{digest}\n{text}\0".encode(), uses_z


def compile_image(image: bytes) -> None:
    """Make machine code of an image that a program of another process brought, and run it here."""
    digest, text = image[:-1].decode().split("\n", 1)
    if hashlib.sha256(text.encode()).hexdigest() != digest:
        raise KernelNotAvailableError(
            "the program's code for the CPU is damaged; export it again [KB5107]"
        )
    register(image, machine_code(image))


def register(image: bytes, code: bytes) -> None:
    """Let this process run the machine code of an image, unless it does."""
    digest = image[:_DIGITS].decode()
    with _lock:
        if digest not in _registered:
            _registered[digest] = _core.add_host_code(digest.encode(), code)


def machine_code(image: bytes, name: str = "") -> bytes:
    """The machine code of an image for this processor, as src/object/kb_cuda_code.h describes it.

    It is kept on disk, with the kernel's name where that is known.
    """
    digest, text = image[:-1].decode().split("\n", 1)
    processor, features = ir.processor()
    made_of = (
        package_digest.digest(),
        digest,
        ir.machine().triple,
        processor,
        features,
        private_llvmlite.version,
        llvm.llvm_version_info,
        vector_math.provided() if _WITH_VECTORS in text else (),
    )
    key = hashlib.sha256(repr(made_of).encode()).digest()
    found = artefacts.load(CACHE_KIND, key)
    if found is None:
        found = Artefact(meta={}, blobs=(_compiled(digest, text, features),))
        artefacts.store(CACHE_KIND, key, found, name)
    return found.blobs[0]


def code(image: bytes) -> tuple[str, str, int, str]:
    """The optimised LLVM IR of an image, its assembly, static shared memory and processor.

    Machine code is made anew for that.
    """
    processor, features = ir.processor()
    machine, module, _ = _made(image[:-1].decode().split("\n", 1)[1], features)
    optimised = str(module)
    return optimised, machine.emit_assembly(module), _size(optimised, "shared"), processor


def _made(text: str, features: str) -> tuple[Any, Any, int]:
    """LLVM's target machine, the optimised module for it, and the features that it needs."""
    given, needed = cpu_features.known(features)
    machine = ir.machine(given)
    return machine, _optimised(text, machine, given), needed


def _compiled(digest: str, text: str, features: str) -> bytes:
    machine, module, needed = _made(text, features)
    whole = machine.emit_object(module)
    code = elf.stripped(whole, elf.defined(whole))
    _check_symbols(elf.undefined(code))
    optimised = str(module)
    by_threads = "define void @kb_fibre(" in optimised
    form = by_threads + ("@kb_grid_barrier(" in optimised)
    sizes = (_size(optimised, what) for what in ("shared", "stack"))
    body = struct.pack("<QIII", needed, form, *sizes) + code
    return sealed(_core.CUDA_CODE_MAGIC, _core.HOST_ABI, digest.encode(), body)


def _size(module: str, what: str) -> int:
    """The bytes of memory that a function of the module returns."""
    found = re.search(rf"@kb_{what}_size\(\)[^\n]*\{{\n[^}}]*?\bret i64 (\d+)", module)
    assert found is not None, f"kb_{what}_size is no constant"
    return int(found[1])


def _is_checked(text: str) -> bool:
    return re.search(r'^@"?kb_check_table"? = ', text, flags=re.M) is not None


def _check_symbols(names: Iterable[str]) -> None:
    """Refuse code that calls what is not here."""
    for name in names:
        if not _core.cuda_code_provides(name):
            raise KernelNotAvailableError(
                f"a CUDA kernel that was lowered for the CPU calls {name!r}, which this "
                "kernbridge does not have; lower it again with this version [KB5107]"
            )


def _optimised(text: str, machine: Any, features: str) -> Any:
    module = llvm.parse_assembly(text)
    module.triple = llvm.get_default_triple()
    module.data_layout = str(machine.target_data)
    module.verify()
    module = _with_fused_products(module, machine)
    if fma.FENCE in text:
        module = llvm.parse_assembly(fma.unfenced(str(module)))
    if _WITH_VECTORS in text:
        module = llvm.parse_assembly(vector_math.with_vectors(str(module), features))
    # Where each access is a call, little can be gained.
    options = llvm.create_pipeline_tuning_options(speed_level=1 if _is_checked(text) else 3)
    options.loop_vectorization = options.slp_vectorization = True
    options.loop_interleaving = True
    builder = llvm.create_pass_builder(machine, options)
    private_llvmlite.run_once(builder.getModulePassManager(), module, builder)
    return module


def _with_fused_products(module: Any, machine: Any) -> Any:
    """The module with a kernel's products and sums fused as on a GPU, if the processor can.

    That is seen before the kernel is in the loops over threads, in the form that NVVM gives it.
    """
    _, features = ir.processor()
    if not ("+fma" in features.split(",") or machine.triple.startswith("aarch64")):
        return module
    own = [f for f in module.functions if f.name == "kb_thread" or ir.is_recursive(f)]
    if not any(re.search(r" fmul |@llvm\.fpto", str(function)) for function in own):
        return module
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    for function in own:
        private_llvmlite.run_once(builder.getFunctionPassManager(), function, builder)
    fused = llvm.parse_assembly(fma.fused(str(module)))
    fused.verify()
    return fused


def provide(program: Any) -> None:
    """Let this process run all kernels of a program for the CPU."""
    for function in program.functions:
        if CC in dict(function.images):
            provide_function(function)


def provide_function(function: Any) -> bytes:
    """Let this process run a function for the CPU, and return the digest that names its code."""
    images, kernel = dict(function.images), function.kernel()
    register(images[CC], images[CODE_CC])
    digest = bytes(images[CC][:_DIGITS])
    if kernel is not None:
        name(digest, kernel.py_func)
    return digest


def name(digest: bytes, function: Any) -> None:
    """Count launches of this code as launches of a Python function."""
    _names.setdefault(digest.decode(), f"{function.__module__}.{function.__qualname__}")


def launches() -> dict[str, tuple[int, int]]:
    """How often each kernel was launched, and with a fault, by its name.

    `debug.switch_on("count")` must have been called before. Kernels of kernbridge do not count.
    """
    found: dict[str, tuple[int, int]] = {}
    for digest in list(_registered):
        known = _names.get(digest, "a kernel of an exported program")
        n, n_faults = _core.launches_of(digest.encode())
        if n and not known.startswith("kernbridge."):
            before = found.get(known, (0, 0))
            found[known] = before[0] + n, before[1] + n_faults
    return found
