"""`kernbridge.compat.brainevent`: BrainEvent's names, and how its modules are replaced."""

import ctypes
import os
import subprocess
import sys

import kernbridge
import numba
import pytest
from conftest import path_with
from kernbridge import XLACustomKernel
from kernbridge.compat import brainevent as compat

pytestmark = pytest.mark.once


def test_every_name_of_the_bridge_is_there():
    for name in compat.__all__:
        assert getattr(compat, name) is not None


def test_exceptions_of_kernbridge_are_caught_by_brainevents_name():
    assert compat.BrainEventError.__name__ == "BrainEventError"
    assert issubclass(kernbridge.KernbridgeError, compat.BrainEventError)
    with pytest.raises(compat.BrainEventError):
        raise kernbridge.errors.NvccNotFoundError("no nvcc")


def test_what_operators_read_of_an_operation():
    op = XLACustomKernel("compat_reads")
    assert (op._tags, op._call_fn, op._benchmark_data_fn) == (set(), None, None)
    op.def_tags("sparse")
    op.def_call(len)
    op.def_benchmark_data(list)
    assert (op._tags, op._call_fn, op._benchmark_data_fn) == ({"sparse"}, len, list)


def test_an_operation_is_registered_by_hand():
    op = XLACustomKernel("compat_registered")
    compat.register_primitive("compat_other_name", op)
    compat.register_primitive("compat_other_name", op)
    assert compat.get_registry()["compat_other_name"] is op
    with pytest.warns(UserWarning, match=r"'compat_other_name'.*\[KB8007\]") as warned:
        compat.register_primitive("compat_other_name", XLACustomKernel("compat_third"))
    assert warned[0].filename == __file__


def test_the_setting_that_operators_read():
    assert compat.config.get_numba_parallel() is False
    before = numba.get_num_threads()
    try:
        compat.config.set_numba_parallel(num_threads=1)
        assert compat.config.get_numba_parallel() is True
        assert kernbridge.config.get_numba_num_threads() == numba.get_num_threads() == 1
        with pytest.raises(ValueError, match=r"is 0.*expected 1 to.*\[KB8001\]"):
            compat.config.set_numba_parallel(False, num_threads=0)
        assert compat.config.get_numba_parallel() is True
    finally:
        compat.config.set_numba_parallel(False)
        kernbridge.config.set_numba_num_threads(None)
        numba.set_num_threads(before)


def test_compute_capabilities_keep_their_order():
    try:
        compat.config.set_compute_capability("8.6, 8.0")
        assert compat.config.get_compute_capability() == ["sm_86", "sm_80"]
    finally:
        compat.config.set_compute_capability()
    assert compat.config.get_compute_capability() is None


def test_the_folder_of_the_cache_is_a_text(monkeypatch, tmp_path):
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", str(tmp_path))
    assert compat.get_cache_dir() == str(tmp_path)
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", "0")
    assert compat.get_cache_dir() is None


def test_a_compiler_as_a_class(tmp_path):
    source = 'extern "C" __attribute__((visibility("default"))) int three() { return THREE; }\n'
    backend = compat.CPPBackend()
    assert isinstance(backend, compat.CompilerBackend)
    assert backend.platform_name == "cpu"
    path = backend.compile_source(
        source, str(tmp_path / "out" / "three.so"), str(tmp_path), extra_cflags=["-DTHREE=3"]
    )
    assert ctypes.CDLL(path).three() == 3
    with pytest.raises(compat.CompilationError, match=r"(?s)\[KB4006\].*THREE"):
        backend.compile_source(source, str(tmp_path / "other.so"), str(tmp_path))
    with pytest.raises(NotImplementedError, match=r"AMD.*\[KB7006\]"):
        compat.HIPBackend().compile_source(source, "a.so", ".")
    with pytest.raises(TypeError, match="abstract"):
        compat.CompilerBackend()


INSTALL = """
from kernbridge.compat import brainevent
try:
    brainevent.install()
    import brainevent as be
    print(be.XLACustomKernel.__module__)
except Exception as e:
    print(f"{type(e).__name__}: {e}")
"""


UTIL = """
from .._error import KernelError
from .main import XLACustomKernel
__all__ = ["EventABI", "dtype_suffix"]
LIMIT = 3
class EventABI: pass
def dtype_suffix(dtype): return "its own"
def events(x): return dtype_suffix("float64"), x < LIMIT
"""


@pytest.fixture
def a_brainevent(tmp_path):
    """Write what looks like BrainEvent to pip and to `import`; returns its folder."""

    def write(version: str) -> str:
        folder = tmp_path / "site"
        package = folder / "brainevent"
        (package / "_op").mkdir(parents=True)
        (package / "__init__.py").write_text(
            "from . import config\nfrom ._op import XLACustomKernel\n"
            "from ._op.main import KernelEntry\nfrom ._error import KernelError\n"
        )
        for name in ("__init__", "main", "main_helpers"):
            (package / "_op" / f"{name}.py").write_text("raise ImportError('the bridge itself')\n")
        (package / "_op" / "util.py").write_text(UTIL)
        (package / "config.py").write_text("def own(): pass\ndef get_backend(): own\n")
        info = folder / f"brainevent-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: brainevent\nVersion: {version}\n"
        )
        return str(folder)

    return write


def run_with(run_python, folder: str, source: str) -> str:
    return run_python(f"import sys\nsys.path.insert(0, {folder!r})\n{source}", check=False)


def test_modules_are_replaced_and_a_line_says_so(run_python, a_brainevent):
    said = run_with(
        run_python,
        a_brainevent("0.3.7"),
        INSTALL
        + """
import kernbridge
brainevent.install()  # a second time
assert be.config.own and be.config.get_backend is kernbridge.config.get_backend
assert be.config.get_numba_parallel() is False
import jax, numba, numpy as np

@numba.njit
def count(x, out):
    for i in range(out.size):
        out[i] = i + 2**40

op = kernbridge.XLACustomKernel("outputs_of_64_bits")  # they keep their dtype
op.def_numba_kernel(lambda outs: kernbridge.numba_kernel(count, outs))
x, outs = np.zeros(3, np.float32), [jax.ShapeDtypeStruct((3,), np.int64)]
for found in (op(x, outs=outs)[0], jax.jit(lambda x: op(x, outs=outs)[0])(x)):
    assert found.dtype == np.int64 and found.tolist() == [2**40 + i for i in range(3)]
import brainevent._op.util as util
assert util.dtype_suffix("float16") == "_f16"
try:
    from brainevent._op.kernix_cache import CompilationCache
except ImportError as e:
    print(e)
""",
    )
    where = "brainevent._op, brainevent._error, brainevent._registry"
    assert said.count(f"takes the place of {where}") == 1
    assert "(BrainEvent 0.3.7)" in said
    assert "\nkernbridge\n" in f"\n{said}"
    assert "cannot import name 'CompilationCache'" in said


def test_helpers_of_operators_stay_brainevents(run_python, a_brainevent):
    """Those that stand in a module of its bridge, which has kernbridge's names besides."""
    said = run_with(
        run_python,
        a_brainevent("0.3.7"),
        INSTALL
        + """
import inspect, pickle, sys
from brainevent._op import util
from brainevent._op.util import EventABI, events, numba_kernel
assert util.events is events
assert events(2) == ("_f64", True)
assert EventABI.__module__ == util.__name__ == "brainevent._op.util"
assert pickle.loads(pickle.dumps(events)) is events
assert pickle.loads(pickle.dumps(EventABI)) is EventABI
assert "x < LIMIT" in inspect.getsource(events)
assert numba_kernel is util.numba_kernel is brainevent.numba_kernel
assert util.XLACustomKernel is brainevent.XLACustomKernel
names = {}
exec("from brainevent._op.util import *", names)
assert {"EventABI", *brainevent.__all__} < names.keys() and "events" not in names
try:
    from brainevent._op.util import absent
except ImportError as e:
    print(e)
try:
    util.absent
except AttributeError as e:
    print(e)
from brainevent._op.main_helpers import numba_kernel
assert sys.modules["brainevent._op.main_helpers"].__all__ == brainevent.__all__
""",
    )
    assert "cannot import name 'absent' from 'brainevent._op.util'" in said
    words = "kernbridge takes the place of brainevent._op.util, but has no 'absent'; the public"
    assert words in said


@pytest.mark.exhaustive
def test_an_unknown_version_is_refused_by_name(run_python, a_brainevent):
    said = run_with(run_python, a_brainevent("0.9.1"), INSTALL)
    assert said.startswith("RuntimeError: kernbridge can take the place of the bridge of ")
    assert "BrainEvent 0.2 and 0.3, and BrainEvent 0.9.1 is installed" in said


def test_brainevent_may_not_be_imported_before(run_python, a_brainevent):
    folder = a_brainevent("0.2.1")
    said = run_with(run_python, folder, "sys.modules['brainevent'] = sys\n" + INSTALL)
    assert "RuntimeError: BrainEvent is imported already" in said


@pytest.mark.exhaustive
def test_brainevent_may_be_absent(run_python):
    source = """
import importlib.metadata
def absent(name):
    raise importlib.metadata.PackageNotFoundError(name)
importlib.metadata.version = absent
"""
    assert "pip install brainevent" in run_python(source + INSTALL)


@pytest.mark.exhaustive
def test_a_script_runs_with_its_arguments(tmp_path, a_brainevent):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, beside, brainevent\nprint(sys.argv[1:], brainevent.KernelError.__module__)\n"
    )
    (tmp_path / "beside.py").touch()
    done = subprocess.run(
        [sys.executable, "-m", "kernbridge.compat.brainevent", str(script), "-x", "1"],
        env={**os.environ, "PYTHONPATH": path_with(a_brainevent("0.2.1"))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "['-x', '1'] kernbridge\n"
    assert "takes the place" in done.stderr
