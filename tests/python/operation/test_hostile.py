"""Calls by hand, damaged and edited programs: an error or the right result, no crash, no hang.

KERNBRIDGE_HOSTILE_SEED repeats a run; a failure prints the seed.
"""

import os
import random

import pytest

pytestmark = pytest.mark.once

GPU = {k: v for k, v in os.environ.items() if k in ("KERNBRIDGE_LIBCUDA", "KERNBRIDGE_TEST_CUDA")}


@pytest.fixture
def run(run_python, tmp_path):
    """Write the programs in one process, and change them in another."""

    def run(what, n):
        run_python("import hostile\nhostile.write('programs')")
        seed = os.environ.get("KERNBRIDGE_HOSTILE_SEED") or random.randrange(1 << 32)
        print(f"KERNBRIDGE_HOSTILE_SEED={seed}")
        said = run_python(
            f"import hostile\nhostile.{what}('programs', {seed}, {n})", check=False, **GPU
        )
        at = (tmp_path / "programs.at").read_text()
        assert "['refused', 'right']" in said.splitlines(), f"{said}\nlast: {at}"

    return run


@pytest.mark.exhaustive
@pytest.mark.parametrize("n", [30, 3000])
def test_calls_by_hand_fail_or_are_right(run, n):
    run("calls", n)


@pytest.mark.exhaustive
@pytest.mark.parametrize("n", [30, 1500])
def test_a_flipped_bit_of_code_or_identity_is_refused(run, n):
    run("flips", n)


@pytest.mark.exhaustive
@pytest.mark.parametrize("n", [40, 5000])
def test_a_program_whose_text_is_edited_fails_or_is_right(run, n):
    run("edits", n)
