"""Caches are cleared, modules reloaded and kernels collected while threads call them."""

import gc
import importlib
import sys
import threading
import time
import weakref

import jax
import kernbridge
import numba
import numpy as np
import pytest

pytestmark = pytest.mark.once
x = np.arange(64, dtype=np.float32)


def same(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def make(c):
    @numba.njit
    def kernel(x, out):
        for i in range(len(x)):
            out[i] = c * x[i] + 1

    return kernbridge.numba_kernel(kernel, same), weakref.ref(kernel)


def while_threads(work, meanwhile, times):
    """Call `meanwhile` that many times, while three threads call `work` again and again."""
    failures, ended = [], threading.Event()

    def run():
        try:
            while not ended.is_set():
                work()
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(times):
            meanwhile()
    finally:
        ended.set()
        for thread in threads:
            thread.join(120)
    assert not failures, failures
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "clear",
    [jax.clear_caches, kernbridge.cache.clear_cache, lambda: importlib.reload(kernbridge)],
    ids=["JAX's caches", "the cache on disk", "kernbridge is reloaded"],
)
def test_calls_go_on(clear, tmp_path, monkeypatch):
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", str(tmp_path))
    op, _ = make(501)
    jitted, batched = jax.jit(op), jax.jit(jax.vmap(op))
    rows = np.tile(x, (5, 1))

    def call():
        np.testing.assert_array_equal(jitted(x), 501 * x + 1)
        np.testing.assert_array_equal(batched(rows), 501 * rows + 1)
        np.testing.assert_array_equal(make(502)[0](x), 502 * x + 1)

    while_threads(call, clear, 15)


@pytest.mark.exhaustive
def test_kernels_operations_and_programs_go_while_calls_run():
    compiled, alive = [], []

    def call():
        op, kernel = make(503)
        compiled.append(jax.jit(op).lower(x).compile())
        if len(compiled) > 4:
            np.testing.assert_array_equal(compiled.pop(0)(x), 503 * x + 1)
        alive.append(kernel)

    def collect():
        seen, until = len(alive), time.monotonic() + 60
        while len(alive) == seen and time.monotonic() < until:
            time.sleep(0.001)  # a call ends between two collections
        gc.collect()
        jax.clear_caches()

    while_threads(call, collect, 15)
    compiled.clear()
    jax.clear_caches()
    gc.collect()
    assert len(alive) > 10
    # A thread remembers what it traced last, and the machine code its first kernel.
    assert sum(kernel() is not None for kernel in alive) <= 5


def test_a_module_with_kernels_is_reloaded(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "reloaded_kernels.py"

    def load(c):
        file.write_text(
            "import jax, kernbridge, numba\n"
            f"C = {c}\n@numba.njit\n"
            "def kernel(x, out):\n    for i in range(len(x)):\n        out[i] = C * x[i]\n"
            "op = kernbridge.numba_kernel(kernel, lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))"
            "\n" + "#" * c
        )
        importlib.invalidate_caches()
        if "reloaded_kernels" in sys.modules:
            return importlib.reload(sys.modules["reloaded_kernels"])
        return importlib.import_module("reloaded_kernels")

    before = jax.jit(load(2).op)
    np.testing.assert_array_equal(before(x), 2 * x)
    module = load(3)
    np.testing.assert_array_equal(module.op(x), 3 * x)
    np.testing.assert_array_equal(jax.jit(jax.vmap(module.op))(x[None])[0], 3 * x)
    np.testing.assert_array_equal(before(x), 2 * x)
    jax.clear_caches()
    np.testing.assert_array_equal(before(x), 2 * x)  # its function is the earlier one
    sys.modules.pop("reloaded_kernels")


IMPORTED_AGAIN = """
import gc, sys
import jax, numba, numpy as np
import kernbridge

x = np.arange(5, dtype=np.float32)

def make(package, c):
    @numba.njit
    def kernel(x, out):
        for i in range(len(x)):
            if x[i] < 0:
                raise ValueError("negative")
            out[i] = c * x[i]
    return package.numba_kernel(kernel, lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))

def fails(op):
    try:
        op(-1 - x).block_until_ready()
    except Exception as e:
        return "ValueError: negative" in str(e)

op = make(kernbridge, 2)
f = jax.jit(op)
f(x)
names = [name for name in sys.modules if name.partition(".")[0] == "kernbridge"]
for name in names:
    del sys.modules[name]
import kernbridge as again
assert again is not kernbridge
for _ in range(2):
    for function, c in ((f, 2), (op, 2), (make(kernbridge, 3), 3), (make(again, 4), 4)):
        np.testing.assert_array_equal(function(x), c * x)
        np.testing.assert_array_equal(jax.vmap(function)(x[None])[0], c * x)
        assert fails(function)
    gc.collect()
    jax.clear_caches()
"""


@pytest.mark.exhaustive
def test_kernbridge_is_imported_again(run_python):
    """As a notebook or a test does that removes it from the imported modules."""
    run_python(IMPORTED_AGAIN)
