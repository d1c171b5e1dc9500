"""`kernbridge c-flags`: where a compiler finds the library for hosts without Python."""

import shlex
import sys
from pathlib import Path

import kernbridge
import pytest
from kernbridge import cli
from kernbridge.errors import HeaderNotFoundError

pytestmark = pytest.mark.once


def test_the_options_lead_to_the_header_and_the_library(capsys):
    assert cli.main(["c-flags"]) == 0
    include, library, path, name = shlex.split(capsys.readouterr().out)
    assert (Path(include.removeprefix("-I")) / "kernbridge" / "host.h").is_file()
    assert (Path(library.removeprefix("-L")) / "libkernbridge.so").is_file()
    assert path == f"-Wl,-rpath,{library.removeprefix('-L')}"
    assert name == "-lkernbridge"


def test_a_folder_with_a_blank_is_quoted(monkeypatch, tmp_path, capsys):
    place = tmp_path / "my packages"
    for file in ("include/kernbridge/host.h", "lib/libkernbridge.so"):
        (place / file).parent.mkdir(parents=True)
        (place / file).touch()
    monkeypatch.setattr(sys.modules["kernbridge"], "__path__", [str(place)])
    cli.main(["c-flags"])
    assert shlex.split(capsys.readouterr().out)[0] == f"-I{place}/include"


def test_a_package_without_the_library_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(kernbridge, "__path__", [str(tmp_path)])
    with pytest.raises(HeaderNotFoundError, match=r"host\.h.*\[KB4011\]"):
        cli.main(["c-flags"])
