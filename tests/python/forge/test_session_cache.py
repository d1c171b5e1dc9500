"""Tests keep compiled kernels in a folder of the session, and leave nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import session_cache
from kernbridge._src.forge import artefacts

pytestmark = pytest.mark.once
HERE = Path(__file__).parents[1]


@pytest.mark.exhaustive
def test_this_session_has_a_folder_of_its_own(run_python):
    folder = Path(os.environ[session_cache.MARK])
    assert artefacts.get_cache_dir() == folder
    assert folder.name.startswith("kernbridge-tests-")
    asked = "import kernbridge; print(kernbridge.get_cache_dir())"
    assert run_python(asked).strip() == str(folder)


@pytest.mark.exhaustive
@pytest.mark.parametrize("conftest", ["python", "gpu"])
def test_a_session_leaves_nothing_in_the_cache_of_the_user(conftest, tmp_path):
    (tmp_path / "conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {str(HERE)!r})\n"
        + (HERE.parent / conftest / "conftest.py").read_text()
    )
    (tmp_path / "test_it.py").write_text(
        "import os\n"
        "from kernbridge._src.forge import artefacts\n"
        "def test_it():\n"
        "    assert artefacts.get_cache_dir() != artefacts.Path(os.environ['HOME']) / 'chosen'\n"
        "    artefacts.store('a_kind', bytes(32), artefacts.Artefact({}, (b'code',)))\n"
        "    assert artefacts.load('a_kind', bytes(32)) is not None\n"
        "    open('folder', 'w').write(str(artefacts.get_cache_dir()))\n"
    )
    home = tmp_path / "home"
    home.mkdir()
    environment = {k: v for k, v in os.environ.items() if k != session_cache.MARK}
    environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    environment |= {"KERNBRIDGE_CACHE_DIR": str(home / "chosen"), "JAX_PLATFORMS": "cpu"}
    run = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", "test_it.py"]
    run += ["--on-cpu"] if conftest == "gpu" else []
    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not Path((tmp_path / "folder").read_text()).exists()
    assert list(home.iterdir()) == []
