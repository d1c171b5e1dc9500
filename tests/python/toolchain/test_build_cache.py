"""What is built again, and what is not."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import write_compiler
from kernbridge._src.toolchain.build import Request, build, library

CC = shutil.which("gcc") or shutil.which("cc")
pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(CC is None, reason="no C compiler here"),
    pytest.mark.usefixtures("root"),
]

MAIN = '#include "a.h"\n__attribute__((visibility("default"))) int answer(void) { return A; }\n'


@pytest.fixture
def request_(tmp_path, monkeypatch):
    """A source with a header, and one in that, behind one of ours."""
    user, own = tmp_path / "user", tmp_path / "own"
    user.mkdir()
    own.mkdir()
    (user / "a.h").write_text('#include <ours.h>\n#include "b.h"\n')
    (user / "b.h").write_text("#define A (B + 1)\n")
    (own / "ours.h").write_text("#define B 1\n")
    (tmp_path / "libs").mkdir()
    monkeypatch.setattr(library, "include_paths", lambda language: (str(own),))
    return Request("m", "c", MAIN, "spec", include_paths=(str(user),))


def age(path, seconds=1000):
    """Let a file be older than it is."""
    about = os.stat(path)
    os.utime(path, (about.st_atime - seconds, about.st_mtime - seconds))


def test_nothing_changed(request_, compiler, root):
    first = build(request_)
    assert first.built
    before = snapshot(root)
    for _ in range(3):
        assert build(request_) == first._replace(built=False)
    assert compiler() == 1
    assert snapshot(root) == before  # a hit writes nothing


def snapshot(folder):
    return {p: (p.lstat().st_ino, p.lstat().st_mtime_ns) for p in sorted(folder.rglob("*"))}


def test_what_does_not_count(request_, compiler, tmp_path):
    first = build(request_)
    for other in (
        request_._replace(verbose=True),
        request_._replace(build_directory=str(tmp_path / "out")),
    ):
        assert build(other) == first._replace(built=False)
    age(tmp_path / "user" / "b.h")  # another time, the same content
    assert not build(request_).built
    (tmp_path / "user" / "unrelated.h").write_text("")
    assert not build(request_).built
    assert compiler() == 1


def test_a_touched_header_is_read_once(request_, monkeypatch, tmp_path):
    build(request_)
    age(tmp_path / "user" / "b.h")
    read = []
    real = library.digest_of
    monkeypatch.setattr(library, "digest_of", lambda p: read.append(str(p)) or real(p))
    for _ in range(2):
        assert not build(request_).built
    assert [Path(p).name for p in read if not p.endswith(".so")] == ["b.h"]


CHANGES = {
    "source": lambda r: r._replace(source=r.source + "\n"),
    "spec": lambda r: r._replace(spec="other"),
    "name": lambda r: r._replace(name="n"),
    "language": lambda r: r._replace(
        language="c++", source=r.source.replace("__att", 'extern "C" __att')
    ),
    "cflags": lambda r: r._replace(cflags=("-DX",)),
    "ldflags": lambda r: r._replace(ldflags=("-lm",)),
    "optimization_level": lambda r: r._replace(optimization_level=0),
    "no optimization_level": lambda r: r._replace(optimization_level=None),
    "fast_math": lambda r: r._replace(fast_math=True),
    "include_paths": lambda r: r._replace(include_paths=(*r.include_paths, "/nowhere")),
    "order": lambda r: r._replace(include_paths=("/nowhere", *r.include_paths)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_the_request(request_, change):
    first = build(request_)
    other = CHANGES[change](request_)
    second = build(other)
    assert second.built
    assert second.digest != first.digest
    assert second.path != first.path
    assert build(request_) == first._replace(built=False)
    assert build(other) == second._replace(built=False)


@pytest.mark.parametrize("header", ["user/a.h", "user/b.h", "own/ours.h"])
def test_changes_of_headers(request_, compiler, tmp_path, header):
    """Also back again, and to another content of the same size and time."""
    first = build(request_)
    path = tmp_path / header
    before, about = path.read_text(), path.stat()
    path.write_text(before + "/* more */\n")
    second = build(request_)
    assert second.built
    assert second.digest != first.digest
    path.write_text(before)
    assert build(request_) == first._replace(built=False)
    path.write_text(before.replace("1", "2").replace('"b.h"\n', '"b.h" '))
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns + 1))
    third = build(request_)
    assert third.built
    assert len({first.digest, second.digest, third.digest}) == 3
    path.unlink()
    path.write_text(before + "/* more */\n")
    assert build(request_) == second._replace(built=False)
    assert compiler() == 3


def test_a_header_that_comes_before(request_, tmp_path):
    """A new file in a folder that is searched earlier takes the place of the one that was read."""
    early, late = tmp_path / "early", tmp_path / "user"
    early.mkdir()
    source = MAIN.replace('"a.h"', "<a.h>")
    request = request_._replace(source=source, include_paths=(str(early), str(late)))
    first = build(request)
    (early / "a.h").write_text("#define A 9\n")
    second = build(request)
    assert second.built
    assert second.digest != first.digest
    (early / "a.h").unlink()
    assert build(request) == first._replace(built=False)


def test_a_header_that_is_gone(request_, tmp_path):
    build(request_)
    (tmp_path / "user" / "b.h").unlink()
    with pytest.raises(Exception, match=r"(?s)\[KB4006\].*b\.h: No such file"):
        build(request_)


def test_another_size_at_the_same_time(request_, tmp_path):
    path = tmp_path / "user" / "b.h"
    first, about = build(request_), path.stat()
    path.write_text("#define A (B + 10)\n")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    second = build(request_)
    assert second.built
    assert second.digest != first.digest


def test_where_our_headers_are_does_not_count(request_, compiler, tmp_path, monkeypatch):
    first = build(request_)
    elsewhere = shutil.copytree(tmp_path / "own", tmp_path / "elsewhere" / "own")
    monkeypatch.setattr(library, "include_paths", lambda language: (str(elsewhere),))
    age(tmp_path / "elsewhere" / "own" / "ours.h")
    shutil.rmtree(tmp_path / "own")
    found = build(request_)
    assert found == first._replace(built=False)
    assert compiler() == 1
    (tmp_path / "elsewhere" / "own" / "ours.h").write_text("#define B 5\n")
    assert build(request_).digest != first.digest


def test_changes_of_the_compiler(request_, tmp_path, monkeypatch):
    script = tmp_path / "cc"
    write_compiler(script, "true")
    monkeypatch.setenv("CC", str(script))
    first = build(request_)
    age(script)
    assert build(request_) == first._replace(built=False)  # only its time is another
    write_compiler(script, "false || true")
    second = build(request_)
    assert second.built
    assert second.digest != first.digest
    write_compiler(script, "true")
    assert build(request_) == first._replace(built=False)
    other = tmp_path / "other-cc"
    shutil.copy(script, other)
    monkeypatch.setenv("CC", str(other))
    assert build(request_).built


def test_a_library_that_other_rules_built_is_not_taken(request_, monkeypatch):
    first = build(request_)
    with monkeypatch.context() as m:
        m.setattr(library, "RULES", library.RULES[1:])
        assert build(request_).digest != first.digest
    assert build(request_) == first._replace(built=False)


def test_arguments_of_the_compiler_and_its_environment(request_, monkeypatch):
    digests = set()
    for changes in ({}, {"CC": f"{CC} -DX"}, {"CPATH": "/nowhere"}, {"LIBRARY_PATH": "/nowhere"}):
        with monkeypatch.context() as m:
            for name, value in changes.items():
                m.setenv(name, value)
            built = build(request_)
            assert built.built, changes
            assert not build(request_).built
            digests.add(built.digest)
    assert len(digests) == 4


@pytest.mark.parametrize("flags", [("-Iinc",), ("@opts",), ("-include", "opts")])
def test_relative_flags_mean_another_thing_elsewhere(request_, tmp_path, monkeypatch, flags):
    absolute = request_._replace(cflags=("-DX", f"-I{tmp_path}"), ldflags=("-lm",))
    relative = request_._replace(cflags=flags)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "opts").touch()
        monkeypatch.chdir(tmp_path / folder)
        assert build(relative).built
        assert build(absolute).built == (folder == "one")


def test_a_changed_library_that_is_linked_in(request_, tmp_path):
    def archive(value):
        (tmp_path / "l.c").write_text(f"int l(void) {{ return {value}; }}")
        subprocess.run([CC, "-fPIC", "-c", "l.c", "-o", "l.o"], cwd=tmp_path, check=True)
        (tmp_path / "libs" / "libl.a").unlink(missing_ok=True)
        subprocess.run(["ar", "rcD", "libs/libl.a", "l.o"], cwd=tmp_path, check=True)

    archive(1)
    source = "int l(void);\n" + MAIN.replace("A;", "l();")
    request = request_._replace(source=source, ldflags=(f"-L{tmp_path / 'libs'}", "-ll"))
    digests = set()
    for value in (1, 2):
        archive(value)
        digests.add(build(request).digest)
        assert not build(request).built
    assert len(digests) == 2


def test_a_header_that_changes_during_the_build(request_, tmp_path, monkeypatch):
    """What the compiler saw is not known: it is built again, and never recorded as clean."""
    header, log = tmp_path / "user" / "b.h", tmp_path / "log"
    script = tmp_path / "cc"
    # As an editor does: after the compiler has read it. The first time only.
    script.write_text(
        f'#!/bin/sh\n{CC} "$@" || exit\n[ "$1" = --version ] && exit\n'
        f'[ -e {log} ] || echo "#define A 7" > {header}\necho >> {log}\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    import ctypes

    built = build(request_)
    assert ctypes.CDLL(str(built.path)).answer() == 7
    assert log.read_text().count("\n") == 2
    assert build(request_) == built._replace(built=False)


def test_a_header_that_never_rests(request_, tmp_path, monkeypatch):
    header = tmp_path / "user" / "b.h"
    script = tmp_path / "cc"
    write_compiler(script, f'echo "/* x */" >> {header}')
    monkeypatch.setenv("CC", str(script))
    one, two = build(request_), build(request_)
    assert one.built
    assert two.built
    assert one.digest != two.digest


def test_what_was_built_from_an_unknown_state_has_a_name_of_its_own(
    request_, tmp_path, monkeypatch
):
    header, log = tmp_path / "user" / "b.h", tmp_path / "log"
    script = tmp_path / "cc"
    write_compiler(
        script, f'echo >> {log}; [ $(wc -l < {log}) -gt 3 ] || echo "/* x */" >> {header}'
    )
    monkeypatch.setenv("CC", str(script))
    unknown = build(request_)
    assert log.read_text().count("\n") == 3
    known = build(request_)  # of the same headers, which now rest
    assert known.built
    assert known.digest != unknown.digest
    assert build(request_) == known._replace(built=False)


@pytest.mark.exhaustive
def test_other_processes(request_, compiler, run_python, root, tmp_path):
    """A process that never built it finds it, and the same digest."""
    first = build(request_)
    program = f"""
from kernbridge._src.toolchain.build import Request, build, library
library.include_paths = lambda language: ({str(tmp_path / "own")!r},)
built = build({request_!r})
print(built.digest, built.built)
"""
    cc = str(tmp_path / "counting-cc")
    assert run_python(program, CC=cc).split() == [first.digest, "False"]
    (tmp_path / "user" / "b.h").write_text("#define A 3\n")
    digest, built = run_python(program, CC=cc).split()
    assert (digest != first.digest, built) == (True, "True")
    assert build(request_).digest == digest
    assert compiler() == 2


def test_rebuilding_by_force(request_, compiler):
    first = build(request_)
    again = build(request_._replace(force_rebuild=True))
    assert again == first
    assert compiler() == 2
    assert not build(request_).built
