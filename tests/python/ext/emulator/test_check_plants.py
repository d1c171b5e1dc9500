"""The checked mode finds faults that rules plant all over the corpus, see cuda_corpus/plants.py.

That nothing is reported of the same kernels without faults is proved in test_check.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

TESTS = str(Path(__file__).parents[3])
sys.path.insert(0, TESTS)

from cuda_corpus import plants  # noqa: E402

pytestmark = pytest.mark.once


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", plants.ALL)
def test_planted_faults_are_found(kind, run_python, tmp_path):
    printed = run_python(
        f"import sys; sys.path.insert(0, {TESTS!r})\n"
        "from cuda_corpus.plants import check\n"
        f"check([{kind!r}], {str(tmp_path)!r})",
        KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so",
        KERNBRIDGE_CACHE_DIR=str(tmp_path / "cache"),
        KERNBRIDGE_DEBUG="check",
    )
    found = json.loads(printed.splitlines()[-1])
    assert not found, "\n".join(found)
