"""Writes LLVM IR in the grammar of the oldest LLVM that Enzyme is run with.

Numba's LLVM prints what older ones cannot read: attributes and flags that only allow optimisations,
which are dropped, and names for what had another name. Each rule has a test.
"""

from __future__ import annotations

import re

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
        (r"\b(uitofp) nneg ", r"\1 "),
        (r"^.*call void @llvm\.lifetime\.(?:start|end)\.[^\n]*\n", ""),
        (r"^declare void @llvm\.lifetime\.[^\n]*\n", ""),
        (r"^ +#dbg_[^\n]*\n", ""),
        (r"^target datalayout = [^\n]*\n", ""),  # what opt takes for the triple
    )
)


_SPLAT = re.compile(r"<(\d+) x (\w+)> ((?:%[\w.]+, )?)splat \((\w+ [^()]*)\)")


def to_oldest(text: str) -> str:
    """Return a module in the grammar of LLVM `tool.OLDEST`."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)

    def spelled(found: re.Match[str]) -> str:
        n, kind, before, item = found.groups()
        return f"<{n} x {kind}> {before}<{', '.join([item] * int(n))}>"

    return _SPLAT.sub(spelled, text)
