"""Questions in the LLVM IR of a Numba-CUDA kernel for the CPU: the checked mode.

Before every load, store and atomic operation, but of the function's own variables, goes a call of
src/hostcuda/kb_check.h, which gives the memory to use in its place; shared and local arrays, and
the addresses of arguments, get their numbers there. Line numbers come from the debug information of
the text, which goes no further. What the C side is to know of the arrays becomes constants of the
module.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_READ, _WRITE, _ATOMIC = range(3)
_SPILL = 32  # bytes of a value that is compared with what is there
_BATCHED, _STRIDED, _CONSTANT, _DYNAMIC = 1, 2, 4, 8  # as kb_check.h has them

_DECLARATIONS = """
declare ptr @"kb.check.access"(ptr, i64, i32, i32, ptr)
declare ptr @"kb.check.local"(ptr, i32)
declare void @"kb.check.at"(i32)
declare void @"kb.check.fence"()
"""

_WAITS = re.compile(r'call [^@\n]*@"kb\.(?:barrier0|bar\.warp|shfl|vote|match|active_mask)')
_FENCE = re.compile(r'call void @"kb\.membar\.')
_LOAD = re.compile(r"^( *%.* = load (?:atomic )?(?:volatile )?)(.+), ptr ([^ ,]+)(.*)$")
_STORE = re.compile(r"^( *store (?:atomic )?(?:volatile )?)(.+), ptr ([^ ,]+)(.*)$")
_RMW = re.compile(r"^( *%.* = atomicrmw (?:volatile )?\w+ ptr )([^ ,]+)(, )(\S+)( .*)$")
_SWAP = re.compile(r"^( *%.* = cmpxchg (?:weak )?(?:volatile )?ptr )([^ ,]+)(, )(\S+)( .*)$")
_CALLED = re.compile(
    r'^( *%.* = call (\w+) @"(?:kb\.atomic|___numba_atomic)[^"]*"\(ptr )([^ ,]+)(, .*)$'
)
_COPY = re.compile(
    r'^( *call void @"llvm\.mem(?:cpy|move)[^"]*"\(ptr )([^ ,]+)(, ptr )([^ ,]+)'
    r"(, i64 )([^ ,]+)(.*)$"
)


@dataclass(frozen=True, slots=True)
class Argument:
    """An array, or a scalar in a buffer, that the kernel gets by its address."""

    name: str  # with its type
    word: int
    item_size: int
    n_dims: int
    batched: bool
    strided: bool
    constant: bool

    @property
    def flags(self) -> int:
        """As kb_check.h has them."""
        return _BATCHED * self.batched + _STRIDED * self.strided + _CONSTANT * self.constant


@dataclass
class Checks:
    """What is asked about one kernel."""

    label: str
    arguments: Sequence[Argument]
    shared: dict[str, tuple[str, int, int, int, int]] = field(default_factory=dict)
    local: list[tuple[str, str, str]] = field(default_factory=list)  # name, item type, type
    made: dict[str, str] = field(default_factory=dict)  # where, by names
    sites: list[str] = field(default_factory=lambda: [""])
    _n_names: int = 0

    def add_shared(self, name: str, item: str, size: int, item_size: int, offset: int) -> None:
        """A shared array; dynamic if its size is 0."""
        self.shared[name] = (item, item_size, size, offset, len(self.shared))

    def ask(self, text: str) -> str:
        """A module's text with the questions."""
        places = _Places(text)
        lines: list[str] = []
        own: set[str] = set()  # addresses of the function's variables
        renamed: dict[str, str] = {}
        for line in text.split("\n"):
            if line.startswith("define "):
                own, renamed = set(), {}
            elif re.match(r"^\"?[\w.$]+\"?:", line) and lines[-1] == "{":
                lines += [line, f"  %kb.spill = alloca [{_SPILL} x i8], align 16"]
                own.add("%kb.spill")
                continue
            for name, new in renamed.items():
                if name in line:
                    self.made[new] = self.made.get(new) or places.of(line)
                    line = line.replace(name, new)
            if shared := re.search(r'call ptr @"?kb\.shared\.([\w.$]+)"?\(\)', line):
                self.made[shared[1]] = self.made.get(shared[1]) or places.of(line)
            made = re.match(r"^ *(%\S+) = (alloca|getelementptr|bitcast)\b(.*)$", line)
            if made and made[2] == "alloca" and "_cudapy_lmem" in made[1]:
                lines += [line, self._local(made[1], made[3], renamed)]
                continue
            if made and (
                made[2] == "alloca" or any(n in own for n in re.findall(r"ptr (%[^ ,]+)", made[3]))
            ):
                own.add(made[1])
            lines += self._asked(line, own, places)
        return "\n".join(lines) + _DECLARATIONS

    def _local(self, name: str, kind: str, renamed: dict[str, str]) -> str:
        kind = re.sub(r",? *(align \d+|!dbg !\d+).*$", "", kind).strip()
        item = re.fullmatch(r"\[\d+ x (.+)\]", kind)
        self.local.append((name, item[1] if item else kind, kind))
        renamed[name] = f'%"kb.local.{len(self.local)}"'
        return (
            f'  {renamed[name]} = call ptr @"kb.check.local"(ptr {name}, i32 {len(self.local) - 1})'
        )

    def _asked(self, line: str, own: set[str], places: _Places) -> list[str]:
        if found := _LOAD.match(line):
            head, kind, address, tail = found.groups()
            if address in own:
                return [line]
            asked, use = self._question(address, _size_of(kind), _READ, places.of(line))
            return [asked, f"{head}{kind}, ptr {use}{tail}"]
        if found := _STORE.match(line):
            head, value, address, tail = found.groups()
            if address in own:
                return [line]
            kind = _type_of(value)
            small = kind not in ("", "ptr") and not kind.startswith(("{", "[", "<"))
            spill = [f"  store {value}, ptr %kb.spill"] if small else []
            asked, use = self._question(
                address, _size_of(kind), _WRITE, places.of(line), "%kb.spill" if small else "null"
            )
            return [*spill, asked, f"{head}{value}, ptr {use}{tail}"]
        if found := _RMW.match(line) or _SWAP.match(line):
            head, address, comma, kind, tail = found.groups()
            asked, use = self._question(address, _size_of(kind), _ATOMIC, places.of(line))
            return [asked, f"{head}{use}{comma}{kind}{tail}"]
        if found := _CALLED.match(line):
            head, kind, address, tail = found.groups()
            asked, use = self._question(address, _size_of(kind), _ATOMIC, places.of(line))
            return [asked, f"{head}{use}{tail}"]
        if found := _COPY.match(line):
            head, to, middle, of, count, size, tail = found.groups()
            asked, use = self._question(to, f"{size}", _WRITE, places.of(line))
            asked_too, use_too = self._question(of, f"{size}", _READ, places.of(line))
            return [asked, asked_too, f"{head}{use}{middle}{use_too}{count}{size}{tail}"]
        if _WAITS.search(line):
            return [f'  call void @"kb.check.at"(i32 {self._site(places.of(line))})', line]
        if _FENCE.search(line):
            return [line, '  call void @"kb.check.fence"()']
        return [line]

    def _question(
        self, address: str, size: str, kind: int, place: str, value: str = "null"
    ) -> tuple[str, str]:
        use = f'%"kb.memory.{self._n_names}"'
        self._n_names += 1
        return (
            f'  {use} = call ptr @"kb.check.access"(ptr {address}, i64 {size}, i32 {kind}, '
            f"i32 {self._site(place)}, ptr {value})"
        ), use

    def _site(self, place: str) -> int:
        if place not in self.sites:
            self.sites.append(place)
        return self.sites.index(place)

    def placed(self, text: str) -> str:
        """The inlined text with its own number for each place where threads wait."""
        at = 0
        lines = []
        for line in text.split("\n"):
            if found := re.search(r'call void @"?kb\.check\.at"?\(i32 (\d+)\)', line):
                at = int(found[1])
                continue
            if re.search(r"call i32 @kb\.site\(\)", line):
                self.sites.append(self.sites[at])
                line = re.sub(
                    r"call i32 @kb\.site\(\).*", f"add i32 0, {len(self.sites) - 1}", line
                )
            lines.append(line)
        text = "\n".join(lines)
        text = re.sub(r'^declare [^@\n]*@"?kb\.check\..*$', "", text, flags=re.M)
        text = re.sub(r'@"?kb\.check\.(\w+)"?\(\)', r"@kb_check_\1(ptr %kb.thread)", text)
        text = re.sub(r'@"?kb\.check\.(\w+)"?\(', r"@kb_check_\1(ptr %kb.thread, ", text)
        return re.sub(
            r'call ptr @"?kb\.shared\.([\w.$]+?)"?\(\)[^\n]*',
            lambda m: f"call ptr @kb_check_shared(ptr %kb.thread, i32 {self.shared[m[1]][4]})",
            text,
        )

    def table(self) -> str:
        """The module's constants for the C side, and what it declares."""
        lines = [
            "declare ptr @kb_check_access(ptr, ptr, i64, i32, i32, ptr)",
            "declare ptr @kb_check_local(ptr, ptr, i32)",
            "declare ptr @kb_check_shared(ptr, i32)",
            "declare i64 @kb_check_argument(ptr, i64, i32)",
            "declare void @kb_check_index(ptr, i64, i64, i32)",
            "declare ptr @kb_check_pointer(ptr, ptr)",
            "declare void @kb_check_fence(ptr)",
        ]
        names: list[str] = []

        def text(string: str) -> str:
            data = string.encode()
            escaped = "".join(f"\\{byte:02x}" for byte in data) + "\\00"
            name = f"@kb.text.{len(names)}"
            names.append(name)
            lines.append(f'{name} = private constant [{len(data) + 1} x i8] c"{escaped}"')
            return name

        def row(
            name: str,
            item_size: str,
            n_dims: int,
            word: int = 0,
            flags: int = 0,
            offset: int = 0,
            size: str = "0",
            shape: Sequence[int] = (),
        ) -> str:
            numbers = (f"ptr {text(name)}", f"i32 {item_size}", f"i32 {n_dims}", f"i32 {word}")
            extents = "ptr null"
            if shape:
                extents = f"ptr @kb.shape.{len(lines)}"
                values = ", ".join(f"i64 {n}" for n in shape)
                lines.append(f"{extents[4:]} = private constant [{len(shape)} x i64] [{values}]")
            more = (f"i32 {flags}", f"i64 {offset}", f"i64 {size}", extents)
            return f"{_ROW} {{ {', '.join((*numbers, *more))} }}"

        rows = [
            row(a.name, str(a.item_size), a.n_dims, word=a.word, flags=a.flags)
            for a in self.arguments
        ]
        for symbol, (item, item_size, size, offset, _) in self.shared.items():
            name, shape = _described("shared", symbol, item, self.made.get(symbol, ""))
            rows.append(
                row(
                    name,
                    str(item_size),
                    max(len(shape), 1),
                    flags=0 if size else _DYNAMIC,
                    offset=offset,
                    size=str(size),
                    shape=shape,
                )
            )
        for i, (symbol, item, kind) in enumerate(self.local, 1):
            place = self.made.get(f'%"kb.local.{i}"', "")
            name, shape = _described("local", symbol, item, place)
            item_bytes = f"trunc (i64 {_size_of(item)} to i32)"
            rows.append(row(name, item_bytes, max(len(shape), 1), size=_size_of(kind), shape=shape))
        sites = [f"ptr {text(site)}" for site in self.sites]
        lines.append(f"@kb.arrays = constant [{len(rows)} x {_ROW}] [{', '.join(rows)}]")
        lines.append(f"@kb.sites = constant [{len(sites)} x ptr] [{', '.join(sites)}]")
        counts = (len(self.arguments), len(self.shared), len(self.local), len(self.sites))
        numbers = ", ".join(f"i32 {n}" for n in counts)
        lines.append(
            "@kb_check_table = constant { ptr, ptr, i32, i32, i32, i32, ptr } "
            f"{{ ptr {text(self.label)}, ptr @kb.arrays, {numbers}, ptr @kb.sites }}"
        )
        return "\n".join(lines) + "\n"


_ROW = "{ ptr, i32, i32, i32, i32, i64, i64, ptr }"


def _described(where: str, symbol: str, item: str, place: str) -> tuple[str, tuple[int, ...]]:
    """An array in words, and its shape; `_cuda_checked` puts both into the symbol."""
    shape: tuple[int, ...] = ()
    if found := re.search(r"\.(\w+)\.(\d+(?:x\d+)*)[.\d]*\"?$", symbol):
        item = found[1]
        shape = tuple(int(n) for n in found[2].split("x"))
    if 0 in shape:
        where, shape = f"dynamic {where}", ()
    count = "x".join(map(str, shape))
    made = f" from {place}" if place else ""
    return " ".join(filter(None, ("a", where, "array of", count, item))) + made, shape


def _size_of(kind: str) -> str:
    return f"ptrtoint (ptr getelementptr ({kind}, ptr null, i32 1) to i64)"


def _type_of(value: str) -> str:
    """The type in "type value"."""
    if value[0] not in "{[<":
        return value.split(" ", 1)[0]
    depth = 0
    for i, character in enumerate(value):
        depth += (character in "{[<") - (character in "}]>")
        if depth == 0:
            return value[: i + 1]
    raise ValueError(f"no type in {value!r}")


class _Places:
    """File and line of a text's instructions, by its debug information."""

    def __init__(self, text: str) -> None:
        self._nodes = dict(re.findall(r"^(!\d+) = (?:distinct )?(!DI.*)$", text, flags=re.M))

    def of(self, line: str) -> str:
        """ "file:line" of an instruction, or ""."""
        found = re.search(r"!dbg (!\d+)", line)
        node = self._nodes.get(found[1], "") if found else ""
        number = re.search(r"\bline: (\d+)", node)
        file = self._file(node)
        return f"{os.path.basename(file)}:{number[1]}" if number and file else ""

    def _file(self, node: str) -> str:
        for _ in range(32):
            if name := re.search(r'filename: "([^"]*)"', node):
                return "" if name[1].startswith("<") else name[1]
            parent = re.search(r"file: (!\d+)", node) or re.search(r"scope: (!\d+)", node)
            node = self._nodes.get(parent[1], "") if parent else ""
        return ""
