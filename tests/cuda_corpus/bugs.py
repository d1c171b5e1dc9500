"""Bugs for the CPU path: small changes to the LLVM IR that it compiles for a kernel.

Each is a function from text to text, by a name that says what then goes wrong. A kernel that the
corpus gives a bug must notice it; a bug that finds nothing to change is an error.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

Bug = Callable[[str], str]
BUGS: dict[str, Bug] = {}

VALUE = r"[^\s,()]+"
FIRST, LAST, EVERY = slice(0, 1), slice(-1, None), slice(None)


def plant(name: str, text: str) -> str:
    """The text with a bug in it."""
    changed = BUGS[name](text)
    assert changed != text, f"the bug {name!r} finds nothing to change"
    return changed


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Kernels that are lowered for the CPU in this context have a bug."""
    from kernbridge import _core
    from kernbridge._ext.emulator.compiler import compile as cuda_on_cpu_compile
    from kernbridge._src.numba_cuda import compile as numba_cuda_compile

    compile_kernel = numba_cuda_compile.compile_kernel

    def compile_with_bug(*args: Any, **kwargs: Any) -> Any:
        function = compile_kernel(*args, **kwargs)
        image = _image_with(name, dict(function.images)[_core.HOST_CC])
        code = cuda_on_cpu_compile.host_code(image).data
        images = ((_core.HOST_CC, image), (_core.HOST_CODE_CC, code))
        return replace(function, images=images, identity=hashlib.sha256(image).digest())

    with mock.patch.object(numba_cuda_compile, "compile_kernel", compile_with_bug):
        yield


def _image_with(name: str, image: bytes) -> bytes:
    _, text = image[:-1].decode().split("\n", 1)
    text = plant(name, text)
    return f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}\0".encode()


def _define(name: str, pattern: str, by: Any, which: slice = EVERY, also: str = "") -> None:
    """A bug that replaces what a pattern finds, and adds a line to the module.

    `NEW` in the replacement is a name of its own for each place; `VALUE` in the pattern an operand.
    """

    def bug(text: str) -> str:
        numbers = itertools.count()
        matches = list(re.finditer(pattern.replace("VALUE", VALUE), text, flags=re.M))
        for m in reversed(matches[which]):
            new = by(m) if callable(by) else m.expand(by)
            new = new.replace("NEW", f"%kb.bug{next(numbers)}")
            text = text[: m.start()] + new + text[m.end() :]
        declared = also and also.split("(")[0] not in text
        return text + (f"\n{also}\n" if declared else "")

    BUGS[name] = bug


# Where a thread is. It reads that from its frame, see src/ext/emulator/ll/threads.py.
_PLACE = r"(= getelementptr i8, ptr %frame\S*, i64) {}(\n\s+VALUE) = load i32,"
for _offset, _name, _value in (
    (36, "gridDim.x is 1", 1),
    (16, "blockDim.y is 1", 1),
    (28, "blockIdx.y is 0", 0),
    (32, "blockIdx.z is 0", 0),
    (4, "threadIdx.y is 0", 0),
    (8, "threadIdx.z is 0", 0),
):
    _define(_name, _PLACE.format(_offset), rf"\1 {_offset}\2 = or i32 0, {_value} ;")
_define("blockIdx.x is blockIdx.y", _PLACE.format(24), r"\1 28\2 = load i32,")
_define(
    "the lane is threadIdx.x",
    r"(= add i32 (VALUE), VALUE\n\s+VALUE = and i32) VALUE, 31$",
    r"\1 \2, 31",
)

# What a kernel is given, reads and writes.
_define(
    "scalars are zero",
    r"(= inttoptr i64 VALUE to ptr\n\s+VALUE) = load (i\d+|float|double), ptr VALUE,",
    r"\1 = bitcast \2 zeroinitializer to \2 ;",
)
_define(
    "negative indices are 0",
    r"(= icmp slt i64 VALUE, 0\n.*\n.*= select i1 VALUE, i64) VALUE,",
    r"\1 0,",
)
_define(
    "constant arrays are zero", r'(@_cudapy_cmem.* constant \[.*\]) c".*?"', r"\1 zeroinitializer"
)
_define("loaded bytes are zero", r"= load i8, ptr VALUE,", "= or i8 0, 0 ;")
_define(
    "a stored bool is inverted",
    r"(VALUE) = zext i1 (VALUE) to i8(\n\s+store i8 \1,)",
    r"NEW = xor i1 \2, true\n  \1 = zext i1 NEW to i8\3",
)

# Arithmetic.
for _name, _pattern, _by in (
    ("fsub is fadd", "= fsub ", "= fadd "),
    ("fmul is fadd", "= fmul ", "= fadd "),
    ("fneg is the identity", r"= fsub double -0\.0\S*, (VALUE)", r"= fadd double 0.0, \1"),
    ("sext is zext", r"= sext i(8|16) ", r"= zext i\1 "),
    ("zext is sext", r"= zext i(8|16) ", r"= sext i\1 "),
    ("sitofp is uitofp", "= sitofp ", "= uitofp "),
    ("srem is urem", "= srem ", "= urem "),
    ("ashr is lshr", "= ashr ", "= lshr "),
    ("lshr is ashr", "= lshr ", "= ashr "),
    ("xor is or", r"= xor i(8|16|32|64) ", r"= or i\1 "),
    ("greater is greater or equal", "= fcmp ogt ", "= fcmp oge "),
    ("sin is cos", r"(= call \w+ @)sin\(", r"\1cos("),
    ("erf is tanh", r"\berff\(", "tanhf("),
    ("exp is cosh", r"\bexpf\(", "coshf("),
):
    _define(_name, _pattern, _by)
_define(
    "sqrt is the identity",
    r"= call (float|double) @(?:llvm\.)?sqrt\S*\(\1 (VALUE)\)",
    r"= fmul \1 \2, 1.0",
)
_define(
    "popc is clz",
    r"= call i32 @llvm\.ctpop\.i32\(i32 (VALUE)\)",
    r"= call i32 @llvm.ctlz.i32(i32 \1, i1 false)",
    also="declare i32 @llvm.ctlz.i32(i32, i1 immarg)",
)
_define(
    "floats compare the other way round",
    r"= fcmp ([uo])([gl])([te]) ",
    lambda m: f"= fcmp {m[1]}{'l' if m[2] == 'g' else 'g'}{m[3]} ",
)
_define(
    "selects take the other value",
    r"(?<!, 0)(\n.*\n.*= select i1 VALUE), i64 (VALUE), i64 (VALUE)$",
    r"\1, i64 \3, i64 \2",
    FIRST,
)
_define("nothing is below zero", r"= icmp slt (i64 VALUE, 0)(?!\n.*\n.*= select)", r"= icmp ult \1")

# Memory of a thread, and of a block.
_define(
    "local arrays are shared by all threads",
    r"^(\s+)(?:call void @llvm\.lifetime\.\S+\(.*%_cudapy_lmem.*|(%_cudapy_lmem\S*) = alloca .*)$",
    lambda m: f"{m[1]}{m[2]} = bitcast ptr @kb.bug to ptr" if m[2] else "",
    also="@kb.bug = internal global [512 x i64] zeroinitializer",
)
_SHARED = r"= getelementptr i8, ptr (%shared\S*), i64 (\d+)"


def _at_0_if_dynamic(m: re.Match[str]) -> str:
    size = re.search(r"@kb_shared_size\(\) \{\n(?:.*:\n)?\s+ret i64 (\d+)\n", m.string)
    return f"= getelementptr i8, ptr {m[1]}, i64 0" if size and size[1] == m[2] else m[0]


_define("static shared arrays overlap", _SHARED, r"= getelementptr i8, ptr \1, i64 0")
_define("dynamic shared memory begins at 0", _SHARED, _at_0_if_dynamic)
_define(
    "the last shared array lies elsewhere",
    r"(ptr %frame\S*, i64 56\n\s+)(%shared\S*) = (load ptr, ptr \S*, align 8)$",
    r"\1NEW = \3\n  \2 = getelementptr i8, ptr NEW, i64 64",
    LAST,
)

# Barriers.
for _name, _which in (
    ("barriers do nothing", EVERY),
    ("the first barrier does nothing", FIRST),
    ("the last barrier does nothing", LAST),
    ("only the first barrier works", slice(1, None)),
):
    _define(_name, r"^\s+call void @kb_barrier\(.*$", "", _which)
_define("waiting for a warp does nothing", r"^\s+call void @kb_warp_barrier\(.*$", "")
_define("a reducing barrier gives zero", r"(VALUE) = (call i32 @kb_barrier_reduce\(.*)$",
        r"NEW = \2\n  \1 = or i32 0, 0")  # fmt: skip

# Warps: modes as PTX numbers them.
_SHUFFLE = (
    r"= call i64 @kb_shuffle\((.*?, i32 .*?), i32 MODE, i32 (VALUE), i32 (VALUE), i32 (VALUE)"
)


def _shuffles(name: str, mode: str, by: str, which: slice = EVERY) -> None:
    _define(name, _SHUFFLE.replace("MODE", mode), by, which)


_MOVED = "= call i64 @kb_shuffle(\\1, i32 {}, i32 \\2, i32 \\3, i32 {}"
_shuffles("a shuffle gives the own value", r"\d", r"= zext i32 \2 to i64 ;")
_shuffles("wide shuffles lose the high word", r"\d", "= or i64 0, 0 ;", slice(1, None, 2))
_shuffles("a shuffle up is one down", "1", _MOVED.format(2, 31))
_shuffles("a shuffle down is one up", "2", _MOVED.format(1, 0))
_shuffles("an exclusive-or shuffle is one down", "3", _MOVED.format(2, 31))
_VOTE = r"= call i64 @kb_vote\((.*?, i32 VALUE), i32 {},"
_define("any is all", _VOTE.format(1), r"= call i64 @kb_vote(\1, i32 0,")
_define("a ballot is zero", _VOTE.format(3), "= or i64 0, 0 ;")
_define("a match finds nobody", r"= call i64 @kb_match\(", "= or i64 0, 0 ;")
_define("all lanes are active", r"= call i32 @kb_active_mask\(", "= or i32 0, -1 ;")

# Atomics.
for _name, _pattern, _by in (
    ("an atomic add adds zero", r"atomicrmw (add|fadd) (ptr VALUE), (i\d+|float|double) VALUE",
     lambda m: f"atomicrmw {m[1]} {m[2]}, {m[3]} {'0' if m[3][0] == 'i' else '0.0'}"),
    ("an atomic add subtracts", r"atomicrmw (f?)add ", r"atomicrmw \1sub "),
    ("an atomic add gives the new value",
     r"(VALUE) = (atomicrmw add ptr VALUE, (i\d+) (VALUE).*)$", r"NEW = \2\n  \1 = add \3 NEW, \4"),
    ("an atomic and is an or", "atomicrmw and ", "atomicrmw or "),
    ("a signed maximum is unsigned", "atomicrmw max ", "atomicrmw umax "),
    ("an atomic minimum is a maximum", "atomicrmw (u?)min ", r"atomicrmw \1max "),
    ("an exchange keeps the old value", r"atomicrmw xchg (ptr VALUE, i\d+) VALUE",
     r"atomicrmw add \1 0"),
    ("an atomic inc counts nothing", r"atomicrmw uinc_wrap (ptr VALUE, i\d+) VALUE",
     r"atomicrmw add \1 0"),
    ("a compare and swap always succeeds",
     r"(VALUE) = cmpxchg (ptr VALUE), (i\d+) (VALUE), \3 (VALUE) (\w+) \w+(.*)$",
     r"NEW.old = atomicrmw xchg \2, \3 \5 \6\7"
     "\n"
     r"  NEW.one = insertvalue { \3, i1 } undef, \3 \4, 0"
     "\n"
     r"  \1 = insertvalue { \3, i1 } NEW.one, i1 true, 1"),
):  # fmt: skip
    _define(_name, _pattern, _by)
