"""Drawn expressions in CUDA kernels on the CPU give a GPU's values, to the bit."""

import json
from pathlib import Path

import pytest
from processor_features import has_fma

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

TESTS = str(Path(__file__).parents[3])

pytestmark = pytest.mark.once

GROUPS = {  # how many expressions they have at least
    ("conversions", "shifts"): 100,
    ("divisions", "orders", "powers", "halves"): 160,
    ("sums", "functions"): 80,
    ("alone",): 60,
    ("drawn",): 300,
}
SHORT = (("conversions", "shifts"), ("sums", "functions"))


def shares():
    """All of each group, and of two an eighth that always runs."""
    for groups in GROUPS:
        for every, share in ((8, "an eighth"), (1, "all")):
            rare = every == 1 or groups not in SHORT
            name, marks = f"{'-'.join(groups)}-{share}", [pytest.mark.exhaustive] * rare
            yield pytest.param(groups, every, id=name, marks=marks)


@pytest.mark.brief
@pytest.mark.parametrize(("groups", "every"), list(shares()))
def test_gives_the_values_of_a_gpu(groups, every, run_python, tmp_path):
    if not has_fma() and groups[0] in ("sums", "alone", "drawn"):
        pytest.skip("the processor has no fused multiply-add")
    printed = run_python(
        f"import sys; sys.path.insert(0, {TESTS!r})\n"
        f"from cuda_corpus.check_expressions import check; check(*{groups!r}, every={every})",
        KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so",
        KERNBRIDGE_CACHE_DIR=str(tmp_path / "cache"),
    )
    compared, found = json.loads(printed.splitlines()[-1])
    assert not found, "\n".join(found)
    assert compared >= (GROUPS[groups] if every == 1 else 1)
