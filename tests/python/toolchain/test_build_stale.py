"""Whatever a library was built from: where it changes, the library is built again."""

import ctypes
import os
import shutil
import subprocess
import time

import pytest
from kernbridge._src.toolchain.build import Request, build

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


def answer(request):
    """What the library's function returns; the second build must find the first one's library."""
    built = build(request)
    again = build(request)
    assert not again.built
    assert again.path == built.path
    return ctypes.CDLL(str(built.path)).answer()


def answers(request, *expected):
    """The library is right, and built each time."""
    for value in expected:
        built = build(request)
        assert built.built
        assert ctypes.CDLL(str(built.path)).answer() == value


def define(folder, value, name="a.h"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#define A {value}\n")
    return str(folder)


@pytest.mark.parametrize(
    "how", ["include_paths", "no folder", "-isystem", "-Wp", "CPATH", "C_INCLUDE_PATH", "CC"]
)
def test_a_header_that_appears_in_an_earlier_folder(tmp_path, monkeypatch, how):
    early, late = tmp_path / "early", define(tmp_path / "late", 1)
    if how != "no folder":
        early.mkdir()
    if how in ("include_paths", "no folder"):
        other = request(include_paths=(str(early), late))
    elif how == "-isystem":
        other = request(include_paths=(str(early),), cflags=("-isystem", late))
    elif how == "-Wp":
        other = request(cflags=(f"-Wp,-I{early}", "-Xpreprocessor", f"-I{late}"))
    else:
        value = f"{CC} -I{early} -I {late}" if how == "CC" else f"{early}:{late}"
        monkeypatch.setenv(how, value)
        other = request()
    assert answer(other) == 1
    define(early, 2)
    assert answer(other) == 2
    (early / "a.h").unlink()
    assert answer(other) == 1


def test_a_folder_of_headers_that_appears_in_an_earlier_folder(tmp_path):
    early, late = tmp_path / "early", tmp_path / "late"
    early.mkdir()
    (late / "of" / "a").mkdir(parents=True)
    define(late / "of" / "a", 1)
    other = request(MAIN.replace("a.h", "of/a/a.h"), include_paths=(str(early), str(late)))
    assert answer(other) == 1
    (early / "of").mkdir()
    assert answer(other) == 1
    define(early / "of" / "a", 2)
    assert answer(other) == 2


@pytest.mark.exhaustive  # waits for a second
def test_a_header_whose_digest_is_remembered(tmp_path):
    folder = define(tmp_path, 1)
    time.sleep(1.1)  # of a file that has just changed, no digest is remembered
    requests = [request(f"// {i}\n" + MAIN, include_paths=(folder,)) for i in range(2)]
    for value in (1, 2, 1, 3):
        define(tmp_path, value)
        assert [answer(other) for other in requests] == [value] * 2


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
        *("-L", "-L word", "LIBRARY_PATH", "--library-directory=", "--library-directory"),
        *("-Wl,--library-path=", "--for-linker=-L"),
    ],
)
def test_libraries(tmp_path, monkeypatch, how):
    early, late = tmp_path / "early", archive(tmp_path / "late", 1)
    early.mkdir()
    folders = (str(early), late)
    flags = {
        "-L word": tuple(word for f in folders for word in ("-L", f)),
        "--library-directory": tuple(w for f in folders for w in ("--library-directory", f)),
        "LIBRARY_PATH": (),
    }.get(how, tuple(f"{how}{f}" for f in folders))
    if how == "LIBRARY_PATH":
        monkeypatch.setenv(how, ":".join(folders))
    other = request(LINKED, ldflags=(*flags, "-ll"))
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
        *(("--include-directory-after=inc",), ("--include", "inc/a.h")),
    ],
)
def test_folders_relative_to_the_working_folder(tmp_path, monkeypatch, flags):
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        define(folder / "inc", number)
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
    """What a file of options names is not known, so that nothing is kept."""
    one, two = define(tmp_path / "one", 1), archive(tmp_path / "two", 2)
    for file, text in (("options", f"-I {one}"), ("folders", f"-L{two} '-ll'")):
        (tmp_path / file).write_text(f"{text}\n")
    answers(request(cflags=(f"@{tmp_path / 'options'}",)), 1, 1)
    for flag in (f"@{tmp_path / 'folders'}", f"-Wl,@{tmp_path / 'folders'}"):
        answers(request(LINKED, ldflags=(flag,)), 2, 2)


def test_a_header_that_a_flag_finds_in_the_working_folder(tmp_path, monkeypatch):
    """It is looked for there before the folders of headers."""
    monkeypatch.chdir(tmp_path)
    other = request(ANSWER, cflags=("-include", "a.h", f"-I{define(tmp_path / 'inc', 1)}"))
    assert answer(other) == 1
    define(tmp_path, 2)
    assert answer(other) == 2


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
    "a folder of another meaning": ("", {"cflags": ("-dumpdir", "/nowhere/")}, {}),
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
        if kind == "script":  # the linker reports it
            assert answer(other) == number
        else:
            answers(other, number, number)


def test_a_compiler_that_does_not_say_where_it_searches(tmp_path, monkeypatch):
    script = tmp_path / "cc"
    script.write_text(f'#!/bin/sh\nexec {CC} "$@" 2>/dev/null\n')
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    answers(request(include_paths=(define(tmp_path, 1),)), 1, 1)


@pytest.mark.skipif(shutil.which("ld.lld") is None, reason="no lld here")
def test_a_linker_that_does_not_say_where_it_searches(tmp_path, capfd):
    flags = ("-fuse-ld=lld", f"-L{archive(tmp_path, 1)}", "-ll")
    answers(request(LINKED, ldflags=flags, verbose=True), 1, 1)
    answers(request(ANSWER, cflags=("-DA=1",), ldflags=flags[:1]), 1, 1)
    assert answer(request(ANSWER, cflags=("-DA=1", flags[0]))) == 1
    assert "crti.o" not in capfd.readouterr().err


def test_what_people_see_of_answers(tmp_path, capfd):
    source = '#warning "as the user has it"\n' + MAIN + "#include <errno.h>\n"
    flags = ("-lm", "-L/nowhere", f"-Wl,-rpath,{tmp_path}")
    other = request(source, include_paths=(define(tmp_path, 1), "/nowhere"), ldflags=flags)
    assert answer(other._replace(verbose=True)) == 1
    command, first, *others = capfd.readouterr().err.splitlines()
    assert command.endswith(f"-L/nowhere -Wl,-rpath,{tmp_path}")
    assert first == 'm.c:1:2: warning: #warning "as the user has it" [-Wcpp]'
    assert len(others) == 2


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


def test_what_is_kept(tmp_path, monkeypatch):
    """Flags that name nothing of which we do not know the content."""
    define(tmp_path, 1)
    # Not -ffast-math: a library with it flushes subnormal numbers in the thread that loads it.
    flags = ("-DX=1", "-Wall", "-g", "-fno-math-errno", "-march=native", f"-I{tmp_path}")
    flags = (*flags, "-pthread")
    assert answer(request(cflags=flags, ldflags=("-lm", "-Wl,--as-needed", "-Wl,-z,now"))) == 1
    clang = "-O2 -ferror-limit=3 -fopenmp-simd -Wno-x=y -DX=/nowhere -D Y=/nowhere"
    gcc = "-flto=auto -x c -mavx2 -ffile-prefix-map=/nowhere=. -Wl,-O1,--hash-style=gnu -shared"
    for compiler, more in ((CC, gcc), (shutil.which("clang"), clang)):
        if compiler and os.uname().machine == "x86_64":
            monkeypatch.setenv("CC", compiler)
            assert answer(request(cflags=(f"-I{tmp_path}", *more.split()))) == 1


@pytest.mark.exhaustive
def test_what_nvcc_searches(tmp_path, monkeypatch):
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc here")
    early, late = tmp_path / "early", define(tmp_path / "late", 1)
    early.mkdir()
    source = '#include <a.h>\nextern "C" int answer() { return A; }\n'
    flags = """-lineinfo -maxrregcount=64 --use_fast_math -rdc=true --expt-relaxed-constexpr -O3
        -Xptxas -v,-O3,-dlcm=ca -Xcompiler -Wall,-fopenmp,-fvisibility=default --ftz=true
        --default-stream per-thread -diag-suppress 177 -Xfatbin -compress-all
        -Xcudafe --diag_suppress=20012 -Xlinker -rpath -Xlinker /x"""
    libraries = (f"-L{archive(tmp_path / 'libraries', 1)}", "-ll", "-lm")
    for paths in (f"--include-path={early},{late}", f"-Xcompiler=-I{early},-I{late}", "INCLUDES"):
        if paths == "INCLUDES":
            monkeypatch.setenv("INCLUDES", f"-I{early} -I{late}")
            paths = "-DX"
        other = request(source, cflags=(*flags.split(), paths), ldflags=libraries)
        other = other._replace(language="cuda")
        assert answer(other) == 1
        define(early, 2)
        assert answer(other) == 2
        (early / "a.h").unlink()
    other = other._replace(cflags=("-Xcompiler", "-fvisibility=default", "-ldir=/nowhere"))
    answers(other, 1, 1)
