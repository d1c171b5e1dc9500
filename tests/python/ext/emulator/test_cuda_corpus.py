"""The kernels of tests/cuda_corpus on the CPU: a GPU's values, and bugs that they must notice.

Each group is a program of its own, since this process has a fake driver that takes GPU calls.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

TESTS = str(Path(__file__).parents[3])
sys.path.insert(0, TESTS)

from cuda_corpus import bugs, case, kept_inputs  # noqa: E402

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("group", "bugs"),
    [
        *(pytest.param(group, 1, id=f"{group}-one bug") for group in case.GROUPS[::6]),
        *(
            pytest.param(group, None, id=f"{group}-every bug", marks=pytest.mark.exhaustive)
            for group in case.GROUPS
        ),
    ],
)
def test_gives_the_values_of_a_gpu_and_notices_bugs(group, bugs, run_python, tmp_path):
    printed = run_python(
        f"import sys; sys.path.insert(0, {TESTS!r})\n"
        f"from cuda_corpus.check import check; check({group!r}, {bugs})",
        KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so",
        KERNBRIDGE_CACHE_DIR=str(tmp_path / "cache"),
    )
    found = json.loads(printed.splitlines()[-1])
    assert not found, "\n".join(found)


def test_size_names_and_bugs():
    found = case.cases()
    names = [c.name for c in found]
    assert len(names) == len(set(names)) >= 40
    assert len({c.covers for c in found}) == len(found)
    assert {c.bug for c in found} == set(bugs.BUGS)
    assert all(c.why for c in found if c.rtol or c.atol)


def test_a_bug_that_changes_nothing_is_an_error():
    with pytest.raises(AssertionError, match="finds nothing to change"):
        bugs.plant("fsub is fadd", "  %a = fadd float %b, %c\n")


def test_every_input_is_kept():
    """NumPy and the C library draw others on other processors, to which no values belong."""
    found = dict(kept_inputs.every())
    assert len(found) > 900
    assert [name for name, x in found.items() if not kept_inputs.is_kept(name, x)] == []
    (x,) = kept_inputs.settled("kepler", [found["kepler/0"] * (1 + 1e-9)])
    assert x.tobytes() == found["kepler/0"].tobytes()
    (x,) = kept_inputs.settled("kepler", [found["kepler/0"] + 1])  # drawn otherwise since
    assert np.array_equal(x, found["kepler/0"] + 1)
