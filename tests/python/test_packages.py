"""What is installed: extras that the texts name, and that the lines to install them are found.

`make test-dist` installs them (tests/release).
"""

import importlib.util
import re
import runpy
import sys
import sysconfig
import tomllib
from pathlib import Path

import kernbridge
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "release"))

import install_lines  # noqa: E402
import installed  # noqa: E402

pytestmark = pytest.mark.once
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def texts():
    """What users read: the documents and the messages."""
    yield from (ROOT / "docs").rglob("*.md")
    yield from (ROOT / "python").rglob("*.py")
    yield ROOT / "README.md"


def test_every_extra_that_a_text_names_exists():
    named = re.compile(r"(?:kernbridge|[\s\"'`]\.)\[([a-z][a-z0-9,-]*)\]")
    found = {
        name
        for path in texts()
        for given in named.findall(path.read_text())
        for name in given.split(",")
    }
    assert {"numba", "cuda", "cuda13", "demo", "bench"} <= found <= set(EXTRAS)


def test_every_extra_that_is_named_in_another_exists():
    named = re.findall(r"kernbridge\[([\w,-]+)\]", str(EXTRAS))
    assert {name for given in named for name in given.split(",")} <= set(EXTRAS)


def test_numba_cuda_is_installed_with_a_numpy_that_it_can_be_imported_with():
    for extra, requirements in EXTRAS.items():
        own = " ".join(requirements)
        if "numba-cuda" in own.replace("numba-cuda-mlir", ""):
            assert "numpy<2.5" in requirements, extra


def test_the_extra_for_the_cpu_installs_one_library_of_cuda():
    nvidia = [r for r in EXTRAS["cuda"] if r.startswith("nvidia")]
    assert nvidia == ["nvidia-cuda-runtime"]
    assert not any("[cu1" in r for r in EXTRAS["cuda"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("    pip install '.[numba]'\n", ["'.[numba]'"]),
        ("    pip install .   # in a clone\n", ["."]),
        ("| C | `pip install .`, and a compiler |", ["."]),
        ("    pip install xprof && xprof --logdir /tmp/trace\n", ["xprof"]),
        ("      - run: pip install '.[test]' numba\n", ["'.[test]' numba"]),
        ("the line `pip install a` or `pip install b c`", ["a", "b c"]),
        ("say pip install to someone", []),
    ],
)
def test_lines_are_found_as_they_are_printed(text, found):
    assert install_lines.in_text(text) == found


def test_a_line_for_a_clone_takes_the_wheel():
    parts = install_lines.of_wheel('".[cuda13]" "jax[cuda13]"', Path("/w/k.whl"))
    assert parts == ["kernbridge[cuda13] @ file:///w/k.whl", "jax[cuda13]"]


def test_every_line_in_a_text_is_run():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    text = "\n".join(page.read_text() for page in pages)
    prose = len(re.findall(r"`pip install \.\.\.`|`pip install`", text))
    found = sum(len(install_lines.in_text(page.read_text())) for page in pages)
    prose += text.count("pip install --no-deps")  # of Enzyme, which the Makefile installs
    assert found + prose == text.count("pip install ") + text.count("`pip install`")
    assert '".[numba]"' in install_lines.lines()


def test_no_line_asks_an_index_for_kernbridge():
    """No index has it: a line in a text or a message starts from a clone or a wheel."""
    asked = re.compile(r"pip install [^`\n#]*(?<![/\w])kernbridge(?!\[?\w*\]? @)")
    assert asked.search("pip install numpy 'kernbridge[cuda]'")
    assert not asked.search("pip install 'kernbridge[cuda] @ file:///folder'")
    for path in texts():
        text = path.read_text()
        assert not asked.search(text), path


def test_a_page_of_a_door_needs_another_where_it_says_so():
    """`make test-dist` runs the page to that heading, with the packages of the first door."""
    for (_, page), heading in installed.ENDS.items():
        before, _, after = (ROOT / "docs" / page).read_text().partition(f"\n{heading}\n")
        assert "cuda" in after.partition("\n## ")[0]
        assert "numba import cuda" not in before
        assert "This section needs one of the lines" in after


@pytest.mark.parametrize(
    ("module", "name", "value", "said"),
    [
        (sys, "version_info", (3, 10, 2), "needs Python 3.11 or later, and .* is 3.10."),
        (importlib.util, "find_spec", lambda _: None, "Install python3-venv"),
        (sysconfig, "get_path", lambda _: "/none", "Install python3-dev .* or python3-devel"),
    ],
)
def test_make_says_what_a_python_lacks(monkeypatch, module, name, value, said):
    def asked():
        with pytest.raises(SystemExit) as exit_:
            runpy.run_path(str(ROOT / "tests" / "check_python"))
        return exit_.value.code

    assert asked() is None
    monkeypatch.setattr(module, name, value)
    assert re.search(said + ".*Or name another Python: make PYTHON=", asked())


def test_without_numba_cuda_the_packages_for_gpus_and_for_the_cpu_are_named(monkeypatch):
    """By what an index has, which is not kernbridge itself."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ImportError) as error:
        kernbridge.numba_cuda_kernel(None, None, launch_dims=1)
    said = str(error.value)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for extra in ("cuda13", "cuda"):
        wanted = [*extras["numba"], *(p for p in extras[extra] if "kernbridge" not in p)]
        assert f"pip install {' '.join(map(repr, wanted))} " in said
    assert "kernbridge[" not in said
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(ImportError, match=r"set_numba_num_threads needs Numba.*KB4016"):
        kernbridge.config.set_numba_num_threads(0)
    kernbridge.config.set_numba_num_threads(None)


def of_recipe(section):
    """The list of a section of the requirements in the conda recipe."""
    text = (ROOT / "recipe" / "recipe.yaml").read_text()
    listed = re.search(rf"^  {section}:\n((?:    - .+\n)+)", text, re.M)[1]
    return [line.removeprefix("    - ") for line in listed.splitlines()]


def as_conda(requirements):
    spaced = {
        re.sub(r"(?<=\w)(?=[<>=])", " ", requirement, count=1) for requirement in requirements
    }
    return {re.sub("^flatbuffers", "python-flatbuffers", requirement) for requirement in spaced}


def test_the_conda_recipe_agrees_with_the_project():
    text = (ROOT / "recipe" / "recipe.yaml").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert f'version: "{kernbridge.__version__}"' in text
    assert f"summary: {PROJECT['description']}\n" in text
    assert f"license: {PROJECT['license']}\n" in text
    assert f'python_min: "{PROJECT["requires-python"].removeprefix(">=")}"' in text
    python = "python >=${{ python_min }}"
    assert set(of_recipe("run")) == {python, *as_conda(PROJECT["dependencies"])}
    for command, function in PROJECT["scripts"].items():
        assert f"      - {command} = {function}\n" in text
    assert set(of_recipe("host")) >= as_conda(project["build-system"]["requires"])
    cmake = project["tool"]["scikit-build"]["cmake"]["version"]
    assert f"cmake {cmake}" in of_recipe("build")
    optional = {*EXTRAS["numba"], *(r for r in EXTRAS["cuda"] if r.startswith("numba-cuda"))}
    assert set(of_recipe("run_constraints")) == as_conda(optional)
