"""The kernels of tests/cuda_corpus give on this GPU what is kept of another."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba.cuda")
sys.path.insert(0, str(Path(__file__).parents[1]))

from cuda_corpus.case import cases
from cuda_corpus.check import VALUES, kept


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_gives_the_kept_values(case):
    with np.load(VALUES) as values:
        want = kept(case, values)
    found = case.differences(case.run(), want)
    assert not found, "\n".join(found)
