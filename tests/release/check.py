#!/usr/bin/env python3
"""Checks the sdist and the wheel that build.py made against what a release must be.

    check.py FOLDER    the folder that has both

The exit status is 1 if anything is wrong. A development version is checked all the same; why it
cannot be released is printed.
"""

from __future__ import annotations

import email
import re
import sys
import tarfile
import zipfile
from pathlib import Path

from build import PLATFORM, ROOT, output_of

PACKAGE = ROOT / "python" / "kernbridge"
SUPERVISOR = "kernbridge/lib/kernbridge-supervisor"
BINARIES = ("kernbridge/_core.abi3.so", "kernbridge/lib/libkernbridge.so", SUPERVISOR)
wrong: list[str] = []
not_ready: list[str] = []


def expect(holds: object, what: str, into: list[str] = wrong) -> None:
    if not holds:
        into.append(what)


def check_wheel(wheel: Path, version: str) -> None:
    tag = f"cp311-abi3-{PLATFORM}"
    expect(
        wheel.name == f"kernbridge-{version}-{tag}.whl",
        f"the wheel is {wheel.name}, expected version {version} and the tag {tag}",
    )
    with zipfile.ZipFile(wheel) as archive:
        names = {n for n in archive.namelist() if not n.endswith("/")}
        info = f"kernbridge-{version}.dist-info"
        mode = archive.getinfo(SUPERVISOR).external_attr >> 16
        metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
    ours = {n for n in names if not n.startswith(f"{info}/")}
    tracked = output_of("git", "ls-files", "python", "include").split()
    expected = set(BINARIES)
    for file in map(Path, tracked):
        inside = Path("kernbridge", file) if file.parts[0] == "include" else Path(*file.parts[1:])
        expected.add(inside.as_posix().replace("/ext/embed/", "/"))  # as src/ext/embed installs it
    expect(not expected - ours, f"the wheel lacks {sorted(expected - ours)}")
    expect(not ours - expected, f"the wheel has {sorted(ours - expected)}, which git does not know")
    expect(mode & 0o111, f"{SUPERVISOR} cannot be executed")
    expect(f"{info}/licenses/LICENSE" in names, "the wheel has no licence")
    expect(metadata["Version"] == version, f"METADATA has version {metadata['Version']}")
    expect(metadata["Requires-Python"], "METADATA has no Requires-Python")
    expect("# kernbridge" in str(metadata.get_payload()), "METADATA has no README")
    # Fails if the extension uses what is not in the stable interface of CPython 3.11.
    output_of(sys.executable, "-m", "abi3audit", "--strict", wheel)


def check_sdist(sdist: Path, version: str) -> None:
    with tarfile.open(sdist) as archive:
        names = {n.partition("/")[2] for n in archive.getnames()}
    needed = output_of("git", "ls-files", "cmake", "src", "include", "python").split()
    needed += ["pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE", "CHANGELOG.md"]
    expect(sdist.name == f"kernbridge-{version}.tar.gz", f"the sdist is {sdist.name}")
    expect(not set(needed) - names, f"the sdist lacks {sorted(set(needed) - names)}")


def check_recipe(version: str) -> None:
    """Render the conda recipe: what is no recipe is an error."""
    import rattler_build

    folder = ROOT / "recipe"
    variants = rattler_build.VariantConfig.from_file(folder / "variants.yaml")
    (one,) = rattler_build.Stage0Recipe.from_file(folder / "recipe.yaml").render(variants)
    made = one.recipe.to_dict()
    found = (made["package"]["version"], made["build"]["python"]["version_independent"])
    expect(found == (version, True), f"the conda recipe is rendered with {found}")


def check_repository(version: str) -> None:
    expect("dev" not in version, f"{version} is a development version", not_ready)
    heading = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    top = heading[1] if heading else ""
    expect(top.startswith(version), f"CHANGELOG.md begins with {top!r}, not {version}", not_ready)
    dirty = output_of("git", "status", "--porcelain")
    expect(not dirty, "the working tree has changes that are not committed", not_ready)
    tags = output_of("git", "tag", "--list", f"v{version}")
    expect(not tags, f"the tag v{version} exists", not_ready)


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    (version,) = re.findall(r'^__version__ = "(.+)"$', (PACKAGE / "__init__.py").read_text(), re.M)
    check_sdist(sdist, version)
    check_wheel(wheel, version)
    check_recipe(version)
    check_repository(version)
    for reason in not_ready:
        print(f"not to be released: {reason}")
    for defect in wrong:
        print(f"wrong: {defect}")
    sys.exit(1 if wrong or (not_ready and "dev" not in version) else 0)


if __name__ == "__main__":
    main()
