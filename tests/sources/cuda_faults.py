"""Faults that are planted in the CUDA sources, and what the checked mode on CPUs says of them.

A fault is a textual edit of a source, or of a header that it includes; cuda_faults.toml lists them.
Each has a kind of FOUND or of MISSED, the two halves of the table in docs/checks.md.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from pathlib import Path

import corpus

FOUND = {
    "bounds": r"(reads|writes|updates) '\w+' \(.*\) out of bounds: element ",
    "index": r"the index -?\d+ is out of bounds for an array of type '.*'",
    "shared bounds": r"(reads|writes|updates) the (dynamic )?shared array '\w+' out of bounds: ",
    "shared race": r"a data race: it .* of the (dynamic )?shared array '\w+'",
    "race": r"a data race: it \w+ element \[.*\] of '\w+'",
    "race of blocks": r"a data race between blocks: it \w+ element \[.*\] of '\w+'",
    "unwritten shared": r"of the (dynamic )?shared array '\w+', which no thread of the block has",
    "unwritten output": r"(reads|updates) element \[.*\] of '\w+' .*, which nothing has written",
    "barrier": r"__syncthreads .*which \d+ of the block's|ends without __syncthreads|another \(at"
    r"|neither can continue|in a warp shuffle with the mask .* undefined",
    "input": r"writes element \[.*\] of '\w+' .*, which is an input",
    "shuffle": r"in a warp shuffle with the mask .* undefined|calls a warp shuffle with the mask",
    "alignment": r"at an address that is no multiple of the size of the access",
}
MISSED = ("same value", "inside the array", "passed by value")

# Of each fault: its kind, the source, and what text of it is replaced by which.
FAULTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["faults"]


def counts() -> Counter[str]:
    """Count the faults of each kind."""
    return Counter(kind for kind, *_ in FAULTS)


def verdict(number: int) -> str:
    """Run a source with a fault in the checked mode; return what is wrong with what that says."""
    kind, name, old, new = FAULTS[number]
    (case,) = (c for c in corpus.all_cases() if c.name == name and c.language == "cuda")
    module = case.load_edited(f"fault_{number}", old, new, check=True, optimization_level=3)
    try:
        case.wrong(module, 0)  # which may be that numbers differ
        said = ""
    except Exception as e:
        said = str(e)
    expected = FOUND.get(kind)
    if name == "nbody" and kind != "barrier" and "clang" in os.environ.get("CXX", ""):
        # It copies structures as a whole, by instructions that g++ does not use.
        kinds = ("bounds", "index", "shared bounds", "shared race", "unwritten shared", "alignment")
        expected = "|".join(FOUND[k] for k in kinds)
    if expected is None:
        return said and f"{name}, {old!r}: nothing is to be said of {kind}: {said}"
    is_found = re.search(expected, said) and "launch of" in said and "[KB3004]" in said
    return "" if is_found else f"{name}, {old!r} is to be {new!r}: {kind}: {said or 'nothing'}"


def sample() -> list[int]:
    """Return the number of one fault of each kind, of the sources that are built soonest."""
    quick = (
        "add_family",
        "integer_mix",
        "ising",
        "layer_norm",
        "stdp_inplace",
        "half_axpy",
        "wave3d",
    )
    first = {}
    for i, (kind, name, *_) in enumerate(FAULTS):
        if name in quick:
            first.setdefault(kind, i)
    return sorted(first.values())
