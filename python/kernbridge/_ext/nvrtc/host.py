"""Compiles one CUDA kernel for the CPU, with the host's C++ compiler, as modules are.

The library describes the kernel's parameters itself, and the core finds it by the digest of an
image, as it finds the code of Numba-CUDA's kernels. Exported programs contain the library.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from pathlib import Path

from kernbridge import _core
from kernbridge._ext.emulator.cuda_source import CPP_ON_CPU
from kernbridge._ext.nvrtc import nvrtc, signature
from kernbridge._src.base.packing import sealed
from kernbridge._src.toolchain import build, library

_ENTRY = """#line 1 "kernbridge"
#include "kernbridge/cuda_on_cpu/kernel.hpp"
KB_CUDA_KERNEL({name})"""


def compile_kernel(given: tuple[nvrtc.Compilation, bool, bool]) -> nvrtc.NvrtcFunction:
    """Return the kernel for the CPU, compiled at most once for each content.

    CompilationError is raised if the compiler refuses the source, KernelCompilationError if only
    GPUs have what it uses.
    """
    request, cooperative, checked = given
    built = build.build(
        library.Request(
            name=request.name.split("<")[0].replace("::", "."),
            language=library.CUDA_ON_CPU,
            source=request.unit("", _ENTRY.format(name=request.name)),
            spec="",
            cflags=request.options,
            include_paths=request.include_paths,
            checked=checked,
        )
    )
    return _function(request.name, built.digest, cooperative, built.path)


@functools.cache  # never released, since programs call them
def _function(name: str, built: str, cooperative: bool, path: Path) -> nvrtc.NvrtcFunction:
    text = f"{_core.HOST_ABI_LINE}{_core.HOST_ABI}\n{CPP_ON_CPU}{built} {cooperative}\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    body = struct.pack("<I", cooperative) + path.read_bytes()
    code = sealed(_core.CUDA_LIBRARY_MAGIC, _core.HOST_ABI, digest.encode(), body)
    codes, sizes = _core.add_host_library(digest.encode(), code)
    image = f"{digest}\n{text}\0".encode()
    return nvrtc.NvrtcFunction(
        identity=bytes.fromhex(digest),
        name=name,
        entry=name,
        sizes=sizes,
        images=((_core.HOST_CC, image), (_core.HOST_CODE_CC, code)),
        types=signature.types_of(codes),
    )
