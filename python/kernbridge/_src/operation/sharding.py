"""Describes calls in programs for several devices to XLA's partitioner.

Such a call has a target of its own, the name of the plain target with `SPLIT` appended, which has
the same handler. `partition.py` reads its attribute `sharding` when XLA partitions the program. The
call refers to nothing else in the process, so programs can be exported and cached.
"""

from __future__ import annotations

import itertools
import json
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import jax

from kernbridge._src.base import private_jax
from kernbridge._src.base.errors import KernelError
from kernbridge._src.operation.batch_axes import BatchAxes
from kernbridge._src.operation.sharding_rule import WHOLE, Term, Terms
from kernbridge._src.operation.spec import ArrayType, Call

SPLIT = ".split"
TOGETHER = "kernbridge.together"  # see src/core/kb_handler.h


@dataclass(frozen=True)
class Description:
    """The description of a call for the partitioner, which is written as a text and read from it.

    `aliases` are pairs of an operand and a result. `token` is the key in `lowered_calls` if the
    call must be lowered again for arrays of other extents, and empty otherwise. Devices that are
    `grouped` by manual axes cannot add their results. A call with a side effect runs on the first
    of `once` devices.
    """

    label: str
    terms: Terms
    aliases: tuple[tuple[int, int], ...]
    token: str = ""
    grouped: bool = False
    once: int = 0

    @property
    def possible(self) -> Terms:
        """The terms, without the sums that devices cannot compute."""
        return replace(self.terms, sums=()) if self.grouped else self.terms

    @property
    def any_extents(self) -> bool:
        """Whether there is a call for arrays of other extents."""
        return not self.token or self.token in lowered_calls

    def write(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def read(text: str) -> Description:
        fields = json.loads(text, object_hook=_with_tuples)
        return Description(**{**fields, "terms": Terms(**fields["terms"])})


def _with_tuples(fields: dict[str, Any]) -> dict[str, Any]:
    def convert(value: Any) -> Any:
        return tuple(map(convert, value)) if isinstance(value, list) else value

    return {name: convert(value) for name, value in fields.items()}


@dataclass(eq=False)
class Lowered:
    """A call of a `Frontend` that can be lowered again for parts of its arrays.

    It lives as long as its program. JAX pickles an executable with everything that it keeps alive;
    since an executable is already partitioned, it needs no calls, and gets None instead.
    """

    platform: str
    frontend: Any
    call: Call
    masks: list[int]
    copied: tuple[int, ...]
    kept: list[Any] = field(default_factory=list)

    def __reduce__(self) -> Any:
        return type(None), ()

    def again(
        self, operands: Sequence[ArrayType], results: Sequence[ArrayType]
    ) -> tuple[Any, list[int]]:
        """Lower the call for arrays with their batch axes; return it and its operands' levels."""
        terms, levels = self.call.terms, self.call.levels
        own = [_own(t, term) for t, term in zip(operands, terms.ins, strict=True)]
        outs = tuple(_own(t, term) for t, term in zip(results, terms.outs, strict=True))
        if levels:
            sizes = results[0].shape[: len(levels.sizes)][::-1]
            levels = replace(levels, sizes=sizes)
        call = replace(self.call, outs=outs, levels=levels)
        native = self.frontend.lower(self.platform, own, call)
        if native.copied != self.copied:
            raise KernelError(
                f"{self.frontend.label} writes to inputs {self.copied} when it is called with "
                f"whole arrays, and to inputs {native.copied} with parts of them; remove "
                "sharding_rule [KB6003]"
            )
        self.kept.append(native.keep)
        return native, self.masks


def _own(array: ArrayType, term: Term) -> ArrayType:
    return ArrayType(array.shape[len(array.shape) - len(term) :], array.dtype)


lowered_calls: weakref.WeakValueDictionary[str, Lowered] = weakref.WeakValueDictionary()


def _remember(ctx: Any, lowered: Lowered, digest: bytes) -> str:
    """Return a name for the call, the same one in each process, so that programs can be cached.

    An exported program cannot keep the call alive; its name refers to no call.
    """
    if private_jax.is_for_export(ctx):
        return "exported"
    for n in itertools.count():
        token = f"{digest.hex()[:32]}.{n}"
        there = lowered_calls.get(token)
        if there is None:
            lowered_calls[token] = there = lowered
        same = there.platform == lowered.platform and there.frontend is lowered.frontend
        if same and there.call == lowered.call:
            ctx.module_context.add_keepalive(there)
            return token
    raise AssertionError


def lowering_of(
    platform: str,
    ctx: Any,
    frontend: Any,
    call: Call,
    native: Any,
    masks: Sequence[int],
    aliases: Mapping[int, int],
) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Return the target, further attributes and options for lowering a call that may be split.

    `native` is the front end's `NativeCall`, `masks` are the levels of the operands, and `ctx` has
    the types of hidden results too.
    """
    n_devices = private_jax.devices_to_split_among(ctx)
    if n_devices == 1:
        return native.target, {}, {}
    hidden = [call.terms.ins[i] for i in native.copied]
    hidden += [(WHOLE,) * len(t.shape) for t in native.temporaries]
    terms = replace(call.terms, hidden=tuple(hidden))
    terms = _with_levels(terms, masks, len(call.levels.sizes))
    aliased = tuple(aliases.items())
    grouped = private_jax.is_partly_manual(ctx)
    if call.has_side_effect:
        if grouped:
            raise NotImplementedError(
                f"{frontend.label} has a side effect, and is called inside jax.shard_map with "
                "mesh axes that are left to the compiler, where XLA cannot run a call on one "
                "device only; let axis_names of jax.shard_map name all axes of the mesh, or call "
                "the operation outside of it [KB6003]"
            )
        text = Description(frontend.label, terms.whole, aliased, once=n_devices).write()
        return native.target + SPLIT, {"sharding": text}, {}
    token = ""
    if native.for_extents and call.terms.depends_on_extents:
        lowered = Lowered(platform, frontend, call, list(masks), native.copied)
        token = _remember(ctx, lowered, native.digest)
    description = Description(frontend.label, terms, aliased, token, grouped)
    attribute = private_jax.shardy_rule(ctx, *_numbered(description.possible))
    options = {} if attribute is None else {"extra_attributes": {"sdy.sharding_rule": attribute}}
    return native.target + SPLIT, {"sharding": description.write()}, options


def _with_levels(terms: Terms, masks: Sequence[int], n_levels: int) -> Terms:
    """The terms of arrays with their `BatchAxes`."""

    def masked(mask: int) -> Term:
        return tuple(f"*{k}" for k in reversed(range(n_levels)) if mask >> k & 1)

    every = masked(-1)
    own = zip(masks or [0] * len(terms.ins), terms.ins, strict=True)
    return replace(
        terms,
        ins=tuple((*masked(mask), *term) for mask, term in own),
        outs=tuple((*every, *term) for term in terms.outs),
        hidden=tuple((*every, *term) for term in terms.hidden),
    )


def _numbered(terms: Terms) -> tuple[list[list[str]], list[list[str]], list[str]]:
    """Names for Shardy: of operands, of results, and those that are not split."""
    names: dict[str, str] = {}
    fixed: list[str] = []
    n = itertools.count()

    def name_of(given: str) -> str:
        if given != WHOLE and given in names:
            return names[given]
        name = f"f{next(n)}"
        if given != WHOLE:
            names[given] = name
        if not terms.can_split(given):
            fixed.append(name)
        return name

    ins = [[name_of(name) for name in term] for term in terms.ins]
    outs = [[name_of(name) for name in term] for term in (*terms.outs, *terms.hidden)]
    return ins, outs, fixed


def output_shardings(
    terms_of: Callable[[], Terms], levels: BatchAxes, avals: Sequence[Any], n_outputs: int
) -> list[Any]:
    """The shardings of the outputs on an explicit mesh; None if no operand has such a mesh."""
    placed = [private_jax.explicit_sharding(aval) for aval in avals]
    mesh = next((s.mesh for s in placed if s is not None), None)
    if mesh is None:
        return [None] * n_outputs
    terms = _with_levels(terms_of(), levels.masks, len(levels.sizes))
    found: dict[str, Any] = {}
    for where, term in zip(placed, terms.ins, strict=True):
        for name, axes in zip(term, () if where is None else where.spec, strict=False):
            if axes is not None and terms.can_split(name):
                found.setdefault(name, axes)
    shardings = []
    for term in terms.outs:
        taken: set[Any] = set()
        spec: list[Any] = []
        for axes in map(found.get, term):
            each = set(axes) if isinstance(axes, tuple) else {axes} - {None}
            spec.append(None if each & taken else axes)
            taken |= each
        named = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))
        shardings.append(named)
    return shardings
