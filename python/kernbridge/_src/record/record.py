"""Records a Python function that launches Numba-CUDA kernels as a plan.

The function runs when it is lowered, on stand-ins for its arrays: a `DeviceArray` knows its shape,
dtype, strides and position in a buffer, but has no elements. If the function reads elements, or
passes an array to another library, it cannot be recorded, and the error reports the reason.

A plan is the same for all later calls. It would be wrong for a function that draws random numbers,
counts, or reads a clock, since such a function behaves differently at each call. Every function is
therefore recorded twice. The recordings must be equal, and the second one must not change anything
that the function reads. The first one may, since functions may fill their own caches.
"""

from __future__ import annotations

import functools
import gc
import itertools
import operator
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from kernbridge._src.base.dtypes import CODES
from kernbridge._src.base.errors import typed
from kernbridge._src.base.patched import patched
from kernbridge._src.base.reports import beginning_of, current_line, line_of
from kernbridge._src.calls.call import ArrayType, Call, Types
from kernbridge._src.keys import function_state
from kernbridge._src.keys.extensions import is_foreign_name
from kernbridge._src.numba_cuda import callback, dialect
from kernbridge._src.numba_cuda import compile as numba_cuda_compile
from kernbridge._src.numba_cuda.callback import Configured, read_configured
from kernbridge._src.numba_cuda.kernel import Leaf, NotAnArgument, read_argument, typed_scalar
from kernbridge._src.plan import launch as plan_launch
from kernbridge._src.plan.program import Copy, DeviceParameter, Fill, Launch, Step, Value, Word
from kernbridge._src.plan.targets import Target

_CLOCKS = tuple(
    getattr(time, name)
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time")
    for name in (name, f"{name}_ns")
)
_CLOCKS_BY_NAME = ("datetime.now", "datetime.utcnow", "date.today")


class NotRecordable(BaseException):
    """The function did what no plan can hold. Not an Exception, which functions might catch."""


def refuse(what: str) -> NoReturn:
    raise NotRecordable(what)


def host_like(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """A C-ordered array of any size that takes no memory and is never read or written."""
    one = np.empty(1, dtype)
    steps = itertools.accumulate((max(n, 1) for n in shape[:0:-1]), operator.mul, initial=1)
    strides = [dtype.itemsize * step for step in steps][::-1] if shape else []
    return np.lib.stride_tricks.as_strided(one, shape, strides, writeable=False)


class _StandIn:
    """What a recorded function gets in place of something of a device."""

    _what: str

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") and not name.endswith("array_interface__"):
            raise AttributeError(name)
        refuse(f"the attribute {name!r} of {self._what}")


class Scalar:
    """A keyword scalar: its value is known when the plan runs, to kernels."""

    def __init__(self, buffer: int, name: str, dtype: np.dtype[Any]) -> None:
        self.buffer, self.name, self.dtype = buffer, name, dtype

    def _read(self, *_: Any) -> NoReturn:
        refuse(f"reading the value of the keyword scalar {self.name!r} on the host")

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __array__ = _read
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _read
    __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __pow__ = __neg__ = __abs__ = _read
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _read
    __hash__ = None  # type: ignore[assignment]


class DeviceArray(_StandIn):
    """Stands for a Numba device array: `offset` bytes into `buffer`, laid out as `host` is."""

    _what = "a device array"

    def __init__(self, recording: Recording, buffer: int, offset: int, host: Any) -> None:
        self.recording, self.buffer, self.offset = recording, buffer, offset
        self.host = host

    shape = property(lambda self: self.host.shape)
    strides = property(lambda self: self.host.strides)
    dtype = property(lambda self: self.host.dtype)
    ndim = property(lambda self: self.host.ndim)
    size = property(lambda self: int(self.host.size))
    itemsize = property(lambda self: self.host.itemsize)
    nbytes = property(lambda self: int(self.host.nbytes))
    alloc_size = property(lambda self: int(self.host.nbytes))

    def describe(self) -> str:
        return typed(self.dtype, self.shape)

    def __len__(self) -> int:
        return len(self.host)

    def __repr__(self) -> str:
        return f"<{self.describe()} of a function that is being recorded>"

    def is_c_contiguous(self) -> bool:
        return bool(self.host.flags.c_contiguous)

    def is_f_contiguous(self) -> bool:
        return bool(self.host.flags.f_contiguous)

    def _view(self, host: Any) -> DeviceArray:
        moved = host.__array_interface__["data"][0] - self.host.__array_interface__["data"][0]
        return DeviceArray(self.recording, self.buffer, self.offset + moved, host)

    def __getitem__(self, key: Any) -> Any:
        keys = _keys_of(key)
        if sum(isinstance(k, (int, np.integer)) for k in keys) == self.ndim:
            if self.dtype.names:
                return Record(self[tuple(slice(k, k + 1 or None) for k in keys)])
            refuse(f"reading element [{key}] on the host")
        return self._view(self.host[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        keys = _keys_of(key)
        if len(keys) == self.ndim and all(isinstance(k, (int, np.integer)) for k in keys):
            key = tuple(slice(k, k + 1 or None) for k in keys)
        target = self._view(self.host[key])
        if isinstance(value, DeviceArray):
            self.recording.copy(target, value)
        elif (scalar := typed_scalar(value)) is not None:
            self.recording.fill(target, scalar)
        else:
            refuse(f"assigning a {type(value).__name__} from the host")

    def reshape(self, *shape: Any, order: str = "C") -> DeviceArray:
        if not self.host.flags.c_contiguous:
            refuse("reshaping an array that is not C-ordered")
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if order != "C":
            refuse("reshape with another order than C")
        return self._view(self.host.reshape(tuple(int(n) for n in wanted)))

    def ravel(self, order: str = "C", stream: Any = 0) -> DeviceArray:
        return self.reshape(self.size, order=order)

    def view(self, dtype: Any) -> DeviceArray:
        return self._view(self.host.view(dtype))

    def transpose(self, axes: Any = None) -> DeviceArray:
        if self.ndim != 2 or axes not in (None, (1, 0), [1, 0]):
            refuse("transposing an array that is not of rank 2")
        rows, columns = self.shape
        to = self.recording.temporary((columns, rows), self.dtype)
        blocks = (-(-rows // 16), -(-columns // 16))
        self.recording.launch(Configured(_transpose_kernel(), blocks, (16, 16)), (self, to))
        return to

    T = property(lambda self: self.transpose())

    def squeeze(self, axis: Any = None, stream: Any = 0) -> DeviceArray:
        return self._view(self.host.squeeze(axis))

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        if not isinstance(ary, DeviceArray):
            refuse("copy_to_device from an array of the host")
        self.recording.copy(self, ary)

    def copy_to_host(self, *_: Any, **__: Any) -> NoReturn:
        refuse("copy_to_host")

    def __iter__(self) -> Iterator[DeviceArray]:
        if self.ndim < 2:
            refuse("iterating over elements on the host")
        return (self[i] for i in range(len(self)))

    def _read(self, *_: Any, **__: Any) -> NoReturn:
        refuse("reading a device array on the host")

    __array__ = __float__ = __int__ = __bool__ = __index__ = __complex__ = _read


class Record(_StandIn):
    """Stands for an element of a device array of records; kernels get it by its address."""

    _what = "a record of a device array"

    def __init__(self, array: DeviceArray) -> None:
        self.array = array  # with this element alone

    dtype = property(lambda self: self.array.dtype)

    def __repr__(self) -> str:
        return f"<a record at byte {self.array.offset} of buffer {self.array.buffer}>"

    def __getitem__(self, key: Any) -> NoReturn:
        refuse(f"reading the field {key!r} of a record on the host")


def _keys_of(key: Any) -> tuple[Any, ...]:
    keys = key if isinstance(key, tuple) else (key,)
    for k in keys:
        if not (k is None or k is Ellipsis or isinstance(k, (int, np.integer, slice))):
            refuse(f"indexing a device array by a {type(k).__name__}")
    return keys


class Stream(_StandIn):
    """Stands for XLA's stream: the steps of a plan run in its order."""

    _what = "the stream"
    handle = 0

    def synchronize(self) -> None:
        pass

    @contextmanager
    def auto_synchronize(self) -> Iterator[Stream]:
        yield self


@dataclass
class Recording:
    label: str
    target: Target
    n_buffers: int  # inputs, scalars and outputs; temporaries are numbered from here
    read_only: frozenset[int]  # buffers that belong to JAX
    batched: bool = False  # launches serve all slices of a batch where they can
    steps: list[Step] = field(default_factory=list)
    temporaries: list[ArrayType] = field(default_factory=list)
    opened: set[int] = field(default_factory=set)  # read-only buffers that a kernel may write to
    # Of each step: the line of the user, and its arguments.
    made_by: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def temporary(
        self,
        shape: Any,
        dtype: Any = np.float64,
        strides: Any = None,
        order: str = "C",
        stream: Any = 0,
    ) -> DeviceArray:
        """Temporary memory of a plan, as `cuda.device_array` makes it."""
        if strides is not None:
            refuse("cuda.device_array with strides")
        shape = tuple(int(n) for n in shape) if isinstance(shape, (tuple, list)) else (int(shape),)
        dtype = np.dtype(dtype)
        host = host_like(shape[::-1], dtype).T if order == "F" else host_like(shape, dtype)
        held = ArrayType(shape, dtype)
        if dtype.name not in CODES:  # records, of which JAX has the bytes
            held = ArrayType((int(host.nbytes),), np.dtype(np.uint8))
        self.temporaries.append(held)
        return DeviceArray(self, self.n_buffers + len(self.temporaries) - 1, 0, host)

    def launch(self, how: Configured, arguments: Sequence[Any]) -> None:
        kernel, block = how.kernel, how.block
        name = kernel.py_func.__name__
        if how.cluster is not None:
            refuse(f"a launch of {name} with a cluster")
        why = dialect.of(kernel, self.target).why_not_native(kernel, self.target.raises)
        if why:
            refuse(f"a launch of {name}, which has {why}")
        auto = block == "auto"
        label = f"{self.label}: launch of {name!r}"
        blocks = plan_launch.read_grid(label, how.grid)
        threads = (1, 1, 1) if auto else plan_launch.read_block(label, block)
        size = plan_launch.read_int(label, "sharedmem", how.shared, 0, plan_launch.SHARED_MAX)
        try:
            found = [read_argument(value, self._read_leaf) for value in arguments]
        except NotAnArgument as e:
            refuse(str(e))
        dialect.of(kernel, self.target).check_strides(label, found)
        x, y, z = (Value(constant=int(n)) for n in plan_launch.pad(blocks))
        launch = Launch((x, y, z), threads, size, auto_block=auto)
        step, opened = numba_cuda_compile.compiled_launch(
            label, kernel, found, launch, self.batched, self.target
        )
        self.opened |= opened
        if 0 in blocks or 0 in threads:
            return
        parts = {"the grid": blocks, "the block": block, "the dynamic shared memory": size}
        parts |= {f"argument {i}": value for i, value in enumerate(arguments)}
        self.add(step, {f"{what} of the launch of {name}": v for what, v in parts.items()})

    def add(self, step: Step, details: dict[str, Any]) -> None:
        """Add a step, with the text of a message if the next recording differs."""
        self.steps.append(step)
        texts = {what: repr(value) for what, value in details.items()}
        self.made_by.append((current_line(), texts))

    def _read_leaf(self, value: Any) -> Leaf | None:
        if isinstance(value, DeviceArray):
            self.check_own(value)
            layout = "C" if value.is_c_contiguous() else "F" if value.is_f_contiguous() else "A"
            read_only = value.buffer in self.read_only
            parameter = DeviceParameter("array", value.dtype, value.ndim, layout, read_only)
            numbers = value.shape if layout == "C" else (*value.shape, *value.strides)
            return parameter, [_address(value), *(Word("constant", int(n)) for n in numbers)]
        if isinstance(value, Record):
            self.written(value.array)  # a record has no form that kernels cannot write to
            return DeviceParameter("record", value.dtype), [_address(value.array)]
        if isinstance(value, Scalar):
            return DeviceParameter("loaded", value.dtype), [Word("address", 0, value.buffer)]
        return None

    def fill(self, array: DeviceArray, value: Any) -> None:
        self.written(array)
        if not array.host.flags.forc:
            refuse("filling an array that is not contiguous")
        if array.size == 0:
            return
        pattern = int.from_bytes(np.asarray(value).astype(array.dtype).tobytes(), "little")
        step = Fill(array.buffer, array.offset, array.itemsize, array.size, pattern)
        self.add(step, {"the value of the fill": value})

    def copy(self, to: DeviceArray, source: DeviceArray) -> None:
        self.written(to)
        self.check_own(source)
        if to.shape != source.shape or to.dtype != source.dtype:
            refuse(f"copying {source.describe()} into {to.describe()}")
        if to.strides != source.strides or not to.host.flags.forc:
            refuse("copying between arrays that are not contiguous")
        if to.size:
            self.add(Copy(to.buffer, to.offset, source.buffer, source.offset, to.nbytes), {})

    def check_own(self, array: DeviceArray) -> None:
        if array.recording is not self:
            refuse("a device array that was kept from another call")

    def written(self, array: DeviceArray) -> None:
        self.check_own(array)
        if array.buffer in self.read_only:
            self.opened.add(array.buffer)


def _address(array: DeviceArray) -> Word:
    """The word by which a kernel gets an array, with the number of bytes that it may touch."""
    if array.size == 0:
        return Word("address", 0, array.buffer)
    if min(array.strides, default=0) < 0:
        refuse("a device array with negative strides")
    beyond = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
    return Word("address", array.offset, array.buffer, reach=array.itemsize + beyond)


@functools.cache
def _transpose_kernel() -> Any:
    from numba import cuda

    @cuda.jit
    def transpose(x, out):  # type: ignore[no-untyped-def]
        j, i = cuda.grid(2)
        if i < out.shape[0] and j < out.shape[1]:
            out[i, j] = x[j, i]

    return transpose


def configured(
    _: Any,
    kernel: Any,
    griddim: Any,
    blockdim: Any,
    stream: Any = 0,
    sharedmem: Any = 0,
    cluster: Any = None,
) -> Callable[..., None]:
    """Return a function that launches the kernel, as `kernel[grid, block, stream, shared]` is."""

    def launch(*arguments: Any, **named: Any) -> None:
        recording = callback.thread.recording
        if recording is None:
            refuse("a launch after the recording ended")
        how = Configured(kernel, griddim, blockdim, sharedmem or 0, cluster)
        recording.launch(how, callback.in_order(kernel, arguments, named))

    return launch


def _launch(recording: Recording, made: Any, *arguments: Any, **named: Any) -> None:
    how = read_configured(made)
    recording.launch(how, callback.in_order(how.kernel, arguments, named))


def forall(
    target: Any, kernel: Any, n: int, tpb: int = 0, stream: Any = 0, sharedmem: Any = 0
) -> Callable[..., None]:
    """Configure as `kernel.forall` does, by default with the block size of the best occupancy."""
    grid, block = (-(-n // tpb), tpb) if tpb else (n, "auto")
    if n == 0:
        grid, block = 0, 1
    return configured(target, kernel, grid, block, stream, sharedmem)


def _device_array_like(recording: Recording, ary: Any, stream: Any = 0) -> DeviceArray:
    if not hasattr(ary, "shape") or not hasattr(ary, "dtype"):
        refuse(f"cuda.device_array_like of a {type(ary).__name__}")
    order = "F" if isinstance(ary, DeviceArray) and ary.host.flags.fnc else "C"
    return recording.temporary(ary.shape, ary.dtype, order=order)


def _bytes_of(name: str, array: Any, size: Any) -> DeviceArray:
    """The first bytes of an array, on which a function of the driver acts."""
    if not isinstance(array, DeviceArray) or not array.is_c_contiguous():
        refuse(f"{name} of arrays other than contiguous device arrays")
    if not 0 <= size <= array.nbytes:
        raise ValueError(f"{name} of {size} bytes of {array.describe()}")
    return array.ravel().view(np.uint8)[: int(size)]


_HANDLERS: dict[str, Callable[..., Any]] = {
    "__getitem__": lambda r, kernel, args: configured(r, kernel, *args),
    "configure": configured,
    "forall": forall,
    # of a `kernel[grid, block]` that was made before the recording
    "launch": _launch,
    "__call__": lambda r, *a, **k: refuse("a call without [grid, block]"),
    "device_array": Recording.temporary,
    "device_array_like": _device_array_like,
    "synchronize": lambda r: None,
    "default_stream": lambda r: Stream(),
    "device_memset": lambda r, dst, val, size, stream=0: r.fill(
        _bytes_of("device_memset", dst, size), np.uint8(int(val) & 0xFF)
    ),
    "device_to_device": lambda r, dst, src, size, stream=0: r.copy(
        *(_bytes_of("device_to_device", array, size) for array in (dst, src))
    ),
}
for _name in (
    "to_device", "pinned_array", "pinned_array_like", "mapped_array", "mapped_array_like",
    "managed_array", "pinned", "stream", "event", "external_stream", "as_cuda_array",
    "from_cuda_array_interface", "current_context", "open_ipc_array", "event_elapsed_time",
):  # fmt: skip
    _HANDLERS[_name] = lambda *_, _name=_name, **__: refuse(f"cuda.{_name}")


def _run(frontend: Any, operands: Types, call: Call, target: Target) -> Recording:
    label, arrays, read_only = frontend.label, (*operands, *call.outs), frozenset(call.read_only)
    recording = Recording(label, target, len(arrays), read_only, bool(call.levels))
    scalars = dict(enumerate(call.scalars, start=call.n_inputs))
    given = [
        Scalar(b, scalars[b], t.dtype)
        if b in scalars
        else DeviceArray(recording, b, 0, host_like(t.shape, t.dtype))
        for b, t in enumerate(arrays)
    ]
    positional, named = frontend.assign(call).arguments([*given, Stream()])
    thread = callback.thread
    try:
        with patched((thread, "recording", recording), (thread, "handlers", _HANDLERS)):
            result = frontend.function(*positional, **named)
    except NotRecordable as e:
        raise NotRecordable(f"{e} at {line_of(e)}") from None
    if result is not None:
        raise TypeError(
            f"{label}: the function returns {type(result).__name__}, expected None; write the "
            "result into the output arrays, which come after the inputs, as in out[:] = result"
            " [KB4002]"
        )
    return recording


def record(frontend: Any, operands: Types, call: Call, target: Target) -> Recording:
    """What the function of a `NumbaCudaCallable` launches on a target.

    It runs on stand-ins, twice. NotRecordable has the reason why a plan cannot stand for later
    calls, such as what differs, and the line of the function where it arose.
    """
    function = frontend.function
    callback.install(_HANDLERS)
    callback.replace_aliases(function)
    first = _run(frontend, operands, call, target)
    name = getattr(function, "__name__", type(function).__name__)
    before = function_state.take([(name, function)])
    clocks: list[str] = []
    try:
        with _watching(clocks):
            second = _run(frontend, operands, call, target)
    except Exception as e:
        raise NotRecordable(
            f"it can run only once: the second time, it raised {type(e).__name__}: {e} at "
            f"{line_of(e)}"
        ) from None
    for i, (one, other) in enumerate(zip(first.steps, second.steps, strict=False)):
        if one == other:
            continue
        what = f"{one} becomes {other}"
        place, details = first.made_by[i]
        later = second.made_by[i][1]
        for name, value in details.items():
            if later.get(name, value) != value:
                what = f"{name} is {value} the first time and {later[name]} the second"
                break
        raise NotRecordable(f"it behaves differently each time it runs: {what} at {place}")
    if len(first.steps) != len(second.steps):
        longer = max(first, second, key=lambda r: len(r.steps))
        place, _ = longer.made_by[min(len(first.steps), len(second.steps))]
        raise NotRecordable(
            f"it behaves differently each time it runs: {len(first.steps)} launches, fills and "
            f"copies the first time and {len(second.steps)} the second, the next one at {place}"
        )
    if first.temporaries != second.temporaries:
        raise NotRecordable("it allocates other temporaries each time it runs")
    changed = before.changes(function_state.take([(name, function)]))
    if changed:
        random = [path for path in changed if path.endswith("(random state)")]
        path = (random or changed)[0].removesuffix(" (random state)")
        what = f"it draws random numbers from {path!r}" if random else f"it changes {path!r}"
        raise NotRecordable(
            f"{what} each time it runs, but a recording is replayed without running it; it begins "
            f"at {beginning_of(function)}"
        )
    if clocks:
        raise NotRecordable(
            f"it reads a clock, {clocks[0]}, whose value would be fixed in a recording"
        )
    return second


@contextmanager
def _watching(found: list[str]) -> Iterator[None]:
    """Note where the user's code reads a clock on this thread.

    The garbage collector pauses meanwhile, since callbacks of libraries read clocks when it runs.
    """
    before, collects = sys.getprofile(), gc.isenabled()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if (
            event == "c_call"
            and not found
            and (argument in _CLOCKS or getattr(argument, "__qualname__", "") in _CLOCKS_BY_NAME)
            # Python, Numba and kernbridge read clocks for their own use.
            and not is_foreign_name(frame.f_globals.get("__name__"))
        ):
            name = f"{getattr(argument, '__module__', None) or 'datetime'}.{argument.__qualname__}"
            found.append(f"{name}, at {frame.f_code.co_filename}:{frame.f_lineno}")
        if before is not None:
            before(frame, event, argument)  # type: ignore[arg-type]

    gc.disable()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
