"""Every test runs on the CPU, with four virtual devices for sharding, and a fake CUDA driver."""

import gc
import itertools
import os
import re
import sys
import zlib
from collections import Counter, defaultdict

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
)

from pathlib import Path

import fake_gpu
import forks
import numpy
import session_cache

MENDED = "" if hasattr(numpy, "row_stack") else "import numpy; numpy.row_stack = numpy.vstack\n"
exec(MENDED)  # numba-cuda 0.30 reads it; numpy 2.5 removed it
session_cache.install()
fake_gpu.install()  # before kernbridge is imported

import jax  # noqa: E402
import pytest  # noqa: E402

HERE = Path(__file__).parent
sys.path += [str(HERE.parents[1] / f) for f in ("examples", "studies")]  # tested part by part


def pytest_ignore_collect(collection_path, config):
    """Skip importing the modules of which no test runs again on another version of JAX."""
    if "not once" not in config.option.markexpr or not collection_path.name.startswith("test_"):
        return None
    once = re.search(r"^pytestmark = \[?pytest\.mark\.once", collection_path.read_text(), re.M)
    return True if once else None


collected: Counter[str] = Counter()


def pytest_itemcollected(item):
    """Of the variants of a test that is marked ``brief``, leave five of six to test-all."""
    if item.get_closest_marker("brief"):
        test = item.nodeid.partition("[")[0]
        if collected[test] % 6:
            item.add_marker(pytest.mark.exhaustive)
        collected[test] += 1


@pytest.hookimpl(trylast=True)  # when those of other marks are gone
def pytest_collection_modifyitems(config, items):
    """Let each test of `make test` run with one of its three versions of JAX.

    Of a test with many variants, each of the two other versions runs an eighth; of the tests with
    few, each runs one variant of every fourth. The newest version runs the rest, and what is marked
    ``once``. The Makefile says which version this is.
    """
    if not os.environ.get("TESTS_OF"):
        return
    variants = defaultdict(list)
    runs_here = {item for item in items if item.get_closest_marker("once")}
    for item in items:
        if item not in runs_here:
            variants[item.nodeid.partition("[")[0]].append(item)
    part = ("oldest", "next", "newest").index(os.environ["TESTS_OF"])
    for test, of_one in variants.items():
        of_one.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        chosen = zlib.crc32(test.encode()) % 4
        many = len(of_one) // 8
        ends = (many or chosen == 0, 2 * many or chosen <= 1, len(of_one))
        runs_here.update(of_one[ends[part - 1] if part else 0 : ends[part]])
    config.hook.pytest_deselected(items=[item for item in items if item not in runs_here])
    items[:] = [item for item in items if item in runs_here]


def pytest_collection_finish():
    """Search for garbage less often, and not in what was imported: it took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


ALONE = "KERNBRIDGE_TEST_ALONE" in os.environ  # see tests/alone
NEEDS = re.compile(
    r".*(?:needs the extension 'kernbridge/_ext/\w+', which this installation does not have"
    r"|no extension of this installation runs CUDA kernels there"
    r"|No module named 'kernbridge\._ext"
    r"|the header (?:brainevent|cuda)[/\w]*\.\w+ was not found).*"
)
said: list[str] = []  # by the programs of a test


def skip_without_extension(report, before, *texts):
    """Without extensions, skip a test or a file that fails for the lack of one, and name it."""
    found = NEEDS.search("\n".join([str(report.longrepr), *texts])) if report.failed else None
    if ALONE and found:
        report.outcome, report.longrepr = "skipped", (*before, f"Skipped: {found[0].strip()}")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return skip_without_extension((yield), (str(collector.path), 0))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    printed = [text for _, text in report.sections]
    return skip_without_extension(report, (str(item.path), item.location[1] or 0), *printed, *said)


def pytest_runtest_setup():
    said.clear()


WITHOUT_FAKE = {"KERNBRIDGE_LIBCUDA": "", "KERNBRIDGE_TEST_CUDA": ""}


def path_with(*folders: Path) -> str:
    """PYTHONPATH with more folders in front."""
    return os.pathsep.join((*map(str, folders), os.environ.get("PYTHONPATH", "")))


@pytest.fixture
def x64():
    """JAX holds 64-bit types."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture
def gathers():
    """Set what happens to arrays that must be gathered on every device, for one test."""
    from kernbridge import config

    yield config.set_gathers
    config.set_gathers(None)


@pytest.fixture
def gpu():
    """The fake CUDA driver, for tests of GPU operations."""
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    if ALONE:
        pytest.skip("the fake CUDA driver needs the extension 'emulator', which executes kernels")
    if "KERNBRIDGE_LIBCUDA" not in os.environ:
        pytest.skip("no C compiler to build the fake CUDA driver with")
    driver = fake_gpu.FakeDriver()
    yield driver
    driver.close()


@pytest.fixture(scope="module")
def without_fake_gpu():
    """The CPU runs CUDA, as on a machine without a GPU, and not the fake driver."""
    from kernbridge._src.plan import targets

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(targets, "_of_gpus", ["cuda"])
        patch.delitem(targets._makers, "cpu")
        yield


@pytest.fixture
def run_python(tmp_path, request):
    """Run a program in a fresh process; returns what it printed.

    It may import what lies beside the test, and the helpers of this folder.
    """

    turns = itertools.count()

    def run(source: str, *, check: bool = True, **environment: str) -> str:
        script = tmp_path / "program.py"
        path = path_with(request.path.parent, HERE)
        environment = {**os.environ, "PYTHONPATH": path, **WITHOUT_FAKE, **environment}
        is_fake = environment["KERNBRIDGE_TEST_CUDA"] and not ALONE
        connected = "import fake_gpu; fake_gpu.connect()\n" if is_fake else ""
        script.write_text(MENDED + connected + source)
        done = forks.run(script, environment, timeout=300, turn=next(turns))
        said.append(done.stdout + done.stderr)
        if check:
            assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout if check else done.stdout + done.stderr

    return run


@pytest.fixture
def run(run_python, request):
    """Run a program in a fresh process after the HEAD of the test's module, without a driver."""

    def run(program: str, **environment: str) -> str:
        source = request.module.HEAD + program
        return run_python(source, KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so", **environment)

    return run


@pytest.fixture
def root(tmp_path, monkeypatch):
    """The folder of an empty cache."""
    from kernbridge._src.forge import artefacts

    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(artefacts, "_warned", False)
    return tmp_path / "cache"


def write_compiler(script, before):
    """A C compiler that runs a line of shell first."""
    cc = fake_gpu.compiler()
    script.write_text(f'#!/bin/sh\n[ "$1" = --version ] || {{ {before}; }}\nexec {cc} "$@"\n')
    script.chmod(0o755)


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """A compiler that writes a line of what it was asked for; gives how many builds there were."""
    log = tmp_path / "log"
    log.touch()
    script = tmp_path / "counting-cc"
    write_compiler(script, f'echo "$@" >> {log}')
    monkeypatch.setenv("CC", str(script))
    return lambda: log.read_text().count("\n")
