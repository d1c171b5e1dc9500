"""Which compilers are found, in which order, and what a miss says."""

import os
import sys

import pytest
from kernbridge import config
from kernbridge._src.toolchain import nvcc
from kernbridge._src.toolchain.build import library
from kernbridge.errors import HostCompilerNotFoundError, KernelToolchainError, NvccNotFoundError

pytestmark = pytest.mark.once
compilers = library.compilers

VARIABLES = (
    *("CC", "CXX", "CONDA_PREFIX", "KERNBRIDGE_NVCC_PATH", "BRAINEVENT_NVCC_PATH", "CUDA_HOME"),
    *("CUDA_PATH", "KERNBRIDGE_NVCC_PREFER", "BRAINEVENT_NVCC_PREFER"),
)


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    """Nothing is chosen, and PATH has one folder."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "path").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])


def program(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_order_of_host_compilers(tmp_path, monkeypatch):
    with pytest.raises(HostCompilerNotFoundError):
        compilers.find_cxx()
    machine = os.uname().machine
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))
    conda = tmp_path / "conda" / "bin"
    for path in (
        tmp_path / "path" / "clang++",
        tmp_path / "path" / "c++",
        tmp_path / "path" / "g++",
        conda / "g++",
        conda / f"{machine}-conda-linux-gnu-g++",
    ):
        program(path)
        assert compilers.find_cxx().path == str(path)
    other = program(tmp_path / "other" / "icpx")
    monkeypatch.setenv("CXX", str(other))
    assert compilers.find_cxx().path == str(other)


def test_the_order_of_c_compilers(tmp_path, monkeypatch):
    for name in ("clang", "cc", "gcc"):
        path = program(tmp_path / "path" / name)
        assert compilers.find_c().path == str(path)
    monkeypatch.setenv("CC", "clang -m64")
    assert compilers.find_c().path == str(tmp_path / "path" / "clang")
    assert compilers.find_c().arguments == ("-m64",)


def test_launchers(tmp_path, monkeypatch):
    ccache, gxx = program(tmp_path / "path" / "ccache"), program(tmp_path / "path" / "g++")
    monkeypatch.setenv("CXX", "ccache g++ '-DA=b c'")
    found = compilers.find_cxx()
    assert found.command == (str(ccache), str(gxx), "-DA=b c")
    assert (found.path, found.arguments) == (str(gxx), ("-DA=b c",))
    assert found.tools == (str(ccache), str(gxx))
    links = tmp_path / "links"
    links.mkdir()
    (links / "g++").symlink_to(ccache)
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", f"{links}{os.pathsep}{tmp_path / 'path'}")
    found = compilers.find_cxx()
    assert found.command == (str(links / "g++"),)
    assert found.tools == (str(ccache), str(gxx))  # a new g++ behind ccache is a new compiler


def test_host_compilers_that_are_missing(tmp_path, monkeypatch):
    program(tmp_path / "path" / "g++").chmod(0o644)
    (tmp_path / "path" / "c++").mkdir()
    with pytest.raises(HostCompilerNotFoundError) as caught:
        compilers.find_cxx()
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("no C++ compiler")
    probes = [line.strip(" -") for line in lines if line.startswith("  - ")]
    assert [p.split()[0] for p in probes] == ["CXX:", "CONDA_PREFIX:", "g++", "c++", "clang++"]
    assert any(line.startswith("  1. ") for line in lines)
    program(tmp_path / "path" / "g++")
    assert compilers.find_cxx().path == str(tmp_path / "path" / "g++")  # a miss is not kept
    for value in ("/no/such/g++", "ccache /no/such/g++", "nothing"):
        monkeypatch.setenv("CXX", value)
        with pytest.raises(HostCompilerNotFoundError, match=f"CXX={value}".replace("+", r"\+")):
            compilers.find_cxx()
    monkeypatch.setenv("CXX", "")
    assert compilers.find_cxx().path == str(tmp_path / "path" / "g++")


def toolkit(root, *parts):
    for part in ("bin/nvcc", *parts):
        program(root / part)
    return str(root / "bin" / "nvcc")


def test_the_order_of_nvcc(tmp_path, monkeypatch):
    site = tmp_path / "site" / "nvidia"
    (tmp_path / "path").rmdir()
    toolkit(tmp_path / "system")
    (tmp_path / "path").symlink_to(tmp_path / "system" / "bin")
    on_path = str(tmp_path / "path" / "nvcc")
    assert nvcc.find_nvcc().path == on_path
    for name in ("cuda_nvcc", "cu13", "cu100"):
        path = toolkit(site / name)
        assert nvcc.find_nvcc().path == path
    config.prefer_system_nvcc(True)
    try:
        assert nvcc.find_nvcc().path == on_path
        monkeypatch.setenv("KERNBRIDGE_NVCC_PREFER", "pip")
        assert nvcc.find_nvcc().path == on_path  # the setting is stronger
    finally:
        config.prefer_system_nvcc(None)
    assert nvcc.find_nvcc().path != on_path
    monkeypatch.setenv("KERNBRIDGE_NVCC_PREFER", "system")
    assert nvcc.find_nvcc().path == on_path
    monkeypatch.setenv("KERNBRIDGE_NVCC_PREFER", "mine")
    with pytest.raises(ValueError, match=r"KERNBRIDGE_NVCC_PREFER.*'mine'.*\[KB8002\]"):
        nvcc.find_nvcc()
    monkeypatch.delenv("KERNBRIDGE_NVCC_PREFER")
    for name in ("CUDA_PATH", "CUDA_HOME"):
        path = toolkit(tmp_path / name)
        monkeypatch.setenv(name, str(tmp_path / name))
        assert nvcc.find_nvcc().path == path
    for name in ("BRAINEVENT_NVCC_PATH", "KERNBRIDGE_NVCC_PATH"):
        path = toolkit(tmp_path / name)
        monkeypatch.setenv(name, path)
        assert nvcc.find_nvcc().path == path


def test_nvcc_that_is_named_and_missing(tmp_path, monkeypatch):
    toolkit(tmp_path / "site" / "nvidia" / "cu13")
    for name in ("CUDA_PATH", "CUDA_HOME", "KERNBRIDGE_NVCC_PATH"):
        monkeypatch.setenv(name, "/no/such/place")
        with pytest.raises(NvccNotFoundError, match=f"{name}=/no/such/place"):
            nvcc.find_nvcc()


def test_nvcc_that_is_nowhere(monkeypatch):
    real = nvcc.is_program
    monkeypatch.setattr(
        nvcc, "is_program", lambda p: not p.startswith("/usr/local/cuda") and real(p)
    )
    with pytest.raises(NvccNotFoundError) as caught:
        nvcc.find_nvcc()
    text = str(caught.value)
    assert isinstance(caught.value, KernelToolchainError)
    wanted = [
        *("no CUDA compiler", "KERNBRIDGE_NVCC_PATH: not set", "BRAINEVENT_NVCC_PATH: not set"),
        *("CUDA_HOME: not set", "CUDA_PATH: not set", "wheels of NVIDIA", "nvcc on PATH"),
        *("/usr/local/cuda/bin/nvcc: no such program", "1. pip install", "4. set its path"),
    ]
    places = [text.index(part) for part in wanted]
    assert places == sorted(places)


def test_the_parts_of_a_toolkit(tmp_path, monkeypatch):
    root = tmp_path / "cuda-99"
    path = toolkit(root, "bin/ptxas", "bin/cudafe++", "nvvm/bin/cicc", "lib64/libcudart.so")
    (tmp_path / "cuda").symlink_to(root)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    found = nvcc.find_nvcc()
    assert found.path == str(tmp_path / "cuda" / "bin" / "nvcc")
    assert found.tools == (
        *(path, str(root / "bin" / "ptxas"), str(root / "bin" / "cudafe++")),
        str(root / "nvvm" / "bin" / "cicc"),
    )
    assert found.cudart == str(root / "lib64" / "libcudart.so")
    assert found.include_dirs == ()


def test_the_parts_of_wheels(tmp_path):
    site = tmp_path / "site" / "nvidia"
    toolkit(site / "cuda_nvcc", "include/x.h")
    program(site / "cuda_runtime" / "include" / "cuda_runtime.h")
    program(site / "cuda_cccl" / "include" / "x.h")
    cudart = program(site / "cuda_runtime" / "lib" / "libcudart.so.12")
    found = nvcc.find_nvcc()
    assert found.include_dirs == tuple(
        str(site / part / "include") for part in ("cuda_runtime", "cuda_nvcc", "cuda_cccl")
    )
    assert found.cudart == str(cudart)
    assert found.library_dirs == (str(cudart.parent),)
