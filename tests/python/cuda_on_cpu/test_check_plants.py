"""The checked mode finds faults that rules plant all over the corpus, see cuda_corpus/plants.py.

That nothing is reported of the same kernels without faults is proved in test_check.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

TESTS = str(Path(__file__).parents[2])
sys.path.insert(0, TESTS)

from cuda_corpus import plants  # noqa: E402

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("kinds", "count"),
    [
        pytest.param(plants.ALL, 1, id="one of each kind"),
        *(
            pytest.param([kind], plants.COUNT, id=kind, marks=pytest.mark.exhaustive)
            for kind in plants.ALL
        ),
    ],
)
def test_planted_faults_are_found(kinds, count, run_python, tmp_path):
    printed = run_python(
        f"import sys; sys.path.insert(0, {TESTS!r})\n"
        "from cuda_corpus.plants import check\n"
        f"check({list(kinds)!r}, {str(tmp_path)!r}, {count})",
        KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so",
        KERNBRIDGE_CACHE_DIR=str(tmp_path / "cache"),
        KERNBRIDGE_DEBUG="check",
    )
    found = json.loads(printed.splitlines()[-1])
    assert not found, "\n".join(found)
