"""Compiles CUDA C++ that a kernel links for the CPU, with clang.

Its device functions become LLVM IR, as the kernel does, and are inlined into it. If clang is
not found, the kernel is refused. Only sources are compiled: linked PTX and machine code run only on
GPUs.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernbridge._ext.emulator.compiler.to_host import refused
from kernbridge._src.base.errors import CompilationError, HostCompilerNotFoundError
from kernbridge._src.llvm.text import Module, split
from kernbridge._src.numba_common.private_llvmlite import binding as llvm
from kernbridge._src.toolchain import compilers, library, programs

_INCLUDE = Path(__file__).parent / "include"
_HEADER = "kernbridge_cuda_on_cpu.h"
_FLAGS = (
    *("-x", "c++", "-std=c++17", "-c", "-emit-llvm", "-O1", "-Xclang", "-disable-llvm-passes"),
    *("-fno-exceptions", "-fno-rtti", "-fno-strict-aliasing", "-fno-math-errno"),
    *("-ffp-contract=off", "-fno-stack-protector", "-fdeclspec", "-w"),
    *("-include", _HEADER, f"-I{_INCLUDE}"),
)

_DROPPED = re.compile(r"^(?:source_filename|target |!llvm\.|\$|attributes #).*\n", re.M)
_COMDAT = re.compile(r" comdat(?:\(\$[^)]*\))?(?=[ ,{\n])")
_DEFINED = re.compile(r"^(define .*?)(?: #\d+)?[^#{}]*\{$", re.M)
_CALLED = re.compile(r"^((?:declare | .*\bcall ).*?) #\d+$", re.M)


def sources(compiled: Any) -> list[Any]:
    from kernbridge._src.numba_common.private_numba_cuda import LinkableCode

    found = map(LinkableCode.from_path_or_obj, compiled._linking_files)
    return sorted((s for s in found if s.kind == "cu"), key=lambda s: (s.name, _text(s)))


def compiled(label: str, source: Any, names: str) -> str:
    """The LLVM IR of a source; messages name the functions that the kernel calls."""
    from kernbridge._src.numba_common.private_numba_cuda import get_cuda_paths, nvrtc

    try:
        clang = compilers.find_clang().command
    except HostCompilerNotFoundError as e:
        raise refused(
            label, f"functions in CUDA C++ ({names}), for which clang was not found"
        ) from e
    # Numba-CUDA finds headers in the user's folders and in CUDA's own.
    folders = [f"-I{library.include_paths(library.CUDA_ON_CPU)[1]}"]
    folders += [f"-I{p}" for p in nvrtc.config.CUDA_NVRTC_EXTRA_SEARCH_PATHS.split(":") if p]
    if own := get_cuda_paths()["include_dir"].info:
        folders.append(f"-idirafter{own}")
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.basename(str(source.name)).removesuffix(".cu") or "linked"
        path, made = Path(folder) / f"{name}.cu", Path(folder) / "made.bc"
        path.write_text(_text(source))
        command = [*clang, *_FLAGS, *folders, path.name, "-o", made.name]
        done = programs.run(command, errors=True, folder=folder)
        if done.status != 0:
            why = f"clang {done.limit}" if done.limit else done.text
            raise _failure(label, names, why, command)
        try:
            text = str(llvm.parse_bitcode(made.read_bytes()))
        except RuntimeError as e:  # written by a newer LLVM
            raise _failure(label, names, f"llvmlite cannot read what {clang[-1]} wrote: {e}") from e
    if "@llvm.global_ctors" in text:
        raise refused(label, f"functions in CUDA C++ ({names}) with globals that have constructors")
    # The target and the attributes with which clang compiled the module do not fit a kernel.
    text = _CALLED.sub(r"\1", _COMDAT.sub("", _DROPPED.sub("", text)))
    return _DEFINED.sub(r"\1 alwaysinline {", text)


def _text(source: Any) -> str:
    data = source.data
    return data.decode() if isinstance(data, bytes) else str(data)


def _failure(label: str, names: str, why: str, command: Sequence[str] = ()) -> CompilationError:
    return CompilationError(
        f"{label}: the kernel uses functions in CUDA C++ ({names}), which kernbridge does not run "
        "on CPUs, since clang does not compile them; run it on a GPU [KB4005]",
        compiler_output=why,
        command=shlex.join(command),
    )


def fitted(label: str, kernel: Any, text: str, names: set[str]) -> str:
    """The module, with functions of these names as Numba-CUDA declares them.

    Numba-CUDA declares that a function without a result returns a pointer. Functions whose
    parameters C++ and Numba-CUDA pass in different ways are refused.
    """
    module = Module(text)
    for name, function in ((n, f) for n, f in module.defined.items() if n in names):
        wanted = str(kernel.get_function(name).global_value_type)
        types = ", ".join(split(parameter, " ")[0] for parameter in function.parameters)
        found = f"{function.result} ({types})"
        if wanted.startswith("ptr ") and found == f"void{wanted[3:]}":
            function.head = function.head.replace("void @", "ptr @", 1)
            for instruction in function.instructions:
                if instruction.opcode == "ret":
                    instruction.text = "  ret ptr null"
        elif found != wanted:
            raise refused(
                label,
                f"a function in CUDA C++ ({name}) that is {found} in C++ and {wanted} as "
                "Numba-CUDA declares it",
            )
    return str(module)
