"""Compiles Numba-CUDA kernels for the CPU.

`ir` generates the LLVM IR from the IR that Numba has typed. This module compiles it to machine
code, which src/object loads and src/ext/emulator runs.
"""

from __future__ import annotations

import hashlib
import re
import struct
from dataclasses import dataclass
from typing import Any

from kernbridge import _core
from kernbridge._ext.emulator.compiler import atomics, ir, library
from kernbridge._ext.emulator.compiler.checks import Checks
from kernbridge._ext.emulator.compiler.phases import DIVISIONS, derived, in_phases
from kernbridge._ext.emulator.cuda_source import CPP_ON_CPU, refusals
from kernbridge._src.base.errors import KernelCompilationError, KernelNotAvailableError
from kernbridge._src.base.packing import sealed
from kernbridge._src.forge.artefacts import Artefact
from kernbridge._src.forge.obtain import Recipe, obtain
from kernbridge._src.llvm.text import LOCAL, Function, Instruction, Module, Operand, declared_once
from kernbridge._src.numba_common import cpu_features, elf, private_llvmlite, vector_math
from kernbridge._src.numba_common.private_llvmlite import binding as llvm

_WITH_VECTORS = "; kernbridge vector math\n"
UNFUSED = "; kernbridge products apart from sums\n"
DIGITS = 64  # of the digest that an image begins with

_MASKED = re.compile(r"call .*@llvm\.masked\.(load|store)\.v\d")  # not of scalable vectors
_ARITHMETIC = {"fmul", "fadd", "fsub", "fneg"}
_NOT_SPLITTING = ("llvm.", "__nv_fmin", "__nv_fmax", "__nv_fabs", "asm")
_OF_BOUNDS = ("%kb.inside", "%kb.rest")  # blocks of isolated_compile.py, not of the GPU's code
_TO_INTEGER = {f"llvm.fpto{sign}i.sat.i64.f64": sign for sign in "su"}
_FROM_INTEGER = {"sitofp": "s", "uitofp": "u"}
_USES_MAX = 4  # of a product that NVVM fuses
_SUFFIX = {"float": "f32", "double": "f64"}


def image_of(
    label: str, library: Any, entry: str, checks: Checks | None = None, is_fast: bool = False
) -> tuple[bytes, bool]:
    """The image of a kernel for the CPU, and whether it reads z indices.

    It holds a digest and LLVM IR, which begins with the number of the ABI that the IR assumes. If
    the kernel `is_fast`, its loops may call libmvec.
    """
    try:
        body, uses_z = ir.host_ir(label, library, entry, checks)
    except (KernelCompilationError, KernelNotAvailableError) as e:
        refusals[label] = str(e)
        raise
    return image(body, _WITH_VECTORS * is_fast), uses_z


def image(body: str, options: str) -> bytes:
    text = f"{_core.HOST_ABI_LINE}{_core.HOST_ABI}\n{options}{body}"
    return f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}\0".encode()


@dataclass(eq=False)
class HostCode:
    data: bytes  # as src/ext/emulator/kb_cuda_code.h describes it
    symbols: dict[str, int]  # the addresses of what it defines


class HostCodeRecipe(Recipe[HostCode]):
    """The compilation of an image for this processor.

    The result is never released: the core has its addresses in registered plans, and a program that
    was compiled before may call it at any time.
    """

    kind = "cuda_host_code"
    tool = "LLVM"

    def __init__(self, image: bytes, label: str, function: Any) -> None:
        self.label, self.name = label, getattr(function, "__name__", "")
        self._counted = f"{function.__module__}.{function.__qualname__}" if function else label
        self.identity, text = image[:-1].split(b"\n", 1)
        self._text = text.decode()

    def made_of(self) -> tuple[Any, ...]:
        vectors = vector_math.provided() if _WITH_VECTORS in self._text else ()
        versions = private_llvmlite.version, llvm.llvm_version_info
        return ir.machine().triple, *ir.processor(), *versions, vectors

    def make(self) -> Artefact:
        machine, module, needed, tables = compiled(self._text)
        optimised = str(module)
        library.link_tables(module, tables)
        for function in module.functions:
            if not function.is_declaration:
                function.add_function_attribute("nounwind")  # tables take a quarter of the object
        code = machine.emit_object(module)
        for name in elf.undefined(code):
            if not _core.cuda_code_provides(name):
                raise KernelNotAvailableError(
                    f"a CUDA kernel that was lowered for the CPU calls {name!r}, which this "
                    "kernbridge does not have; lower it again with this version [KB5107]"
                )
        form = ("@kb_fibre(" in optimised) + ("@kb_grid_barrier(" in optimised)
        sizes = (size_of(module, what) for what in ("shared", "stack"))
        body = struct.pack("<QIII", needed, form, *sizes) + code
        return Artefact({}, (sealed(_core.CUDA_CODE_MAGIC, _core.HOST_ABI, self.identity, body),))

    def use(self, made: Artefact) -> HostCode:
        (data,) = made.blobs
        return HostCode(data, _core.add_host_code(self.identity, data, self._counted))


def host_code(image: bytes, label: str = "a CUDA kernel", function: Any = None) -> HostCode:
    """The machine code of an image, registered in this process; compiled at most once.

    Launches are counted under the name of the Python function, or under the label.
    """
    return obtain(HostCodeRecipe(image, label, function))


def compile_image(image: bytes) -> HostCode:
    digest, text = image[:-1].split(b"\n", 1)
    if hashlib.sha256(text).hexdigest().encode() != digest:
        raise KernelNotAvailableError(
            "the program's code for the CPU is damaged; export it again [KB5107]"
        )
    if CPP_ON_CPU.encode() in text:
        raise KernelNotAvailableError(
            "the program has a kernel in CUDA C++ whose library for the CPU cannot be loaded here; "
            "export it again on such a machine [KB5107]"
        )
    return host_code(image)


def compiled(text: str) -> tuple[Any, Any, int, str]:
    """LLVM's target machine, the optimised module for it, and the features that it needs.

    The last is what `library.link_tables` takes, of large constants that the module declares.
    """
    text, mark, tables = text.partition(library.TABLE_LINE)
    features, needed = cpu_features.known(ir.processor()[1])
    machine, module = ir.machine(features), llvm.parse_assembly(text)
    module.triple = llvm.get_default_triple()
    module.data_layout = str(machine.target_data)
    module.verify()
    module = module if UNFUSED in text else _with_fused_products(module, machine)
    if "@llvm.arithmetic.fence." in text:
        # The fences protect `__fmul_rn` and similar functions from `_Fusion`.
        read = Module(str(module))
        for i in read.instructions("call"):
            if i.callee.startswith("llvm.arithmetic.fence."):
                i.text = f"  {i.result} = bitcast {i.type} {i.operands[0].value} to {i.type}"
        module = llvm.parse_assembly(str(read))
    is_checked = "@kb_check_table" in text
    if not is_checked:
        module = in_phases(module, machine)
    if _WITH_VECTORS in text:
        module = llvm.parse_assembly(vector_math.with_vectors(str(module), features))
    # Little can be gained if each access is a call.
    options = llvm.create_pipeline_tuning_options(speed_level=1 if is_checked else 3)
    options.loop_vectorization = options.slp_vectorization = True
    options.loop_interleaving = True
    builder = llvm.create_pass_builder(machine, options)
    module = module if is_checked else atomics.plain_if_alone(module, builder)
    private_llvmlite.run_once(builder.getModulePassManager(), module, builder)
    if "call void @llvm.masked.store." in (optimised := str(module)):
        read = Module(optimised)
        for function in read.defined.values():
            _access_whole_vectors(function)
        module = llvm.parse_assembly(str(read))
        module.verify()
    return machine, module, needed, mark + tables


def _access_whole_vectors(function: Function) -> None:
    """Copy the part of each block that has masked accesses, for masks that are all ones.

    A guard such as `i < n` masks each access of a vectorised loop, although it holds for all
    threads of most blocks. Some processors take several times as long for a masked store as for a
    plain one, and LLVM turns a masked access with a constant mask into a plain one.
    """
    for number, block in enumerate(function.blocks):
        at = [n for n, i in enumerate(block.instructions) if _MASKED.search(i.text)]
        part = block.instructions[at[0] : at[-1] + 1] if at else []
        made = {i.result for i in part if i.result}
        masks: list[Operand] = []  # of the first access, which may cover several vectors
        for mask in (i.operands[-2 if i.result else -1] for i in part if _MASKED.search(i.text)):
            if mask.value in made or mask in masks or mask.type != (masks or [mask])[0].type:
                break
            masks.append(mask)
        if not masks or any(user not in part for n in made for user in function.users.get(n, ())):
            continue
        kind, name = masks[0].type, f"kb.{number}"
        size = int(kind[1:].split()[0])
        holds = ones = f"<{', '.join(['i1 true'] * size)}>"
        text = ""
        for n, mask in enumerate(masks):
            text += f"  %{name}.{n} = and {kind} {holds}, {mask.value}\n"
            holds = f"%{name}.{n}"
        text += f"""\
  %{name}.frozen = freeze {kind} {holds}
  %{name}.bits = bitcast {kind} %{name}.frozen to i{size}
  %{name}.is = icmp eq i{size} %{name}.bits, -1
  br i1 %{name}.is, label %{name}.whole, label %{name}.part
"""
        for way, new in (("whole", {mask.value: ones for mask in masks}), ("part", {})):
            new |= {result: derived(result, way) for result in made}
            copy = "".join(new.get(w, w) for w in LOCAL.split("\n".join(map(str, part))))
            text += f"\n{name}.{way}:\n{copy}\n  br label %{name}.join\n"
        block.instructions[at[0] : at[-1] + 1] = [Instruction(f"{text}\n{name}.join:", block)]
        for after in (b for b in function.blocks if b.name in block.targets):
            for phi in (i for i in after.instructions if i.opcode == "phi"):
                phi.text = phi.text.replace(f", {block.name} ]", f", %{name}.join ]")


def size_of(module: Any, what: str) -> int:
    (block,) = module.get_function(f"kb_{what}_size").blocks
    *_, (size,) = (instruction.operands for instruction in block.instructions)
    assert size.is_constant, f"kb_{what}_size is no constant"
    return int(size.get_constant_value())


def _with_fused_products(module: Any, machine: Any) -> Any:
    """The module with a kernel's products and sums fused as on a GPU, if the processor can.

    They are found before the kernel is inlined into the loops over threads, in the form that NVVM
    gives it.
    """
    can_fuse = "+fma" in ir.processor()[1].split(",") or machine.triple.startswith("aarch64")
    own = [f for f in module.functions if f.name == "kb_thread" or ir.is_recursive(f)]
    if not can_fuse or not any(" fmul " in (text := str(f)) or "@llvm.fpto" in text for f in own):
        return module
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    for function in own:
        private_llvmlite.run_once(builder.getFunctionPassManager(), function, builder)
    read = Module(str(module))
    kinds = {kind for function in read.defined.values() for kind in _Fusion(function).fuse()}
    declared = (f"declare {k} @llvm.fma.{_SUFFIX[k]}({k}, {k}, {k})\n" for k in sorted(kinds))
    fused = llvm.parse_assembly(declared_once("".join((f"{read}\n", *declared))))
    fused.verify()
    return fused


def _keep_integers(function: Function) -> None:
    """Remove conversions of an integer to a double and back, as ptxas does."""
    calls = (i for i in function.instructions if i.opcode == "call")
    for i in (i for i in calls if i.callee in _TO_INTEGER):
        made = function.defined.get(i.operands[0].value)
        signs = made and ("su" if "nneg" in made.flags else _FROM_INTEGER.get(made.opcode, ""))
        if made and signs and _TO_INTEGER[i.callee] in signs and made.operands[0].type == "i64":
            i.text = f"  {i.result} = add i64 {made.operands[0].value}, 0"


def _splits(i: Instruction) -> bool:
    if i.opcode == "call":
        return not i.callee.startswith(_NOT_SPLITTING) or i.callee.startswith("llvm.sqrt.")
    return i.opcode == "fdiv" or (i.opcode in DIVISIONS and i.type == "i64")


class _Fusion:
    """Fuses products and sums of a function where NVVM and ptxas fuse them on a GPU.

    Both may do so by default. The machine code of CUDA 13 shows these rules:

    - NVVM fuses a product into each sum that reads it if at most four instructions read it, all of
      them sums in the same block; of two products in a sum, the first is fused.
    - ptxas then fuses a product into all sums and differences that read it, through negations, if
      nothing else reads it, and no division, root or call lies in between.
    - Functions of libdevice such as `fmul_rn` are never fused. Fences keep their instructions
      apart.

    This works on text: llvmlite cannot change an instruction of a parsed module, and LLVM renumbers
    a whole function to print one instruction. Instructions that compute are known by the names of
    their results.
    """

    def __init__(self, function: Function) -> None:
        _keep_integers(function)
        self._users = function.users
        self._found: dict[str, Instruction] = {}
        self._blocks: dict[str, int] = {}
        self._parts: dict[str, int] = {}  # of blocks, where ptxas splits them
        self._takes: dict[str, Instruction] = {}  # the product that is fused into a sum
        block = part = 0
        for n, i in enumerate(function.instructions):
            if i is i.block.instructions[0] and not i.block.name.startswith(_OF_BOUNDS):
                block = part = n
            if _splits(i):
                part = n
            if i.opcode in _ARITHMETIC and i.type in _SUFFIX:
                self._found[i.result], self._blocks[i.result] = i, block
                self._parts[i.result] = part

    def fuse(self) -> set[str]:
        """Rewrite the function; return the types for which llvm.fma is called."""
        for name, i in self._found.items():
            if i.opcode == "fadd":
                products = (self._found.get(operand.value) for operand in i.operands)
                if product := next((p for p in products if p and self._only_sums_read(p)), None):
                    self._takes[name] = product
        for i in self._found.values():
            if i.opcode == "fmul":
                self._settle(i)
        for name, product in self._takes.items():
            self._found[name].text = self._written(self._found[name], product)
        return {self._found[name].type for name in self._takes}

    def _only_sums_read(self, product: Instruction) -> bool:
        users, block = self._users.get(product.result, []), self._blocks[product.result]
        return (
            product.opcode == "fmul"
            and len(users) <= _USES_MAX
            and all(u.opcode == "fadd" and self._blocks.get(u.result) == block for u in users)
        )

    def _sums(self, product: Instruction, value: Instruction) -> list[Instruction] | None:
        """The sums that can take a product, through negations; None if something else reads it."""
        sums = []
        for user in self._users.get(value.result, []):
            in_part = self._parts.get(user.result) == self._parts[product.result]
            if not in_part or user.opcode == "fmul":
                return None
            if user.opcode == "fneg":
                below = self._sums(product, user)
                if below is None:
                    return None
                sums += below
                continue
            taken = self._takes.get(user.result)
            if taken is product:
                continue
            if taken or user.names.count(value.result) > 1:
                return None
            sums.append(user)
        return sums

    def _below(self, name: str) -> tuple[Instruction | None, bool]:
        """What a value is made of by negations, and whether these change its sign."""
        i, negated = self._found.get(name), False
        while i and i.opcode == "fneg":
            i, negated = self._found.get(i.operands[0].value), not negated
        return i, negated

    def _settle(self, product: Instruction) -> None:
        """Fuse a product into all sums that read it, or into none, as ptxas does."""
        sums = self._sums(product, product) or []
        others = (self._below(i.operands[0].value)[0] for i in sums)
        products = (i for i in others if i and i.opcode == "fmul" and i is not product)
        if any(self._sums(other, other) for other in products):
            return  # the first of two products is fused
        self._takes.update((i.result, product) for i in sums)

    def _written(self, i: Instruction, product: Instruction) -> str:
        first, second = (operand.value for operand in i.operands)
        at_first = self._below(first)[0] is product
        name, c = (first, second) if at_first else (second, first)
        negated = self._below(name)[1] != (not at_first and i.opcode == "fsub")
        a, b = (operand.value for operand in product.operands)
        kind, before = i.type, []
        if negated:
            before.append(f"  {derived(i.result, 'a')} = fneg {kind} {a}")
            a = derived(i.result, "a")
        if at_first and i.opcode == "fsub":
            before.append(f"  {derived(i.result, 'c')} = fneg {kind} {c}")
            c = derived(i.result, "c")
        flags = "".join(f"{flag} " for flag in i.flags)
        call = f"call {flags}{kind} @llvm.fma.{_SUFFIX[kind]}({kind} {a}, {kind} {b}, {kind} {c})"
        return "\n".join([*before, f"  {i.result} = {call}"])
