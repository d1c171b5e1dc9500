"""Writes LLVM IR in the grammar of the oldest LLVM that Enzyme is run with.

Numba's LLVM prints what older ones cannot read: attributes and flags that only allow optimisations,
which are dropped, and names for what had another name. `to_oldest` shows each rule.
"""

from __future__ import annotations

import re

# llvmlite 0.45 adds an attribute of a function to its result.
_MISPLACED = re.compile(
    r"^(define (?:\w+ )*?)(alwaysinline|noinline) (.*?)((?: !dbg !\d+)?) \{$", re.M
)
_LINES = re.compile(r",? !dbg !\d+|^!llvm\.dbg\.cu = [^\n]*\n", re.M)
_GROUP = r"\((?:[^()]|\([^()]*\))*\)"
_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.M), replacement)
    for pattern, replacement in (
        (rf"\bcaptures{_GROUP}", "nocapture"),
        (r"\bmemory\(none\)", "readnone"),
        (rf"\bmemory{_GROUP} ?", ""),
        (rf"\b(?:range|initializes|nofpclass){_GROUP} ?", ""),
        (r"\b(?:nocreateundeforpoison|dead_on_unwind|dead_on_return|writable) ?", ""),
        (r"\b(?:samesign|nneg|disjoint) ", ""),
        (r"\btrunc (?:nuw |nsw )+", "trunc "),
        (r"\b(getelementptr(?: inbounds)?) (?:nusw |nuw )+", r"\1 "),
        (r"^.*call void @llvm\.lifetime\.(?:start|end)\.[^\n]*\n", ""),
        (r"^declare void @llvm\.lifetime\.[^\n]*\n", ""),
        (r"^ +#dbg_[^\n]*\n", ""),
        (r"^target datalayout = [^\n]*\n", ""),  # what opt takes for the triple
    )
)


_SPLAT = re.compile(r"<(\d+) x (\w+)> ((?:%[\w.]+, )?)splat \((\w+ [^()]*)\)")


def placed(text: str) -> str:
    """Return a module in which attributes that say whether a function is inlined are its own."""
    return _MISPLACED.sub(r"\1\3 \2\4 {", text)


def without_lines(text: str) -> str:
    """Return a module without the lines of its source."""
    return _LINES.sub("", text)


def to_oldest(text: str) -> str:
    r"""Return a module in the grammar of LLVM `tool.OLDEST`.

    Examples
    --------
    >>> print(to_oldest("define internal alwaysinline void @f(ptr %x) #0 {"))
    define internal void @f(ptr %x) #0 alwaysinline {
    >>> print(to_oldest("ptr captures(none) %x"))
    ptr nocapture %x
    >>> print(to_oldest("ptr captures(address, read_provenance) %x"))
    ptr nocapture %x
    >>> print(to_oldest("nounwind memory(none) }"))
    nounwind readnone }
    >>> print(to_oldest("nounwind memory(argmem: readwrite, errnomem: none) }"))
    nounwind }
    >>> print(to_oldest("noundef range(i32 0, 2) i32"))
    noundef i32
    >>> print(to_oldest("ptr writable dead_on_unwind %x"))
    ptr %x
    >>> print(to_oldest("zext nneg i32 %a to i64"))
    zext i32 %a to i64
    >>> print(to_oldest("or disjoint i64 %a, 1"))
    or i64 %a, 1
    >>> print(to_oldest("icmp samesign ult i64 %a, 1"))
    icmp ult i64 %a, 1
    >>> print(to_oldest("trunc nuw nsw i64 %a to i32"))
    trunc i64 %a to i32
    >>> print(to_oldest("getelementptr inbounds nuw i8, ptr %p"))
    getelementptr inbounds i8, ptr %p
    >>> print(to_oldest("  call void @llvm.lifetime.start.p0(ptr %p)\nret"))
    ret
    >>> print(to_oldest("declare void @llvm.lifetime.end.p0(ptr) #1\nret"))
    ret
    >>> print(to_oldest("    #dbg_value(i64 0, !5, !6)\nret"))
    ret
    >>> print(to_oldest('target datalayout = "e-m:e"\nret'))
    ret
    >>> print(to_oldest("icmp eq <2 x i32> %a, splat (i32 1)"))
    icmp eq <2 x i32> %a, <i32 1, i32 1>
    """
    text = placed(text)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)

    def spelled(found: re.Match[str]) -> str:
        n, kind, before, item = found.groups()
        return f"<{n} x {kind}> {before}<{', '.join([item] * int(n))}>"

    return _SPLAT.sub(spelled, text)
