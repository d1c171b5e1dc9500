"""Faults of a few kinds that are planted all over the corpus, each by one change to a kernel.

Where `faults` has changes that somebody wrote, with the words of their reports, these are made by
rules from the syntax tree, so that there are as many as wanted.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import json
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .case import GROUPS, Case, cases

COUNT = 40  # of each kind
FIRST = "cuda.threadIdx.x + cuda.threadIdx.y + cuda.threadIdx.z == 0"
UNWRITTEN = "which no thread of the block has written"


@dataclass(frozen=True)
class Plant:
    """A fault in a kernel of the corpus: `text` takes the place of what lies from begin to end."""

    case: Case
    group: str
    begin: int
    end: int
    text: str
    line: int
    words: tuple[str, ...]  # of the report

    @property
    def name(self) -> str:
        return f"{self.case.name}, line {self.line}"


@dataclass(frozen=True)
class Kernel:
    """The source of a kernel."""

    case: Case
    group: str
    source: str
    function: ast.FunctionDef

    def plant(self, node: ast.expr | ast.stmt, text: str, *words: str) -> Plant:
        """A plant in place of a node."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = self._offset(node.lineno, node.col_offset)
        end = self._offset(node.end_lineno, node.end_col_offset)
        return Plant(self.case, self.group, begin, end, text, node.lineno, words)

    def text(self, node: ast.AST) -> str:
        found = ast.get_source_segment(self.source, node)
        assert found is not None
        return found

    def _offset(self, line: int, column: int) -> int:
        before = self.source.split("\n")[: line - 1]
        return sum(len(text) + 1 for text in before) + column

    def nodes(self, kind: type) -> Iterator[Any]:
        nodes = itertools.chain.from_iterable(map(ast.walk, self.function.body))
        found = [n for n in nodes if isinstance(n, kind)]
        yield from sorted(found, key=lambda n: (n.lineno, n.col_offset))

    @property
    def inputs(self) -> list[str]:
        return [a.arg for a in self.function.args.args[: len(self.case.arguments())]]

    @property
    def outputs(self) -> list[str]:
        begin = len(self.case.arguments())
        return [a.arg for a in self.function.args.args[begin : begin + len(self.case.outs)]]

    @property
    def fresh(self) -> list[str]:
        """The outputs that hold nothing when the kernel begins."""
        if self.case.zero_outputs:
            return []
        aliases = (self.case.aliases or {}).values()
        return [name for i, name in enumerate(self.outputs) if i not in aliases]

    @property
    def shared(self) -> list[str]:
        return [
            n.targets[0].id
            for n in self.nodes(ast.Assign)
            if isinstance(n.targets[0], ast.Name)
            and isinstance(n.value, ast.Call)
            and self.text(n.value.func) == "cuda.shared.array"
        ]

    @property
    def n_blocks(self) -> int:
        return math.prod(self.case.sizes()[0])


def kernels() -> Iterator[Kernel]:
    """The kernels of the corpus that are functions of a module and take no records."""
    for group in GROUPS:
        source = Path(importlib.import_module(f"{__package__}.{group}").__file__ or "").read_text()
        functions = {n.name: n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)}
        for case in cases(group):
            if case.view is None and case.name in functions:
                yield Kernel(case, group, source, functions[case.name])


def _elements(kernel: Kernel, names: Sequence[str], context: type) -> Iterator[Any]:
    """Accesses of elements of arrays of these names."""
    for node in kernel.nodes(ast.Subscript):
        if (
            isinstance(node.value, ast.Name)
            and node.value.id in names
            and isinstance(node.ctx, context)
            and not any(isinstance(n, (ast.Slice, ast.Starred)) for n in ast.walk(node.slice))
            and not (isinstance(node.slice, ast.Tuple) and not node.slice.elts)
        ):
            yield node


def _beyond(kernel: Kernel, node: Any) -> str:
    """An index behind the end of the last axis."""
    array, index = node.value.id, kernel.text(node.slice)
    if isinstance(node.slice, ast.Tuple):
        *others, last = (kernel.text(e) for e in node.slice.elts)
        return f"{array}[{', '.join(others)}, ({last}) + 2 * {array}.shape[-1]]"
    return f"{array}[({index}) + 2 * {array}.shape[-1]]"


def _stored(kernel: Kernel, names: Sequence[str]) -> Iterator[Any]:
    """Assignments to one element."""
    for node in kernel.nodes(ast.Assign):
        if any(node.targets == [e] for e in _elements(kernel, names, ast.Store)):
            yield node


def _rank(kernel: Kernel, name: str) -> int:
    if name in kernel.inputs:
        return kernel.case.arguments()[kernel.inputs.index(name)].ndim
    return len(kernel.case.outs[kernel.outputs.index(name)][0])


def reads(kernel: Kernel) -> Iterator[Plant]:
    """Reads behind the end of an array."""
    arrays = [*kernel.inputs, *kernel.outputs, *kernel.shared]
    left = {id(n.target) for n in kernel.nodes(ast.AugAssign)}
    for node in _elements(kernel, arrays, ast.Load):
        rank = len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else 1
        is_argument = node.value.id not in kernel.shared
        if id(node) in left or (is_argument and rank != _rank(kernel, node.value.id)):
            continue
        name = (repr(node.value.id),) if is_argument else ("shared array",)
        yield kernel.plant(node, _beyond(kernel, node), "reads", *name, "out of bounds: index")


def writes(kernel: Kernel) -> Iterator[Plant]:
    """Writes behind the end of an array."""
    for node in _stored(kernel, [*kernel.outputs, *kernel.shared]):
        target = node.targets[0]
        text = f"{_beyond(kernel, target)} = {kernel.text(node.value)}"
        yield kernel.plant(node, text, "writes", "out of bounds: index")


def _barriers(kernel: Kernel) -> Iterator[Any]:
    for node in kernel.nodes(ast.Expr):
        if kernel.text(node) == "cuda.syncthreads()":
            yield node


def races(kernel: Kernel) -> Iterator[Plant]:
    """Barriers that are missing, and elements to which a block's threads write different values."""
    for node in _barriers(kernel):
        yield kernel.plant(node, "pass", "a data race: it")
    for node in _stored(kernel, kernel.shared):
        array = node.targets[0].value.id
        zeros = ", ".join(["0"] * len(getattr(node.targets[0].slice, "elts", [0])))
        text = f"{array}[{zeros}] = cuda.threadIdx.x % 2; {kernel.text(node)}"
        yield kernel.plant(node, text, "a data race: it")


def races_of_blocks(kernel: Kernel) -> Iterator[Plant]:
    """Atomic additions that are none, and an element to which each block writes its number."""
    if kernel.n_blocks < 2:
        return
    words = ("a data race between blocks: it",)
    updated = [
        n.args[0].id
        for n in kernel.nodes(ast.Call)
        if kernel.text(n.func).startswith("cuda.atomic.") and isinstance(n.args[0], ast.Name)
    ]
    for node in kernel.nodes(ast.Expr):
        call = node.value
        if isinstance(call, ast.Call) and kernel.text(call.func) == "cuda.atomic.add":
            array, index, value = (kernel.text(a) for a in call.args)
            if array in kernel.outputs:
                text = f"if {FIRST}: {array}[{index}] += {value}"
                yield kernel.plant(node, text, *words)
    for name in kernel.outputs:
        shape, dtype = kernel.case.outs[kernel.outputs.index(name)]
        if np.dtype(dtype).kind not in "iuf" or name in updated:
            continue
        first = kernel.function.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            first = kernel.function.body[1]  # behind the docstring
        last = ", ".join(str(n - 1) for n in shape)
        block = "(cuda.blockIdx.x + cuda.blockIdx.y + cuda.blockIdx.z) % 2"
        text = f"if {FIRST}: {name}[{last}] = {block}\n    {kernel.text(first)}"
        if "\n" not in kernel.text(first):
            yield kernel.plant(first, text, *words)


def unwritten_shared(kernel: Kernel) -> Iterator[Plant]:
    """Elements of shared arrays that the first thread, or nobody, writes."""
    for node in _stored(kernel, kernel.shared):
        for text in (f"if cuda.threadIdx.x > 0: {kernel.text(node)}", "pass"):
            yield kernel.plant(node, text, UNWRITTEN)


def unwritten_outputs(kernel: Kernel) -> Iterator[Plant]:
    """Outputs that are added to where they should be written."""
    for node in _stored(kernel, kernel.fresh):
        target, value = kernel.text(node.targets[0]), kernel.text(node.value)
        if kernel.case.outs[kernel.outputs.index(node.targets[0].value.id)][1] != np.bool_:
            text = f"{target} = {target} + ({value})"
            yield kernel.plant(node, text, "reads element", "which nothing has written")


def barriers(kernel: Kernel) -> Iterator[Plant]:
    """Barriers of which each half of the threads has its own, and one that some do not come to."""
    for node in _barriers(kernel):
        odd, even = "if cuda.threadIdx.x % 2: cuda.syncthreads()", "else: cuda.syncthreads()"
        text = f"{odd}\n{' ' * node.col_offset}{even}"
        yield kernel.plant(node, text, "comes to cuda.syncthreads", "to another (at")
    last = kernel.function.body[-1]
    text = f"{kernel.text(last)}\n    if not {FIRST}: cuda.syncthreads()"
    if not any(kernel.nodes(ast.Return)):
        yield kernel.plant(last, text, "cuda.syncthreads (at")


KINDS: dict[str, Callable[[Kernel], Iterator[Plant]]] = {
    "out of bounds reads": reads,
    "out of bounds writes": writes,
    "races within a block": races,
    "races between blocks": races_of_blocks,
    "unwritten shared memory": unwritten_shared,
    "unwritten outputs": unwritten_outputs,
    "divergent barriers": barriers,
}
"""How changes of each kind are made."""

TEMPORARIES = "unwritten temporaries"
ALL = (*KINDS, TEMPORARIES)
"""Kinds of faults."""

HARMLESS = {
    "races within a block": {
        ("delay_line", 0),  # each of the two barriers suffices
        ("delay_line", 1),
        ("cholesky_blocks", 0),  # a thread goes on with its own row
    },
    "unwritten shared memory": {("warp_scan", 0)},  # the first thread does not come there
}
"""Plants that change nothing which threads see: kernels, and which of their plants."""


def plants(kind: str) -> list[Plant]:
    """All plants of a kind: the first one of each kernel, then the second ones."""
    harmless = HARMLESS.get(kind, set())
    rows = [
        [p for i, p in enumerate(KINDS[kind](kernel)) if (kernel.case.name, i) not in harmless]
        for kernel in kernels()
    ]
    found = itertools.chain.from_iterable(itertools.zip_longest(*rows))
    return [p for p in found if p is not None]


def planted(plant: Plant, path: Path) -> Case:
    """The case with the fault, compiled from this file."""
    module = importlib.import_module(f"{__package__}.{plant.group}")
    text = Path(module.__file__ or "").read_text()
    text = text[: plant.begin] + plant.text + text[plant.end :]
    path.write_text(text)
    space: dict[str, Any] = {"__package__": __package__, "__name__": f"{__package__}.{path.stem}"}
    exec(compile(text, path, "exec"), space)
    (case,) = (case for case in space["CASES"] if case.name == plant.case.name)
    return case


def missed(plant: Plant, path: Path) -> str:
    """What is wrong with the report of a plant; empty if it is found."""
    import jax

    try:
        planted(plant, path).run()
    except jax.errors.JaxRuntimeError as e:
        words = (*plant.words, f"kernel '{plant.case.name}'", f"(at {path.name}:")
        lacks = [w for w in words if w not in str(e)]
        return f"{plant.name}: lacks {lacks} in {e}" if lacks else ""
    return f"{plant.name}: nothing is reported of {plant.text!r}"


def _through_temporary(case: Case, is_written: bool) -> tuple[Callable[..., Any], Sequence[Any]]:
    """The case as a function that reads its first input from a temporary."""
    import jax
    from kernbridge import numba_cuda_callable
    from numba import cuda

    grid, block = case.sizes()
    inputs, scalars = case.arguments(), tuple(case.scalars.values())

    def launch(arrays: Sequence[Any], stream: Any) -> None:
        first = cuda.device_array(inputs[0].shape, inputs[0].dtype)
        if is_written:
            first[:] = arrays[0]
        if case.zero_outputs:
            for out in arrays[len(inputs) :]:
                out[:] = 0
        case.kernel[grid, block, stream, case.shared_mem](first, *arrays[1:], *scalars)

    names = ", ".join(f"a{i}" for i in range(len(inputs) + len(case.outs)))
    function = eval(f"lambda {names}, stream: launch([{names}], stream)", {"launch": launch})
    outs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in case.outs]
    return numba_cuda_callable(function, outs), inputs


def missed_temporary(case: Case) -> str:
    """What is wrong with the report of a temporary that nothing writes; empty if it is found.

    Nothing may be reported of one that is written.
    """
    import jax

    operation, inputs = _through_temporary(case, True)
    jax.block_until_ready(jax.jit(operation)(*inputs))
    operation, inputs = _through_temporary(case, False)
    name = case.kernel.py_func.__code__.co_varnames[0]
    words = (f"launch of {case.name}, ", "reads element", f" of {name!r} ", "nothing has written")
    try:
        jax.block_until_ready(jax.jit(operation)(*inputs))
    except jax.errors.JaxRuntimeError as e:
        lacks = [w for w in words if w not in str(e)]
        return f"{case.name}: lacks {lacks} in {e}" if lacks else ""
    return f"{case.name}: nothing is reported"


def temporaries() -> list[Case]:
    """The cases whose first input may be a temporary."""
    found = (c for c in cases() if not c.aliases and not c.view and c.arguments())
    return [c for c in found if all(np.ndim(x) for x in c.arguments())]


def missed_of(kind: str, folder: Path, count: int) -> list[str]:
    """What is wrong with the reports of so many faults of a kind; nothing if all are found."""
    if kind == TEMPORARIES:
        found = [missed_temporary(case) for case in temporaries()[:count]]
    else:
        wanted = plants(kind)[:count]
        found = [missed(p, folder / f"{p.group}_{i}.py") for i, p in enumerate(wanted)]
    if len(found) < count:
        found.append(f"{kind}: there are only {len(found)} of {count}")
    return [text for text in found if text]


def check(kinds: Sequence[str], folder: str) -> None:
    """Print what is wrong with `COUNT` faults of each kind as a JSON list; to be run checked."""
    import jax

    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    print(json.dumps([text for kind in kinds for text in missed_of(kind, Path(folder), COUNT)]))
