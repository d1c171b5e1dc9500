"""What the cache says of its entries, changed at random: a value that was stored, or nothing.

KERNBRIDGE_HOSTILE_SEED repeats a run; a failure prints the seed.
"""

import hashlib
import json
import os
import random

import kernbridge
import pytest
from kernbridge._src.forge import artefacts
from kernbridge._src.toolchain.build import library

pytestmark = pytest.mark.once

KEY = bytes(range(32))
STRANGE = [
    *(
        None,
        True,
        -1,
        0,
        1.5,
        1 << 64,
        -(1 << 64),
        float("inf"),
        "",
        "x",
        "\0",
        "../../x",
        "\ud800",
    ),
    *([], [0], [[]], {}, {"x": 1}, [1 << 70], ["\0"], [None]),
]


@pytest.fixture
def r():
    seed = os.environ.get("KERNBRIDGE_HOSTILE_SEED") or str(random.randrange(1 << 32))
    print(f"KERNBRIDGE_HOSTILE_SEED={seed}")
    return random.Random(seed)


def changed(r, value):
    """A value in which one part, or all of it, is another."""
    if isinstance(value, dict) and value and r.random() < 0.9:
        name = r.choice([*value])
        if r.random() < 0.15:
            return {k: v for k, v in value.items() if k != name}
        return {**value, name: changed(r, value[name])}
    if isinstance(value, list) and value and r.random() < 0.8:
        at = r.randrange(len(value))
        return [
            *value[:at],
            *([changed(r, value[at])] * r.choice([0, 1, 1, 1, 2])),
            *value[at + 1 :],
        ]
    return r.choice(STRANGE)


@pytest.mark.parametrize("n", [300, pytest.param(20_000, marks=pytest.mark.exhaustive)])
def test_artefacts(root, r, n, capfd):
    from kernbridge import cli

    blobs = (b"first", b"", b"third")
    artefacts.store("hostile", KEY, artefacts.Artefact({"a": [1, "x"]}, blobs), "name")
    (path,) = root.rglob("*.bin")
    line, rest = path.read_bytes()[:-32].split(b"\n", 1)
    for _ in range(n):
        header = json.dumps(changed(r, json.loads(line))).encode()
        data = header + b"\n" + rest
        path.write_bytes(data + hashlib.sha256(data).digest())
        found = artefacts.load("hostile", KEY)
        assert found is None or b"".join(found.blobs) == b"".join(blobs)
        assert found is None or isinstance(found.meta, dict)
        assert cli.main(["cache", "list", "--json"]) == 0
        assert all(isinstance(e["name"], str) for e in json.loads(capfd.readouterr().out)["list"])


@pytest.mark.parametrize("n", [300, pytest.param(20_000, marks=pytest.mark.exhaustive)])
def test_manifests_of_modules(root, r, n, monkeypatch):
    jobs, find = [], library.find
    monkeypatch.setattr(library, "find", lambda *a: jobs.append(a) or find(*a))
    source = "// @BE f arg:any ret:any\nvoid f(const kb_tensor *x, kb_tensor *y) {}\n"
    source = '#include "kernbridge/kernbridge.h"\n' + source
    kernbridge.load_c_inline("test_hostile", source, auto_register=False)
    (path,) = root.rglob("manifest.json")
    good = json.loads(path.read_bytes())
    assert find(*jobs[0]) is not None
    for _ in range(n):
        path.write_text(json.dumps(changed(r, good)))
        found = find(*jobs[0])
        assert found is None or found.path.parent == path.parent
    path.write_text(json.dumps(good))
    assert find(*jobs[0]) is not None
