"""Generates the functions around the entry of a kernel for the CPU, as objects of llvmlite.

- `kb_thread(frame, words ...)` runs one thread; `kb.run(frame, words)` calls it with words that lie
  in memory.
- `kb_blocks(parameters, sizes, begin, end, found)` loops over blocks and threads, see ll/loops.ll.
- `kb_fibre(parameters, thread)` runs one thread of a kernel that has barriers, shared memory or
  operations of warps, see ll/fibres.ll; src/hostcuda gives the thread's place as a `kb_thread`.

The last two take parameters as cuLaunchKernel does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kernbridge._src.cuda_on_cpu.objects import called, constant, text
from kernbridge._src.cuda_on_cpu.to_host import OUTSIDE_MAX
from kernbridge._src.numba_common.private_llvmlite import ir

if TYPE_CHECKING:
    from kernbridge._src.cuda_on_cpu.checks import Checks
    from kernbridge._src.cuda_on_cpu.to_host import Copies

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_POINTER = ir.IntType(8).as_pointer()


def module(entry: str, copies: Copies, checks: Checks | None, by_threads: bool) -> Any:
    """The module around an entry. To be made and printed with opaque pointers."""
    made = ir.Module("kb.entry")
    made.triple = ""
    types = copies.parameters(entry)
    words = ir.LiteralStructType(types)
    _add_thread(made, entry, types)
    _add_run(made, words)
    if by_threads:
        _add_fibre(made, words, checks)
    else:
        _add_blocks(made, words)
    shared_size = ir.Function(made, ir.FunctionType(_I64, []), "kb_shared_size")
    builder = ir.IRBuilder(shared_size.append_basic_block("entry"))
    builder.ret(ir.Constant(_I64, copies.shared_size))
    shown = list(copies.outside[:OUTSIDE_MAX])
    if len(copies.outside) > OUTSIDE_MAX:
        shown[-1] = "one of its arrays"
    described = [text(made, what) for what in shown]
    constant(made, ir.ArrayType(_POINTER, len(shown)), described, "kb.outside.all")
    return made


@contextmanager
def _function(module: Any, name: str, types: Sequence[Any]) -> Iterator[tuple[Any, ir.IRBuilder]]:
    """Define a function that returns nothing."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), types), name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    yield function, builder
    builder.ret_void()


def _add_thread(module: Any, entry: str, types: Sequence[Any]) -> None:
    with _function(module, "kb_thread", [_POINTER, *types]) as (function, builder):
        frame, *words = function.args
        frame.name = "kb.frame"
        frame.add_attribute("noalias")
        called(builder, entry, words)


def _add_run(module: Any, words: Any) -> None:
    with _function(module, "kb.run", [_POINTER, words.as_pointer()]) as (function, builder):
        function.attributes.add("alwaysinline")
        frame, address = function.args
        loaded = [builder.load(_member(builder, address, i)) for i in range(len(words.elements))]
        called(builder, "kb_thread", [frame, *loaded])


def _add_blocks(module: Any, words: Any) -> None:
    kinds = [_POINTER.as_pointer(), _POINTER, _I64, _I64, _POINTER]
    with _function(module, "kb_blocks", kinds) as (function, builder):
        parameters, sizes, begin, end, found = function.args
        for pointer in (parameters, sizes, found):
            pointer.add_attribute("noalias")
        loaded = _words(builder, words, parameters)
        called(builder, "kb.loops", [loaded, sizes, begin, end, found])


def _add_fibre(module: Any, words: Any, checks: Checks | None) -> None:
    kinds = [_POINTER.as_pointer(), _POINTER]
    with _function(module, "kb_fibre", kinds) as (function, builder):
        parameters, thread = function.args
        parameters.add_attribute("noalias")
        loaded = _words(builder, words, parameters)
        for i, argument in enumerate(checks.arguments if checks else ()):
            at = builder.bitcast(_member(builder, loaded, argument.word), _I64.as_pointer())
            given = [builder.load(at), ir.Constant(_I64, i + 1)]
            builder.store(called(builder, "kb.check.argument", given, _I64), at)
        called(builder, "kb.fibre.checked" if checks else "kb.fibre", [loaded, thread])


def _words(builder: Any, kind: Any, parameters: Any) -> Any:
    """The address of a launch's arguments, one behind the other."""
    words = builder.alloca(kind)
    for i, element in enumerate(kind.elements):
        parameter = builder.load(builder.gep(parameters, [ir.Constant(_I64, i)]))
        word = builder.load(builder.bitcast(parameter, element.as_pointer()))
        builder.store(word, _member(builder, words, i))
    return words


def _member(builder: Any, address: Any, i: int) -> Any:
    return builder.gep(address, [ir.Constant(_I32, 0), ir.Constant(_I32, i)])
