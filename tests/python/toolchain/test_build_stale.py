"""Whatever a library was built from: where it changes, the library is built again."""

import ctypes
import os
import shutil
import subprocess

import pytest
from kernbridge._src.toolchain.make import Job, Request, build

CC = shutil.which("gcc") or shutil.which("cc")
pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(CC is None, reason="no C compiler here"),
    pytest.mark.usefixtures("root"),
]
ANSWER = '__attribute__((visibility("default"))) int answer(void) { return A; }\n'
MAIN = "#include <a.h>\n" + ANSWER


def request(source=MAIN, **more):
    return Request("m", "c", source, "spec", **more)


def inputs(flags):
    """What a compiler with these flags reads and does not report."""
    return Job(request(cflags=tuple(flags))).inputs


def answer(request):
    """What the library's function returns; the second build must find the first one's library."""
    built = build(request)
    again = build(request)
    assert not again.built
    assert again.path == built.path
    return ctypes.CDLL(str(built.path)).answer()


def define(folder, value, name="a.h"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#define A {value}\n")
    return str(folder)


@pytest.mark.parametrize("how", ["include_paths", "-isystem", "CPATH", "C_INCLUDE_PATH", "CC"])
def test_a_header_that_appears_in_an_earlier_folder(tmp_path, monkeypatch, how):
    early, late = tmp_path / "early", define(tmp_path / "late", 1)
    early.mkdir()
    if how == "include_paths":
        other = request(include_paths=(str(early), late))
    elif how == "-isystem":
        other = request(include_paths=(str(early),), cflags=("-isystem", late))
    else:
        value = f"{CC} -I{early} -I {late}" if how == "CC" else f"{early}:{late}"
        monkeypatch.setenv(how, value)
        other = request()
    assert answer(other) == 1
    define(early, 2)
    assert answer(other) == 2
    (early / "a.h").unlink()
    assert answer(other) == 1


def test_a_header_that_takes_the_place_of_a_system_header(tmp_path):
    source = "#include <errno.h>\n#ifndef A\n#define A EPERM\n#endif\n" + ANSWER
    other = request(source, include_paths=(str(tmp_path),))
    assert answer(other) == 1
    define(tmp_path, 7, "errno.h")
    assert answer(other) == 7


def test_a_header_beside_the_one_that_includes_it(tmp_path):
    one, two = tmp_path / "one", define(tmp_path / "two", 1)
    one.mkdir()
    (one / "top.h").write_text('#include "a.h"\n')
    other = request(MAIN.replace("a.h", "top.h"), include_paths=(str(one), two))
    assert answer(other) == 1
    define(one, 2)
    assert answer(other) == 2


@pytest.mark.parametrize("where", ["source", "header"])
def test_has_include(tmp_path, where):
    asks = "#if __has_include(<b.h>)\n#define A 2\n#else\n#define A 1\n#endif\n"
    (tmp_path / "a.h").write_text(asks)
    other = request(asks + ANSWER if where == "source" else MAIN, include_paths=(str(tmp_path),))
    assert answer(other) == 1
    (tmp_path / "b.h").touch()
    assert answer(other) == 2
    (tmp_path / "b.h").unlink()
    assert answer(other) == 1


@pytest.mark.parametrize("value", ["inc", ":/nowhere", "/nowhere:inc"])
def test_a_relative_CPATH(tmp_path, monkeypatch, value):
    monkeypatch.setenv("CPATH", value)
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        define(folder, number)
        define(folder / "inc", number)
        monkeypatch.chdir(folder)
        assert answer(request()) == number


def test_the_same_size_and_time(tmp_path):
    folder = define(tmp_path / "inc", 1)
    about = (tmp_path / "inc" / "a.h").stat()
    assert answer(request(include_paths=(folder,))) == 1
    define(tmp_path / "inc", 2)
    os.utime(tmp_path / "inc" / "a.h", ns=(about.st_atime_ns, about.st_mtime_ns))
    assert answer(request(include_paths=(folder,))) == 2


def archive(folder, value, name="l"):
    folder.mkdir(exist_ok=True)
    (folder / "l.c").write_text(f"int l(void) {{ return {value}; }}")
    subprocess.run([CC, "-fPIC", "-c", "l.c", "-o", "l.o"], cwd=folder, check=True)
    (folder / f"lib{name}.a").unlink(missing_ok=True)
    subprocess.run(["ar", "rcD", f"lib{name}.a", "l.o"], cwd=folder, check=True)
    return str(folder)


LINKED = "int l(void);\n" + ANSWER.replace("A;", "l();")


@pytest.mark.brief
@pytest.mark.parametrize(
    "how",
    [
        *("-L", "-L word", "LIBRARY_PATH", "@file", "--library-directory=", "--library-directory"),
        *("-Wl,--library-path=", "--for-linker=-L", "-Wl,@"),
    ],
)
def test_libraries(tmp_path, monkeypatch, how):
    early, late = tmp_path / "early", archive(tmp_path / "late", 1)
    early.mkdir()
    folders = (str(early), late)
    (tmp_path / "folders").write_text(f"-L{early} -L{late}\n")
    flags = {
        "-L word": tuple(word for f in folders for word in ("-L", f)),
        "--library-directory": tuple(w for f in folders for w in ("--library-directory", f)),
        "-Wl,@": (f"-Wl,@{tmp_path / 'folders'}",),
        "LIBRARY_PATH": (),
        "@file": (f"@{tmp_path / 'options'}",),
    }.get(how, tuple(f"{how}{f}" for f in folders))
    if how == "LIBRARY_PATH":
        monkeypatch.setenv(how, ":".join(folders))
    (tmp_path / "options").write_text(f"-L{early} '-L{late}' -ll\n")
    other = request(LINKED, ldflags=flags if how == "@file" else (*flags, "-ll"))
    assert answer(other) == 1
    archive(tmp_path / "late", 2)
    assert answer(other) == 2
    archive(early, 3)
    assert answer(other) == 3


def test_a_static_library_in_a_later_folder(tmp_path):
    """The linker passes over the shared library of an earlier folder."""
    early, late = tmp_path / "early", archive(tmp_path / "late", 1)
    subprocess.run(["cp", "-r", late, early], check=True)
    subprocess.run([CC, "-shared", "l.o", "-o", "libl.so"], cwd=early, check=True)
    (early / "libl.a").unlink()
    flags = (f"-L{early}", f"-L{late}", "-Wl,-Bstatic", "-ll", "-Wl,-Bdynamic")
    other = request(LINKED, ldflags=flags)
    assert answer(other) == 1
    archive(tmp_path / "late", 2)
    assert answer(other) == 2


@pytest.mark.parametrize(
    "flags",
    [
        *(("-Iinc",), ("--include-directory=inc",), ("--include-directory", "inc"), ("-Iinc/.",)),
        *(("--include-directory-after=inc",), ("--include", "inc/a.h"), ("@options",)),
    ],
)
def test_folders_relative_to_the_working_folder(tmp_path, monkeypatch, flags):
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        define(folder / "inc", number)
        (folder / "options").write_text(f"-I {folder}/inc")
        monkeypatch.chdir(folder)
        source = ANSWER if "--include" in flags else MAIN
        assert answer(request(source, cflags=flags)) == number


def test_version_scripts_relative_to_the_working_folder(tmp_path, monkeypatch):
    source = ANSWER.replace("A;", "1;") + ANSWER.replace("answer", "other").replace("A;", "2;")
    for name in ("answer", "other"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "map").write_text(f"{{ global: {name}; local: *; }};")
        monkeypatch.chdir(folder)
        library = ctypes.CDLL(build(request(source, ldflags=("-Wl,--version-script=map",))).path)
        assert [n for n in ("answer", "other") if hasattr(library, n)] == [name]


def test_option_files(tmp_path):
    one, two = define(tmp_path / "one", 1), define(tmp_path / "two", 2)
    options = tmp_path / "options"
    other = request(cflags=(f"@{options}",))
    for number, folder in ((1, one), (2, two)):
        options.write_text(f"-I {folder}\n")
        assert answer(other) == number
    define(tmp_path / "two", 5)
    assert answer(other) == 5


@pytest.mark.parametrize("flag", ["-include", "-imacros"])
def test_headers_that_flags_include(tmp_path, flag):
    define(tmp_path, 1)
    other = request(ANSWER, cflags=(flag, str(tmp_path / "a.h")))
    assert answer(other) == 1
    define(tmp_path, 2)
    assert answer(other) == 2


def test_a_compiler_that_reads_the_environment(tmp_path, monkeypatch):
    script = tmp_path / "cc"
    script.write_text(f'#!/bin/sh\nexec {CC} "$@" "-DA=${{MY_NUMBER:-0}}"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    for number in (3, 4):
        monkeypatch.setenv("MY_NUMBER", str(number))
        assert answer(request(ANSWER)) == number


NEVER = {
    "time": ("const char *t = __TIME__;\n", {}, {}),
    "timestamp": ("const char *t = __TIMESTAMP__;\n", {}, {}),
    "incbin": ('__asm__(".incbin \\"/etc/passwd\\"");\n', {}, {}),
    "has_include of a macro": ("#define N <b.h>\n#if __has_include(N)\n#endif\n", {}, {}),
    "include of the assembler": ('__asm__(".include \\"/dev/null\\"");\n', {}, {}),
    "specs": ("", {"cflags": ("-B/nowhere",)}, {}),
    "sysroot": ("", {"ldflags": ("-Wl,--sysroot=/",)}, {}),
    "profile": ("", {"cflags": ("-fprofile-use", "-Wno-missing-profile")}, {}),
    "abbreviation": ("", {"ldflags": ("-Wl,--library-pa=/nowhere",)}, {}),
    "quotation": ("", {}, {"NVCC_APPEND_FLAGS": "'-DX"}),
    "COMPILER_PATH": ("", {}, {"COMPILER_PATH": "/nowhere"}),
    "GCC_EXEC_PREFIX": ("", {}, {"GCC_EXEC_PREFIX": ""}),
}


@pytest.mark.brief
@pytest.mark.parametrize("case", NEVER)
def test_what_is_never_kept(case, monkeypatch):
    text, more, environment = NEVER[case]
    if case == "GCC_EXEC_PREFIX":
        where = subprocess.run(
            [CC, "-print-search-dirs"], capture_output=True, text=True, check=True
        )
        environment = {case: where.stdout.split()[1].split("gcc/")[0] + "gcc/"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    other = request(text + ANSWER.replace("A;", "1;"), **more)
    one, two = build(other), build(other)
    assert one.built
    assert two.built
    assert one.path != two.path


@pytest.mark.parametrize("kind", ["script", "thin archive"])
def test_libraries_that_name_others(tmp_path, kind):
    late = archive(tmp_path / "late", 1)
    if kind == "script":
        (tmp_path / "libx.so").write_text(f"INPUT({late}/libl.a)")
    else:
        subprocess.run(["ar", "rcT", "libx.a", "late/l.o"], cwd=tmp_path, check=True)
    other = request(LINKED, ldflags=(f"-L{tmp_path}", "-lx"))
    for number in (1, 2):
        archive(tmp_path / "late", number)
        assert ctypes.CDLL(build(other).path).answer() == number


def test_flags_that_are_passed_on():
    """As nvcc takes those of the host compiler and of the linker."""
    flags = ("-Xcompiler", "-I/a,-I/b", "-Xcompiler=-I/c", "-Xlinker", "-L/d", "-Wl,-rpath,/e")
    found = inputs(flags)
    assert found.folders == ("/a", "/b", "/c")
    assert not found.unknown
    assert inputs((*flags, "-ly")).absent[:2] == ("/d/liby.so", "/d/liby.a")
    for value in ("-g,-B/x", "-fPIC -B/x"):
        assert "-B/x" in inputs(("-Xcompiler", value)).unknown
    assert not inputs(("-Wl,-Bsymbolic,-Bstatic",)).unknown
    assert inputs(("-Xlinker", "-L", "-Xlinker", "/d", "-ly")).absent[0] == "/d/liby.so"


def test_nvccs_forms_of_what_searches(monkeypatch):
    """Its options take lists, and three more variables are added to each command."""
    monkeypatch.setenv("INCLUDES", "-I/v")
    flags = ("--include-path", "/a,/b", "--system-include=/c", "--library-path=/d", "--library=y")
    found = inputs(flags)
    assert {"/a", "/b", "/c", "/v"} <= set(found.folders)
    assert found.absent[0] == "/d/liby.so"
    assert inputs(("--pre-include", "x.h")).relative
    for flag in ("-ldir=/x", "-optf=/x", "--compiler-bindir=/x", "-Xclang"):
        assert inputs((flag,)).unknown == (flag,)


def test_a_processor_named_in_a_file_of_options(tmp_path):
    (tmp_path / "options").write_text("-march=native")
    assert inputs((f"@{tmp_path / 'options'}",)).native


def test_a_header_that_appears_while_the_compiler_runs(tmp_path, monkeypatch):
    early, late = tmp_path / "early", define(tmp_path / "late", 1)
    early.mkdir()
    script = tmp_path / "cc"
    script.write_text(
        f'#!/bin/sh\n{CC} "$@" || exit\n[ "$1" = --version ] || echo "#define A 2" > {early}/a.h\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    other = request(include_paths=(str(early), late))
    assert ctypes.CDLL(str(build(other).path)).answer() == 1
    assert ctypes.CDLL(str(build(other).path)).answer() == 2


def test_what_is_kept(tmp_path):
    """Flags that name nothing of which we do not know the content."""
    define(tmp_path, 1)
    # Not -ffast-math: a library with it flushes subnormal numbers in the thread that loads it.
    flags = ("-DX=1", "-Wall", "-g", "-fno-math-errno", "-march=native", f"-I{tmp_path}")
    flags = (*flags, "-pthread")
    assert answer(request(cflags=flags, ldflags=("-lm", "-Wl,--as-needed", "-Wl,-z,now"))) == 1
    nvcc = """-arch sm_90 -gencode arch=compute_90,code=sm_90 --threads 4 -maxrregcount=64
        --use_fast_math -lineinfo --expt-relaxed-constexpr -Xptxas -v,-O3,-dlcm=ca -Xcompiler
        -Wall,-fopenmp --default-stream per-thread -diag-suppress 177 -lcublas -Xfatbin
        -compress-all -Xcudafe --diag_suppress=20012 -Xlinker -rpath -Xlinker /x --ftz=true
        -std=c++20 -rdc=true -O3"""
    clang = "-O2 -target x86_64-linux-gnu -ferror-limit=3 -fopenmp=libomp -fuse-ld=lld -Wno-x=y"
    for known in (nvcc, clang, "-flto=auto -x c++ -ffast-math -mavx2 -Wl,-O1,--hash-style=gnu"):
        assert not inputs(known.split()).unknown
