"""Derivatives of Numba-CUDA kernels by Enzyme, for GPUs and for CPUs in their place.

The IR of a kernel is brought into the form that `cuda_on_cpu.to_host` gives it, in which all that
only GPUs have is a call of a function `kb.*`. Enzyme differentiates this form for NVIDIA's target,
for which it adds to cotangents atomically, since many threads may read one number. The result is
compiled to machine code for the CPU like any other kernel, or to PTX by LLVM's own back end.

A derivative is launched with the grid and the block of the kernel. It works on copies of the arrays
that the kernel changes, and the plan fills the arrays that it adds to with zeros. Shared arrays are
parameters of the function that Enzyme sees, and each shared array of real numbers has a shadow in
shared memory.

Imported only when a derivative is lowered.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kernbridge._ext.emulator.compiler import ir as host_ir
from kernbridge._ext.emulator.compiler import library
from kernbridge._ext.emulator.compiler.isolated_compile import compiled_in_isolation
from kernbridge._ext.emulator.compiler.to_host import HostModule
from kernbridge._ext.emulator.target import Emulated
from kernbridge._ext.enzyme import clang, gpu_code, guards, halves, sums, warps, winners
from kernbridge._ext.enzyme import function as ir
from kernbridge._ext.enzyme.cuda_ir import host_images
from kernbridge._ext.enzyme.function import LABELS, Buffer, Function, Refused, Roles
from kernbridge._ext.enzyme.kernel import DerivativeJob, Form, Primal, Steps, Words, check_launch
from kernbridge._ext.enzyme.numba_cpu import simplify
from kernbridge._src.base import extensions
from kernbridge._src.base.dtypes import DTYPES
from kernbridge._src.base.errors import KernelCompilationError
from kernbridge._src.base.lru import LRUCache
from kernbridge._src.base.reports import warn
from kernbridge._src.forge.artefacts import Artefact
from kernbridge._src.forge.obtain import obtain
from kernbridge._src.llvm.text import Function as Declared
from kernbridge._src.llvm.text import Instruction, Module, declared_once, renamed, symbol
from kernbridge._src.numba_common import numba_cuda_patches as patches
from kernbridge._src.numba_common import private_llvmlite
from kernbridge._src.numba_common.private_llvmlite import binding as llvm
from kernbridge._src.numba_common.private_numba_cuda import global_compiler_lock
from kernbridge._src.numba_cuda import dialect
from kernbridge._src.numba_cuda.compile import KernelJob
from kernbridge._src.numba_cuda.kernel import NumbaCuda
from kernbridge._src.operation.derivatives import Differentiated, Differentiator, has_reverse
from kernbridge._src.operation.primitive import NativeCall
from kernbridge._src.plan import targets
from kernbridge._src.plan.frontend import plan
from kernbridge._src.plan.launch import REGISTERS_MAX, registers_with
from kernbridge._src.plan.program import DeviceFunction, Fill, Launch, Step, Value, Word, leaves
from kernbridge._src.plan.targets import Target
from kernbridge._src.toolchain.library import CUDA_ON_CPU

# These functions have the names of NVIDIA's intrinsics while Enzyme reads the IR, because Enzyme
# knows what the intrinsics do.
_REGISTERS = ["tid", "ntid", "ctaid", "nctaid"]
_OWN = {f"kb.{register}.{axis}" for register in _REGISTERS for axis in "xyz"}
_OWN |= {"kb.laneid", "kb.warpsize", "kb.barrier0"}
_ITEMS = {dtype.llvm: dtype.name for dtype in reversed(DTYPES.values()) if dtype.enzyme}
_MATCH = r"@\W?llvm\.nvvm\.match"  # of bits, as Numba-CUDA calls it
_PARTS = {"complex64": "float32", "complex128": "float64"}
_compiled: LRUCache[Any] = LRUCache(8)  # kernels, of which several derivatives are made in turn
_ATOMICS = ("fadd", "fsub", "add", "sub", "and", "or", "xor", "max", "min")


class OfKernel(Differentiator):
    frontend: NumbaCuda
    halves_can_be_wide = True

    def lower(self, platform: str, wanted: Differentiated) -> NativeCall:
        frontend, label, rule = self.frontend, self.frontend.label, self.frontend.rule
        target = targets.of_platform(platform, frontend.checked, frontend.vector_math)
        why = dialect.of(frontend.kernel, target).why_not_native(frontend.kernel, target.raises)
        check_launch(label, rule, why or ("view=" if frontend.views else ""))
        operands, call, *_ = wanted
        arrays = (*operands, *call.outs)
        arguments = frontend.arguments(frontend.assign(call), arrays, call)
        parameters = [parameter for parameter, _ in arguments]
        kernel = NumbaKernel(KernelJob(label, frontend.kernel, parameters, False, target))
        words = [leaf for _, words in arguments for leaf in words]
        return native_call(frontend, kernel, words, frontend.place, wanted)


def native_call(
    frontend: Any, kernel: Primal, words: Words, source: str, wanted: Differentiated
) -> NativeCall:
    """The launch of a kernel's derivative in the place of the kernel's launch."""
    operands, call, steps, own_operands, own_call = wanted
    launch, n = frontend.rule.resolve(operands, call), len(operands)
    zeroed = call.fresh if frontend.zero_outputs else ()
    roles = ir.roles_of(n, n + len(call.outs), call.aliases, zeroed)
    made = obtained(kernel, words, roles, steps, bool(own_call.levels), launch)
    function = made.function
    n_own = len(own_operands) + len(own_call.outs)
    numbers = dict(zip(function.results, itertools.count(len(own_operands))))
    numbers |= dict(zip(function.operands, itertools.count()))
    numbers |= dict(zip(function.hidden, itertools.count(n_own)))
    fills: list[Step] = [
        Fill(numbers[i], 0, b.item_size, Value("count", buffer=numbers[i]), 0)
        for i, b in enumerate(function.buffers)
        if b.begins_as_zeros and i in numbers
    ]
    moved = {b: numbers[i] for i, b in enumerate((*range(n), *call.fresh))}
    x, y, z = (replace(v, buffer=moved.get(v.buffer, v.buffer)) for v in launch.grid)
    launch = replace(launch, grid=(x, y, z), zeroed=own_call.fresh)
    if made.bests:
        count = obtained(kernel, words, roles, (), bool(own_call.levels), launch)
        counting = count.launch(launch, [numbers[i] for i in count.function.arrays])
        for k, pattern in enumerate((2**128 - 1, 0)):
            for i in (i + k for i in made.bests):
                size, items = function.buffers[i].item_size, Value("count", buffer=numbers[i])
                fills.append(Fill(numbers[i], 0, size, items, pattern))
            fills.append(counting)
    step = made.launch(launch, [numbers[i] for i in function.arrays])
    for i, b in enumerate(function.buffers):
        if b.edges:
            per_block = launch.block[0] * (launch.block[0] // (2 * b.edges))
            blocks = Value("count", buffer=numbers[i], divisor=per_block)
            given = (*step.words[:-1], Word("constant", value=1))
            fills.append(replace(step, grid=(blocks, *step.grid[1:]), words=given))
    label = f"{kernel.label} ({LABELS[steps[-1].mode]})"
    scratch = ir.temporaries(function.scratch, operands, call)
    hidden = {"copied": function.written, "temporaries": scratch}
    return planned(label, source, wanted, [*fills, step], kernel.target, **hidden)


def planned(
    label: str, source: str, wanted: Differentiated, steps: list[Step], target: Target, **more: Any
) -> NativeCall:
    """The plan of a derivative, given its steps, and `more` buffers that are hidden."""
    operands, call = wanted.own_operands, wanted.own_call
    names = [f"array {k}" for k in range(len(operands) + len(call.outs))]
    is_tested = has_reverse(wanted.steps) and not target.architectures
    given = label, source, operands, call, names, steps
    return plan(*given, is_tested=is_tested, target=target, **more)[0]


class NumbaKernel(Primal):
    """A kernel of Numba-CUDA; `words` has the words of each leaf of its parameters."""

    _modules: Sequence[Any] = ()

    def __init__(self, job: KernelJob) -> None:
        self._job, self.kernel, self.target = job, job.kernel, job.target
        self.label, self.name, self.symbol = job.label, job.name, job.symbol
        self.digest, self.lasting = job.digest, job.lasting
        self.why_not_portable, self.made_of = job.why_not_portable, job.made_of

    def form(self, words: Words, roles: Roles) -> Form:
        with global_compiler_lock:
            job = self._job.for_target(_ForEnzyme())
            compiled, opened = _compiled.find_or_make(self.digest, job.compile)
            self._modules = compiled._codelibrary.modules
            host, module = self._host_module()
        arrays: dict[int, tuple[str, int]] = {}
        for leaf, own in zip(leaves(job.parameters), words, strict=True):
            if own[0].kind != "address":
                continue
            b, dtype = own[0].buffer, leaf.dtype.name
            known, rank = arrays.get(b, (dtype, 0))
            if known != dtype:
                raise Refused(f"it uses one array as {known} and as {dtype}")
            if not ir.can_hold(dtype) or leaf.kind == "record":
                raise Refused(f"it has arrays of {leaf.dtype}")
            arrays[b] = dtype, max(rank, sum(word.kind == "extent" for word in own))
        for i, o in roles.aliases:
            if i not in arrays and o in arrays:  # one parameter of the kernel stands for both
                arrays[i] = arrays[o]
        entry = compiled._codelibrary._entry_name
        shared = [(a.item, a.size, a.offset) for a in host.shared.values()]
        written = {words[i][0].buffer for i in opened}
        return Form(module, entry, dict(sorted(arrays.items())), written, shared)

    def place(self, is_it: Callable[[Instruction], bool]) -> str:
        with global_compiler_lock, private_llvmlite.opaque_pointers():
            modules = [Module(str(module)) for module in self._modules]
        places = (clang.place_in(module, is_it, has_folders=True) for module in modules)
        return next(filter(None, places), "")

    def _host_module(self) -> tuple[HostModule, Any]:
        """The kernel with calls of functions `kb.*`, and the LLVM module of all its code."""
        try:
            host = HostModule(self.label, self._modules, checks=None)
        except KernelCompilationError as e:
            found = re.search(r"uses (.*?), which kernbridge does not run", str(e))
            raise Refused(f"it uses {found[1]}" if found else str(e)) from e
        if inlined := self._job.fingerprint.inlined:
            rules = extensions.load("inlined_rules", self.label)
            if why := rules.unknown(inlined, "".join(host.texts), has_nodes=False):
                raise Refused(why)
        texts = (winners.hidden(warps.typed(text)) for text in host.texts)
        module, *others = map(llvm.parse_assembly, texts)
        for other in others:
            module.link_in(other)
        library.link_tables(module, "".join(host.tables.values()))
        for file in ("atomics", "arithmetic"):
            library.link_file(module, file)
        return host, module


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class DerivativeFunction(DeviceFunction):
    """Machine code of a derivative, and the function that was compiled, without its text."""

    function: Function
    wide: bool  # one launch serves a batch
    written: Sequence[int]  # arrays of the kernel that it writes to
    bests: Sequence[int]  # buffers of winners.py, each of which is followed by one of counts
    tape: str  # what each thread allocates for values that its loops overwrite; empty if nothing
    has_edges: bool  # a launch that fills elements with zeros comes before the launch

    @property
    def n_words(self) -> int:
        n_arrays = len(self.function.arrays)
        return (1 + self.wide) * n_arrays + ir.count_extents(self.function.buffers) + self.has_edges

    def launch(self, primal: Launch, numbers: Sequence[int]) -> Launch:
        """The launch for the kernel's; `numbers` are the plan's, of the function's arrays."""
        kinds = ("address", "stride") if self.wide else ("address",)
        words = [Word(kind, buffer=b) for b in numbers for kind in kinds]
        places = {
            e: Word("extent", buffer=number, dim=dim)
            for number, i in zip(numbers, self.function.arrays, strict=True)
            for dim, e in enumerate(self.function.buffers[i].extents)
        }
        words += [places[e] for e in range(ir.count_extents(self.function.buffers))]
        words += [Word("constant", value=0)] * self.has_edges
        return replace(primal, function=self, words=tuple(words), shared=0, wide=self.wide)


class CudaDerivativeJob(DerivativeJob[DerivativeFunction]):
    """The compilation of a derivative, given the compilation of the kernel and the steps to it.

    `words` has the words of each leaf of the kernel's parameters. The derivative treats the dynamic
    shared memory of the launch as an array.
    """

    kind = "numba_cuda_derivative"

    def __init__(
        self, primal: Primal, words: Words, roles: Roles, steps: Steps, batch: bool, launch: Launch
    ) -> None:
        self.kernel, self.target = primal.kernel, primal.target
        self._primal, self._words, self._roles = primal, words, roles
        one, (_, y, z) = Value(constant=1), launch.grid
        self._has_batch = has_batch = batch and z == one
        # Blocks and threads are numbered along x alone.
        has_one_axis = y == z == one and launch.block[1:] == (1, 1)
        has_one_axis &= not (launch.words and launch.auto_block)  # recorded launches have words
        is_known = bool(self.target.architectures) and not launch.auto_block
        self._threads = launch.block[0] * is_known if has_one_axis else None
        self._dynamic = launch.shared
        registers = registers_with(math.prod(launch.block)) if is_known else 0
        self._registers = registers if registers < REGISTERS_MAX else 0
        given = words, roles, has_batch, self._threads, self._registers, launch.shared
        super().__init__(primal.label, primal.name, primal.digest, given, steps, primal.lasting)
        self.why_not_portable = primal.why_not_portable
        self.digest = self.identity
        self.identity += self.target.key()

    def made_of(self) -> tuple[Any, ...]:
        versions = llvm.llvm_version_info, private_llvmlite.version
        return (*self._primal.made_of(), *super().made_of(), *versions)

    def compiled(self) -> Artefact:
        if self.target.language not in ("cuda", CUDA_ON_CPU):
            raise Refused("Enzyme makes no code for the target")
        primal, written, uses_z = self._primal_function()
        function = functools.reduce(ir.derive, self.steps, primal)
        wide = self._has_batch and not uses_z
        entry = f"{self._primal.symbol}_{'_'.join(mode for mode, *_ in self.steps)}"
        text, shared_size = _with_entry(function, entry, wide)
        text = ir.run(replace(function, text=text))
        buffers: Sequence[Buffer] = function.buffers
        if self._roles.in_place or not self.steps:  # its buffers are used afterwards
            buffers = [b if b.kind == "shared" else b._replace(kind="inout") for b in buffers]
        how = shared_size, self._threads, bool(self.target.architectures)
        text, buffers, shared_size = sums.with_fewer_atomics(text, entry, buffers, *how)
        function = replace(function, buffers=buffers)
        text = warps.completed(declared_once(renamed(text, gpu_code.libdevice_name)))
        if self.target.language == CUDA_ON_CPU:
            images = host_images(self.label, text, entry, shared_size)
        else:
            resources = shared_size, self._registers
            ccs = self.target.architectures
            images = {10 * c[0] + c[1]: gpu_code.cubin(text, entry, c, *resources) for c in ccs}
        meta = {
            "entry": entry,
            "architectures": list(images),
            "how": {
                "wide": wide,
                "written": written,
                "bests": [b - 2 for b in self._sums.values()],
                "tape": gpu_code.tape(text) if self.target.architectures else "",
                "has_edges": any(b.edges for b in buffers),
            },
            "buffers": [[b.dtype, list(b.extents), *b[2:]] for b in function.buffers],
            "of_call": [list(function.operands), list(function.results)],
        }
        return Artefact(meta, tuple(images.values()))

    def use(self, made: Artefact) -> DerivativeFunction:
        meta = made.meta
        buffers = [Buffer(d, tuple(e), *rest) for d, e, *rest in meta["buffers"]]
        operands, results = map(tuple, meta["of_call"])
        return DerivativeFunction(
            identity=self.digest,
            name=self.name,
            entry=meta["entry"],
            images=tuple(self.target.images(self, made).items()),
            function=Function("", "", tuple(buffers), operands, results),
            why_not_portable=self.why_not_portable,
            **meta["how"],
        )

    def place(self, refused: Refused) -> str:
        """The line of the call that was refused."""
        return self._primal.place(refused.is_of if refused.called else _is_of_threads)

    def _primal_function(self) -> tuple[Function, list[int], bool]:
        """The kernel as a function of its operands, its other outputs, and its shared arrays.

        Also returns the arrays that the kernel writes to, and whether it reads z indices.
        """
        roles = self._roles
        module, entry, arrays, written, in_shared = self._primal.form(self._words, roles)
        called = {f.name for f in module.functions if f.is_declaration}
        buffers, places = ir.buffers_of(arrays, roles, written)
        if "kb.barrier0" in called:
            buffers = [b._replace(is_alone=b.kind == "in") for b in buffers]
        shared: dict[int, Buffer] = {}  # by their offsets
        for item, size, offset in in_shared:
            if item not in _ITEMS:
                raise Refused(f"it has a shared array of {item}")
            if offset in shared:
                raise Refused("it has several arrays in the shared memory of the launch")
            size = size or self._dynamic
            shared[offset] = Buffer(_ITEMS[item], (), "shared", is_alone=False, size=size)
        places_of_shared = dict(zip(shared, itertools.count(len(buffers))))
        buffers += shared.values()
        _add_call(module, entry, buffers, self._words, places)
        of_reals = [b.is_inexact for b in buffers]
        text, read, changed = _simplified(module, places_of_shared, of_reals, self._dynamic)
        text, buffers = _as_accessed(*halves.widened(text, buffers), changed)
        # Tangents in place need the values that the kernel writes, too.
        all_read = bool(roles.in_place) and [s.mode for s in self.steps[:1]] == ["jvp"]
        buffers = [b._replace(is_read=all_read or i in read) for i, b in enumerate(buffers)]
        operands, results = ([places[b] for b in of] for of in (roles.operands, roles.outputs))
        begun = {places[i] for i, _ in roles.aliases}
        begun -= {operands[k] for s in self.steps for k in s.active if k < len(operands)}
        begun |= {i for i, b in enumerate(buffers) if b.kind == "out" and b.begins_as_zeros}
        how = begun, read, changed, not self.steps
        text, buffers, self._sums = winners.with_sums(text, buffers, *how)
        results = [self._sums.get(b, b) for b in results]
        function = ir.around(text, "kb_primal", buffers, operands, results)
        uses_z = "sreg.ctaid.z(" in text or "sreg.nctaid.z(" in text
        return function, sorted(changed.intersection(function.arrays)), uses_z


def obtained(primal: Primal, *described: Any) -> DerivativeFunction:
    """The machine code of a derivative, and a warning of its tape."""
    made = obtain(CudaDerivativeJob(primal, *described))
    if made.tape:
        warn(
            f"{primal.label}: each thread of the derivative allocates {made.tape} of device memory "
            "for values that a loop of the kernel overwrites, which is slow and limited by the "
            "device's heap; docs/derivatives.md says how to write kernels that need none [KB2108]"
        )
    return made


def _as_accessed(text: str, buffers: list[Buffer], changed: set[int]) -> tuple[str, list[Buffer]]:
    """The buffers, and kb_primal, with what the kernel holds in shared memory, and writes to."""
    module, made = Module(text), []
    primal = module.functions["kb_primal"]
    memory, _, accesses, _ = guards.all_accesses(primal)
    reals: dict[str, dict[str, Instruction]] = {}  # by memory, an access to numbers of each dtype
    for address, kind, at in accesses:
        item = kind.strip("<>").split()[-1]
        if item in ("float", "double"):
            reals.setdefault(memory[address], {})[_ITEMS[item]] = at
    for i, (b, name) in enumerate(zip(buffers, guards.buffer_names(primal), strict=True)):
        found = reals.get(memory[name], {})
        others = sorted(found.keys() - {b.dtype, _PARTS.get(b.dtype)})
        if b.kind == "shared" and not b.is_inexact and len(found) == 1:  # of bytes, say
            parameter, (dtype,) = primal.parameters[2 + i], found
            typed = parameter.replace(ir.holds(b.dtype), ir.holds(dtype), 1)
            primal.head = primal.head.replace(parameter, typed, 1)
            b = b._replace(dtype=dtype)
        elif others:
            place = clang.place_of(module, found[others[0]])
            raise Refused(f"it uses an array of {b.dtype} as {' and '.join(sorted(found))}", place)
        elif b.kind == "work" and i not in changed:
            b = b._replace(kind="in")
        made.append(b)
    return str(module), made


def _add_call(
    module: Any, entry: str, buffers: Sequence[Buffer], words: Words, places: Mapping[int, int]
) -> None:
    """Add kb_primal, a function of buffers that calls the kernel's entry with these words."""
    lines, given = list[str](), list[str]()
    for k, word in enumerate(itertools.chain.from_iterable(words)):
        if word.kind == "constant":
            given.append(f"i64 {word.value}")
        elif word.kind in ("extent", "count"):
            extents = buffers[places[word.buffer]].extents
            given.append("i64 1")
            for e in extents if word.kind == "count" else (extents[word.dim],):
                lines.append(f"  %n{k}.{e} = mul {given[-1]}, %e{e}")
                given[-1] = f"i64 %n{k}.{e}"
        else:
            array = f"%b{places[word.buffer]}"
            lines.append(f"  %a{k} = getelementptr i8, ptr {array}, i64 {word.value}")
            lines.append(f"  %o{k} = ptrtoint ptr %a{k} to i64")
            given.append(f"i64 %o{k}")
    lines.append(f'  call void @"{entry}"({", ".join(given)})')
    text = f'declare void @"{entry}"({", ".join(["i64"] * len(given))})\n'
    module.link_in(llvm.parse_assembly(text + ir.definition("kb_primal", buffers, *lines)))
    for function in module.functions:
        if not function.is_declaration and function.name != "kb_primal":
            function.linkage = "internal"


def _is_of_threads(i: Instruction) -> bool:
    """Whether it is an operation between threads, as Numba-CUDA writes them."""
    if i.opcode != "call":
        return i.opcode in ("atomicrmw", "cmpxchg", "fence")
    known = ("llvm.nvvm.read", "llvm.nvvm.barrier0", "llvm.nvvm.shfl", "llvm.nvvm.vote")
    between = ("llvm.nvvm.", "___numba_atomic", "cudaCG")
    return i.callee.startswith(between) and not i.callee.startswith(known)


@dataclass(frozen=True)
class _ForEnzyme(Emulated):
    """Compiles a kernel to the IR of a GPU, without libNVVM, apart from other code.

    Instructions refer to lines of the source.
    """

    @contextmanager
    def lowering(self, raises: bool) -> Iterator[None]:
        if raises:
            raise Refused("it has debug=True")
        with (
            patches.compiling_for((9, 0)),
            patches.without_nvvm(),
            compiled_in_isolation("derivative", lineinfo=True),
        ):
            yield


def _simplified(
    module: Any, shared: dict[int, int], of_reals: Sequence[bool], dynamic: int
) -> tuple[str, set[int], set[int]]:
    """Inline and optimise what kb_primal calls, with shared arrays as its parameters.

    Also returns the buffers that it reads, and the buffers that it writes to.
    """
    warps.link(module)
    inlining, builder = host_ir.passes()[:2]
    inlining.run(module, builder)
    read = Module(str(module))
    for i in read.instructions("call"):
        if i.callee == "kb.shared":
            array = shared[int(i.operands[0].value)]
            i.text = f"  {i.result} = getelementptr i8, ptr %b{array}, i64 0"
        elif i.callee == "kb.dynamic_shared":
            i.text = f"  {i.result} = add i32 {dynamic}, 0"
    for f in (f for f in read.functions.values() if f.is_declaration):
        f.head = _described(f)
    module = llvm.parse_assembly(guards.hidden(str(read)))
    simplify(module, unrolls=True)  # threads need not keep the values of a loop that is unrolled
    module.triple = gpu_code.TRIPLE
    text = warps.marked(guards.shown(str(module)))
    read = Module(text)
    _check(read)
    if cast := guards.reinterprets(read, "kb_primal", of_reals):
        place = clang.place_of(read, cast, *read.defined["kb_primal"].users.get(cast.result, ()))
        raise Refused("it uses the bits of real numbers as integers", place, _MATCH)
    used, written = _accessed(read.defined["kb_primal"])
    return renamed(text, _name_for_enzyme), used, written


def _described(f: Declared) -> str:
    """The declaration of a register, with its range and its attributes for LLVM."""
    name = f.name.removeprefix("kb.")
    if name == "barrier0":  # LLVM might move it to where some threads of a warp do not come
        return f"declare void {symbol(f.name)}() convergent"
    if f.name in warps.CONSTANTS:
        return f"{guards.signature(f)} {warps.CONSTANT}"
    if name == f.name or name not in patches.RANGES:
        return f.head
    begin, end = patches.RANGES[name]
    known = "memory(none) nounwind willreturn speculatable"
    return f"declare noundef range(i32 {begin}, {end}) i32 {symbol(f.name)}() {known}"


def _accessed(function: Declared) -> tuple[set[int], set[int]]:
    """The buffers that a function reads, and the buffers that it writes or adds to."""
    roots, read, written = guards.arrays_of(function), set[int](), set[int]()
    for i in function.instructions:
        values = [value for _, value in i.operands]
        if i.result in roots:
            continue
        at = {"store": 1, "atomicrmw": 0}.get(i.opcode)
        read |= {roots[value] for k, value in enumerate(values) if value in roots and k != at}
        if i.opcode != "load":
            written |= {roots[value] for value in values if value in roots}
    return read, written


def _check(module: Module) -> None:
    """Refuse operations by which the result of a thread depends on the timing of other threads."""
    instructions = [(f, i) for f in module.defined.values() for i in f.instructions]
    for f, i in instructions:
        is_atomic = i.opcode == "atomicrmw" or i.callee.startswith("kb.offer.")
        if is_atomic and i.result in f.users:
            raise Refused("it uses the value that an atomic operation returns")
        if i.opcode == "atomicrmw" and i.flags[-1] not in _ATOMICS:
            raise Refused(f"it uses the atomic operation {i.flags[-1]}")
    for _, i in instructions:
        is_access = i.opcode in ("load", "store") and "atomic" in i.flags
        if is_access or i.opcode in ("cmpxchg", "fence"):
            raise Refused("it waits for other threads, or replaces numbers atomically")
    for name, f in module.functions.items():
        is_known = name in _OWN | warps.KNOWN or name.startswith("kb.offer.")
        if f.is_declaration and name.startswith("kb.") and not is_known:
            used = name.removeprefix("kb.")
            raise Refused(
                f"it uses {used}, of which no derivative is known", called=re.escape(used)
            )


def _with_entry(function: Function, name: str, wide: bool) -> tuple[str, int]:
    """Add the entry of a launch to a derivative; also return the bytes of its shared memory.

    The threads of a block fill shadows of shared arrays with zeros before any of them begins.
    """
    lines = ["  %z32 = call i32 @kb.ctaid.z()", "  %z = zext i32 %z32 to i64"] * wide
    words, arguments = [], ["ptr null", "ptr null"]
    offset, fills = 0, []
    for i, b in enumerate(function.buffers):
        arguments.append(f"ptr %p{i}")
        if b.kind == "shared":
            lines.append(f"  %p{i} = call ptr @kb.shared(i64 {offset})")
            end = offset + -(-b.size // 16) * 16
            if b.begins_as_zeros:
                fills.append(f"  call void @kb_zero(ptr %p{i}, i64 {(end - offset) // 8})")
            offset = end
            continue
        words.append(f"i64 %w{i}")
        at = f"%w{i}"
        if wide:
            words.append(f"i64 %s{i}")
            lines += [f"  %d{i} = mul i64 %z, %s{i}", f"  %t{i} = add i64 %w{i}, %d{i}"]
            at = f"%t{i}"
        lines.append(f"  %p{i} = inttoptr i64 {at} to ptr")
    extents = [f"i64 %e{k}" for k in range(ir.count_extents(function.buffers))]
    if offset > sums.SHARED_MAX:
        raise Refused(
            f"with the shadows of its shared arrays it has {offset} bytes of shared memory, of "
            f"which a kernel can have {sums.SHARED_MAX}"
        )
    if fills:
        lines += [*fills, "  call void @kb.barrier0()"]
    head = f"define void @{name}({', '.join(words + extents)}) {{"
    call = f"  call void @{function.name}({', '.join(arguments + extents)})"
    text = "\n".join([function.text, head, *lines, call, "  ret void", "}\n"])
    text += _ZERO * bool(fills)
    declared = [f"i32 @kb.{r}.{a}()" for r in _REGISTERS for a in "xyz"]
    declared += ["void @kb.barrier0() convergent", "ptr @kb.shared(i64)"]
    text += "".join(f"declare {d}\n" for d in declared)
    return renamed(text, _name_for_enzyme), offset


_PLACE = "".join(f"  %{r}.{a} = call i32 @kb.{r}.{a}()\n" for r in _REGISTERS[:2] for a in "xyz")
_ZERO = f"""
define internal void @kb_zero(ptr %at, i64 %n) alwaysinline {{
entry:
{_PLACE}  %zy = mul i32 %tid.z, %ntid.y
  %row = add i32 %zy, %tid.y
  %before = mul i32 %row, %ntid.x
  %thread = add i32 %before, %tid.x
  %nxy = mul i32 %ntid.x, %ntid.y
  %threads = mul i32 %nxy, %ntid.z
  %first = zext i32 %thread to i64
  %step = zext i32 %threads to i64
  br label %next
next:
  %k = phi i64 [ %first, %entry ], [ %following, %more ]
  %inside = icmp ult i64 %k, %n
  br i1 %inside, label %more, label %end
more:
  %word = getelementptr i64, ptr %at, i64 %k
  store i64 0, ptr %word
  %following = add i64 %k, %step
  br label %next
end:
  ret void
}}
"""


def _name_for_enzyme(name: str) -> str:
    """The name of a function while Enzyme reads the module: NVIDIA's intrinsic, or C's."""
    if name in _OWN:
        register = "" if name == "kb.barrier0" else "read.ptx.sreg."
        return f"llvm.nvvm.{register}{name.removeprefix('kb.')}"
    of_c = name.removeprefix("__nv_")
    return of_c if of_c in gpu_code.MATH else name
