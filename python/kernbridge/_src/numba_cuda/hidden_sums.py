"""Adds the launches before and after that of a kernel with `deterministic=`.

The sums of an array are a hidden temporary. A first launch fills it with zeros, and a last one
converts the sums to floating-point numbers.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kernbridge._src.base.errors import KernelCompilationError
from kernbridge._src.gpu.launch import join_words
from kernbridge._src.gpu.program import Fill, Launch, Value, Word
from kernbridge._src.numba_cuda.deterministic import MINUS_INFINITY, NOT_A_NUMBER, PLUS_INFINITY
from kernbridge._src.numba_cuda.options import CompileOptions
from kernbridge._src.numba_cuda.parameters import BYTES_OF_SUM, DeviceParameter, leaves
from kernbridge._src.operation.spec import ArrayType

if TYPE_CHECKING:
    from kernbridge._src.numba_cuda.compile import NumbaCudaFunction

INTEGERS = BYTES_OF_SUM // 8  # for each element: its sum, and what else is to be known of it

_THREADS = 256  # of a block of the last launch
_ELEMENTS_ON_HOST = 4096  # for each of its threads on the CPU, where each thread is a fibre


@dataclass(frozen=True, slots=True)
class HiddenSums:
    """The sums of an array that receives additions, and the launches around the kernel's.

    `count` are the array's elements, those in its gaps included. Unless it `starts` with zeros, the
    sums are added to what it holds.
    """

    leaf: int  # of the kernel's parameters
    exponent: int
    name: str
    dtype: np.dtype[Any]
    address: Word
    n_elements: Word
    count: Value
    starts: bool
    buffer: int  # of the sums
    n_integers: int | Value  # in it

    def fill(self) -> Fill:
        """The step that sets the sums to zero."""
        return Fill(self.buffer, 0, 8, self.n_integers, 0)

    def last(self, label: str, has_batch: bool, host: bool, checked: bool) -> Launch:
        """The step that makes numbers of the sums."""
        from kernbridge._src.numba_cuda import compile as numba_cuda_compile

        threads, per_thread = (1, _ELEMENTS_ON_HOST) if host else (_THREADS, 1)
        kernel = _last_kernel(self.name, self.dtype.name, self.exponent, self.starts, per_thread)
        integers = np.dtype(np.int64)
        parameters = [DeviceParameter("array", t, 1) for t in (self.dtype, integers)]
        sums = [Word("address", buffer=self.buffer), Word("count", buffer=self.buffer)]
        function, wide = numba_cuda_compile.compile_for_launch(
            label, kernel, parameters, has_batch, host, CompileOptions(checked)
        )
        blocks = replace(self.count, divisor=self.count.divisor * threads * per_thread)
        return Launch(
            function=function,
            grid=(blocks, Value(constant=1), Value(constant=1)),
            block=(threads, 1, 1),
            shared=0,
            words=join_words([[self.address, self.n_elements], sums], wide),
            zeroed=(),
            wide=wide,
        )


def of_buffers(
    summed: Iterable[tuple[int, int | None]],
    exponent: int | None,
    arrays: Sequence[ArrayType],
    names: Sequence[str],
    fresh: Collection[int],
    first: int,
) -> list[HiddenSums]:
    """The sums of these leaves, each with its buffer of a call; `first` is their first buffer."""
    found: list[HiddenSums] = []
    for leaf, b in summed:
        assert b is not None
        assert exponent is not None
        t = arrays[b]
        sums = HiddenSums(
            leaf=leaf,
            exponent=exponent,
            name=names[b],
            dtype=t.dtype,
            address=Word("address", buffer=b),
            n_elements=Word("count", buffer=b),
            count=Value("count", buffer=b),
            starts=b in fresh,
            buffer=first + len(found),
            n_integers=Value("count", buffer=first + len(found)),
        )
        found.append(sums)
    return found


def of_addresses(
    label: str,
    kernel: Any,
    function: NumbaCudaFunction,
    words: Sequence[Sequence[Word]],
    make_temporary: Callable[[tuple[int, ...], Any], int],
) -> list[HiddenSums]:
    """The sums of a launch whose arrays are any parts of buffers.

    `make_temporary` makes one of a shape and a dtype, and returns its buffer.
    """
    names = list(inspect.signature(kernel.py_func).parameters)
    of_leaf = [(i, p) for i, q in enumerate(function.parameters) for p in leaves([q])]
    found = []
    for leaf in function.summed:
        number, parameter = of_leaf[leaf]
        name = parameter.keyword or names[min(number, len(names) - 1)]
        address = words[leaf][0]
        for other, (another, *_) in enumerate(words):
            if other != leaf and _overlap(address, another):
                raise KernelCompilationError(
                    f"{label}: deterministic= refuses the launch, which passes memory of {name!r}, "
                    "to which the kernel adds, by another argument, too; pass a copy [KB4017]"
                )
        n = address.reach // parameter.dtype.itemsize
        n_held = max(n, 1)
        assert function.exponent is not None
        sums = HiddenSums(
            leaf=leaf,
            exponent=function.exponent,
            name=name,
            dtype=parameter.dtype,
            address=address,
            n_elements=Word("constant", n),
            count=Value(constant=n),
            starts=False,
            buffer=make_temporary((n_held, INTEGERS), np.int64),
            n_integers=n_held * INTEGERS,
        )
        found.append(sums)
    return found


def _overlap(a: Word, b: Word) -> bool:
    """Whether two addresses of recorded arrays lead to common bytes."""
    if b.kind != "address" or a.buffer != b.buffer or not a.reach:
        return False
    return a.value < b.value + b.reach and b.value < a.value + a.reach


def temporaries_of(sums: Iterable[HiddenSums], arrays: Sequence[ArrayType]) -> list[ArrayType]:
    """The temporaries of sums that `of_buffers` returned."""
    shapes = [arrays[each.count.buffer].shape for each in sums]
    return [ArrayType((*shape, INTEGERS), np.dtype(np.int64)) for shape in shapes]


def words_of(words: Sequence[Sequence[Word]], sums: Iterable[HiddenSums]) -> list[list[Word]]:
    """The words of each leaf; those with sums have the words of these behind their own."""
    found = list(map(list, words))
    for each in sums:
        found[each.leaf] += [Word("address", buffer=each.buffer), each.n_elements]
    return found


@functools.lru_cache(maxsize=256)
def _last_kernel(name: str, dtype: str, exponent: int, starts: bool, per_thread: int) -> Any:
    """A kernel that makes numbers of sums; its option `debug` lets the exception be an error.

    Of the two words of an element, the lower half of the second counts how often the first went
    round, and the upper half has the marks of `sums`.
    """
    from numba import cuda

    resolution = 2.0**exponent
    made = np.dtype(dtype).type
    nan, infinities = made(np.nan), PLUS_INFINITY | MINUS_INFINITY
    text = (
        f"a sum in {name!r}, or a number that is added to it, leaves the range of "
        f"deterministic=2.0**{exponent}, which ends at 2.0**{exponent + 63}; a coarser resolution "
        "has a wider range"
    )

    def sums(out, words):  # type: ignore[no-untyped-def]
        begin = cuda.grid(1) * per_thread
        for i in range(begin, min(begin + per_thread, out.size)):
            total = words[2 * i]
            more = words[2 * i + 1]
            if starts or total != 0 or more != 0:
                value = total * resolution
                marks = more >> 32
                if more != 0:
                    if marks & NOT_A_NUMBER or marks & infinities == infinities:
                        value = np.nan
                    elif marks & PLUS_INFINITY:
                        value = np.inf
                    elif marks & MINUS_INFINITY:
                        value = -np.inf
                    else:
                        raise OverflowError(text)
                if not starts:
                    value += out[i]
                out[i] = nan if value != value else made(value)

    sums.__name__ = sums.__qualname__ = f"sums_of_{name}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cuda.jit(debug=True, opt=per_thread == 1)(sums)
