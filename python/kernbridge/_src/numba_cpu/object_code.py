"""Compiles a Numba kernel to an object that runs without Numba and LLVM.

It is made of the LLVM IR of the entry's library, which Numba has optimised: the entry keeps its
name, everything else becomes private, what is not called is dropped, and exceptions
become texts (`exception_texts`). Imported only when a
kernel is compiled.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernbridge import _core
from kernbridge._src.numba_common import cpu_features, elf, private_llvmlite
from kernbridge._src.numba_common.private_llvmlite import binding as llvm
from kernbridge._src.numba_common.private_numba import config
from kernbridge._src.numba_cpu import apart, errors, lines
from kernbridge._src.numba_cpu.exception_texts import NotCarried, with_texts

if TYPE_CHECKING:
    from kernbridge._src.numba_cpu.entry import Entry

_ADDRESS = re.compile(r"inttoptr \(i64 (-?\d+) ")
_LOWEST_ADDRESS = 4096
_DYNAMIC = re.compile(r"numba\.dynamic\.globals\.([0-9a-f]+)")
_OF_FUNCTION = re.compile(r'^(@"?\.?kb\.function\.\S+) = .*global (\S+) inttoptr .*$', re.M)
_MEANINGS = (  # why a name keeps code in its process, by its beginning; the first that fits
    ("numba_parallel_for", "it runs on Numba's threads"),
    ("numba_get_np_random_state", "it draws random numbers from Numba's state"),
    ("numba_get_py_random_state", "it draws random numbers from Numba's state"),
    ("numba_rnd", "it draws random numbers from Numba's state"),
    ("NRT_", "it uses a part of Numba's runtime that exists only where Numba is installed ({})"),
    ("numba_x", "it calls BLAS or LAPACK ({})"),
    ("numba_ez", "it calls BLAS or LAPACK ({})"),
    ("kb_", "it raises an exception with values that only Python can format"),
    ("Py", "it enters Python"),
    ("_Py", "it enters Python"),
    ("", "it calls {}"),
)


@dataclass(frozen=True, slots=True)
class ObjectCode:
    """Machine code that does not depend on this process.

    Attributes
    ----------
    code : bytes
        A relocatable object, which defines the entry.
    features : int
        What the processor must have, as bits of `_core.cpu_features()`.
    places : dict
        The text of the line that each status stands for.
    lasting : bool
        Whether all of it follows from the kernel: no text of an exception from a class of the
        user's, and no function from Numba's cache on disk, which may be that of an older source.
    """

    code: bytes
    features: int
    places: dict[int, str]
    lasting: bool


def make(entry: Entry) -> ObjectCode:
    """The object of an entry. Needs no lock of Numba.

    Raises
    ------
    NotCarried
        If the code needs something of this process.
    """
    library, text = entry.keep[0], entry.llvm_ir
    text = _without_dispatchers(text)
    if _has_addresses(text):
        raise NotCarried(
            "it contains addresses of this process: of a large global array, of a function of "
            "ctypes or CFFI, or of code that Numba compiled separately"
            f"{_callee(library, _has_addresses)}"
        )
    described, lasting = with_texts(text)
    module = llvm.parse_assembly(described, llvm.create_context())
    _make_private(module, entry.name)
    triple, cpu, given = library.codegen.magic_tuple()
    features, mask = cpu_features.known(given)
    with _machine(triple, cpu if config.CPU_FEATURES is None else "", features) as machine:
        emitted = private_llvmlite.emit_object(machine, module)
    code = elf.stripped(emitted, {_core.HOST_CODE_ENTRY})
    missing = [name for name in elf.undefined(code) if not _core.host_code_provides(name)]
    for beginning, meaning in _MEANINGS:
        for name in missing:
            if name.startswith(beginning):
                raise NotCarried(meaning.format(name) + _callee(library, re.compile(name).search))
    places = {n: errors.place_text(p) for n, p in lines.places_in(text).items()}
    return ObjectCode(code, mask, places, lasting and not apart.is_of_cache(library))


def _without_dispatchers(text: str) -> str:
    """The IR with null for each function of Numba that is passed on.

    What a call of it does is compiled into the code; whatever else could be done with the object
    needs a function of Python, which no code that is carried calls.
    """

    def renamed(found: re.Match[str]) -> str:
        known = int(found[1], 16) in apart.addresses_of_dispatchers
        return f"kb.function.{found[1]}" if known else found[0]

    return _OF_FUNCTION.sub(r"\1 = private constant \2 null", _DYNAMIC.sub(renamed, text))


def _has_addresses(text: str) -> bool:
    return "numba.dynamic.globals" in text or any(
        int(number) not in range(_LOWEST_ADDRESS) for number in _ADDRESS.findall(text)
    )


def _callee(library: Any, has_it: Callable[[str], Any]) -> str:
    """Words that name the function that a kernel calls and whose LLVM IR has something."""
    callee = ""
    while library is not None:
        inside = (inner for inner in library._linking_libraries if has_it(inner.get_llvm_str()))
        library = next(inside, None)
        made = ("<locals>", "gufunc")  # overloads and parallel loops, whose names are Numba's
        if library is not None and not any(part in library.name for part in made):
            callee = f", in {library.name}"
    return callee


def _make_private(module: Any, entry: str) -> None:
    """Leave the entry as the only name of a module, and nothing that it does not need."""
    for function in module.functions:
        if function.is_declaration:
            continue
        function.add_function_attribute("nounwind")
        if function.name != entry:
            function.linkage = "private"
    for variable in module.global_variables:
        if not variable.is_declaration and not variable.name.startswith("llvm."):
            variable.linkage = "private"
    module.get_function(entry).name = _core.HOST_CODE_ENTRY
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    private_llvmlite.run_once(passes, module, _pass_builder())
    if any(variable.name.startswith("_ZN08NumbaEnv") for variable in module.global_variables):
        raise NotCarried("it uses Python objects")


@functools.cache
def _pass_builder() -> Any:
    options = llvm.create_pipeline_tuning_options(speed_level=0)
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
    return llvm.create_pass_builder(machine, options)


_machines: dict[tuple[str, str, str], list[Any]] = {}  # that no thread uses at present


@contextmanager
def _machine(triple: str, cpu: str, features: str) -> Iterator[Any]:
    """A target machine, for this thread alone."""
    free = _machines.setdefault((triple, cpu, features), [])
    try:
        machine = free.pop()
    except IndexError:
        machine = llvm.Target.from_triple(triple).create_target_machine(
            cpu=cpu, features=features, opt=int(config.OPT), reloc="pic", codemodel="default"
        )
    yield machine
    free.append(machine)
