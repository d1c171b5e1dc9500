"""Compiles CUDA device code with NVRTC.

Needs neither a GPU nor nvcc nor a host compiler.

NVRTC does not report which headers it read. Each name that a source or one of its headers may
include, whatever the conditions around it, is therefore searched for in every folder, and each file
that is found is part of the cache key. These are at least the files that the compiler reads. If
only the compiler knows a name (``#include MACRO``), or if a clock is read (``__TIME__``), nothing
is cached.

The text of a source does not determine the parameters of a kernel: conditions, macros, typedefs,
namespaces and templates do. NVRTC is therefore asked for the name of an additional variable, a
template whose arguments are numbers that describe the parameters of `decltype(&kernel)`. This works
for C functions and for templates, and no mangled types have to be parsed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import json
import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kernbridge import _core
from kernbridge._src.base import compiler_text, errors
from kernbridge._src.base.dtypes import DTYPES
from kernbridge._src.base.errors import CompilationError, KernelError, KernelToolchainError, coded
from kernbridge._src.forge.artefacts import Artefact
from kernbridge._src.forge.obtain import Recipe, held, obtain
from kernbridge._src.keys import package_digest
from kernbridge._src.plan import cubin as gpu_cubin
from kernbridge._src.plan.program import DeviceFunction
from kernbridge._src.scan.functions import ScannedFunction, ScannedParameter
from kernbridge._src.toolchain import cuda
from kernbridge._src.toolchain.library import digest_of_values, remembered
from kernbridge._src.toolchain.search import asks

VARIABLE = "KERNBRIDGE_LIBNVRTC"
# The files that decide what is stored.
_RULES = (
    *("../_ext/nvrtc/nvrtc.py", "toolchain/search.py", "base/dtypes.py"),
    *("../_ext/nvrtc/include/kernbridge_signature.h", "../_ext/nvrtc/include/stdint.h"),
)
_ARCHITECTURE = "--gpu-architecture=sm_"
_REFUSED = 6  # NVRTC_ERROR_COMPILATION
ATTEMPTS = 3  # compilations of one source, if its headers change meanwhile

_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
# Textures, surfaces and the functions of the C++ library: without them it takes half the time.
_NOT_MINIMAL = re.compile(r"#\s*include|texture|surface|surf[123]D|tex[123]D|std::")

_INCLUDED = Path(__file__).parent / "include"
_STDINT = (_INCLUDED / "stdint.h").read_text()
_DESCRIBING = "kernbridge_signature.h"  # the header that describes the parameters of kernels
_DESCRIPTION = (_INCLUDED / _DESCRIBING).read_text()
_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_BLANK = r"(?:[ \t\f\v]|/\*.*?\*/)*"
_DIRECTIVE = re.compile(
    rf"^(?:.*\*/)?{_BLANK}(?:#|%:|\?\?=){_BLANK}(?:include|include_next|import|embed)\b"
    rf'{_BLANK}(?:[<"]([^>"\n]+)[>"])?',
    re.MULTILINE,
)
_UNSEEN = re.compile(r"\b__(?:DATE|TIME|TIMESTAMP)__\b|\?\?/")

# Options with folders of headers, and with headers.
_FOLDERS = r"(?<![^\0])(?:-I|-isystem|--include-path|--system-include)[=\0]?([^\0]+)"
_INCLUDES = r"(?<![^\0])(?:-include|--pre-include)[=\0]?([^\0]+)"
_PRECOMPILED = re.compile(r"--?(?:pch|create-pch|use-pch)\b")

_HEADERS = (("stdint.h", _STDINT), ("cstdint", _STDINT), ("stddef.h", ""), ("cstddef", ""))

_DTYPES = ("", *DTYPES)  # the header has their places here
_POINTER, _CONST, _STRANGE = 64, 128, 256  # bits beside the place in _DTYPES; as in the header
_BITS = {("float16", "uint16"), ("bfloat16", "uint16")}


class Type(NamedTuple):
    dtype: str  # of the value, or of what a pointer points to; "" for what arrays do not hold
    pointer: bool
    constant: bool  # whether it is a pointer to something const
    strange: bool = False  # whether it is a reference, or a pointer to pointers

    def __str__(self) -> str:
        name = self.dtype or "a type that is not a number"
        if self.strange:
            return "a pointer to pointers" if self.pointer else "a reference"
        return f"a pointer to {'const ' if self.constant else ''}{name}" if self.pointer else name


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NvrtcFunction(DeviceFunction):
    ptx: str = ""
    types: tuple[Type, ...] | None = None  # of the parameters; None: NVRTC did not report them
    offsets: tuple[int, ...] = ()  # of members of structures, whose types follow the parameters'
    by_words: bool = False  # whether a launch passes each word as a parameter

    def code(self) -> tuple[str, str]:
        return "", self.ptx  # NVRTC returns no LLVM IR


@dataclass(frozen=True, slots=True)
class Compilation:
    label: str
    source: str
    file: str  # the name by which messages call the source
    name: str  # of the kernel, as C++ writes it
    options: tuple[str, ...]
    include_paths: tuple[str, ...]
    members: tuple[tuple[int, str], ...] = ()  # of structures: the parameter, and the name

    @staticmethod
    def types_of(codes: Iterable[int]) -> tuple[Type, ...]:
        """Return the parameters that numbers of kernbridge_signature.h describe."""
        return tuple(
            Type(_DTYPES[c & (_POINTER - 1)], bool(c & _POINTER), bool(c & _CONST), c >= _STRANGE)
            for c in codes
        )

    def of_members(self, kernel: str, offset: str) -> tuple[list[str], list[str]]:
        """Return C++ for the codes of the members of structures, and for their offsets."""
        ns = "kernbridge_signature::"
        parts = [(f"{ns}parameter<{k}, {kernel}>::type", name) for k, name in self.members]
        codes = [f"{ns}code<decltype({structure}::{name})>::value" for structure, name in parts]
        return codes, [offset.format(*part) for part in parts]

    def unit(self) -> str:
        """The source and a description of the kernel, by the header for CPUs."""
        file = f"#line 1 {json.dumps(self.file, ensure_ascii=False)}"
        described = f'#line 1 "{_DESCRIBING}"\n{_DESCRIPTION}'
        members = self.of_members("kb_kernel_type", "__builtin_offsetof({}, {})")
        codes, offsets = ("".join(f", {part}" for part in parts) for parts in members)
        last = f'#line 1 "kernbridge"\nusing kb_kernel_type = decltype(&{self.name});\n'
        last += f"#define KB_MEMBERS {codes}\n#define KB_OFFSETS {offsets}\n"
        last += '#include "kernbridge/cuda_on_cpu/kernel.hpp"'
        return "\n".join((described, file, self.source, last, f"KB_CUDA_KERNEL({self.name})\n"))


def compile_kernel(request: Compilation) -> NvrtcFunction:
    """Return the kernel for the architectures that are chosen, compiled at most once per content.

    KernelToolchainError is raised if there is no NVRTC, CompilationError if it refuses the source.
    """
    job = NvrtcJob(request)
    for _ in range(ATTEMPTS - 1):
        if job.lasting:
            try:
                return obtain(job)
            except _HeadersChanged:
                job = NvrtcJob(request)
    # What the compiler reads is not known, or changes each time that it reads.
    job.lasting, job.identity = False, os.urandom(32)
    function = obtain(job)
    held(job.kind).pop(job.identity, None)
    return function


class _HeadersChanged(Exception):
    """A header may have changed while NVRTC read it."""


class NvrtcJob(Recipe[NvrtcFunction]):
    kind = "nvrtc"
    files = _RULES
    tool = "NVRTC"

    def __init__(self, request: Compilation) -> None:
        self.request, self.label, self.name = request, request.label, request.name
        self.architectures, self.nvrtc = cuda.architectures(), library()
        about = os.stat(self.nvrtc)
        self._read = self._look()
        digest, self.lasting = self._read
        self._means = (
            *(package_digest.digest_of(*_RULES), digest),
            *(request.source, request.name, request.options, request.include_paths),
            request.members,
        )
        compiler = (self.nvrtc, about.st_size, about.st_mtime_ns)
        known = *self._means, request.file, self.architectures, compiler
        self.identity = bytes.fromhex(digest_of_values(known))

    def _look(self) -> tuple[str, bool]:
        request, toolkit = self.request, _toolkit_headers(self.nvrtc)
        return _headers(request.source, request.options, request.include_paths, toolkit)

    def make(self) -> Artefact:
        found = _compile(self.request, self.architectures, self.nvrtc)
        if self.lasting and self._look() != self._read:
            raise _HeadersChanged
        return found

    def use(self, made: Artefact) -> NvrtcFunction:
        means = ("nvrtc", *self._means) if self.lasting else (self._means, made.blobs)
        pairs = zip(self.architectures, made.blobs, strict=False)
        return NvrtcFunction(
            identity=bytes.fromhex(digest_of_values(means)),
            name=self.name,
            entry=made.meta["entry"],
            sizes=tuple(made.meta["sizes"]),
            images=tuple((10 * major + minor, cubin) for (major, minor), cubin in pairs),
            ptx=made.blobs[-1].decode(),
            types=tuple(Type(*t) for t in made.meta["types"]),
            offsets=tuple(made.meta["offsets"]),
        )


def _compile(
    request: Compilation, architectures: tuple[tuple[int, int], ...], nvrtc: str
) -> Artefact:
    folders = (f"-I{path}" for path in (*request.include_paths, *_toolkit_headers(nvrtc)))
    options = ("-std=c++17", *folders, *request.options)
    targets = [f"{_ARCHITECTURE}{major}{minor}" for major, minor in architectures]
    runs = [_run(request, (target, *options), nvrtc) for target in targets]
    cubins, texts, metas = zip(*runs, strict=True)
    if any(meta != metas[0] for meta in metas):
        lines = "\n".join(
            f"  {major}.{minor}: {meta['entry']}({', '.join(str(Type(*t)) for t in meta['types'])})"
            for (major, minor), meta in zip(architectures, metas, strict=True)
        )
        raise errors.KernelCompilationError(
            f"{request.label}: the parameters of {request.name!r} must be the same for each "
            f"compute capability, since every GPU gets the same arguments: [KB4006]\n{lines}"
        )
    return Artefact(metas[0], (*cubins, texts[-1]))


def _run(
    request: Compilation, options: tuple[str, ...], nvrtc: str
) -> tuple[bytes, bytes, dict[str, Any]]:
    """Return the cubin, the PTX, and what an artefact says about the entry."""
    minimal = () if _NOT_MINIMAL.search(request.source) else ("--minimal",)
    kernel = f"decltype(&{request.name})"
    parameters = f"kernbridge_signature::parameters<{kernel}>::type"
    codes, offsets = request.of_members(kernel, "__INTADDR__(&(({} *)0)->{})")
    probe = f"&kernbridge_signature::kept<{', '.join((parameters, *codes, *offsets))}>"
    for attempt in dict.fromkeys((minimal, ())):
        try:
            given = (f"--pre-include={_DESCRIBING}", *options, *attempt)
            cubin, ptx, entry, lowered = _nvrtc_call(request, nvrtc, given, probe)
            sizes = [size for _, size in gpu_cubin.read(cubin, entry).parameters]
            numbers = list(map(int, re.findall(r"Li(\d+)E", lowered.partition("codes_of")[2])))
            end = len(numbers) - len(request.members)
            types = list(map(list, request.types_of(numbers[:end])))
            meta = {"entry": entry, "sizes": sizes, "types": types, "offsets": numbers[end:]}
            return cubin, ptx.rstrip(b"\0"), meta
        except ValueError as e:
            refusal = _refusal(request, e, (*options, *attempt))
    # Compiled again without additions of kernbridge, so that the messages are about the source
    # alone. If that succeeds, the types of the parameters are not known.
    try:
        _nvrtc_call(request, nvrtc, options)
    except ValueError as e:
        raise _refusal(request, e, options) from None
    raise CompilationError(
        f"{request.label}: NVRTC compiles {request.name!r} but does not report the types of its "
        "parameters, which must be compared with the source [KB4006]",
        compiler_output=refusal.compiler_output,
        command=refusal.command,
    )


def _nvrtc_call(
    request: Compilation, nvrtc: str, options: tuple[str, ...], probe: str = ""
) -> tuple[bytes, bytes, str, str]:
    """Return the cubin, the PTX and the lowered names of the kernel and of the probe, if any.

    ValueError with (what, log) is raised if NVRTC refuses the source.
    """
    try:
        library = ctypes.CDLL(nvrtc)
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        inside = ctypes.cast(library.nvrtcGetCUBIN, ctypes.c_void_p).value
    except (OSError, AttributeError) as e:
        raise KernelToolchainError(f"{nvrtc} is not NVRTC 11.1 or later: {e} [KB4008]") from e
    _core.nvrtc_keep_signals(inside or 0)
    program, log, names = ctypes.c_void_p(), "", [_encoded(n) for n in (request.name, probe) if n]

    def call(function: str, *arguments: object) -> None:
        check(function, getattr(library, function)(*arguments))

    def check(function: str, code: int) -> None:
        if code == 0:
            return
        what = f"{function}: {library.nvrtcGetErrorString(code).decode()}"
        if code == _REFUSED:
            raise ValueError(what, log)
        if "INVALID_OPTION" in what:
            raise _refused_option(request, library, options)
        raise errors.KernelCompilationError(coded(f"{request.label}: {what}", "KB4006"))

    def take(function: str) -> bytes:
        size = ctypes.c_size_t()
        call(f"{function}Size", program, ctypes.byref(size))
        data = ctypes.create_string_buffer(size.value)
        if size:
            call(function, program, data)
        return data.raw

    def lowered(name: bytes) -> str:
        found = ctypes.c_char_p()
        call("nvrtcGetLoweredName", program, name, ctypes.byref(found))
        return (found.value or b"").decode()

    headers = (*_HEADERS, (_DESCRIBING, _DESCRIPTION)) if probe else _HEADERS
    source = _encoded(request.source), _encoded(request.file), len(headers)
    texts = _array(text for _, text in headers), _array(name for name, _ in headers)
    call("nvrtcCreateProgram", ctypes.byref(program), *source, *texts)
    try:
        for name in names:
            call("nvrtcAddNameExpression", program, name)
        code = library.nvrtcCompileProgram(program, len(options), _array(options))
        log = take("nvrtcGetProgramLog").rstrip(b"\0").decode(errors="backslashreplace")
        check("nvrtcCompileProgram", code)
        entry, *probes = map(lowered, names)
        return take("nvrtcGetCUBIN"), take("nvrtcGetPTX"), entry, "".join(probes)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _encoded(text: str) -> bytes:
    try:
        data = text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        data = b"\0"
    if b"\0" in data:
        raise ValueError("a text contains the character NUL or half a surrogate pair", "")
    return data


def _array(texts: Iterable[str]) -> ctypes.Array[ctypes.c_char_p]:
    encoded = [_encoded(text) for text in texts]
    return (ctypes.c_char_p * len(encoded))(*encoded)


def _refused_option(
    request: Compilation, library: ctypes.CDLL, options: tuple[str, ...]
) -> KernelError:
    """NVRTC does not name the option that it refuses, and writes no log."""
    wanted = [int(option[len(_ARCHITECTURE) :]) for option in options if _ARCHITECTURE in option]
    known: list[int] = []
    with contextlib.suppress(AttributeError):  # an old NVRTC, which does not list them
        count = ctypes.c_int()
        library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
        found = (ctypes.c_int * count.value)()
        library.nvrtcGetSupportedArchs(found)
        known = list(found)
    if known and wanted[0] not in known:
        first, *others = (f"{n // 10}.{n % 10}" for n in (wanted[0], *known))
        return errors.UnsupportedArchError(
            f"{request.label}: this NVRTC does not compile for compute capability {first}; it "
            f"knows {', '.join(others)}. Choose "
            "others with kernbridge.config.set_cuda_architectures or KERNBRIDGE_CUDA_ARCHS, or "
            "install another nvidia-cuda-nvrtc [KB4009]"
        )
    return errors.KernelCompilationError(
        f"{request.label}: NVRTC rejects one of these options, and does not report which: "
        f"{' '.join(request.options)} [KB4006]"
    )


def _refusal(request: Compilation, error: ValueError, options: tuple[str, ...]) -> CompilationError:
    what, log = (*error.args, "")[:2]
    return CompilationError(
        f"{request.label}: NVRTC does not compile {request.name!r} ({what})"
        f"{compiler_text.hint(str(log))} [KB4006]",
        compiler_output=str(log),
        command=" ".join(("nvrtc", *options)),
    )


def library() -> str:
    chosen, home = os.environ.get(VARIABLE), os.environ.get("CUDA_HOME")
    if chosen:
        if not Path(chosen).is_file():
            raise KernelToolchainError(
                f"{VARIABLE} is {chosen!r}, and there is no such file [KB4008]"
            )
        return chosen
    folders = [Path(home) / "lib64", Path(home) / "lib"] if home else []
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or []) if spec else []:
        wheels = sorted(Path(place).glob("cu[0-9]*"), reverse=True)
        folders += [folder / "lib" for folder in (*wheels, Path(place) / "cuda_nvrtc")]
    folders += [Path("/usr/local/cuda/lib64"), Path("/usr/lib/x86_64-linux-gnu")]
    folders += map(Path, filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)))
    for file in (folder / name for folder in folders for name in _NAMES):
        if file.is_file():
            return str(file.resolve())
    raise KernelToolchainError(
        f"NVRTC, NVIDIA's run-time compiler, was not found. Looked for {' and '.join(_NAMES[:2])} "
        f"in {', '.join(map(str, folders))}. pip install nvidia-cuda-nvrtc, or set CUDA_HOME to a "
        f"toolkit, or {VARIABLE} to the library [KB4008]"
    )


def _toolkit_headers(nvrtc: str) -> tuple[str, ...]:
    """Return the folder of cuda_fp16.h and the like, next to the library or in the toolkit."""
    above = Path(nvrtc).parent.parents[:4]
    folders = (*above[:2], above[1] / "cuda_runtime", *above[2:])
    found = [str(p / "include") for p in folders if (p / "include" / "cuda_fp16.h").is_file()]
    return tuple(found[:1])


_Names = tuple[tuple[str, ...], bool]  # that a text may include, and whether these are all


def _headers(
    source: str, options: Sequence[str], include_paths: Sequence[str], toolkit: Sequence[str]
) -> tuple[str, bool]:
    """The digest of all that a compilation may read now, and whether that is all.

    If it is not, nothing may be kept.
    """
    words = [option.strip() for option in options]
    given = [folder.strip() for folder in re.findall(_FOLDERS, "\0".join(words))]
    # A name in quotes is looked for in the working folder too, and beside its includer.
    folders = list(dict.fromkeys(map(os.path.abspath, (".", *include_paths, *given))))
    roots = tuple(map(os.path.abspath, toolkit))
    included, known = _names_in(source)
    known = known and not any(_UNSEEN.search(w) or _PRECOMPILED.match(w) for w in words)
    names = dict.fromkeys(name.strip() for name in re.findall(_INCLUDES, "\0".join(words)))
    names |= dict.fromkeys(included)
    tried: set[str] = set()
    read: dict[str, str] = {}  # the digests of files, by path
    paths = [os.path.join(f, name) for f in (*folders, *roots) for name in names]
    while paths:
        path = os.path.normpath(paths.pop())
        content = None if path in tried else _header(path)
        tried.add(path)
        if content is None:
            continue
        read[path], (included, is_all) = content
        new = [name for name in included if name not in names]
        names |= dict.fromkeys(new)
        paths += [os.path.join(f, name) for f in (*folders, *roots) for name in new]
        folder = os.path.dirname(path)
        if any(path.startswith(root + os.sep) for root in roots):
            paths += [os.path.join(folder, name) for name in included]
            continue
        known = known and is_all
        if folder not in folders:
            folders.append(folder)
            paths += [os.path.join(folder, name) for name in names]
    return digest_of_values(sorted(read.items())), known


@functools.lru_cache(maxsize=1024)
def _names_in(text: str) -> _Names:
    known = _UNSEEN.search(text) is None
    text = _SPLICE.sub("", text)
    names = dict.fromkeys((*(found[1] for found in _DIRECTIVE.finditer(text)), *asks(text)))
    known = known and None not in names  # where a macro makes a name
    return tuple(filter(None, names)), known


def _header(path: str) -> tuple[str, _Names] | None:
    """Return digest and names of a file, read again unless it is certain that nothing changed."""
    with contextlib.suppress(OSError, ValueError):  # the compiler cannot read it either
        about = os.stat(path)
        if stat.S_ISREG(about.st_mode):
            digest = remembered(path, about)
            return digest, _names_in_file(path, digest)
    return None


@functools.lru_cache(maxsize=8192)
def _names_in_file(path: str, digest: str) -> _Names:
    return _names_in.__wrapped__(Path(path).read_text(errors="surrogateescape"))


def check_types(
    label: str, function: ScannedFunction, types: Sequence[Type] | None
) -> ScannedFunction:
    """Return the function with the types that the compiler reported for its parameters.

    `types` is None for a kernel of a binary, whose types are unknown. KernelError is raised if the
    compiled kernel takes other parameters than those that were read in its source.
    """
    if types is None:
        return function
    parameters = function.parameters
    if len(parameters) != len(types):
        raise KernelError(
            f"{label}: the compiled kernel takes {len(types)} parameters, but {len(parameters)} "
            "are described; write out parameters that come from a macro, or list all of them "
            f"with params=. The compiler reports: ({', '.join(map(str, types))}) [KB4007]"
        )
    refusals = [
        f"  parameter {i} {p.name!r} is {_described(p)}, and the compiled kernel's is {t}{why}"
        for i, (p, t) in enumerate(zip(parameters, types, strict=True), 1)
        if (why := _difference(p, t)) is not None
    ]
    if refusals:
        lines = "\n".join(refusals[:8])
        raise KernelError(
            f"{label}: the compiled kernel takes other parameters than those that were read: "
            f"[KB4007]\n{lines}\nThere may be several definitions of {function.name} in the source "
            "(behind #if, in namespaces, made by macros), or a macro or typedef hides a pointer: "
            "give each kernel a name of its own, and write its parameters out"
        )
    pairs = zip(parameters, types, strict=True)
    typed = tuple(p if p.type else p._replace(type=t.dtype) for p, t in pairs)
    return function._replace(parameters=typed)


def _difference(p: ScannedParameter, t: Type) -> str | None:
    """Return what is wrong, "" if the types show it already, None if nothing is wrong."""
    if t.strange:
        return ": a kernel's parameter is a pointer or a value"
    if p.role in ("attr", "structure"):
        if t.pointer:
            return f": {'an attribute' if p.role == 'attr' else 'a structure'} is a value"
    elif not t.pointer:
        return f": {p.role!r} takes a pointer"
    elif p.role == "ret" and t.constant:
        return ": a result must not be const"
    if not p.type or p.type == t.dtype:
        return None
    # A struct of the user's may stand for a number that an annotation names.
    return None if not t.dtype or (p.type, t.dtype) in _BITS else ""


def _described(p: ScannedParameter) -> str:
    known = f" ({p.type})" if p.type else ""
    return f"`{p.ctype}` in the source{known}" if p.ctype else f"{p.role!r}{known} in params"
