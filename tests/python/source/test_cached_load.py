"""What a load of a cached library imports."""

import shutil

import pytest

CXX = shutil.which("g++") or shutil.which("c++")
pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(CXX is None, reason="no C++ compiler here"),
    pytest.mark.usefixtures("root"),
]

SOURCE = """
#include "kernbridge/kernbridge.hpp"
// @BE nothing arg ret
void nothing(const kernbridge::Tensor x, kernbridge::Tensor out) {}
"""
ALONE = 7  # modules of kernbridge that only a build needs
PROGRAM = f"""
import sys
import kernbridge
before = set(sys.modules)
kernbridge.load_cpp_inline("cached", {SOURCE!r}).nothing
print(*sorted(set(sys.modules) - before))
"""


@pytest.mark.exhaustive
def test_a_cached_library_is_loaded_without_what_builds(run_python):
    """Neither what scans sources, nor what starts compilers, nor what looks at the whole cache."""
    building, loading = (set(run_python(PROGRAM).split()) for _ in range(2))
    alone = [name for name in building - loading if name.startswith("kernbridge.")]
    assert len(alone) >= ALONE, sorted(alone)
