"""`kernbridge c-flags`, `kernbridge cmake-dir`: where builds find headers and the host library."""

import os
import shlex
import shutil
import subprocess
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


HOST = r"""
#include <kernbridge/host.h>
int main(void)
{
    kb_bundle *bundle = 0;
    kb_host_error error;
    return kb_bundle_open("nowhere", &bundle, &error) == KB_OK;
}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(kernbridge REQUIRED CONFIG)
add_library(kernels SHARED kernels.c)
target_link_libraries(kernels PRIVATE kernbridge::headers)
add_executable(host host.c)
target_link_libraries(host PRIVATE kernbridge::host)
"""


def test_cmake_and_pkg_config_find_headers_and_the_library(tmp_path, capsys):
    assert cli.main(["cmake-dir"]) == 0
    folder = capsys.readouterr().out.strip()
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    kernel = "int half(const kb_call *call) { return call->n_inputs == 0; }"
    (tmp_path / "kernels.c").write_text(f"#include <kernbridge/kernbridge.h>\n{kernel}")
    (tmp_path / "host.c").write_text(HOST)
    configure = ["cmake", "-S.", "-Bbuild", f"-Dkernbridge_DIR={folder}"]
    for command in (configure, ["cmake", "--build", "build"], ["build/host"]):
        subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    assert (tmp_path / "build/libkernels.so").is_file()
    environment = {**os.environ, "PKG_CONFIG_PATH": folder}
    command = "cc host.c $(pkg-config --cflags --libs kernbridge) -ldl -o host && ./host"
    if shutil.which("pkg-config") is None:
        pytest.skip("there is no pkg-config")
    subprocess.run(command, cwd=tmp_path, check=True, env=environment, shell=True)
