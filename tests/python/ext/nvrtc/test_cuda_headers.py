"""A header that changed is compiled anew: with NVRTC, in the process and from the disk."""

import os
import re

import jax
import jax.numpy as jnp
import kernbridge
import pytest
from kernbridge._ext.nvrtc import nvrtc as cuda_kernel_nvrtc
from kernbridge._src.forge.obtain import held

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def nvrtc(gpu, root):
    try:
        cuda_kernel_nvrtc.library()
    except kernbridge.KernelToolchainError as e:
        pytest.skip(str(e))


@pytest.fixture
def compiled(monkeypatch):
    """How often NVRTC has compiled."""
    seen = []
    real = cuda_kernel_nvrtc._nvrtc_call
    monkeypatch.setattr(cuda_kernel_nvrtc, "_nvrtc_call", lambda *a: seen.append(1) or real(*a))
    return lambda: len(seen)


SOURCE = '#include "w.h"\nextern "C" __global__ void k(const float *x, float *o) { *o = WIDTH; }\n'


def value(source=SOURCE, fresh=False, **more):
    """The number that the kernel stores, from its PTX."""
    if fresh:
        held("nvrtc").clear()
    request = cuda_kernel_nvrtc.Compilation(
        "k", source, "k.cu", "k", more.get("options", ()), more.get("include_paths", ())
    )
    function = cuda_kernel_nvrtc.compile_kernel(request)
    number = re.search(r"mov\.\w+\s+%\w+, ([0-9]\w*);", function.ptx)
    return number[1], function.identity


def write(path, number, keep=None):
    path.write_text(f"#define WIDTH {number}\n")
    if keep is not None:
        os.utime(path, ns=(keep.st_atime_ns, keep.st_mtime_ns))


@pytest.mark.parametrize("how", ["include_paths", "-I", "-I word", "--include-path", "here"])
@pytest.mark.parametrize("fresh", [False, True])
def test_an_edited_header(tmp_path, monkeypatch, how, fresh, compiled):
    folder = str(tmp_path)
    more = {
        "include_paths": {"include_paths": (folder,)},
        "-I": {"options": (f"-I{folder}",)},
        "-I word": {"options": ("-I", folder)},
        "--include-path": {"options": (f"--include-path={folder}",)},
        "here": {},
    }[how]
    if how == "here":
        monkeypatch.chdir(tmp_path)
    header = tmp_path / "w.h"
    write(header, 1)
    about = header.stat()
    first = value(**more)
    assert value(fresh=fresh, **more) == first
    assert compiled() == 1
    write(header, 2, about)
    second = value(fresh=fresh, **more)
    assert second[0] != first[0]
    assert second[1] != first[1]
    write(header, 1)
    assert value(fresh=fresh, **more) == first
    assert compiled() == 2


def test_a_header_of_a_header_and_one_that_comes_before(tmp_path, compiled):
    early, late = tmp_path / "early", tmp_path / "late"
    early.mkdir()
    late.mkdir()
    (late / "w.h").write_text("#  include <deep/v.h>\n")
    (late / "deep").mkdir()
    write(late / "deep" / "v.h", 1)
    more = {"include_paths": (str(early), str(late))}
    first = value(**more)
    write(late / "deep" / "v.h", 2)
    second = value(**more)
    (early / "deep").mkdir()
    write(early / "deep" / "v.h", 3)
    third = value(**more)
    assert len({first[0], second[0], third[0]}) == 3
    (early / "deep" / "v.h").unlink()
    assert value(fresh=True, **more) == second
    assert compiled() == 3


CONDITIONS = """
#if __has_include("v.h")
#include "v.h"
#else
#define WIDTH 1
#endif
extern "C" __global__ void k(const float *x, float *o) { *o = WIDTH; }
"""


def test_has_include(tmp_path):
    more = {"include_paths": (str(tmp_path),)}
    first = value(CONDITIONS, **more)
    write(tmp_path / "v.h", 2)
    assert value(CONDITIONS, **more)[0] != first[0]


COMPUTED = {
    "macro": SOURCE.replace('"w.h"', "NAME"),
    "has_include": CONDITIONS.replace('"v.h"\n#inc', "NAME\n#inc").replace('("v.h")', "(NAME)"),
    "pasted": "#define I(x) <x>\n#include I(w.h)\n" + SOURCE.split("\n")[1],
}


@pytest.mark.parametrize("case", COMPUTED)
def test_names_that_only_the_compiler_knows_are_never_kept(tmp_path, case, compiled):
    write(tmp_path / "w.h", 1)
    write(tmp_path / "v.h", 1)
    more = {"include_paths": (str(tmp_path),), "options": ('-DNAME="w.h"',)}
    first = value(COMPUTED[case], **more)
    write(tmp_path / "w.h", 2)
    write(tmp_path / "v.h", 2)
    second = value(COMPUTED[case], **more)
    assert second[0] != first[0]
    assert second[1] != first[1]
    assert compiled() == 2


@pytest.mark.parametrize(
    "text", ['#\\\ninclude "w.h"', '# /* a */ include /* b */ "w.h"', '%:include "w.h"']
)
def test_spellings_of_an_include(tmp_path, text):
    source = text + "\n" + SOURCE.split("\n")[1]
    write(tmp_path / "w.h", 1)
    first = value(source, include_paths=(str(tmp_path),))
    write(tmp_path / "w.h", 2)
    assert value(source, include_paths=(str(tmp_path),))[0] != first[0]


def test_pre_included_headers(tmp_path, monkeypatch):
    source = SOURCE.split("\n")[1]
    for option in (f"-include={tmp_path / 'w.h'}", "--pre-include=w.h"):
        more = {"options": (option, f"-I{tmp_path}")}
        write(tmp_path / "w.h", 1)
        first = value(source, **more)
        write(tmp_path / "w.h", 2)
        assert value(source, **more)[0] != first[0]


def test_the_clock_is_never_kept(compiled):
    source = 'extern "C" __global__ void k(const float *x, float *o) { *o = __TIME__[7]; }'
    value(source)
    value(source)
    assert compiled() == 2


def test_headers_of_the_toolkit_are_kept(compiled):
    source = "#include <cuda_fp16.h>\n" + SOURCE.split("\n", 1)[1].replace("WIDTH", "2")
    first = value(source)
    assert value(source, fresh=True) == first
    assert compiled() == 1


def test_an_operation_that_is_lowered_again(tmp_path):
    write(tmp_path / "w.h", 1)
    op = kernbridge.cuda_kernel(
        SOURCE,
        "k",
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype),
        launch_dims=1,
        include_paths=[str(tmp_path)],
    )
    x = jnp.ones(3)
    first = op.plan(x).functions[0]
    assert op.plan(x).functions[0] is first
    write(tmp_path / "w.h", 2)
    assert op.plan(x).functions[0].images != first.images
