"""Compiles a Numba kernel to an object that runs without Numba and LLVM.

It is made of the LLVM IR of the entry's library, which Numba has optimised: the entry keeps its
name, everything else becomes private, and what is not called is dropped.

Numba pickles the class, the arguments and the place of an exception into a constant. Here a text
takes the place of the pickle, in the form of src/core/kb_host.h. Arguments that are computed at
run time are objects of Python that a function of the module makes, and the text says where they
belong. Its calls of Python get other names, for which a process without Python has a stand-in
(src/object/kb_provided.c).
"""

from __future__ import annotations

import functools
import pickle
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from kernbridge import _core
from kernbridge._src.base.packing import HostCode
from kernbridge._src.llvm.text import Function, Module, renamed, symbol, symbols
from kernbridge._src.numba_common import cpu_features, elf, private_llvmlite
from kernbridge._src.numba_common.private_llvmlite import binding as llvm
from kernbridge._src.numba_common.private_llvmlite import ir
from kernbridge._src.numba_common.private_numba import config
from kernbridge._src.numba_cpu import entry as numba_cpu_entry
from kernbridge._src.numba_cpu import errors

_ADDRESS = "inttoptr (i64 "
_LOWEST_ADDRESS = 4096
_DYNAMIC = "numba.dynamic.globals."  # and an address in hexadecimal digits
_OF_FUNCTION = ("kb.function.", ".kb.function.")
_OF_PYTHON = ("Py", "_Py")
_RANDOM = ("numba_get_np_random_state", "numba_get_py_random_state", "numba_rnd")
_MEANINGS: tuple[tuple[str | tuple[str, ...], str], ...] = (
    # why a name keeps code in its process, by its beginning; the first that fits
    ("numba_parallel_for", "it runs on Numba's threads"),
    (_RANDOM, "it draws random numbers from Numba's state"),
    ("NRT_", "it uses a part of Numba's runtime that exists only where Numba is installed ({})"),
    (("numba_x", "numba_ez"), "it calls BLAS or LAPACK ({})"),
    ("kb_", "it raises an exception with values that only Python can format"),
    (_OF_PYTHON, "it enters Python"),
    ("", "it calls {}"),
)
_RECORD, _PICKLED = ".const.picklebuf.", ".const.pickledata."
_UNWRAP = "__excinfo_unwrap_args"
_ENVIRONMENT = "_ZN08NumbaEnv"
_ESCAPED = re.compile(rb"\\(\\|[0-9A-Fa-f]{2})")
_VALUE = "\x01"  # KB_FAILURES_VALUE


def make(entry: numba_cpu_entry.Entry) -> HostCode:
    """The object of an entry, or NotCarried if the code needs something of this process."""
    library, text = entry.library, _without_dispatchers(entry.llvm_ir)
    if _has_addresses(text if int(config.OPT) > 1 else _folded(text)):
        raise NotCarried(
            "it contains addresses of this process: of a large global array, of a function of "
            "ctypes or CFFI, or of code that Numba compiled separately"
            f"{_callee(library, _has_addresses)}"
        )
    described, lasting = _with_texts(text)
    module = llvm.parse_assembly(described, llvm.create_context())
    _make_private(module, entry.name)
    triple, cpu, given = library.codegen.magic_tuple()
    features, mask = cpu_features.known(given)
    machine = _machine(triple, cpu if config.CPU_FEATURES is None else "", features)
    code = machine.emit_object(module)
    missing = [name for name in elf.undefined(code) if not _core.host_code_provides(name)]
    for beginning, meaning in _MEANINGS:
        for name in missing:
            if name.startswith(beginning):
                raise NotCarried(
                    meaning.format(name) + _callee(library, re.compile(re.escape(name)).search)
                )
    places = {n: errors.place_text(p) for n, p in errors.places_in(text).items()}
    return HostCode(code, mask, places, lasting and not numba_cpu_entry.is_of_cache(library))


def _without_dispatchers(text: str) -> str:
    """The IR with null for each function of Numba that is passed on.

    What a call of it does is compiled into the code; whatever else could be done with the object
    needs a function of Python, which no code that is carried calls.
    """

    if _DYNAMIC not in text:
        return text
    module = Module(renamed(text, _name_of_dispatcher))
    for name, g in module.globals.items():
        if name.startswith(_OF_FUNCTION) and g.value.startswith("inttoptr "):
            g.text = f"{symbol(name)} = private constant {g.type} null"
    return str(module)


def _name_of_dispatcher(name: str) -> str:
    before, _, rest = name.partition(_DYNAMIC)
    digits = rest.partition(".")[0]
    if digits and int(digits, 16) in numba_cpu_entry.addresses_of_dispatchers:
        return f"{before}kb.function.{rest}"
    return name


def _folded(text: str) -> str:
    """The IR optimised, so that constants stand where they are used."""
    module, builder = llvm.parse_assembly(text, llvm.create_context()), _pass_builder(speed_level=2)
    private_llvmlite.run_once(builder.getModulePassManager(), module, builder)
    return str(module)


def _has_addresses(text: str) -> bool:
    numbers = (part.partition(" ")[0] for part in text.split(_ADDRESS)[1:])
    return _DYNAMIC in text or any(
        int(n) not in range(_LOWEST_ADDRESS) for n in numbers if n.lstrip("-").isdigit()
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
    private_llvmlite.run_once(passes, module, _pass_builder(speed_level=0))
    if any(variable.name.startswith("_ZN08NumbaEnv") for variable in module.global_variables):
        raise NotCarried("it uses Python objects")


@functools.cache
def _pass_builder(speed_level: int) -> Any:
    options = llvm.create_pipeline_tuning_options(speed_level=speed_level)
    return llvm.create_pass_builder(_machine(llvm.get_process_triple(), "", ""), options)


@functools.cache
def _machine(triple: str, cpu: str, features: str) -> Any:
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=int(config.OPT), reloc="pic", codemodel="default"
    )


class NotCarried(Exception):
    """The machine code of a kernel cannot leave its process, for the reason in the text."""


class _Value:
    """Stands for an argument that is computed at run time, and can only be written."""

    def __init__(self, index: int) -> None:
        self.index = index

    def __str__(self) -> str:
        return f"{_VALUE}{self.index}s"

    def __repr__(self) -> str:
        return f"{_VALUE}{self.index}r"

    def __bool__(self) -> bool:
        raise TypeError("the text depends on the value")

    def __eq__(self, other: object) -> bool:
        raise TypeError("the text depends on the value")

    __hash__ = None  # type: ignore[assignment]


def _with_texts(module: str) -> tuple[str, bool]:
    """The IR of a module with texts for exceptions; NotCarried if Python is needed for one.

    Also whether the texts are lasting: from no code of the user's (see `errors.is_lasting`).
    """
    read = Module(module)
    pickled = {
        name: _unescape(g.value[2:-1])
        for name, g in read.globals.items()
        if name.startswith(_PICKLED) and g.value.startswith('c"')
    }
    constants: list[str] = []
    lasting: list[bool] = []
    for g in (g for name, g in read.globals.items() if _RECORD in name and g.value[:1] == "{"):
        data = next(pickled[name] for name in symbols(g.value) if name in pickled)
        text = _describe(data, lasting)
        size, constant = f"[{len(text)} x i8]", f"@kb.text.{len(constants)}"
        constants.append(f'{constant} = private constant {size} c"{_escape(text)}"')
        record = f"{{ ptr {constant}, i32 {len(text)}, ptr null, ptr null, i32 0 }}"
        g.text = g.text.replace(g.value, record)
    uses = Counter(symbols(str(read)) if pickled else ())
    for name in (name for name in pickled if not name.endswith(".sha1") and uses[name] > 1):
        g = read.globals[name]
        text, room = _describe(pickled[name], lasting), int(g.type[1:].split()[0])
        if len(text) > room:
            raise NotCarried("the text of an exception is longer than the exception itself")
        g.text = g.text.replace(g.value, f'c"{_escape(text.ljust(room, bytes(1)))}"')
    return "\n".join((_with_values(read), *constants, "")), all(lasting)


def _describe(data: bytes, are_lasting: list[bool]) -> bytes:
    """The text of an exception, given Numba's pickle of it; notes whether that is lasting."""
    loaded = pickle.loads(data)
    if not isinstance(loaded, tuple) or len(loaded) != 3:
        raise NotCarried("it uses Python objects")
    kind, args, place = loaded
    lasting = errors.is_lasting(kind)
    are_lasting.append(lasting)
    values = [i for i, arg in enumerate(args or ()) if isinstance(arg, ir.Value)]
    message = _template(kind, args, values, lasting) if values else errors.message(kind, args)
    parts = message, "" if place is None else errors.place_text(place)
    encoded = (p.encode("utf-8", "backslashreplace").replace(b"\0", rb"\x00") for p in parts)
    return b"".join(part + b"\0" for part in encoded)


def _template(kind: Any, args: tuple[Any, ...], values: list[int], lasting: bool) -> str:
    """The message of an exception, with marks for the values that are computed at run time."""
    given = tuple(_Value(values.index(i)) if i in values else arg for i, arg in enumerate(args))
    refused = NotCarried(
        f"the text of {getattr(kind, '__name__', kind)} depends on values of the call"
    )
    if not lasting or any(_VALUE in str(arg) for arg in args if isinstance(arg, str)):
        raise refused
    try:
        error = kind(*given)
        text = error.__str__()
        if isinstance(text, _Value):  # NumPy's AxisError returns its argument as it is
            return f"{kind.__name__}: {text}"
        str(error)
    except Exception as e:
        raise refused from e
    return errors.message(kind, given)


def _with_values(module: Module) -> str:
    """The IR with other names for what the functions that make the values call of Python."""
    texts = {
        k: str(f)
        for k, f in enumerate(module.lines)
        if isinstance(f, Function) and f.name.startswith(_UNWRAP)
    }
    names = {n for text in texts.values() for n in symbols(text) if n.startswith(_OF_PYTHON)}
    if not names:
        return str(module)
    known = {**module.functions, **module.globals}
    added = (str(known[n]).replace(f"@{n}", f"@kb_{n}", 1) for n in sorted(names) if n in known)
    # It is only compared with null.
    of_environment = "@kb.environment = private constant ptr inttoptr (i64 1 to ptr)"
    for k, text in texts.items():
        module.lines[k] = renamed(text, _name_without_python)
    return "\n".join((str(module), *added, of_environment, ""))


def _name_without_python(name: str) -> str:
    if name.startswith(_ENVIRONMENT):
        return "kb.environment"
    return f"kb_{name}" if name.startswith(_OF_PYTHON) else name


def _unescape(text: str) -> bytes:
    pieces = _ESCAPED.split(text.encode())  # what is escaped stands at every second place
    pieces[1::2] = [p if p == b"\\" else bytes.fromhex(p.decode()) for p in pieces[1::2]]
    return b"".join(pieces)


def _escape(data: bytes) -> str:
    return "".join(f"\\{b:02X}" for b in data)
