"""Programs of two or three features, against the same programs of JAX alone.

What two features do is mostly tested for each alone. Here, a table (pair_table.py) says which can
meet, and programs are drawn from it until each two have met. KERNBRIDGE_PAIRS_SEED repeats a run of
`make test-all`; a failure prints the seed, the number and the text of its program.
"""

import itertools
import os
import random

import pair_programs
import pair_table
import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
pytestmark = pytest.mark.once

FIXED, N_FIXED = "1", 60
QUICK = (1, 3, 6, 9, 10, 11, 12, 15, 17, 19, 21, 24, 26, 28, 29, 34, 37, 39, 43, 45, 48, 50, 51, 52)
QUICK += (54, 55, 59)
"""The fixed programs in which the most pairs of features meet in the least time."""
SLOW = [n for n in range(N_FIXED) if n not in QUICK]
NEW = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(random.SystemRandom().randrange(1 << 32))
SEED = os.environ.get("KERNBRIDGE_PAIRS_SEED") or NEW  # the same in all workers
N_DRAWN = 5000


@pytest.fixture
def run(run_python, tmp_path):
    """Run programs in a process, and then in another what is meant for two."""

    def run(seed, numbers, some=()):
        later = tmp_path / "later"
        for call in (
            f"first({str(later)!r}, {seed!r}, {list(numbers)}, {some})",
            f"second({str(later)!r})",
        ):
            said = run_python(f"import pair_programs\npair_programs.{call}\n", check=False).strip()
            if not said.endswith("all have run"):
                said += f"\nin\n{later.with_suffix('.at').read_text()}"
            repeat = "" if seed == FIXED else f"KERNBRIDGE_PAIRS_SEED={seed}\n"
            assert said == "all have run", repeat + said

    return run


@pytest.mark.parametrize("half", range(2))
def test_quick_fixed_programs(run, half):
    run(FIXED, QUICK[half::2])


@pytest.mark.exhaustive
@pytest.mark.parametrize("half", range(2))
def test_slow_fixed_programs(run, half):
    run(FIXED, SLOW[half::2])


AT_ONCE = ("numba_kernel", "broadcasting", "outs", "alias", "static function", "static scalars")
AT_ONCE += ("arrays", "float64", "own names", "any function", "Enzyme", "jacrev of grad", "cond")
AT_ONCE += ("threads", "changed global", "checked")


@pytest.mark.exhaustive
def test_a_program_that_two_threads_compiled_at_once(run):
    """Each replaced the entry of the derivative, and what only the first kept was released."""
    for _ in range(2):
        run("20261128", [1958], AT_ONCE)


@pytest.mark.exhaustive
@pytest.mark.parametrize("begin", range(0, N_DRAWN, 25))
def test_drawn_programs(run, begin):
    run(SEED, range(begin, begin + 25))


def test_every_two_features_meet_that_can():
    pairs, met = set(pair_table.pairs()), set()
    assert len(pairs) < N_DRAWN
    for number in range(len(pairs)):
        met.update(itertools.combinations(pair_programs.drawn(SEED, number).values(), 2))
    assert met == pairs


def test_each_reason_sets_two_features_apart():
    """No line of the table is there in vain, and none names a feature that there is not."""
    known = set(pair_table.AXIS)
    for i, (*sets, why) in enumerate(pair_table.APART):
        assert all(some and some <= known for some in sets), why
        others = [line for j, line in enumerate(pair_table.APART) if j != i]
        for together in itertools.product(*sets):
            axes = {pair_table.AXIS[feature] for feature in together}
            allowed = not any(all(set(together) & some for some in more) for *more, _ in others)
            if len(axes) == len(sets) and allowed:
                break
        else:
            raise AssertionError(f"no two features are apart for this reason alone: {why}")


def test_a_program_is_the_same_each_time():
    for number in range(20):
        assert str(pair_programs.program("a", number)) == str(pair_programs.program("a", number))
