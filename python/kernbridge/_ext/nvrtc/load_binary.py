"""`load_binary`: kernels that were built elsewhere."""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernbridge._ext.nvrtc.kernel import CudaKernel, cuda_kernel, operation_of, scan
from kernbridge._ext.nvrtc.nvrtc import NvrtcFunction
from kernbridge._src.base.dtypes import BITS, DTYPES, HALVES
from kernbridge._src.base.errors import KernelError, KernelLoadError, coded
from kernbridge._src.base.options import unknown
from kernbridge._src.base.reports import hides_frames
from kernbridge._src.forge import artefacts
from kernbridge._src.operation.spec import FROM_SIGNATURE
from kernbridge._src.plan import cubin
from kernbridge._src.scan import scanner
from kernbridge._src.scan.annotation import Source
from kernbridge._src.scan.functions import ScannedFunction
from kernbridge._src.signatures.array_types import ANY
from kernbridge._src.source import compiled_types, load
from kernbridge._src.source.frontend import Described
from kernbridge._src.source.module import CompiledModule, open_library, register_all

_FATBIN = (0xBA55ED50).to_bytes(4, "little")
_CUDA_MACHINE = b"\xbe"  # of ELF

_MACHINES = {3: "i386", 21: "ppc64le", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_HEADER = struct.Struct("<16sHHIQQQIHHH")
_SEGMENT = struct.Struct("<IIQQQQ")
_LOADED, _DYNAMIC = 1, 2  # types of segments
_SONAME, _IGNORED = (14).to_bytes(8, "little"), (21).to_bytes(8, "little")  # kinds of entries
_AGAIN = "build the file again with nvcc"
_OF_64_BITS, _LITTLE_ENDIAN = 2, 1

_C_TYPES = {dtype.c: dtype.name for dtype in DTYPES.values() if dtype.name not in HALVES}
_C_TYPES |= {"int": "int32", "unsigned": "uint32", "unsigned int": "uint32", "long": "int64"}
_C_TYPES |= {"long long": "int64", "size_t": "uint64", "unsigned char": "uint8", "char": "int8"}
_C_TYPES |= {"__half": "float16"}

_OF_SOURCE = {"params", "options", "include_paths", "use_fast_math", "check"}  # of `cuda_kernel`

_opened: dict[str, str] = {}  # path -> digest of what was opened there


@hides_frames
def load_binary(
    path: str | Path,
    functions: load.Functions = None,
    *,
    name: str | None = None,
    platform: str | None = None,
    replace: bool = False,
    auto_register: bool = True,
    target_prefix: str | None = None,
    allow_cuda_graph: bool = True,
    header: str | Path | None = None,
    **options: Any,
) -> CompiledModule | CudaBinary:
    """Load a ``.so``, ``.cubin`` or ``.fatbin`` that was built elsewhere.

    A library that kernbridge built (`CompiledModule.path`) describes its own functions. Functions
    of other libraries are listed in `functions`. With `header`, these are C functions of pointers
    and numbers, for which the C compiler builds a small library that calls them. Without it, they
    are functions ``int name(const kb_call *call)`` (see ``kernbridge/kernbridge.h``).

    Parameters
    ----------
    path : str or Path
        The file.
    functions : dict, optional
        For other libraries: the name of each function and its tokens, as in
        ``{"scale": "arg:f32[n] ret:f32[n] attr.factor:float32"}``, or its signature, as in
        ``{"scale": "x: f64[n], n -> out: f64[n]"}``, if there is a `header`. For a library that
        kernbridge built, these must be the tokens that it was built with.
    name : str, optional
        The module's name; by default the file's, without its suffix.
    platform : str, optional
        "cpu" or "cuda". By default, it is the platform for which kernbridge built the library, or
        "cpu" for other libraries.
    replace, auto_register, target_prefix, allow_cuda_graph
        See `load_cuda_inline`. Only libraries that kernbridge built have targets.
    header : str or Path, optional
        The path of a header that declares the functions or the CUDA kernels, or the declarations
        themselves, such as ``"int scale(const double *x, long n, double *out);"``.
    **options
        With `header`, the options of `load_c_inline`, such as `errors` and `carry`.

    Returns
    -------
    CompiledModule or CudaBinary
        For a library, a module with its functions. For device code, a `CudaBinary`, whose method
        `kernel` makes operations.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    KernelLoadError
        If the file is neither a library nor device code, or cannot be opened.
    KernelError
        If the file exports no function with one of the names, or was built with other tokens.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, kernbridge
    >>> built = kernbridge.load_c_inline("negate", r'''
    ... #include "kernbridge/kernbridge.h"
    ... // @BE negate arg:f32[n] ret:f32[n]
    ... void negate(const kb_tensor *x, kb_tensor *out) {
    ...     for (int64_t i = 0; i < x->size; i++)
    ...         ((float *)out->data)[i] = -((const float *)x->data)[i];
    ... }
    ... ''')
    >>> module = kernbridge.load_binary(built.path, name="again")
    >>> module.negate(jnp.ones(2), outs=jax.ShapeDtypeStruct((2,), jnp.float32))
    Array([-1., -1.], dtype=float32)
    """
    both = (load_binary, load.load_cpp_inline)
    known = {name for f in both for name in inspect.unwrap(f).__kwdefaults__} - {"check"}
    for option in options:
        if option not in known:
            raise TypeError(unknown("load_binary", option, known, "KB5105"))
        if header is None:
            raise TypeError(
                f"load_binary: {option} is an option of libraries with a header; pass header=, or "
                "leave it out [KB5105]"
            )
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(
            f"load_binary: there is no file {file.absolute()}; correct the path [KB5103]"
        )
    data = file.read_bytes()
    module_name = name or file.name.split(".")[0]
    if data[:4] == _FATBIN or (data[:4] == b"\x7fELF" and data[18:19] == _CUDA_MACHINE):
        declared = None if header is None else _read_header(module_name, header)
        return CudaBinary(module_name, str(file), data, declared)
    if data[:4] != b"\x7fELF":
        raise KernelLoadError(
            f"load_binary: {file} is neither a shared library nor a cubin nor a fatbin; "
            "pass the path of a .so, .cubin or .fatbin [KB5102]"
        )
    if why := _why_not(data):
        raise KernelLoadError(
            f"load_binary: {file} cannot be loaded: {why}; build it again for this machine [KB5102]"
        )
    if platform not in (None, "cpu", "cuda"):
        raise ValueError(
            f"load_binary: platform is {platform!r}, expected 'cpu' or 'cuda' [KB5106]"
        )
    if header is not None:
        options |= {"replace": replace, "auto_register": auto_register}
        options["target_prefix"] = target_prefix
        return _with_header(module_name, file, functions, header, options, data)
    place = _place_of(file, data)
    _, last_error, exports = open_library(place)
    of_cuda = last_error != 0 and b"kb_cuda_host_slot" not in data  # which CUDA C++ on CPUs has
    on_gpu = of_cuda if platform is None else platform == "cuda"
    found = _functions_of(module_name, file, exports, functions)
    about = "load_binary", module_name, place, hashlib.sha256(data).hexdigest(), found
    module = CompiledModule(*about, language="cuda" if on_gpu else "", graph=allow_cuda_graph)
    if auto_register and exports:
        register_all(module, target_prefix or module_name, replace)
    return module


def _with_header(
    name: str,
    file: Path,
    functions: load.Functions,
    header: str | Path,
    options: dict[str, Any],
    data: bytes,
) -> CompiledModule:
    """Build a library that calls functions of a library with the types that a header declares."""
    label = f"load_binary {name!r}"
    for function, signature in load.named_functions(label, functions) or (("", None),):
        if "->" not in (signature or ""):
            raise KernelError(
                f"{label}: with header, functions has a signature for each function, and "
                f"{function!r} has {signature!r}; write functions={{'f': 'x: f64[n], n -> "
                "f64[n]'} [KB5106]"
            )
    text = _read_header(name, header, '#include "{}"\n')
    place = _place_of(file, data)
    if place != file.resolve() and options.get("carry"):
        raise KernelLoadError(
            f"{label}: {file} was rebuilt after this process had opened it, so that its new code "
            "is opened under another name, which no exported program can carry; start Python "
            "again, or leave carry out [KB5102]"
        )
    link = [str(place), f"-Wl,-rpath,{place.parent}", *(options.get("extra_ldflags") or ())]
    return load.build_c("load_binary", name, text, functions, {**options, "extra_ldflags": link})


def _read_header(name: str, header: str | Path, include: str = "") -> str:
    """The declarations in a header, or, if it is a file and `include` is given, that line."""
    text = str(header)
    if not isinstance(header, Path) and any(mark in text for mark in "(#\n"):
        return text
    path = Path(header)
    if not path.is_file():
        raise FileNotFoundError(
            f"load_binary {name!r}: there is no header {path.absolute()}; correct the path [KB5103]"
        )
    return include.format(path.resolve()) if include else path.read_text()


def _why_not(data: bytes) -> str | None:
    """Return why the loader must not open an ELF file of these contents; None if it may.

    For a library of another processor, the loader reports "No such file or directory", and a
    truncated one ends the process with a bus error.
    """
    if len(data) < _HEADER.size:
        return f"it is truncated: it has {len(data)} bytes, fewer than its header"
    ident, _, machine, _, _, segments, *_, size, count = _HEADER.unpack_from(data)
    here = os.uname().machine
    if ident[4] != _OF_64_BITS or ident[5] != _LITTLE_ENDIAN:
        return f"it is not a 64-bit little-endian library, and this process runs on {here}"
    if here in _MACHINES.values() and _MACHINES.get(machine) != here:
        of = _MACHINES.get(machine, f"processors of number {machine}")
        return f"it was built for {of}, but this process runs on {here}"
    ends = [segments + size * count]
    for i in range(count if ends[0] <= len(data) else 0):
        kind, _, offset, _, _, in_file = _SEGMENT.unpack_from(data, segments + i * size)
        if kind == _LOADED:
            ends.append(offset + in_file)
    if max(ends) > len(data):
        return f"it is truncated: it has {len(data)} bytes of {max(ends)}"
    return None


def _place_of(file: Path, data: bytes) -> Path:
    """Return the file, or a copy if another content, which would be opened again, had its name."""
    path, digest = str(file.resolve()), hashlib.sha256(data).hexdigest()
    if _opened.setdefault(path, digest) == digest:
        return Path(path)
    copy = artefacts.private(os.getpid()) / f"{file.stem}-{digest[:16]}.so"
    artefacts.publish(copy, _without_name(data))
    open_library(copy)  # stays open when its name is gone
    return copy


def _without_name(data: bytes) -> bytes:
    """An ELF file that libraries which are linked with it need by its path."""
    _, _, _, _, _, segments, *_, size, count = _HEADER.unpack_from(data)
    made = bytearray(data)
    for i in range(count):
        kind, _, offset, _, _, in_file = _SEGMENT.unpack_from(data, segments + i * size)
        for at in range(offset, offset + in_file, 16) if kind == _DYNAMIC else ():
            if made[at : at + 8] == _SONAME:
                made[at : at + 8] = _IGNORED
    return bytes(made)


def _functions_of(
    name: str, file: Path, exports: Mapping[str, Described], functions: load.Functions
) -> list[ScannedFunction]:
    label = f"load_binary {name!r}"
    given = load.named_functions(label, list(exports) if functions is None else functions) or ()
    named = tuple((n, _as_built(label, n, tokens, exports.get(n))) for n, tokens in given)
    if not named or any(tokens is None for _, tokens in named):
        raise KernelError(
            f"{label}: {file} does not describe its functions, since kernbridge did not build "
            "it; describe them with functions={'f': 'arg:f32[n] ret:f32[n]'} [KB5106]"
        )
    for n, tokens in named:
        if n not in exports and "->" in (tokens or ""):
            raise KernelError(
                f"{label}: {n!r} has a signature, and {file} has no types of C to compare it with; "
                "pass header=, the path of a header or the declaration of the function [KB5106]"
            )
    # Functions of the whole call see bytes; kernbridge knows what it built, and the glue of those.
    known = {n for n, e in exports.items() if e.tokens != ANY and "->" not in e.tokens}
    text = "".join(f"int {n}(const kb_call *call);\n" for n, _ in named if n not in known)
    try:
        found = scanner.scan_functions(Source([(str(file), text)]), named)
    except ValueError as e:
        raise KernelError(coded(f"{label}: {e}", "KB5106")) from None
    return [f._replace(whole_call=True, place="") for f in found]


def _as_built(label: str, name: str, tokens: str | None, built: Described | None) -> str | None:
    """The tokens of a function, with the types that kernbridge found when it built the library."""
    if built is None:
        return tokens
    if built.tokens == ANY:
        return tokens or ANY
    if "->" in built.tokens:
        return built.tokens
    known = compiled_types.fill(built.tokens, built.types)
    given = known if tokens is None else compiled_types.fill(tokens, built.types)
    if given != known:
        raise KernelError(
            f"{label}: functions describes {name!r} as '{tokens}', but the library was built with "
            f"'{known}'; correct this, or leave functions out [KB5106]"
        )
    return known


class CudaBinary:
    """Device code from a prebuilt cubin or fatbin.

    Attributes
    ----------
    name : str
        The module's name.
    path : str
        The file's path.
    """

    __module__ = "kernbridge"

    def __init__(self, name: str, path: str, data: bytes, declared: str | None = None) -> None:
        self.name, self.path = name, path
        self._data, self._declared = data, declared
        self._is_fatbin = data[:4] == _FATBIN

    @property
    def kernel_names(self) -> list[str]:
        """The names of a cubin's kernels as the compiler spelled them; none for a fatbin."""
        if self._is_fatbin:
            return []
        try:
            return list(cubin.entries(self._data))
        except ValueError as e:
            raise KernelLoadError(f"load_binary: {self.path}: {e}; {_AGAIN} [KB5102]") from e

    def __repr__(self) -> str:
        return f"CudaBinary({self.path!r}, {self.kernel_names})"

    def kernel(
        self,
        entry: str,
        outs: Any = FROM_SIGNATURE,
        params: str | Sequence[str] | None = None,
        **options: Any,
    ) -> CudaKernel:
        """Make an operation from one of the kernels.

        Parameters
        ----------
        entry : str
            The kernel's name as the compiler spelled it: declare it ``extern "C"``.
        outs : pytree of jax.ShapeDtypeStruct, or a function
            See `numba_kernel`.
        params : str or list of str, optional
            The role of each parameter, as for `cuda_kernel`, with the type of each number, as in
            ``"arg:f32[n] ret:f32[n] attr.n:int32"``. The dtype and the shape of each array have to
            be declared, since machine code does not have them; see docs/source-kernels.md. It is
            left out if `load_binary` got a `header` with the declaration of the kernel.
        **options
            The signature, the launch, rules and all other options of `cuda_kernel` that do not
            concern the compilation.

        Returns
        -------
        CudaKernel

        Raises
        ------
        KernelError
            If a cubin has no such kernel, or `params` does not match it.
        """
        label = f"load_binary '{self.name}.{entry}'"
        known = inspect.unwrap(cuda_kernel).__kwdefaults__
        given = {name: known[name] for name in known.keys() - _OF_SOURCE} | {"outs": outs}
        for option in options.keys() - given.keys():
            raise TypeError(unknown(label, option, given, "KB5105"))
        if not self._is_fatbin and entry not in self.kernel_names:
            raise KernelError(
                f"{label}: {self.path} has no kernel {entry!r}; it has "
                f"{', '.join(self.kernel_names) or 'none'} [KB5106]"
            )
        if params is None and self._declared is None:
            raise KernelError(
                f"{label}: {self.path} does not describe the parameters of its kernels; pass "
                "load_binary(header=...) the declaration of the kernel, or params= [KB5106]"
            )
        text, is_bare = self._declared or "", self._declared is None
        function = scan(label, self.path, text, entry, params, machine_code=is_bare)
        typed = []  # with dtypes for the types of C that the declaration spells out
        for p in function.parameters:
            words = re.sub(r"\bconst\b|\b__restrict__\b|\*", "", p.ctype).split()
            typed.append(p._replace(type=p.type or _C_TYPES.get(" ".join(words), "")))
        function = function._replace(parameters=tuple(typed))
        return operation_of(label, self.path, function, self._code, given | options)

    def _code(self, label: str, function: ScannedFunction) -> NvrtcFunction:
        sizes = []
        for p in function.parameters:
            if p.role == "attr" and not p.type:
                raise KernelError(
                    f"{label}: {p.name!r} has no type, which cannot be read from a binary; write, "
                    f"for example, attr.{p.name}:int32 in params, or {p.name}: i32 in the "
                    "signature [KB5106]"
                )
            sizes.append(BITS[p.type] // 8 if p.role == "attr" else 8)
        capability = 0  # the driver chooses among the images of a fatbin
        if not self._is_fatbin:
            try:
                info = cubin.read(self._data, function.name)
            except ValueError as e:
                raise KernelLoadError(f"{label}: {e}; {_AGAIN} [KB5102]") from e
            capability = info.architecture
            there = [size for _, size in info.parameters]
            if there != sizes:
                raise KernelError(
                    f"{label}: {function.tokens} describes parameters of {sizes} bytes, but the "
                    f"kernel has {there}; correct params or the header [KB5106]"
                )
        identity = hashlib.sha256(b"kernbridge.binary" + function.name.encode() + self._data)
        return NvrtcFunction(
            identity=identity.digest(),
            name=function.name,
            entry=function.name,
            sizes=tuple(sizes),
            images=((capability, self._data),),
        )
