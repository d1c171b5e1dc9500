"""Building libraries: what comes out, and what a failure says."""

import ctypes
import os
import pickle
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import write_compiler
from kernbridge._src.base import progress
from kernbridge._src.toolchain import nvcc as toolchain_nvcc
from kernbridge._src.toolchain.build import Request, build, library
from kernbridge.errors import (
    CompilationError,
    HostCompilerIncompatibleError,
    HostCompilerNotFoundError,
    KernbridgeError,
    KernelToolchainError,
    UnsupportedArchError,
)

pytestmark = pytest.mark.once

EXPORT = '__attribute__((visibility("default")))'
ANSWER = f"{EXPORT} int answer(void) {{ return 42; }}\n"
CUDA = """#include <cuda_runtime.h>
__global__ void add(const float *a, float *b) { b[threadIdx.x] += a[threadIdx.x]; }
extern "C" __attribute__((visibility("default"))) int run(const float *a, float *b)
{ add<<<1, 32>>>(a, b); return 42; }
"""


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def nvcc():
    try:
        return toolchain_nvcc.find_nvcc()
    except KernelToolchainError as e:
        pytest.skip(f"no nvcc here: {e}".splitlines()[0])


def call(path, name="answer"):
    return getattr(ctypes.CDLL(str(path)), name)()


def test_c():
    built = build(Request("answer", "c", ANSWER, ""))
    assert call(built.path) == 42
    assert built.built
    assert len(bytes.fromhex(built.digest)) == 32
    assert build(Request("answer", "c", ANSWER, "")) == built._replace(built=False)


def test_cpp():
    source = (
        f'#include <vector>\nextern "C" {EXPORT} int answer() {{ return std::vector{{42}}[0]; }}'
    )
    assert call(build(Request("answer", "c++", source, "")).path) == 42  # deduction is C++17


def test_only_what_is_exported_is_seen():
    source = "int hidden(void) { return 1; }\n" + ANSWER
    library = ctypes.CDLL(str(build(Request("answer", "c", source, "")).path))
    assert not hasattr(library, "hidden")
    assert library.answer() == 42


def test_optimisation_and_flags():
    source = f"""{EXPORT} int answer(void) {{
#ifdef __OPTIMIZE__
  return ANSWER;
#else
  return -ANSWER;
#endif
}}"""
    define = ("-DANSWER=7",)
    assert call(build(Request("m", "c", source, "", cflags=define)).path) == 7
    assert call(build(Request("m", "c", source, "", cflags=(*define, "-O0"))).path) == -7
    request = Request("m", "c", source, "", cflags=define, optimization_level=0)
    assert call(build(request).path) == -7
    request = Request("m", "c", source, "", cflags=define, optimization_level=None)
    assert call(build(request).path) == -7


def test_fast_math():
    source = f"""{EXPORT} int answer(void) {{
#ifdef __FAST_MATH__
  return 1;
#endif
  return 0;
}}"""
    # In a process of its own: such a library flushes subnormal numbers in the thread that opens it.
    program = "import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).answer())"
    fast = build(Request("m", "c", source, "", fast_math=True)).path
    assert subprocess.run([sys.executable, "-c", program, fast]).returncode == 1
    assert call(build(Request("m", "c", source, "")).path) == 0


def test_the_users_standard_wins():
    source = f'extern "C" {EXPORT} int answer() {{ return __cplusplus / 100; }}'
    assert call(build(Request("m", "c++", source, "")).path) == 2017
    assert call(build(Request("m", "c++", source, "", cflags=("-std=c++14",))).path) == 2014


def test_linker_flags():
    source = f"#include <math.h>\n{EXPORT} int answer(void) {{ return (int)cbrt(atof_(27)); }}"
    source = source.replace("atof_(27)", "(volatile double){27.0}")
    built = build(Request("m", "c", source, "", ldflags=("-lm", "-Wl,-soname,libodd.so")))
    assert call(built.path) == 3
    assert b"libodd.so" in built.path.read_bytes()


def test_names_that_no_file_has(root):
    for name in ("../../up", "a b/c", "ü", "...", "x" * 300):
        built = build(Request(name, "c", ANSWER, ""))
        assert built.path.is_relative_to(root / "v1" / "modules")
        assert call(built.path) == 42


def test_a_copy_where_the_user_wants_one(tmp_path):
    for _ in range(2):  # built, and found
        build(Request("m", "c", ANSWER, "", build_directory=str(tmp_path / "out")))
        assert os.listdir(tmp_path / "out") == ["m.so"]
        assert call(tmp_path / "out" / "m.so") == 42
        (tmp_path / "out" / "m.so").unlink()  # it is loaded: not to be written
        (tmp_path / "out" / "m.so").write_bytes(b"old")
    build(Request("m", "c", ANSWER, "", build_directory=str(tmp_path / "out")))
    assert call(tmp_path / "out" / "m.so") == 42


def test_verbose(capfd):
    build(Request("m", "c", "#warning look here\n" + ANSWER, "", verbose=True))
    said = capfd.readouterr().err
    assert "-std=c11 -O3 -fPIC -shared" in said
    assert "#warning look here" in said
    assert "staging" not in said
    build(Request("n", "c", "#warning look here\n" + ANSWER, ""))
    assert capfd.readouterr().err == ""


def test_a_long_build_says_so(tmp_path, monkeypatch, capsys):
    compiler = shutil.which("gcc") or shutil.which("cc")
    slow = tmp_path / "slow"
    slow.write_text(f'#!/bin/sh\n[ "$1" = --version ] || sleep 0.6\nexec {compiler} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("CC", str(slow))
    monkeypatch.setattr(progress, "QUIET", 0.1)
    monkeypatch.setenv(progress.VARIABLE, "1")
    build(Request("my_kernels", "c", ANSWER, ""))
    said = capsys.readouterr().err
    assert said.startswith("kernbridge: building my_kernels with slow ... ")
    assert said.endswith(" s\n")
    assert said.count("\n") == 1
    build(Request("my_kernels", "c", ANSWER, ""))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("language", ["c", "c++"])
def test_a_source_with_an_error(root, language):
    source = '#line 7 "mine.cu"\nint f(void) { return nothing; }\n'
    with pytest.raises(CompilationError) as caught:
        build(Request("broken", language, source, ""))
    error = caught.value
    assert type(error) is CompilationError
    assert error.stage == "compile"
    assert "mine.cu:7:22: error" in error.compiler_output
    text = str(error)
    assert "broken" in text
    assert "mine.cu:7:22: error" in text
    assert "-o broken.so" in text
    assert str(root) not in text
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.command, copy.stage) == (text, error.command, error.stage)
    assert not list((root / "v1" / "staging").iterdir())


def test_a_static_assertion_about_support_is_no_matter_of_the_host():
    source = 'static_assert(false, "this type is not supported! unsupported GNU version");'
    with pytest.raises(CompilationError) as caught:
        build(Request("m", "c++", source, ""))
    assert type(caught.value) is CompilationError


def test_a_compiler_that_takes_too_long(tmp_path, monkeypatch, root):
    stuck = tmp_path / "stuck"
    pids = tmp_path / "pids"
    stuck.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exit\nsleep 77 &\necho $! >> {pids}\necho here\nwait\n'
    )
    stuck.chmod(0o755)
    monkeypatch.setenv("CC", str(stuck))
    monkeypatch.setenv("KERNBRIDGE_COMPILE_TIMEOUT", "0.7")
    with pytest.raises(CompilationError, match=r"stopped after 0\.7 s.*\[KB4006\]") as caught:
        build(Request("m", "c", ANSWER, ""))
    assert caught.value.stage == "timeout"
    assert "here" in caught.value.compiler_output
    assert is_gone(int(pids.read_text()))
    assert not list((root / "v1" / "staging").iterdir())
    for value in ("soon", "-1", "nan"):
        monkeypatch.setenv("KERNBRIDGE_COMPILE_TIMEOUT", value)
        with pytest.raises(ValueError, match=r"KERNBRIDGE_COMPILE_TIMEOUT.*\[KB8002\]"):
            build(Request("m", "c", ANSWER, ""))


def is_gone(pid):
    """Within a while, and not as a zombie that nobody took."""
    for _ in range(200):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_a_compiler_that_cannot_be_started(tmp_path, monkeypatch):
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(KernelToolchainError, match=r"cannot be started.*\[KB4008\]"):
        build(Request("m", "c", ANSWER, ""))


def test_a_compiler_that_makes_nothing(monkeypatch):
    monkeypatch.setenv("CC", "true")
    with pytest.raises(CompilationError, match=r"exit status 0.*\[KB4006\]"):
        build(Request("m", "c", ANSWER, ""))


NVCC_SAYS = {
    HostCompilerIncompatibleError: [
        "/x/crt/host_config.h:143:2: error: #error -- unsupported GNU version! gcc versions later "
        "than 14 are not supported!",
        "/x/host_config.h:9:2: error: #error -- unsupported clang version!",
        "host_config.h(16): fatal error C1189: #error:  -- unsupported Microsoft Visual Studio",
        "nvcc fatal   : Failed to preprocess host compiler properties.",
    ],
    UnsupportedArchError: [
        "nvcc fatal   : Unsupported gpu architecture 'compute_50'",
        "nvcc fatal   : Value 'sm_13' is not defined for option 'gpu-architecture'",
        "ptxas fatal   : Value 'sm_200' is not defined for option 'gpu-name'",
    ],
    CompilationError: [
        "mine.cu:3:2: error: #error -- unsupported GNU version!",
        'm.cu(3): error: static assertion failed with "half is not supported"',
        'm.cu(4): error: "Unsupported gpu architecture, says nvcc fatal : somewhere"',
    ],
}


@pytest.mark.parametrize(("kind", "said"), [(k, s) for k, all_ in NVCC_SAYS.items() for s in all_])
def test_what_nvcc_says(kind, said, tmp_path, monkeypatch):
    """The compiler of C says it here, since nvcc is not everywhere."""
    says = "echo first >&2; cat >&2 <<'END'\n" + said + "\nEND\nexit 1"
    write_compiler(tmp_path / "cc", says)
    monkeypatch.setenv("CC", str(tmp_path / "cc"))
    with pytest.raises(KernbridgeError) as caught:
        build(Request("m", "c", ANSWER, ""))
    assert type(caught.value) is kind
    assert said in f"{caught.value}\n{caught.value.compiler_output}"
    assert str(tmp_path / "cc") in caught.value.command


def test_cuda(nvcc):
    request = Request("add", "cuda", CUDA, "", architectures=((8, 0, ""), (9, 0, "")))
    built = build(request)
    assert b"libcudart.so" not in built.path.read_bytes()  # it has a runtime of its own
    listed = os.popen(f"{os.path.dirname(nvcc.path)}/cuobjdump -lelf -lptx {built.path}").read()
    if listed:
        assert all(name in listed for name in ("sm_80.cubin", "sm_90.cubin", "sm_90.ptx"))
        assert "sm_80.ptx" not in listed
    assert not build(request).built


@pytest.mark.exhaustive
def test_cuda_without_a_static_runtime(nvcc, monkeypatch):
    without = nvcc._replace(library_dirs=())
    monkeypatch.setattr(toolchain_nvcc, "find_nvcc", lambda: without)
    library = build(Request("add", "cuda", CUDA, "", architectures=((9, 0, ""),))).path.read_bytes()
    assert b"libcudart.so" in library
    assert os.path.dirname(nvcc.cudart).encode() in library  # where it looks for it


@pytest.mark.exhaustive
def test_cuda_errors(nvcc):
    with pytest.raises(CompilationError, match=r"(?s)\[KB4006\].*mine\.cu\(3\): error") as caught:
        build(Request("m", "cuda", '#line 3 "mine.cu"\nint f() { return nothing; }', ""))
    assert type(caught.value) is CompilationError
    with pytest.raises(UnsupportedArchError, match=r"compute_999.*\[KB4009\]"):
        build(Request("m", "cuda", "", "", architectures=((99, 9, ""),)))


def test_cuda_without_a_host_compiler(nvcc, monkeypatch):
    monkeypatch.setenv("CXX", "/no/such/g++")
    with pytest.raises(HostCompilerNotFoundError, match=r"(?s)\[KB4008\].*CXX=/no/such/g\+\+"):
        build(Request("m", "cuda", CUDA, ""))


def test_flags_of_the_linker_for_nvcc():
    flags = ["-lm", "-L/x", "-Wl,-z,now", "-fopenmp", "-rpath=/x", "/x/y.a", "/x/z.so.13"]
    made = [word for flag in flags for word in library._for_nvcc(flag)]
    assert made == [
        *("-lm", "-L/x", "-Xlinker", "-z", "-Xlinker", "now", "-Xcompiler", "-fopenmp"),
        *("-Xlinker", "-rpath=/x", "/x/y.a", "-Xlinker", "/x/z.so.13"),
    ]


def test_headers_with_names_that_make_escapes(tmp_path):
    names = ["a b.h", "c#.h", "$d.h", "a:b.h", "e\\f.h"]
    for i, name in enumerate(names):
        (tmp_path / name).write_text(f"#define A{i} 1\n")
    source = "".join(f'#include "{name}"\n' for name in names) + ANSWER
    request = Request("m", "c", source, "", include_paths=(str(tmp_path),))
    build(request)
    for name in names:
        assert not build(request).built
        with open(tmp_path / name, "a") as header:
            header.write("#define MORE\n#undef MORE\n")
        assert build(request).built


def test_a_cached_build_starts_no_process(monkeypatch):
    request = Request("m", "c", ANSWER, "")
    build(request)

    def refuse(*_, **__):
        raise AssertionError("a process was started")

    monkeypatch.setattr("subprocess.Popen", refuse)
    assert not build(request).built


MEETING = """#!/bin/sh
[ "$1" = --version ] || {{
    touch {folder}/$$
    for i in $(seq 300); do
        [ $(ls {folder} | wc -l) -ge 2 ] && break
        sleep 0.1
    done
    [ $(ls {folder} | wc -l) -ge 2 ] || exit 1
}}
exec {compiler} "$@"
"""


def test_builds_of_two_threads_run_at_once(tmp_path, monkeypatch):
    """Each compiler waits until there are two."""
    (tmp_path / "running").mkdir()
    compiler = shutil.which("gcc") or shutil.which("cc")
    meeting = tmp_path / "meeting"
    meeting.write_text(MEETING.format(folder=tmp_path / "running", compiler=compiler))
    meeting.chmod(0o755)
    monkeypatch.setenv("CC", str(meeting))
    requests = [Request(f"m{i}", "c", ANSWER + f"int n{i};\n", "") for i in range(2)]
    with ThreadPoolExecutor(2) as pool:
        built = list(pool.map(build, requests))
    assert all(found.path.is_file() for found in built)
    assert built[0].path != built[1].path
