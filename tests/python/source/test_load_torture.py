"""Libraries that change between the check and the use, and libraries that no loader can open."""

import os
import shutil
import subprocess

import jax
import jax.numpy as jnp
import kernbridge
import pytest
from kernbridge._src.toolchain import build

CC = shutil.which("gcc") or shutil.which("cc")
pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(CC is None, reason="no C compiler here"),
    pytest.mark.usefixtures("root"),
]

SOURCE = """
#include "kernbridge/kernbridge.h"
// @BE twice arg:any ret:any
void twice(const kb_tensor *x, kb_tensor *out) {
    *(float *)out->data = 2 * *(const float *)x->data;
}
"""
DAMAGES = {
    "removed": lambda data: None,
    "empty": lambda data: b"",
    "aarch64": lambda data: data[:18] + b"\xb7\x00" + data[20:],
    "32 bits": lambda data: data[:4] + b"\x01" + data[5:],
    "text": lambda data: b"text" * (len(data) // 4),
}


def load():
    module = kernbridge.load_c_inline("torture", SOURCE)
    assert module.twice(jnp.float32(3), outs=jax.ShapeDtypeStruct((), jnp.float32)) == 6
    return module


def write(path, data):
    """Another file under the same name: the old one may be open."""
    os.unlink(path)
    if data is not None:
        path.write_bytes(data)
        path.chmod(0o700)


@pytest.fixture
def copies(monkeypatch, tmp_path):
    """Let the loader see a new name each time: it knows a library that is open already."""

    def copying(find):
        def built(request):
            found = find(request)
            copy = tmp_path / f"copy{len(list(tmp_path.iterdir()))}.so"
            return found and found._replace(path=shutil.copy(found.path, copy))

        return built

    wrap(monkeypatch, copying)


def wrap(monkeypatch, wrapped):
    """Wrap the function from which a request gets its library."""
    monkeypatch.setattr(build, "build", wrapped(build.build))


@pytest.mark.parametrize("damage", DAMAGES)
def test_replaced_between_check_and_use(copies, monkeypatch, damage):
    load()
    before, requests = len(os.listdir("/proc/self/fd")), []

    def replacing(find):
        def replaced(request):
            built = find(request)
            if built is not None:
                requests.append(request)
            if built is not None and len(requests) == 1:
                assert not built.built
                write(built.path, DAMAGES[damage](built.path.read_bytes()))
            return built

        return replaced

    wrap(monkeypatch, replacing)
    load()
    # One that is absent is built in any case, by one of those who need it.
    assert [r.force_rebuild for r in requests] == [False, damage != "removed"]
    load()
    assert len(requests) == 3
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("damage", ["aarch64", "32 bits"])
def test_a_large_library_that_was_replaced_is_built_again(copies, monkeypatch, damage):
    """It is known by its size alone, so that only the loader notices."""
    monkeypatch.setattr(build.library, "HASHED_LIBRARY", 0)
    load()
    (kept,) = kernbridge.get_cache_dir().rglob("*.so")
    write(kept, DAMAGES[damage](kept.read_bytes()))
    load()
    assert kept.read_bytes()[4] == 2
    load()


def test_a_library_that_is_whole_is_not_built_again():
    """An error of the loader that a new build would not mend comes as it is."""
    source = SOURCE.replace("// @BE", "void elsewhere(void);\n// @BE").replace(
        "    *(float", "    elsewhere();\n    *(float"
    )
    for _ in range(2):
        with pytest.raises(
            kernbridge.KernelLoadError, match=r"undefined symbol: elsewhere.*\[KB5102\]"
        ):
            kernbridge.load_c_inline("undefined", source)


@pytest.fixture(scope="module")
def binary(tmp_path_factory):
    folder = tmp_path_factory.mktemp("binary")
    (folder / "b.c").write_text("char data[100000] = {1};\nint f(void *call) { return 1; }\n")
    library = folder / "b.so"
    subprocess.run([CC, "-shared", "-fPIC", folder / "b.c", "-o", library], check=True)
    return library.read_bytes()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[:10], r"truncated: it has 10 bytes, fewer than its header"),
        (lambda data: data[:70], r"truncated: it has 70 bytes of \d+"),
        (lambda data: data[: len(data) // 2], r"truncated: it has \d+ bytes of \d+"),
        (DAMAGES["aarch64"], "built for (aarch64|x86_64), but this process runs on"),
        (lambda data: data[:18] + b"\x28\x00" + data[20:], "built for arm, but"),
        (lambda data: data[:18] + b"\x99\x99" + data[20:], "processors of number 39321"),
        (DAMAGES["32 bits"], "not a 64-bit little-endian library"),
    ],
)
def test_binaries_that_cannot_be_opened(binary, tmp_path, damage, said):
    file = tmp_path / "b.so"
    if damage is DAMAGES["aarch64"] and os.uname().machine == "aarch64":
        pytest.skip("it is right here")
    file.write_bytes(damage(binary))
    functions = {"f": "arg:any ret:any"}
    with pytest.raises(kernbridge.KernelLoadError, match=f"b.so cannot be loaded: .*{said}"):
        kernbridge.load_binary(file, functions)
    file.unlink()
    file.write_bytes(binary)
    assert kernbridge.load_binary(file, functions).function_names == ["f"]
    with pytest.raises(kernbridge.KernelError, match=r"'g'.*\[KB5104\]"):
        kernbridge.load_binary(file, {"g": "arg:any ret:any"})
