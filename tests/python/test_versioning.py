"""What docs/versioning.md promises of names: none goes without having been deprecated."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "release"))

import face

pytestmark = pytest.mark.once


def test_no_public_name_or_parameter_is_lost():
    lost = face.lost(json.loads(face.FILE.read_text()), face.face())
    assert not lost, (
        "programs that used these will fail; docs/versioning.md says how a name may go. If it may, "
        "run python tests/release/face.py --write:\n" + "\n".join(lost)
    )


def of(function):
    return {"f": face._parameters(function)}


def test_additions_are_no_loss():
    assert face.lost(of(lambda a, *, b=1: 0), of(lambda a, c=2, *, d=3, b=1: 0)) == []
    assert face.lost(of(lambda a, *, b: 0), of(lambda a, b=0: 0)) == []
    assert face.lost(of(lambda *, b: 0), of(lambda **options: 0)) == []
    assert face.lost({"f": None}, of(lambda a: 0)) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            lambda a: 0,
            lambda: 0,
            ["parameter 'a' is missing", "by position it took ['a'], and takes []"],
        ),
        (
            lambda a: 0,
            lambda *, a: 0,
            ["parameter 'a' was POSITIONAL_OR_KEYWORD, and is KEYWORD_ONLY"],
        ),
        (lambda a=0: 0, lambda a: 0, ["parameter 'a' could be left out"]),
        (lambda: 0, lambda a: 0, ["parameter 'a' is new, and cannot be left out"]),
        (lambda a, b: 0, lambda b, a: 0, ["by position it took ['a', 'b'], and takes ['b', 'a']"]),
        (lambda **b: 0, lambda: 0, ["parameter 'b' is missing"]),
    ],
)
def test_a_loss_is_named(old, new, said):
    found = face.lost(of(old), of(new))
    assert [f"f: {what}" for what in said] == found[: len(said)]


def test_a_missing_name_is_a_loss():
    assert face.lost({"f": None, "g": None}, {"g": None}) == ["f is missing"]
    assert face.lost(of(lambda a: 0), {"f": None}) == ["f is not called any more"]
