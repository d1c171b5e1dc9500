"""The adjoint test: a derivative is compared with the one of the other mode when it first runs.

For a linear map J, `<ct, J t>` equals `<J^T ct, t>`. The core calls Python before a derivative that
has not been tested: the first call first runs it on copies of the arrays, and the derivative of the
other mode on such copies and on a tangent or cotangent that is drawn. Once the two agree, the core
calls Python no more, and the disk keeps that they do. Any thread may enter.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kernbridge import _core
from kernbridge._src.base import debug, settings
from kernbridge._src.forge import artefacts, obtain
from kernbridge._src.operation.derivatives import plans

_MOST_BYTES = 1 << 26  # of the arrays of a call that is tested, unless everything is checked
_MOST_SECONDS = 0.5  # for which it may have run
_MOST_OF_KERNEL = 1 << 15  # bytes of machine code
_MOST_CODE = 1 << 20  # bytes of a plan, with all that it launches
_BOUND = 0.005  # of the sizes of both products: a kernel may compute with float32 inside
_SHAKEN = 1000  # what an error of rounding in the arguments changes, times this, is no difference
_KIND = "adjoint_test"  # of the artefacts of derivatives that need no further test
_DIFFER = (
    "Enzyme's derivatives of the two modes contradict each other [KB2109]\n"
    "For the arrays of this call, <ct, J t> is {:.9g} in forward mode, and <J^T ct, t> is {:.9g} "
    "in reverse mode, where J is the derivative, and t or ct is drawn. At least one of them is "
    "wrong. kernbridge.check_rules compares both with central differences. Write the derivative as "
    "a function (vjp=, jvp=). kernbridge.config.set_adjoint_test(False), or "
    "KERNBRIDGE_ADJOINT_TEST=0, switches this test off."
)
entered = set[bytes]()  # the digests of derivatives that are machine code for the CPU
_lock = threading.Lock()


def watch(
    mode: str, native: Any, operands: Sequence[Any], call: Any, other: Callable[[], Any]
) -> None:
    """Let the first call of a derivative test it, unless one has done so before.

    `other` makes the derivative of the other mode, and its call, as `native` and `call` are.
    """
    is_kernel = native.digest in entered
    if not (native.for_extents or (is_kernel and settings.tests_adjoints())):
        return
    with _lock:  # threads may compile the same derivative, whose entry one of them replaces
        if native.key not in plans and settings.tests_adjoints():
            key = hashlib.sha256(native.program).digest()
            is_long = len(native.program) > (_MOST_CODE if native.for_extents else _MOST_OF_KERNEL)
            is_known = is_long or artefacts.load(_KIND, key) is not None
            plans[native.key] = None
            if debug.checks() or not is_known:
                plans[native.key] = Test(key, mode)
                if is_kernel:
                    _core.watch_host_code(native.digest, native.key)
        test = plans.setdefault(native.key, None)
    if test is None:
        return
    try:
        made, called = other()
        if made.for_extents:
            plans.setdefault(made.key, None)
        shapes = tuple(tuple(t.shape) for t in (*operands, *call.outs))
        test.of[shapes] = _Derivative(native, call), _Derivative(made, called)
    except Exception:  # it is refused in the other mode
        plans[native.key] = None
        _keep(test.key)


def _keep(key: bytes) -> None:
    artefacts.store(_KIND, key, artefacts.Artefact({}, ()))


class _Derivative(NamedTuple):
    """A derivative for arrays of certain shapes."""

    native: Any
    call: Any

    def run(self, operands: Sequence[Any]) -> list[Any]:
        """The results, for copies of the operands. RuntimeError is raised if it fails."""
        native, call = self
        given = [np.array(x, order="C") for x in operands]
        in_place = {o: given[i] for i, o in call.aliases}
        new = [np.zeros(t.shape, t.dtype) for t in (*call.outs, *native.temporaries)]
        n = len(call.outs)
        results = [in_place.get(o, x) for o, x in enumerate(new[:n])]
        outputs = [*results, *(given[k] for k in native.copied), *new[n:]]
        lists = [[_described(x) for x in arrays] for arrays in (given, outputs)]
        tables = [np.array([words.ctypes.data for words, _ in part]) for part in lists]
        _core.run_kernel(native.digest, *(table.ctypes.data for table in tables))
        return results


class Test:
    """What the core calls before a derivative: until its test has passed, for ever if it fails."""

    def __init__(self, key: bytes, mode: str) -> None:
        self.key, self._mode = key, mode
        # Of both modes, by the shapes of a call.
        self.of = dict[Any, tuple[_Derivative, _Derivative]]()
        self._names = {code: name for name, (code, *_) in _core.dtypes().items()}
        self._begin = threading.Lock()
        self._failure = ""

    def enter(self, buffers: Sequence[tuple[int, tuple[int, ...], int]]) -> bool:
        """Test a call; return whether the derivative need not be tested again."""
        both = self.of.get(tuple(shape for _, shape, _ in buffers))
        is_first = both is not None and self._begin.acquire(blocking=False)
        if both is not None and is_first:
            with obtain.deferred(), contextlib.suppress(Exception), np.errstate(all="ignore"):
                self._first(buffers, *both)
        if self._failure and settings.tests_adjoints():
            raise RuntimeError(self._failure)
        return is_first and not self._failure

    def _first(self, buffers: Sequence[Any], mine: _Derivative, other: _Derivative) -> None:
        arrays = [_array(address, shape, self._names[code]) for address, shape, code in buffers]
        if not debug.checks() and sum(x.nbytes for x in arrays) > _MOST_BYTES:
            return
        operands = arrays[: -len(mine.call.outs)]
        begin = time.perf_counter()
        results = mine.run(operands)
        if debug.checks() or time.perf_counter() - begin < _MOST_SECONDS:
            self._compare(operands, results, other)

    def _compare(self, operands: list[Any], results: list[Any], other: _Derivative) -> None:
        n, draw = len(operands) - len(other.call.outs), np.random.default_rng(0)
        kernels, given = operands[:n], operands[n:]

        def along(reals: Any) -> Any:  # so that the products do not cancel
            return np.where(reals < 0, -1, 1) * draw.uniform(0.5, 1, reals.size)

        def rounded(reals: Any) -> Any:
            return reals * (1 + np.finfo(reals.dtype).eps * draw.choice([-1, 1], reals.size))

        def by_other(operands: list[Any]) -> tuple[float, float]:
            return _product(given, other.run([*operands, *drawn]))

        drawn = [_changed(x, along) for x in results]
        (ours, our_size), (others, their_size) = _product(results, drawn), by_other(kernels)
        difference, size = abs(ours - others), our_size + their_size
        if not 0 < size < np.inf:  # which says nothing
            return
        if difference <= _BOUND * size:
            _keep(self.key)
            return
        for _ in range(2):  # a kernel may be chaotic
            moved = [_changed(x, rounded) for x in kernels]
            if not difference > _SHAKEN * abs(by_other(moved)[0] - others):
                return
        both = (others, ours) if self._mode == "vjp" else (ours, others)
        self._failure = _DIFFER.format(*both)


def _array(address: int, shape: Sequence[int], dtype: Any) -> Any:
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    return np.ndarray(shape, dtype, (ctypes.c_char * n_bytes).from_address(address))


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
    """The six words of an array as XLA has them, the last the address of its extents, and these."""
    dims, code = np.array(x.shape, np.int64), _core.dtypes()[x.dtype.name][0]
    return np.array([0, 0, code, x.ctypes.data, x.ndim, dims.ctypes.data]), dims
