"""The examples in the docstrings of every module of the package run, and print what they say."""

import importlib
import re
from pathlib import Path

import kernbridge
import pytest

pytestmark = pytest.mark.once
RUN = """
import pytest, sys
options = ["--verbose", "-rs", "--doctest-modules", "--doctest-ignore-import-errors"]
nothing = ["-c", "pytest.ini", "-o", "norecursedirs=.*", "--rootdir", ".", "-p", "no:cacheprovider"]
sys.exit(pytest.main([*options, *nothing, "--pyargs", "kernbridge"]))
"""


def modules_with_examples():
    """Their names, those of folders that are new included."""
    folders = [Path(place) for place in kernbridge.__path__]
    files = [
        (file.relative_to(folder), file) for folder in folders for file in folder.rglob("*.py")
    ]
    return sorted(
        ".".join(("kernbridge", *name.with_suffix("").parts)).removesuffix(".__init__")
        for name, file in files
        if ">>> " in file.read_text()
    )


def missing_package(module):
    """The optional package for want of which a module cannot be imported."""
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(module)
    assert not str(caught.value.name).startswith("kernbridge")
    return caught.value.name


@pytest.mark.exhaustive
def test_the_examples_in_docstrings_run(run_python, tmp_path):
    pytest.importorskip("numba_cuda", reason="examples use Numba-CUDA, which is not installed")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    report = run_python(RUN)
    modules = modules_with_examples()
    assert modules
    for module in modules:
        if not re.search(rf"::{re.escape(module)}[. ]", report):
            print(f"skipped: {module} needs {missing_package(module)}")
