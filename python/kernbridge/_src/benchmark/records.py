"""The inputs and outputs of a benchmark: its cases, and the results of a backend for one case."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from kernbridge._src.benchmark.measure import Measurement, is_array

KWARGS = ("kernel_kwargs", "data_kwargs")


@dataclass
class BenchmarkConfig:
    """One set of arguments with which an operation is benchmarked.

    Parameters
    ----------
    name : str
        The label of the config in tables and plots.
    args : tuple
        Positional arguments of the operation's call function: pytrees of arrays, or other values.
    kernel_kwargs : dict
        Keyword arguments of the operation's call function.
    data_kwargs : dict
        A description of the data, such as sizes. It is only stored in the record, for tables and
        plots.

    Raises
    ------
    TypeError
        An argument is of another type.

    Examples
    --------
    >>> import numpy as np
    >>> from kernbridge.benchmark import BenchmarkConfig
    >>> config = BenchmarkConfig("small", (np.ones(8, np.float32),), data_kwargs={"n": 8})
    >>> config.put_args().args[0].devices()
    {CpuDevice(id=0)}
    """

    __module__ = "kernbridge"

    name: str
    args: tuple[Any, ...]
    kernel_kwargs: dict[str, Any] = field(default_factory=dict)
    data_kwargs: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(
                f"BenchmarkConfig: `name` must be a str, got {type(self.name).__name__} [KB8005]"
            )
        if not isinstance(self.args, (tuple, list)):
            raise TypeError(
                f"BenchmarkConfig {self.name!r}: `args` must be the tuple of positional "
                f"arguments, such as (x,); got {type(self.args).__name__} [KB8005]"
            )
        self.args = tuple(self.args)
        for where in KWARGS:
            given = getattr(self, where)
            if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
                raise TypeError(
                    f"BenchmarkConfig {self.name!r}: `{where}` must be a dict with names as keys, "
                    f"got {given!r} [KB8005]"
                )

    def put_args(self, device: Any = None) -> BenchmarkConfig:
        """Return a config whose arrays are on a device.

        Parameters
        ----------
        device : jax.Device, jax.sharding.Sharding or None
            The device; by default JAX's default device.

        Returns
        -------
        BenchmarkConfig
            The same config, whose arrays among `args`, NumPy's and JAX's, are on that device and
            ready for use.
        """

        def put(value: Any) -> Any:
            return jax.device_put(value, device) if is_array(value) else value

        args = jax.block_until_ready(jax.tree.map(put, self.args))
        return dataclasses.replace(self, args=args)


@dataclass(frozen=True)
class BenchmarkRecord:
    """The result of one backend for one config, with times in milliseconds per call, or NaN.

    Attributes
    ----------
    platform, backend, label : str
        The platform, the backend, and the name of the config.
    mean_ms, std_ms, min_ms : float
        Mean, standard deviation and minimum over the runs.
    throughput : float
        Calls per second, at the median time.
    success : bool
        Whether the backend ran, and its results agree with those of the first backend that ran.
    error : str or None
        The error as "Type: message".
    kernel_kwargs, data_kwargs : dict
        The `kernel_kwargs` and `data_kwargs` of the config.
    median_ms, iqr_ms, max_ms : float
        Median, distance of the quartiles, and maximum over the runs.
    n_runs, n_batch_per_run : int
        Timed runs, and calls in each of them.
    q1_ms, q3_ms : float
        First and third quartile over the runs; NaN in files of earlier versions.
    """

    __module__ = "kernbridge"

    platform: str
    backend: str
    label: str
    mean_ms: float = math.nan
    std_ms: float = math.nan
    min_ms: float = math.nan
    throughput: float = math.nan
    success: bool = True
    error: str | None = None
    kernel_kwargs: dict[str, Any] = field(default_factory=dict)
    data_kwargs: dict[str, Any] = field(default_factory=dict)
    median_ms: float = math.nan
    iqr_ms: float = math.nan
    max_ms: float = math.nan
    n_runs: int = 0
    n_batch_per_run: int = 1
    q1_ms: float = math.nan
    q3_ms: float = math.nan


FIELDS = tuple(f.name for f in dataclasses.fields(BenchmarkRecord))


def figures(found: Measurement) -> dict[str, Any]:
    """Return the fields of a record that a measurement fills."""
    times = {name: getattr(found, name) for name in ("mean", "std", "min", "median", "iqr", "max")}
    times["q1"], times["q3"] = found.quartiles
    return {
        **{f"{name}_ms": 1e3 * seconds for name, seconds in times.items()},
        "throughput": 1 / found.median if found.median else math.inf,
        "n_runs": len(found.samples),
        "n_batch_per_run": found.n_batch_per_run,
    }


def as_dict(record: BenchmarkRecord) -> dict[str, Any]:
    """Return the fields of a record; the dicts in it are copies, their values are not."""
    values = ((name, getattr(record, name)) for name in FIELDS)
    return {name: dict(v) if isinstance(v, dict) else v for name, v in values}


def getter(
    records: Sequence[BenchmarkRecord], name: str, what: str
) -> Callable[[BenchmarkRecord], Any]:
    """Return what reads a named value of a record: a field, or a key of one of its dicts.

    "kernel_kwargs.n" and "data_kwargs.n" say which dict. A record without the key has None.
    """
    if name in FIELDS:
        return operator.attrgetter(name)
    for where in KWARGS:
        key = name.removeprefix(f"{where}.")
        if key in _keys(records, where):
            return lambda record: getattr(record, where).get(key)
    known = dict.fromkeys((*FIELDS, *(key for where in KWARGS for key in _keys(records, where))))
    raise ValueError(
        f"`{what}` names {name!r}, which is neither a field nor a key of kernel_kwargs or "
        f"data_kwargs here; the known names are {', '.join(known)} [KB8009]"
    )


def varying(records: Sequence[BenchmarkRecord]) -> list[str]:
    """Return the keys of kernel_kwargs and data_kwargs that have more than one value."""
    found = []
    for name in dict.fromkeys(key for where in KWARGS for key in _keys(records, where)):
        get = getter(records, name, "name")
        if len({key_of(get(record)) for record in records}) > 1:
            found.append(name)
    return found


def _keys(records: Sequence[BenchmarkRecord], where: str) -> dict[str, None]:
    return dict.fromkeys(key for record in records for key in getattr(record, where))


def key_of(value: Any) -> tuple[str, str]:
    """Return a key that is equal for values of the same type that look the same."""
    return type(value).__name__, repr(value)


__test__ = {"BenchmarkConfig": BenchmarkConfig}  # doctest takes classes for those of `kernbridge`
