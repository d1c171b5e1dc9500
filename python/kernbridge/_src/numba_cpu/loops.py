"""The kernels around functions that return values: their Python source, and how they are made.

Around a function of scalars or of `numba.guvectorize`, a kernel loops over broadcast arrays. They
are not copied: the index of an axis that an operand lacks is left out. Around a function of arrays,
a kernel copies what it returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

# Numba's options that change the machine code of a loop and of the function that it calls.
_OPTIONS = ("fastmath", "boundscheck", "nogil", "debug", "error_model", "parallel")
_ANOTHER_SHAPE = (
    "it returned another shape than a call on zeros; pass outs= with the shapes; both are"
)


def dispatcher_of(function: Any, options: dict[str, Any], **more: Any) -> Any:
    """Let Numba compile a function with those options of another one that concern its code."""
    from kernbridge._src.numba_common.private_numba import numba

    kept = {name: options[name] for name in _OPTIONS if options.get(name) is not None}
    return numba.njit(**{**kept, **more})(function)


class Axes(NamedTuple):
    """The leading axes of a call, as loops: neighbouring axes that all operands share are one.

    An axis of one element belongs to the loop before it, or else to the first one.
    """

    n: int  # leading axes of every operand and output
    loops: tuple[tuple[int, ...], ...]  # the axes of each loop, in order
    members: tuple[tuple[bool, ...], ...]  # of each loop and operand: whether it has these axes

    @staticmethod
    def of(leading: Sequence[tuple[Any, ...]], result: tuple[Any, ...]) -> Axes:
        """The axes of operands with these leading shapes, whose broadcast shape is `result`."""
        loops: list[tuple[int, ...]] = []
        members: list[tuple[bool, ...]] = []
        for axis, extent in enumerate(result):
            has = tuple(shape[axis] == extent for shape in leading)
            if extent != 1 and members[-1:] != [has]:
                loops.append((axis,) if loops else tuple(range(axis + 1)))
                members.append(has)
            elif loops:
                loops[-1] += (axis,)
        return Axes(len(result), tuple(loops), tuple(members))

    def item(self, name: str, core: int | None, loops: Sequence[int]) -> tuple[str, str]:
        """What a call of the function gets of an array that has these loops.

        It gets an array of `core` dimensions, where 0 stands for an array of one element, or, if
        that is None, a scalar. Returned are a statement before the loops, or "", and an expression.
        """
        zeros, index = ", ".join("0" * self.n) or "()", ", ".join(f"_i{k}" for k in loops)
        extents = [f"_n{k}" for k in loops] + [
            f"{name}.shape[{self.n + d}]" for d in range(core or 0)
        ]
        if core == 0:
            extents.append("1")
        elif not loops and (core is None or self.n):
            return f"_of_{name} = {name}[{zeros}]", f"_of_{name}"
        elif len(loops) == self.n == len(self.loops):
            return "", f"{name}[{index}]" if loops else name
        statement = f"_of_{name} = {name}.reshape(({', '.join(extents)},))"
        return statement, f"_of_{name}[{index}]" if loops else f"_of_{name}"


def loop(
    inputs: Sequence[str],
    cores: Sequence[int | None],
    out_cores: Sequence[int | None],
    axes: Axes,
    single: bool,
    has_casts: bool,
) -> str:
    """Return the source of a kernel that calls ``_f`` once for each element of the loops.

    The function returns scalars, one or a tuple, where an item of `out_cores` is None, or fills
    arrays.
    """
    outputs, every = [f"_out{i}" for i in range(len(out_cores))], range(len(axes.loops))
    before = [
        f"_n{k} = " + " * ".join(f"{outputs[0]}.shape[{axis}]" for axis in loop)
        for k, loop in enumerate(axes.loops)
    ]
    given = []
    for i, (name, core) in enumerate(zip(inputs, cores, strict=True)):
        statement, item = axes.item(name, core, [k for k in every if axes.members[k][i]])
        before.append(statement)
        given.append(f"_cast{i}({item})" if has_casts else item)
    targets = []
    for name, core in zip(outputs, out_cores, strict=True):
        if core is None and not axes.loops:
            targets.append(f"{name}[{', '.join('0' * axes.n) or '()'}]")
            continue
        statement, item = axes.item(name, core, every)
        before.append(statement)
        targets.append(item)
    if out_cores[0] is not None:
        inside = [f"_f({', '.join([*given, *targets])})"]
    elif single:
        inside = [f"{targets[0]} = _f({', '.join(given)})"]
    else:
        inside = [f"_r = _f({', '.join(given)})"]
        inside += [f"{target} = _r[{i}]" for i, target in enumerate(targets)]
    heads = [f"{'    ' * k}for _i{k} in range(_n{k}):" for k in every]
    body = ["    " * len(heads) + line for line in inside]
    return _kernel((*inputs, *outputs), [*filter(None, before), *heads, *body])


def copy(
    inputs: Sequence[str], ranks: Sequence[int], out_ranks: Sequence[int | None], single: bool
) -> str:
    """Return the source of a kernel that copies what ``_f`` returns; 0-d inputs are scalars."""
    outputs = [f"_out{i}" for i in range(len(out_ranks))]
    given = [name if rank else f"{name}[()]" for name, rank in zip(inputs, ranks, strict=True)]
    lines = [f"_r = _f({', '.join(given)})"]
    for i, (output, rank) in enumerate(zip(outputs, out_ranks, strict=True)):
        value = "_r" if single else f"_r[{i}]"
        if rank is not None:
            lines.append(f"if {value}.shape != {output}.shape:")
            lines.append(f"    raise ValueError({_ANOTHER_SHAPE!r}, {value}.shape, {output}.shape)")
        lines.append(f"{output}[{'...' if rank else '()'}] = {value}{'[()]' if rank == 0 else ''}")
    return _kernel((*inputs, *outputs), lines)


def _kernel(parameters: Sequence[str], lines: Sequence[str]) -> str:
    return "\n    ".join((f"def _kernel({', '.join(parameters)}):", *lines))


def made(source: str, function: Any, dispatcher: Any, casts: Sequence[str]) -> Any:
    """Compile a source, as if it stood at the definition of the user's `function`."""
    code = function.__code__
    names: dict[str, Any] = {f"_cast{i}": np.dtype(c).type for i, c in enumerate(casts)}
    names.update(_f=dispatcher, __name__=function.__module__)
    exec(compile("\n" * (code.co_firstlineno - 1) + source, code.co_filename, "exec"), names)
    kernel = names["_kernel"]
    kernel.__name__, kernel.__qualname__ = function.__name__, function.__qualname__
    # Its own loops are serial, and Numba warns of a parallel kernel without a parallel loop.
    return dispatcher_of(kernel, {**dispatcher.targetoptions, "parallel": None})
