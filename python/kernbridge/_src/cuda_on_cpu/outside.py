"""What becomes of the answers whether a write leaves its array, in the LLVM IR of a kernel.

`_cuda_host_bounds` has put calls of `kb.outside.NAME` into it, where NAME is the description of an
array in hexadecimal digits. Where threads run in loops, an answer becomes a bit of a number, which
LLVM keeps in a register, and `kb_blocks` returns the description of the first one that is set.
Where a thread is a fibre, the block ends at once.
"""

from __future__ import annotations

import itertools
import re

_MARK = re.compile(
    r'^ *(?:tail )?call void @"?kb\.outside\.([0-9a-f]+)"?\(i1 (.+?)\)[^()\n]*$', re.M
)
_DECLARED = re.compile(r'^declare void @"?kb\.outside\..*$', re.M)
_BITS = 64

_OF_FIBRES = """
declare void @kb_write_outside(ptr, ptr) noreturn cold
define internal void @kb.outside(ptr %thread, i1 %is, ptr %what) alwaysinline {
  br i1 %is, label %outside, label %inside
outside:
  call void @kb_write_outside(ptr %thread, ptr %what)
  unreachable
inside:
  ret void
}
"""

_OF_LOOPS = """\
  %kb.bits = load i64, ptr %kb.outside
  %kb.well = icmp eq i64 %kb.bits, 0
  br i1 %kb.well, label %kb.return, label %kb.report
kb.report:
  %kb.first = call i64 @llvm.cttz.i64(i64 %kb.bits, i1 false)
  %kb.at = getelementptr ptr, ptr @kb.outside.all, i64 %kb.first
  %kb.what = load ptr, ptr %kb.at
  store ptr %kb.what, ptr %kb.found
  br label %kb.return
kb.return:
  ret void
"""


class Outside:
    """The descriptions of the arrays that one kernel writes to."""

    def __init__(self, text: str) -> None:
        self.all = list(dict.fromkeys(found[1] for found in _MARK.finditer(text)))

    def replaced(self, text: str, by_threads: bool) -> str:
        """The kernel's text with the answers in their form."""
        numbers = itertools.count()

        def answer(found: re.Match[str]) -> str:
            which = min(self.all.index(found[1]), _BITS - 1)
            given = found[2].replace("noundef ", "").replace("zeroext ", "")
            if by_threads:
                return (
                    f"  call void @kb.outside(ptr %kb.thread, i1 {given}, ptr @kb.outside.{which})"
                )
            n = next(numbers)
            bit = 1 << which if which < _BITS - 1 else -(1 << which)
            return (
                f"  %kb.os{n} = select i1 {given}, i64 {bit}, i64 0\n"
                f"  %kb.ol{n} = load i64, ptr %kb.outside\n"
                f"  %kb.oo{n} = or i64 %kb.ol{n}, %kb.os{n}\n"
                f"  store i64 %kb.oo{n}, ptr %kb.outside"
            )

        return _MARK.sub(answer, _DECLARED.sub("", text))

    def definitions(self, by_threads: bool) -> str:
        """Of what the text names."""
        if not self.all:
            return ""
        shown = [bytes.fromhex(name) for name in self.all[:_BITS]]
        if len(self.all) > _BITS:
            shown[-1] = b"one of its arrays"
        lines = []
        for i, data in enumerate(shown):
            escaped = "".join(f"\\{byte:02x}" for byte in data) + "\\00"
            lines.append(f'@kb.outside.{i} = private constant [{len(data) + 1} x i8] c"{escaped}"')
        names = ", ".join(f"ptr @kb.outside.{i}" for i in range(len(shown)))
        if by_threads:
            return "\n".join(lines) + _OF_FIBRES
        lines.append(f"@kb.outside.all = private constant [{len(shown)} x ptr] [{names}]")
        return "\n".join(lines) + "\ndeclare i64 @llvm.cttz.i64(i64, i1)\n"

    def returned(self, loops: str) -> str:
        """The loops over threads, with the report at their end."""
        return loops.replace("  ret void\n", _OF_LOOPS) if self.all else loops
