"""The adjoint test: a derivative is compared with the one of the other mode when it first runs.

For a linear map J, `<ct, J t>` equals `<J^T ct, t>`. The core enters a derivative that has not been
tested by way of Python: the first call runs it, and then the derivative of the other mode on copies
of the same arrays and on a tangent or cotangent that is drawn. Afterwards the core enters the
derivative itself again, and the disk keeps that the two agree. Any thread may enter.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernbridge import _core
from kernbridge._src.base import debug, settings
from kernbridge._src.forge import artefacts, obtain
from kernbridge._src.forge.artefacts import Artefact

_MOST_BYTES = 1 << 26  # of the arrays of a call that is tested, unless everything is checked
_MOST_SECONDS = 0.5  # for which it may have run
_MOST_TEXT = 200_000  # characters of LLVM IR that may have been compiled
_BOUND = 0.005  # of the sizes of both products: a kernel may compute with float32 inside
_SHAKEN = 1000  # what an error of rounding in the arguments changes, times this, is no difference
_KIND = "adjoint_test"  # of the artefacts of derivatives that need no further test
_DIFFER = (
    "Enzyme's derivatives of the two modes contradict each other [KB2109]\n"
    "For the arrays of this call, <ct, J t> is {:.9g} in forward mode, and <J^T ct, t> is {:.9g} "
    "in reverse mode, where J is the derivative, and t or ct is drawn. At least one of them is "
    "wrong. kernbridge.check_rules compares both with central differences. Write the derivative as "
    "a function (vjp=, jvp=). kernbridge.config.set_adjoint_test(False), or "
    "KERNBRIDGE_ADJOINT_TEST=0, switches this test off.\0"
)
_Pointers = ctypes.POINTER(ctypes.c_void_p)
_Entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[_Pointers] * 4)  # src/abi/kb_numba.h: kb_numba_entry
_Words = ctypes.c_int64 * 6  # of a buffer of XLA: its data is the fourth, its extents the sixth
# By the identity of a derivative, as long as the process lives: the core may enter them.
_tests: dict[bytes, _Test | None] = {}
_lock = threading.Lock()


def watch(job: Any, native: Any) -> None:  # of kernel.py, which imports this
    """Let the first call of a derivative test it, unless one has done so before."""
    has_reverse = any(mode == "vjp" for mode, _ in job.steps)
    if not (has_reverse and settings.tests_adjoints()):
        return
    with _lock:  # threads may compile the same derivative, whose entry one of them replaces
        if job.identity in _tests:
            return
        _tests[job.identity] = None
    key = obtain.disk_key(job)
    is_known = key is not None and artefacts.load(_KIND, key) is not None
    if not debug.checks() and (is_known or native.about["size"] > _MOST_TEXT):
        return
    try:
        _tests[job.identity] = _Test(job, key, native.about)
    except Exception:  # it is refused in the other mode
        _keep(key)


def _keep(key: bytes | None) -> None:
    if key is not None:
        artefacts.store(_KIND, key, Artefact({}, ()))


class _Test:
    """The entry of a derivative until its first call has ended, or for ever if the test fails."""

    def __init__(self, job: Any, key: bytes | None, about: dict[str, Any]) -> None:
        other = job.other_mode()
        self._identity, self._key, self._about = job.identity, key, about
        self._other_about = obtain.obtain(other).about
        self._begin = threading.Lock()
        self._failure: Any = None  # a kb_numba_exception, and its text
        self._other = _Entry(_core.exchange_host_entry(other.identity, 0))
        self._plain = _core.exchange_host_entry(job.identity, 0)
        self._mine = _Entry(self._enter)
        address = ctypes.cast(self._mine, ctypes.c_void_p).value
        _core.exchange_host_entry(job.identity, address or 0)

    def _fails(self) -> bool:
        return self._failure is not None and settings.tests_adjoints()

    def _enter(self, result: Any, exception: Any, *buffers: Any) -> int:
        status = 0
        if self._failure is None and self._begin.acquire(blocking=False):
            with obtain.deferred():  # an exception would be lost, and the call with it
                status = self._first(result, exception, *buffers)
        elif not self._fails():
            status = int(_Entry(self._plain)(result, exception, *buffers))
        if not self._fails():
            return status
        exception[0] = ctypes.addressof(self._failure[0])
        return 1

    def _first(self, *call: Any) -> int:
        given: list[Any] = []
        with contextlib.suppress(Exception):  # such as MemoryError, which must not fail the call
            operands, results, sizes = self._arrays(*call[2:])
            if debug.checks() or sum(x.nbytes for x in (*operands, *results)) <= _MOST_BYTES:
                given = [x.copy() for x in operands]  # the derivative may change them
        begin = time.perf_counter()
        status = int(_Entry(self._plain)(*call))
        is_fast = debug.checks() or time.perf_counter() - begin < _MOST_SECONDS
        with contextlib.suppress(Exception), np.errstate(all="ignore"):
            if status == 0 and given and is_fast:
                self._compare(given, results, sizes)
        if self._failure is None:
            _core.exchange_host_entry(self._identity, self._plain)
        return status

    def _arrays(self, inputs: Any, outputs: Any) -> tuple[list[Any], list[Any], dict[int, int]]:
        """The operands and results of a call, and the extents by their numbers."""
        about, sizes = self._about, dict[int, int]()
        n, m = len(about["operands"]), len(about["results"])
        copied = [("bool", ())] * len(about["copied"])
        outs = [*about["results"], *copied, *about["scratch"]]
        places = [*inputs[:n], *outputs[: len(outs)]]
        arrays = []
        for place, (dtype, extents) in zip(places, [*about["operands"], *outs], strict=True):
            words = _Words.from_address(place)
            dims = (ctypes.c_int64 * len(extents)).from_address(words[5])
            sizes.update(zip(extents, dims, strict=True))
            n_bytes = math.prod(dims) * np.dtype(dtype).itemsize
            data = (ctypes.c_char * n_bytes).from_address(words[3]) if n_bytes else b""
            arrays.append(np.frombuffer(data, dtype).reshape(dims[:]))
        return arrays[:n], arrays[n : n + m], sizes

    def _by_other(self, operands: Sequence[Any], sizes: dict[int, int]) -> list[Any] | None:
        """The results of the other derivative; None if it fails."""
        about = self._other_about
        given = [np.array(x, order="C") for x in operands]

        def zeros(kind: str) -> list[Any]:
            return [np.zeros([sizes[e] for e in extents], d) for d, extents in about[kind]]

        pairs = zip(zeros("results"), about["in_place"], strict=True)
        results = [x if k is None else given[k] for x, k in pairs]
        outputs = [*results, *(given[k] for k in about["copied"]), *zeros("scratch")]
        lists = [[_described(x) for x in arrays] for arrays in (given, outputs)]
        addresses = [[ctypes.addressof(words) for words, _ in described] for described in lists]
        passed = [(ctypes.c_void_p * len(part))(*part) for part in addresses]
        left = (ctypes.c_void_p * 2)()
        return None if self._other(left, left, *passed) else results

    def _compare(self, operands: list[Any], results: list[Any], sizes: dict[int, int]) -> None:
        n, draw = len(self._other_about["operands"]) - len(results), np.random.default_rng(0)
        kernels, given = operands[:n], operands[n:]

        def along(reals: Any) -> Any:  # so that the products do not cancel
            return np.where(reals < 0, -1, 1) * draw.uniform(0.5, 1, reals.size)

        def rounded(reals: Any) -> Any:
            return reals * (1 + np.finfo(reals.dtype).eps * draw.choice([-1, 1], reals.size))

        def by_other(operands: list[Any]) -> tuple[float, float]:
            found = self._by_other([*operands, *drawn], sizes)
            return (np.nan, np.nan) if found is None else _product(given, found)

        drawn = [_changed(x, along) for x in results]
        (ours, our_size), (others, their_size) = _product(results, drawn), by_other(kernels)
        difference, size = abs(ours - others), our_size + their_size
        if not 0 < size < np.inf:  # which says nothing
            return
        if difference <= _BOUND * size:
            _keep(self._key)
            return
        for _ in range(2):  # a kernel may be chaotic
            moved = [_changed(x, rounded) for x in kernels]
            if not difference > _SHAKEN * abs(by_other(moved)[0] - others):
                return
        both = (others, ours) if self._about["mode"] == "vjp" else (ours, others)
        text = ctypes.create_string_buffer(_DIFFER.format(*both).encode())
        self._failure = _Words(ctypes.addressof(text)), text


def _changed(x: Any, change: Callable[[Any], Any]) -> Any:
    """An array after a change of the real numbers in it."""
    if not np.issubdtype(x.dtype, np.inexact):
        return x
    reals = np.ravel(x).view(x.real.dtype)
    return change(reals).astype(reals.dtype).view(x.dtype).reshape(x.shape)


def _product(xs: Sequence[Any], ys: Sequence[Any]) -> tuple[float, float]:
    """The inner product of arrays as real numbers, and the sum of the absolute values in it."""
    pairs = [
        [np.ravel(z).view(z.real.dtype).astype(float) for z in pair]
        for pair in zip(xs, ys, strict=True)
    ]
    return sum(float(a @ b) for a, b in pairs), sum(float(abs(a) @ abs(b)) for a, b in pairs)


def _described(x: Any) -> tuple[Any, Any]:
    """An array as XLA describes it, and what that refers to."""
    dims = (ctypes.c_int64 * max(x.ndim, 1))(*x.shape)
    return _Words(0, 0, 0, x.ctypes.data, x.ndim, ctypes.addressof(dims)), dims
