"""Describes calls in programs for several devices, and answers the queries of XLA's partitioner.

Such a call has a target of its own, the name of the plain target with `SPLIT` appended, which has
the same handler. `parts_of` reads its attribute `sharding` while XLA partitions the program. The
call refers to nothing else in the process, so programs can be exported and cached. `Choice` selects
the dimensions along which the call is split, and `DeviceCall` writes the program of one device: a
call of the plain target on smaller arrays.
"""

from __future__ import annotations

import itertools
import json
import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from kernbridge._src.base import private_jax, settings
from kernbridge._src.base.errors import KernelError
from kernbridge._src.base.private_jax import func, hlo, hlo_sharding, mlir, tuple_sharding
from kernbridge._src.base.reports import warn
from kernbridge._src.base.struct import Struct
from kernbridge._src.calls.batch_axes import Arrays, BatchAxes
from kernbridge._src.calls.call import WHOLE, ArrayType, Call, Term, Terms, Types

SPLIT = ".split"
TOGETHER = "kernbridge.together"  # see src/core/kb_handler.h
_ON_CPU = ("kernbridge.host", "kernbridge.cuda.host")
_INDEX = ArrayType((), np.dtype(np.int32))
_numbers = itertools.count()
_warned: set[tuple[str, str]] = set()

ir = mlir.ir


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

    @staticmethod
    def read(text: str) -> Description:
        fields = json.loads(text)  # with lists in place of tuples
        return Description(terms=Terms(**fields.pop("terms")), **fields)


@dataclass
class Lowered:
    """A call of a `Frontend` that can be lowered again for parts of its arrays.

    It lives as long as its program. JAX pickles an executable with everything that it keeps alive;
    since an executable is already partitioned, it needs no calls, and gets None instead.
    """

    platform: str
    frontend: Any
    call: Call
    copied: tuple[int, ...]
    kept: list[Any] = field(default_factory=list, compare=False)

    def __reduce__(self) -> Any:
        return type(None), ()

    def again(self, made: DeviceCall) -> DeviceCall:
        """Lower the call for the extents of one device's arrays, which have their batch axes."""

        def own(arrays: Types, terms: Sequence[Term]) -> list[ArrayType]:
            shapes = [t.shape[len(t.shape) - len(n) :] for t, n in zip(arrays, terms, strict=True)]
            return [ArrayType(s, t.dtype) for s, t in zip(shapes, arrays, strict=True)]

        terms, levels, batch = self.call.terms, self.call.levels, ()
        if levels:
            batch = made.outs[0].shape[: len(levels.sizes)]
            levels = replace(levels, sizes=batch[::-1])
        call = replace(self.call, outs=tuple(own(made.outs, terms.outs)), levels=levels)
        native = self.frontend.lower(self.platform, own(made.operands, terms.ins), call)
        if native.copied != self.copied:
            raise KernelError(
                f"{self.frontend.label} writes to inputs {self.copied} when it is called with "
                f"whole arrays, and to inputs {native.copied} with parts of them; remove "
                "sharding_rule [KB6003]"
            )
        self.kept.append(native.keep)
        values = native.attributes(self.call)
        if native.program:
            values["program"] = np.frombuffer(native.program, np.uint8)
        return made._replace(
            target=native.target,
            attributes={name: mlir.ir_attribute(value) for name, value in values.items()},
            hidden=native.hidden(made.operands, batch),
            aliases=tuple(native.aliases(self.call).items()),
        )


lowered_calls: weakref.WeakValueDictionary[str, Lowered] = weakref.WeakValueDictionary()


def _remember(ctx: Any, lowered: Lowered, digest: bytes) -> str:
    """Return a name for the call, the same one in each process, so that programs can be cached.

    An exported program cannot keep the call alive; its name refers to no call.
    """
    if private_jax.is_for_export(ctx):
        return "exported"
    for n in itertools.count():
        token = f"{digest.hex()[:32]}.{n}"
        there = lowered_calls.setdefault(token, lowered)
        if there == lowered:
            ctx.module_context.add_keepalive(there)
            return token
    raise AssertionError


def lowering_of(
    platform: str, ctx: Any, frontend: Any, call: Call, native: Any
) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Return the target, further attributes and options for lowering a call that may be split.

    `native` is the front end's `NativeCall`, and `ctx` has the types of hidden results too.
    """
    n_devices = private_jax.devices_to_split_among(ctx)
    if n_devices == 1 or not (call.terms.ins or call.has_side_effect):  # Shardy needs an operand
        return native.target, {}, {}
    hidden = [call.terms.ins[i] for i in native.copied]
    hidden += [(WHOLE,) * len(t.shape) for t in native.temporaries]
    terms = _with_levels(replace(call.terms, hidden=tuple(hidden)), native.levels(call))
    aliased = tuple(native.aliases(call).items())
    grouped = private_jax.is_partly_manual(ctx)
    if call.has_side_effect:
        if grouped:
            raise NotImplementedError(
                f"{frontend.label} has a side effect, and is called inside jax.shard_map with "
                "mesh axes that are left to the compiler, where XLA cannot run a call on one "
                "device only; let axis_names of jax.shard_map name all axes of the mesh, or call "
                "the operation outside of it [KB6003]"
            )
        description = Description(frontend.label, terms.whole, aliased, once=n_devices)
        return native.target + SPLIT, {"sharding": json.dumps(asdict(description))}, {}
    token = ""
    axes = {name for array in (*call.terms.ins, *call.terms.outs) for name in array}
    if native.for_extents and any(map(call.terms.can_split, axes)):
        token = _remember(ctx, Lowered(platform, frontend, call, native.copied), native.digest)
    description = Description(frontend.label, terms, aliased, token, grouped)
    attribute = private_jax.shardy_rule(ctx, *_numbered(description.possible))
    options = {} if attribute is None else {"extra_attributes": {"sdy.sharding_rule": attribute}}
    return native.target + SPLIT, {"sharding": json.dumps(asdict(description))}, options


def _with_levels(terms: Terms, levels: BatchAxes) -> Terms:
    def masked(mask: int) -> Term:
        return tuple(f"*{k}" for k in reversed(range(len(levels.sizes))) if mask >> k & 1)

    every = masked(-1)
    own = zip(levels.masks or [0] * len(terms.ins), terms.ins, strict=True)
    return replace(
        terms,
        ins=tuple((*masked(mask), *term) for mask, term in own),
        outs=tuple((*every, *term) for term in terms.outs),
        hidden=tuple((*every, *term) for term in terms.hidden),
    )


def _numbered(terms: Terms) -> tuple[list[list[str]], list[list[str]], list[str]]:
    """Names for Shardy: of operands, of results, and of dimensions that are not split."""
    names: dict[str, str] = {}

    def name_of(given: str) -> str:
        own = f"{WHOLE}{len(names)}" if given == WHOLE else given
        return names.setdefault(own, f"f{len(names)}")

    ins = [[name_of(name) for name in term] for term in terms.ins]
    outs = [[name_of(name) for name in term] for term in (*terms.outs, *terms.hidden)]
    return ins, outs, [name for own, name in names.items() if not terms.can_split(own)]


def output_shardings(label: str, terms: Terms, levels: BatchAxes, avals: Arrays) -> list[Any]:
    """The shardings of the outputs on an explicit mesh; None if no operand has such a mesh.

    A call that would gather an operand is an error there, as it is for JAX's own operations.
    """
    placed = [private_jax.explicit_sharding(aval) for aval in avals]
    mesh = next((s.mesh for s in placed if s is not None), None)
    if mesh is None:
        return [None] * len(terms.outs)
    terms = _with_levels(terms, levels)
    found: dict[str, Any] = {}
    sharded = [
        (i, d, name, axes)
        for i, (where, term) in enumerate(zip(placed, terms.ins, strict=True))
        for d, (name, axes) in enumerate(zip(term, where.spec if where else (), strict=False))
        if axes is not None
    ]
    for *_, name, axes in sharded:
        if terms.can_split(name):
            found.setdefault(name, axes)
    shardings, lost = [], set[str]()
    for term in terms.outs:
        taken: set[Any] = set()
        spec: list[Any] = []
        for name, axes in zip(term, map(found.get, term), strict=True):
            clashes = not taken.isdisjoint(_axes(axes))
            lost |= {name} if clashes else set()
            spec.append(None if clashes else axes)
            taken.update(_axes(axes))
        shardings.append(jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)))
    for i, d, name, axes in sharded if settings.gathers != "warn" else ():
        n_parts = math.prod(mesh.shape[axis] for axis in _axes(axes))
        if n_parts == 1 or (name not in lost and found.get(name) == axes):
            continue
        why, remedy = _why_whole(terms, name) or (
            "call is split over these devices in another way already",
            "Shard the inputs in one way",
        )
        raise ValueError(
            f"{label}: dimension {d} of input {i}, {avals[i].str_short(short_dtypes=True)}, would "
            f"be gathered on each device before the call, since the {why}. {remedy}. To gather it "
            'nevertheless, call jax.sharding.reshard, or kernbridge.config.set_gathers("warn") '
            "[KB6002]"
        )
    return shardings


def _axes(axes: Any) -> tuple[Any, ...]:
    """The axes of a mesh that an element of a PartitionSpec names."""
    return axes if isinstance(axes, tuple) else () if axes is None else (axes,)


def with_all_levels(aval: Any, levels: BatchAxes, operand: int) -> Any:
    """The sharding of an operand with every level of the batch; None if no explicit mesh has it."""
    where = private_jax.explicit_sharding(aval)
    if where is None:
        return None
    own, mask = iter(where.spec), levels.mask_of(operand)
    outer_first = reversed(range(len(levels.sizes)))
    spec = [next(own) if mask >> k & 1 else None for k in outer_first]
    return jax.sharding.NamedSharding(where.mesh, jax.sharding.PartitionSpec(*spec, *own))


def parts_of(
    target: str, operands: Arrays, given: Arrays, result: Any, wanted: Any, text: bytes | str
) -> tuple[bytes, list[Any], Any]:
    """Return the module that each device runs, and the shardings of its operands and results.

    A carrier has no description, and each device calls it; see `embed_once.py`.
    """
    with mlir.make_ir_context(), ir.Location.unknown():
        plain = _read(text)
        if target.endswith(".carrier"):
            call = DeviceCall(target, plain, (), (), has_side_effect=True)
            return _module((), (), call.outputs), [], tuple_sharding(result, [])
        description = Description.read(plain.pop("sharding").value)
        terms = description.possible
        n = len(terms.outs)
        results, shardings = [result], [wanted]
        if result.is_tuple():
            results, shardings = list(result.tuple_shapes()), wanted.tuple_elements()
        ins = _placed(operands, terms.ins, given)
        outs = _placed(results[:n], terms.outs, shardings[:n])
        hidden = _placed(results[n:], terms.hidden, shardings[n : len(results)])
        choice = Choice.make(terms, [*outs, *ins], description.any_extents)
        for i, array in enumerate([] if description.once else ins):
            _warn_if_gathered(description, choice, i, array)
        here, made, more = map(choice.local, (ins, outs, hidden))
        own = [choice.cut(t, term) for t, term in zip(here, terms.ins, strict=True)]
        aliases, once = description.aliases, description.once
        call = DeviceCall(target, plain, own, made, more, aliases, bool(once))
        if any(not name.startswith("*") for name in choice.factors) and description.token:
            call = lowered_calls[description.token].again(call)
        sums = [choice.groups_to_sum(term) for term in terms.outs]
        waits = any(sums) or (once and sums)  # for other devices, after the call
        number = None
        if waits and call.target in _ON_CPU and jax.process_count() == 1:
            number = {"together": mlir.ir_attribute(np.int64(next(_numbers)))}
            call = call._replace(attributes={**call.attributes, **number})
        # Constants replace hidden results, whose extents may differ.
        unseen = [array.type for array in hidden]

        def body(operands: list[Any]) -> list[Any]:
            cut = zip(operands, here, call.operands, terms.ins, strict=True)
            operands = [x if t == own else choice.slice(x, own, term) for x, t, own, term in cut]
            if once:
                outs = call.outputs_of_first(operands, once)
            else:
                made = enumerate(zip(call.outputs(operands), call.outs, sums, strict=True), start=1)
                outs = [_sum(x, t, groups, i) if groups else x for i, (x, t, groups) in made]
            if number is not None:  # other devices must learn that the call failed
                same = [(o, o) for o in range(len(outs))]
                together = DeviceCall(TOGETHER, number, call.outs, call.outs, aliases=same)
                outs = together.outputs(outs)
            return [*outs, *_zeros(unseen)]

        module = _module(here, [*call.outs, *unseen], body)
        return module, [choice.sharding(term) for term in terms.ins], _packed(result, choice)


def sharding_of_results(
    target: str, operands: Arrays, given: Arrays, result: Any, text: bytes | str
) -> Any:
    """Return the shardings of results that follow from the operands; called if Shardy is off."""
    if target.endswith(".carrier"):
        return tuple_sharding(result, [])
    with mlir.make_ir_context():
        description = Description.read(_read(text)["sharding"].value)
    ins = _placed(operands, description.terms.ins, given)
    return _packed(result, Choice.make(description.possible, ins, description.any_extents))


def _read(text: bytes | str) -> dict[str, Any]:
    text = text.decode() if isinstance(text, bytes) else text
    return {each.name: each.attr for each in ir.DictAttr(ir.Attribute.parse(text))}


def _placed(shapes: Sequence[Any], terms: Sequence[Any], shardings: Sequence[Any]) -> list[Placed]:
    types = [ArrayType(tuple(s.dimensions()), np.dtype(s.numpy_dtype())) for s in shapes]
    return [Placed(*each) for each in zip(types, terms, shardings, strict=True)]


def _packed(result: Any, choice: Choice) -> Any:
    """The sharding of all results; hidden results, which are not read, are whole."""
    shardings = [choice.sharding(term) for term in choice.terms.outs]
    shardings += [choice.sharding(())] * len(choice.terms.hidden)
    return tuple_sharding(result, shardings)


def _warn_if_gathered(description: Description, choice: Choice, index: int, array: Placed) -> None:
    terms = description.possible
    for d, (name, (count, _)) in enumerate(zip(array.term, array.parts(), strict=True)):
        if count == 1 or name in choice.factors or "+" in name:
            continue
        if name in description.terms.sums and name not in terms.sums:
            why = f"sum over its dimension {name!r} cannot be combined with manual axes"
            remedy = (
                "Make its mesh axis manual in shard_map as well, and add the results with "
                "jax.lax.psum"
            )
        elif found := _why_whole(terms, name):
            why, remedy = found
        elif array.type.shape[d] % count:
            why = f"dimension cannot be split into {count} equal parts"
            remedy = f"Pad it to a multiple of {count}"
        elif not description.any_extents:
            why = "program was loaded from a file, and its launches are those for whole arrays"
            remedy = "Shard a batch axis, or call the operation inside jax.shard_map"
        else:  # another dimension uses the devices
            continue
        text = (
            f"{description.label}: dimension {d} of input {index}, {array.type}, is sharded over "
            f"{count} devices, and is gathered on each of them before the call, since the {why}. "
            f"{remedy}. [KB6002]"
        )
        if settings.gathers == "error":
            raise KernelError(text)
        if (description.label, why) not in _warned:
            _warned.add((description.label, why))
            warn(text)
        return


def _why_whole(terms: Terms, name: str) -> tuple[str, str] | None:
    """Why a dimension of this name is never split, and a remedy; None if it can be."""
    if name == WHOLE:
        how = "which splits the dimensions of its signature"
        if terms.suggested != "True":
            how = "with one name for dimensions that are split together"
        return (
            "kernel may read every element of its inputs for each of its outputs",
            f"If it does not, pass sharding_rule={terms.suggested} when wrapping the kernel, "
            f"{how}, or call the operation inside jax.shard_map",
        )
    if terms.can_split(name):
        return None
    return (
        f"sharding rule names this dimension {name!r}, which some outputs lack",
        "If the outputs are sums over it, pass "
        'sharding_rule=kernbridge.ShardingRule(..., reduce="sum"), or shard another dimension',
    )


class Placed(Struct):
    """An array of a call: its type, its dimensions' names, and the sharding that XLA asks for."""

    type: ArrayType
    term: Term
    sharding: Any

    @property
    def n_devices(self) -> int:
        is_tiled = self.sharding is not None and self.sharding.is_tiled()
        return self.sharding.num_devices() if is_tiled else 1

    def parts(self) -> list[tuple[int, np.ndarray]]:
        """For each dimension the number of parts, and the part of each device."""
        if self.n_devices == 1:
            return [(1, np.zeros(0, int))] * len(self.term)
        counts = self.sharding.tile_assignment_dimensions()
        place_of_device = np.argsort(self.sharding.tile_assignment_devices())
        of_device = np.unravel_index(place_of_device, counts)
        return list(zip(counts, of_device, strict=True))[: len(self.term)]


class Choice:
    """The names along which a call is split: for each, the number of parts, and each device's."""

    def __init__(self, terms: Terms, n_devices: int) -> None:
        self.terms, self.n_devices = terms, n_devices
        self.factors: dict[str, tuple[int, np.ndarray]] = {}

    @staticmethod
    def make(terms: Terms, arrays: Sequence[Placed], can_lower_again: bool) -> Choice:
        """Split what XLA asks for and can be split; larger arrays take precedence."""
        choice = Choice(terms, max((a.n_devices for a in arrays), default=1))
        for array in sorted(arrays, key=lambda a: -math.prod(a.type.shape) * a.type.dtype.itemsize):
            if array.n_devices != choice.n_devices:
                continue
            each = zip(array.term, array.type.shape, array.parts(), strict=True)
            for name, size, (count, part) in each:  # a name has one size in all arrays
                if count == 1 or size % count or name in choice.factors:
                    continue
                if not terms.can_split(name) or not (can_lower_again or name.startswith("*")):
                    continue
                # Each block must still have equally many devices after one more split.
                n, cells = choice._cells(list(choice.factors))
                n *= count
                devices = np.bincount(cells * count + part, minlength=n)
                if np.all(devices == choice.n_devices // n):
                    choice.factors[name] = count, part
        return choice

    def _cells(self, names: Sequence[str]) -> tuple[int, np.ndarray]:
        """The number of blocks along these names, and the block of each device."""
        n, cells = 1, np.zeros(self.n_devices, int)
        for count, part in (self.factors[name] for name in names if name in self.factors):
            n, cells = n * count, cells * count + part
        return n, cells

    def local(self, arrays: Sequence[Placed]) -> list[ArrayType]:
        sizes = [zip(a.type.shape, self._counts(a.term), strict=True) for a in arrays]
        shapes = [tuple(size // count for size, count in each) for each in sizes]
        return [ArrayType(s, a.type.dtype) for s, a in zip(shapes, arrays, strict=True)]

    def cut(self, array: ArrayType, term: Term) -> ArrayType:
        """The type of the part of an array whose dimensions, such as "i+1", are longer than "i"."""
        shape = list(array.shape)
        for d, (base, _, more) in enumerate(name.partition("+") for name in term):
            if more and base in self.factors:
                shape[d] = (shape[d] - int(more)) // self.factors[base][0] + int(more)
        return ArrayType(tuple(shape), array.dtype)

    def slice(self, value: Any, part: ArrayType, term: Term) -> Any:
        """The part of this device, in the program that all devices run."""
        starts, device = [], _device()
        for name, size in zip(term, part.shape, strict=True):
            base, _, more = name.partition("+")
            table = np.zeros(self.n_devices, np.int32)
            if more and base in self.factors:
                table += self.factors[base][1] * (size - int(more))
            one = hlo.dynamic_slice(mlir.ir_constant(table), [device], [1])
            starts.append(hlo.ReshapeOp(_tensor(_INDEX), one).result)
        return hlo.dynamic_slice(value, starts, list(part.shape))

    def _counts(self, term: Term) -> list[int]:
        return [self.factors[name][0] if name in self.factors else 1 for name in term]

    def sharding(self, term: Term) -> Any:
        _, cells = self._cells(term)
        return hlo_sharding(self._counts(term), np.argsort(cells, kind="stable"))

    def groups_to_sum(self, term: Term) -> list[list[int]]:
        """The groups of devices whose results of these dimensions are parts of one sum."""
        added = [n for n in self.factors if n not in term and n in self.terms.sums]
        kept = [name for name in self.factors if name not in added]
        if not added:
            return []
        n_added, _ = self._cells(added)
        n, cells = self._cells([*kept, *added])
        blocks = np.argsort(cells, kind="stable").reshape(n // n_added, n_added, -1)
        return [group.tolist() for group in blocks.transpose(0, 2, 1).reshape(-1, n_added)]


class DeviceCall(Struct):
    """The call on one device. Its results are the outputs, then the hidden results.

    Its methods need an MLIR context and an insertion point.
    """

    target: str
    attributes: Mapping[str, Any]  # of MLIR
    operands: Types
    outs: Types
    hidden: Types = ()
    aliases: Sequence[tuple[int, int]] = ()
    has_side_effect: bool = False

    def outputs(self, operands: Arrays) -> list[Any]:
        results = [*self.outs, *self.hidden]
        rule = jax.ffi.ffi_lowering(
            self.target,
            operand_output_aliases=dict(self.aliases),
            has_side_effect=self.has_side_effect,
            backend_config=dict(self.attributes),
            result_types=[_tensor(t) for t in results],
        )
        types = SimpleNamespace(avals_in=self.operands, avals_out=results)
        return list(rule(types, *operands))[: len(self.outs)]

    def outputs_of_first(self, operands: Arrays, n_devices: int) -> list[Any]:
        """Make the call on the first device and return its outputs, on all devices."""
        case = hlo.CaseOp([_tensor(t) for t in self.outs], _device(), num_branches=2)
        with ir.InsertionPoint(case.regions[0].blocks.append()):
            hlo.ReturnOp(self.outputs(operands))
        with ir.InsertionPoint(case.regions[1].blocks.append()):  # of every other index
            hlo.ReturnOp(_zeros(self.outs))
        copied = []
        for channel, (value, t) in enumerate(zip(case.results, self.outs, strict=True), start=1):
            one, every = (ArrayType((n, *t.shape), t.dtype) for n in (1, n_devices))
            gathered = hlo.AllGatherOp(
                [_tensor(every)],
                [hlo.ReshapeOp(_tensor(one), value).result],
                all_gather_dim=0,
                **_among([list(range(n_devices))], channel),
            )
            first = [0] * len(one.shape), one.shape, [1] * len(one.shape)
            copied.append(hlo.ReshapeOp(_tensor(t), hlo.slice(gathered.results[0], *first)))
        return copied


def _module(operands: Types, results: Types, body: Callable[[list[Any]], list[Any]]) -> bytes:
    """Return the module of a function whose operations `body` writes."""
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        types = [[_tensor(t) for t in arrays] for arrays in (operands, results)]
        main = func.FuncOp("main", ir.FunctionType.get(*types), visibility="public")
        with ir.InsertionPoint(main.add_entry_block()):
            func.ReturnOp(body(list(main.arguments)))
    return bytes(mlir.module_to_bytecode(module))


def _device() -> Any:
    return hlo.ConvertOp(_tensor(_INDEX), hlo.PartitionIdOp().result).result


def _tensor(array: ArrayType) -> Any:
    return ir.RankedTensorType.get(array.shape, mlir.dtype_to_ir_type(array.dtype))


def _zeros(arrays: Types) -> list[Any]:
    return [mlir.ir_constant(np.broadcast_to(np.zeros((), t.dtype), t.shape)) for t in arrays]


def _sum(value: Any, array: ArrayType, groups: Sequence[Sequence[int]], channel: int) -> Any:
    added = hlo.AllReduceOp([_tensor(array)], [value], **_among(groups, channel))
    number = _tensor(ArrayType((), array.dtype))
    block = added.regions[0].blocks.append(number, number)
    with ir.InsertionPoint(block):
        hlo.ReturnOp([hlo.AddOp(*block.arguments)])
    return added.results[0]


def _among(groups: Sequence[Sequence[int]], channel: int) -> dict[str, Any]:
    return {
        "replica_groups": ir.DenseElementsAttr.get(np.array(groups, np.int64)),
        "channel_handle": hlo.ChannelHandle.get(channel, mlir.DEVICE_TO_DEVICE_TYPE),
        "use_global_device_ids": True,
    }
