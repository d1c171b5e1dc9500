"""Tuples with named fields, whose classes are made in a tenth of the time of a `NamedTuple`.

Modules that a program imports for a single call define such classes; each `NamedTuple` would add
0.1 ms to that call.
"""

from __future__ import annotations

import operator
from typing import Any, ClassVar, Self, dataclass_transform

_REQUIRED: Any = object()


@dataclass_transform(frozen_default=True)
class Struct(tuple[Any, ...]):
    """A tuple of the annotated fields of its class, some of which may have defaults."""

    _fields: ClassVar[dict[str, Any]] = {}  # the default of each

    def __init_subclass__(cls) -> None:
        cls._fields = {name: vars(cls).get(name, _REQUIRED) for name in cls.__annotations__}
        for i, name in enumerate(cls._fields):
            setattr(cls, name, property(operator.itemgetter(i)))

    def __new__(cls, *values: Any, **named: Any) -> Self:
        missing = list(cls._fields)[len(values) :]
        every = (*values, *(named.pop(name, cls._fields[name]) for name in missing))
        if named or len(every) != len(cls._fields) or any(v is _REQUIRED for v in every):
            raise TypeError(f"{cls.__name__} takes {', '.join(cls._fields)}")
        return tuple.__new__(cls, every)

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({', '.join(shown)})"

    def _replace(self, **changes: Any) -> Self:
        return type(self)(**{**dict(zip(self._fields, self, strict=True)), **changes})
