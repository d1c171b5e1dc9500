#!/usr/bin/env python3
"""Builds the sdist, and from it the wheel, without network, and checks what a release must be.

check_release.py [FOLDER]   FOLDER gets both files (build/release)

Runs in an environment that has scikit-build-core, cmake, ninja and kernbridge's dependencies, such
as that of `make dev`. The exit status is 1 if anything is wrong. A development version is built and
checked all the same; why it cannot be released is printed.
"""

import email
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "kernbridge"
LIBRARIES = ("kernbridge/_core.abi3.so", "kernbridge/lib/libkernbridge.so")
wrong: list[str] = []
not_ready: list[str] = []


def expect(holds: object, what: str, into: list[str] = wrong) -> None:
    if not holds:
        into.append(what)


def output_of(*command: object, **options: object) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(
            f"check_release.py: {' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}"
        )
    return str(done.stdout)


def build(kind: str, source: Path, folder: Path) -> Path:
    """One file, built by the backend itself: no frontend, nothing is downloaded."""
    program = f"from scikit_build_core import build; build.build_{kind}({str(folder)!r})"
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    output_of(sys.executable, "-c", program, cwd=source, env={**os.environ, "PATH": path})
    (made,) = folder.glob("*.tar.gz" if kind == "sdist" else "*.whl")
    return made


def check_wheel(wheel: Path, version: str) -> None:
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    expect(
        wheel.name == f"kernbridge-{version}-cp311-abi3-{platform}.whl",
        f"the wheel is {wheel.name}, expected version {version} and the tag cp311-abi3-{platform}",
    )
    with zipfile.ZipFile(wheel) as archive:
        names = {n for n in archive.namelist() if not n.endswith("/")}
        info = f"kernbridge-{version}.dist-info"
        metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
    ours = {n for n in names if not n.startswith(f"{info}/")}
    tracked = output_of("git", "ls-files", "python", "include", cwd=ROOT).split()
    expected = set(LIBRARIES)
    for file in map(Path, tracked):
        inside = Path("kernbridge", file) if file.parts[0] == "include" else Path(*file.parts[1:])
        expected.add(inside.as_posix())
    expect(not expected - ours, f"the wheel lacks {sorted(expected - ours)}")
    expect(not ours - expected, f"the wheel has {sorted(ours - expected)}, which git does not know")
    expect(f"{info}/licenses/LICENSE" in names, "the wheel has no licence")
    expect(metadata["Version"] == version, f"METADATA has version {metadata['Version']}")
    expect(metadata["Requires-Python"], "METADATA has no Requires-Python")
    expect("# kernbridge" in str(metadata.get_payload()), "METADATA has no README")


def check_sdist(sdist: Path, version: str) -> None:
    with tarfile.open(sdist) as archive:
        names = {n.partition("/")[2] for n in archive.getnames()}
    needed = [*output_of("git", "ls-files", "src", "include", "python", cwd=ROOT).split()]
    needed += ["pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE", "CHANGELOG.md"]
    expect(sdist.name == f"kernbridge-{version}.tar.gz", f"the sdist is {sdist.name}")
    expect(not set(needed) - names, f"the sdist lacks {sorted(set(needed) - names)}")


def run_installed(wheel: Path, version: str, folder: Path) -> None:
    """Install the wheel in an environment of its own, and run the first example there."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    site = Path(
        output_of(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    # A path alone: the .pth files of that folder, such as an editable kernbridge's, are not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = ("install", "--quiet", "--no-deps", "--no-index", "--target", site, wheel)
    output_of(sys.executable, "-m", "pip", *install)
    asked = "import kernbridge; print(kernbridge.__version__, kernbridge.__file__)"
    found, place = output_of(python, "-c", asked, cwd=folder).split()
    expect(found == version, f"the installed package says that it is version {found}")
    expect(place.startswith(str(folder)), f"kernbridge was imported from {place}")
    output_of(python, ROOT / "examples" / "first_kernel.py", cwd=folder)


def needed_glibc(wheel: Path, folder: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        libraries = [archive.extract(name, folder) for name in LIBRARIES]
    listing = output_of("objdump", "-T", *libraries) if shutil.which("objdump") else ""
    versions = [tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", listing)]
    return ".".join(map(str, max(versions))) if versions else "unknown"


def check_repository(version: str) -> None:
    expect("dev" not in version, f"{version} is a development version", not_ready)
    heading = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    top = heading[1] if heading else ""
    expect(top.startswith(version), f"CHANGELOG.md begins with {top!r}, not {version}", not_ready)
    dirty = output_of("git", "status", "--porcelain", cwd=ROOT)
    expect(not dirty, "the working tree has changes that are not committed", not_ready)
    tags = output_of("git", "tag", "--list", f"v{version}", cwd=ROOT)
    expect(not tags, f"the tag v{version} exists", not_ready)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "release").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (version,) = re.findall(r'^__version__ = "(.+)"$', (PACKAGE / "__init__.py").read_text(), re.M)
    with tempfile.TemporaryDirectory() as temporary:
        sdist = build("sdist", ROOT, folder)
        check_sdist(sdist, version)
        with tarfile.open(sdist) as archive:
            archive.extractall(temporary, filter="data")
        wheel = build("wheel", Path(temporary, f"kernbridge-{version}"), folder)
        check_wheel(wheel, version)
        run_installed(wheel, version, Path(temporary, "venv"))
        glibc = needed_glibc(wheel, Path(temporary))
    check_repository(version)
    for file in (sdist, wheel):
        print(f"{file}: {file.stat().st_size:,} bytes")
    print(f"the wheel needs glibc {glibc}")
    for reason in not_ready:
        print(f"not to be released: {reason}")
    for defect in wrong:
        print(f"wrong: {defect}")
    sys.exit(1 if wrong or (not_ready and "dev" not in version) else 0)


if __name__ == "__main__":
    main()
