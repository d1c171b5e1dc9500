"""Compiles a Numba kernel to an object that runs without Numba and LLVM.

It is made of the LLVM IR of the entry's library, which Numba has optimised: the entry keeps its
name, everything else becomes private, and what is not called is dropped.

Numba pickles the class, the arguments and the place of an exception into a constant. Here a text
takes the place of the pickle, in the form of src/core/kb_host.h. Arguments that are computed at
run time are objects of Python that a function of the module makes, and the text says where they
belong. Its calls of Python get other names, for which a process without Python has a stand-in
(src/object/kb_provided.c).

Imported only when a kernel is compiled.
"""

from __future__ import annotations

import functools
import pickle
import re
from collections.abc import Callable
from typing import Any

from kernbridge import _core
from kernbridge._src.base.packing import HostCode
from kernbridge._src.numba_common import cpu_features, elf, private_llvmlite
from kernbridge._src.numba_common.private_llvmlite import binding as llvm
from kernbridge._src.numba_common.private_llvmlite import ir
from kernbridge._src.numba_common.private_numba import config
from kernbridge._src.numba_cpu import entry as numba_cpu_entry
from kernbridge._src.numba_cpu import errors

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
_RECORD = re.compile(r"^(@\S*\.const\.picklebuf\.\S*) = (.*?constant) (\{.*?\}) \{ (.*) \}", re.M)
_PICKLED = re.compile(
    r'^@("?\.const\.pickledata\.[^\s,]+) = (.*?constant) \[(\d+) x i8\] c"([^"]*)"', re.M
)
_UNWRAP = re.compile(r"^define [^\n]*@__excinfo_unwrap_args.*?^\}$", re.M | re.S)
_OF_PYTHON = re.compile(r"@(_?Py\w+)")
_ENVIRONMENT = re.compile(r'@"?_ZN08NumbaEnv[^\s,"]*"?')
_ESCAPED = re.compile(rb"\\(\\|[0-9A-Fa-f]{2})")
_PLAIN = re.compile(rb"[A-Za-z0-9 ]")
_VALUE = "\x01"  # KB_FAILURES_VALUE


def make(entry: numba_cpu_entry.Entry) -> HostCode:
    """The object of an entry.

    Raises
    ------
    NotCarried
        If the code needs something of this process.
    """
    library, text = entry.keep[0], _without_dispatchers(entry.llvm_ir)
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
                raise NotCarried(meaning.format(name) + _callee(library, re.compile(name).search))
    places = {n: errors.place_text(p) for n, p in errors.places_in(text).items()}
    return HostCode(code, mask, places, lasting and not numba_cpu_entry.is_of_cache(library))


def _without_dispatchers(text: str) -> str:
    """The IR with null for each function of Numba that is passed on.

    What a call of it does is compiled into the code; whatever else could be done with the object
    needs a function of Python, which no code that is carried calls.
    """

    def renamed(found: re.Match[str]) -> str:
        known = int(found[1], 16) in numba_cpu_entry.addresses_of_dispatchers
        return f"kb.function.{found[1]}" if known else found[0]

    return _OF_FUNCTION.sub(r"\1 = private constant \2 null", _DYNAMIC.sub(renamed, text))


def _folded(text: str) -> str:
    """The IR optimised, so that constants stand where they are used."""
    module, builder = llvm.parse_assembly(text, llvm.create_context()), _pass_builder(speed_level=2)
    private_llvmlite.run_once(builder.getModulePassManager(), module, builder)
    return str(module)


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

    def __format__(self, how: str) -> str:
        if how:
            raise TypeError(how)
        return str(self)

    def __bool__(self) -> bool:
        raise TypeError("the text depends on the value")

    def __eq__(self, other: object) -> bool:
        raise TypeError("the text depends on the value")

    __hash__ = None  # type: ignore[assignment]


def _with_texts(module: str) -> tuple[str, bool]:
    """The IR of a module with texts for exceptions.

    Also whether the texts are lasting: from no code of the user's (see `errors.is_lasting`).

    Raises
    ------
    NotCarried
        If Python is needed to describe an exception.
    """
    pickled = {found[1]: _unescape(found[4]) for found in _PICKLED.finditer(module)}
    constants: list[str] = []
    lasting = True

    def described(data: bytes) -> bytes:
        nonlocal lasting
        text, from_kernel = _describe(data)
        lasting &= from_kernel
        return text

    def of_record(record: re.Match[str]) -> str:
        name, head, kind, fields = record.groups()
        text = described(next(data for at, data in pickled.items() if f"@{at}," in fields + ","))
        size, constant = f"[{len(text)} x i8]", f"@kb.text.{len(constants)}"
        constants.append(f'{constant} = private constant {size} c"{_escape(text)}"')
        pointer = kind[1:-1].split(",")[0].strip()
        reference = f"{pointer} {constant}"
        if pointer != "ptr":
            reference = f"{pointer} getelementptr ({size}, {size}* {constant}, i64 0, i64 0)"
        rest = f"i32 {len(text)}, {pointer} null, {pointer} null, i32 0"
        return f"{name} = {head} {kind} {{ {reference}, {rest} }}"

    def of_run_time(constant: re.Match[str]) -> str:
        name, head, room, _ = constant.groups()
        if name.endswith(".sha1") or len(re.findall(rf"@{re.escape(name)}(?![\w.])", static)) < 2:
            return constant[0]
        text = described(pickled[name])
        if len(text) > int(room):
            raise NotCarried("the text of an exception is longer than the exception itself")
        return f'@{name} = {head} [{room} x i8] c"{_escape(text.ljust(int(room), bytes(1)))}"'

    static = _RECORD.sub(of_record, module)
    result = _with_values(_PICKLED.sub(of_run_time, static))
    return "\n".join((result, *constants, "")), lasting


def _describe(data: bytes) -> tuple[bytes, bool]:
    """The text of an exception, given Numba's pickle of it."""
    loaded = pickle.loads(data)
    if not isinstance(loaded, tuple) or len(loaded) != 3:
        raise NotCarried("it uses Python objects")
    kind, args, place = loaded
    lasting = errors.is_lasting(kind)
    values = [i for i, arg in enumerate(args or ()) if isinstance(arg, ir.Value)]
    message = _template(kind, args, values, lasting) if values else errors.message(kind, args)
    parts = message, "" if place is None else errors.place_text(place)
    encoded = (p.encode("utf-8", "backslashreplace").replace(b"\0", rb"\x00") for p in parts)
    return b"".join(part + b"\0" for part in encoded), lasting


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


def _with_values(module: str) -> str:
    """The IR with other names for what the functions that make the values call of Python."""
    names: set[str] = set()

    def replaced(function: re.Match[str]) -> str:
        names.update(_OF_PYTHON.findall(function[0]))
        body = _OF_PYTHON.sub(r"@kb_\1", function[0])
        return _ENVIRONMENT.sub("@kb.environment", body)

    result = _UNWRAP.sub(replaced, module)
    if not names:
        return module
    added = [
        line.replace(f"@{name}", f"@kb_{name}", 1)
        for name in sorted(names)
        for line in re.findall(rf"^(?:declare .*@{name}\(.*|@{name} = .*)$", module, re.M)
    ]
    loaded = re.search(r'load (\S+), \S+ @"?_ZN08NumbaEnv', module)
    pointer = loaded[1] if loaded else "ptr"
    something = f"{pointer} inttoptr (i64 1 to {pointer})"  # it is only compared with null
    return "\n".join((result, *added, f"@kb.environment = private constant {something}", ""))


def _unescape(text: str) -> bytes:
    def replaced(found: re.Match[bytes]) -> bytes:
        return b"\\" if found[1] == b"\\" else bytes.fromhex(found[1].decode())

    return _ESCAPED.sub(replaced, text.encode())


def _escape(data: bytes) -> str:
    return "".join(chr(b) if _PLAIN.match(bytes((b,))) else f"\\{b:02X}" for b in data)
