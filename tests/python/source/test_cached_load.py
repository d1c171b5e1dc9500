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
# Each scans sources, starts compilers or looks at the whole cache. In an editable install, CMake
# touches our headers, so that the manifest is written again under a lock.
BUILD_ALONE = [
    *("kernbridge._src.build.make", "kernbridge._src.toolchain.programs"),
    *("kernbridge._src.source.glue", "kernbridge._src.scan.scanner", "kernbridge._src.forge.limit"),
]
PROGRAM = f"""
import sys
import kernbridge
before = set(sys.modules)
kernbridge.load_cpp_inline("cached", {SOURCE!r}).nothing
print(*sorted(set(sys.modules) - before))
"""


def test_a_cached_library_is_loaded_without_what_builds(run_python):
    building = run_python(PROGRAM).split()
    assert "kernbridge._src.build.make" in building  # the name is right
    loading = run_python(PROGRAM).split()
    assert "kernbridge._src.build.build" in loading
    assert [name for name in BUILD_ALONE if name in loading] == []
