"""Chooses the axes of plots: logarithmic or linear, units of time, and plain numbers as ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

LOG_FROM = 1.5  # decades
FEW_DECADES = 2.5  # below, a logarithmic axis has ticks at 2 and 5 times a power of ten, too
_UNITS = (("s", 1e3), ("ms", 1.0), ("µs", 1e-3), ("ns", 1e-6))  # in milliseconds


def spans_decades(values: Sequence[Any]) -> bool:
    """Return whether an axis with these values is logarithmic."""
    return _decades(values) > LOG_FROM


def label_times(axis: Any, what: str, ms: Sequence[float]) -> None:
    """Label an axis of milliseconds in the unit that suits the values."""
    is_log = axis.get_scale() == "log"
    typical = math.sqrt(min(ms) * max(ms)) if is_log else max(map(abs, ms))
    unit, size = next((u for u in _UNITS if typical >= u[1]), _UNITS[-1] if typical else _UNITS[1])
    axis.set_label_text(f"{what} ({unit} per call)")
    label_numbers(axis, ms, size)


def label_numbers(axis: Any, values: Sequence[Any], unit: float = 1.0) -> None:
    """Write ticks as plain numbers, in place of powers of ten, offsets and exponents."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    axis.set_major_formatter(FuncFormatter(lambda value, _: plain(value / unit)))
    if axis.get_scale() == "log" and _decades(values) < FEW_DECADES:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    elif axis.get_scale() == "log":
        axis.set_major_locator(LogLocator(numticks=12))


def plain(number: float) -> str:
    """Write a number without an exponent, with commas between thousands."""
    digits = 0 if number == 0 else max(0, 3 - math.floor(math.log10(abs(number))))
    text = f"{number:,.{min(digits, 12)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _decades(values: Sequence[Any]) -> float:
    numbers = [float(value) for value in values]
    return math.log10(max(numbers) / min(numbers)) if min(numbers) > 0 else 0.0
