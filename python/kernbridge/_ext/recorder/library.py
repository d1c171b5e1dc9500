"""Reads the library of a CUDA module: its kernels, and what the recorder has to know of it."""

from __future__ import annotations

import ctypes
import hashlib
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kernbridge._src.numba_common.elf import Elf
from kernbridge._src.plan import cubin
from kernbridge._src.plan.program import DeviceFunction

_MAGIC = struct.pack("<I", 0xBA55ED50)
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, size of this header, size of what follows
_IMAGE = struct.Struct("<HHIQ")  # kind, version, size of this header, size of the image
_FLAGS_AT, _COMPRESSED, _MACHINE_CODE = 40, 0xE000, 2

# Of ELF files: types of symbols, and a flag of sections.
_VARIABLE, _FILE, _OF_THREADS, _WRITABLE = 1, 4, 6, 1

# What is written to by a compiler, by the CUDA runtime, by kernbridge's own glue, by CUB for the
# properties of devices, and by libraries of the compiler, which may be a part of the module. A
# variable in a function has the name of the function before its own: types of parameters there
# may be of these namespaces, and it is not.
_OWN_VARIABLES = re.compile(
    r"libcudart_static_|nvtxGlobals_v|InitializeInjectionNvtx|DW\.ref\."
    r"|_Z(GV)?Z?L?\d+(__)?__(cuda|nv_|device_stub__|fatDeviceText)"
    r"|_Z(GV)?Z*NK?(3cub|5nvtx3|10kernbridge|10__cxxabiv1|9__gnu_cxx|14__gnu_internal)"
    r"|_Z(GV)?Z*N?K?S[abdiost]|_ZL\d+kb_(start_failure|slot_\d+)$"
)
_OF_NVCC = (".cudafe1.cpp", "<artificial>")  # ends of file names
_CALLED = re.compile(  # but what may run as it is
    "__cuda(?!PopCallConf|PushCallConf)|cuda(?!CreateChannelDesc|GetErrorName|GetErrorString)[A-Z]"
    "|_ZNSt13random_device9_M_getvalEv$"
)


class Library(NamedTuple):
    """A module's library. Places are counted from where it begins."""

    kernels: dict[str, DeviceFunction]
    path: str
    functions: dict[str, int]  # of the CUDA runtime; 0: in another library
    constructors: list[int]  # which register kernels
    module: int  # of kb_module_description
    variable: str  # of the host, which may change between calls


def read(path: str) -> Library:
    """What a library contains; ValueError has the reason if it cannot be recorded."""
    data = Path(path).read_bytes()
    elf, kernels, at = Elf(data), dict[str, DeviceFunction](), 0
    while (at := data.find(_MAGIC, at)) >= 0:
        _, version, head, size = _CONTAINER.unpack_from(data, at)
        if version == 1 and head == _CONTAINER.size and at + head + size <= len(data):
            kernels |= _kernels(path, data[at : at + head + size])
            at += head + size
        else:  # the magic number of a constructor, which refers to a container
            at += len(_MAGIC)
    fixed = {i for i, name in enumerate(elf.names) if ".rel.ro" in name}  # once it is loaded
    writable = {i for i, header in enumerate(elf.headers) if header[2] & _WRITABLE} - fixed
    functions, constructors, module, file, variable = dict[str, int](), list[int](), 0, "", ""
    for name, info, _, section, value, size in elf.symbols():
        kind, is_global = info & 0xF, info >> 4 != 0
        if kind == _FILE:
            file = name
        elif kind in (_VARIABLE, _OF_THREADS):
            # Local variables of another file than nvcc's are the compiler's or the runtime's.
            may_be_its = is_global or not file or file.endswith(_OF_NVCC)
            if may_be_its and size and section in writable:
                variable = variable if _OWN_VARIABLES.match(name) else name
            module = value if name == "kb_module_description" else module
        elif "__sti____cudaRegisterAll" in name:
            constructors.append(value)
        elif _CALLED.match(name):
            functions[name.partition("@")[0]] = value
    if not module:
        raise ValueError(f"the symbols of {path} are not there")
    return Library(kernels, path, functions, constructors, module, variable)


def _kernels(path: str, container: bytes) -> Iterator[tuple[str, DeviceFunction]]:
    """The kernels of one translation unit, which has code for architectures and PTX."""
    if demangle := getattr(ctypes.CDLL(path), "__cxa_demangle", None):
        demangle.restype = ctypes.c_char_p
    start, images = hashlib.sha256(b"kernbridge.recorder" + container), ((0, container),)
    for name, sizes in _sizes(container).items():
        text = demangle(name.encode(), None, None, None) if demangle and name[0] == "_" else None
        shown, digest = text.decode() if text else name, start.copy()
        digest.update(name.encode())
        key = digest.digest()
        yield name, DeviceFunction(identity=key, name=shown, entry=name, images=images, sizes=sizes)


def _sizes(container: bytes) -> dict[str, tuple[int, ...]]:
    """The bytes of each parameter of each kernel in a container."""
    found: dict[str, tuple[int, ...]] = {}
    at = _CONTAINER.size
    while at < len(container):
        kind, _, head, size = _IMAGE.unpack_from(container, at)
        (flags,) = struct.unpack_from("<Q", container, at + _FLAGS_AT)
        image = container[at + head : at + head + size]
        at += head + size
        if kind != _MACHINE_CODE:
            continue
        if flags & _COMPRESSED:
            raise ValueError("its device code is compressed; build it with -no-compress")
        elf = Elf(image)
        for name, info, _, section, _, _ in elf.symbols():
            # The host knows other variables. The device code of libraries has constant ones.
            is_local = name.startswith("_ZZ") and "4cuda3std" not in name
            if is_local and info & 0xF == _VARIABLE and ".nv.global" in elf.names[section]:
                raise ValueError(f"a kernel has the static variable {name}, which may change")
        for entry in cubin.entries(image):
            sizes = tuple(size for _, size in cubin.read(image, entry).parameters)
            if found.setdefault(entry, sizes) != sizes:
                raise ValueError(f"the parameters of {entry} differ between architectures")
    return found
