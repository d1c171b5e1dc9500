"""Copies a kernel's modules and replaces everything in them that exists only on GPUs.

An instruction that a CPU does not have, or that LLVM leaves undefined where a GPU defines it,
becomes a call of a function that the `.ll` files of this package define. The modules themselves
stay unchanged, since Numba-CUDA links the modules of device functions into several kernels. Only
what changes is copied, which suffices because printed values refer to each other by name.
"""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Sequence
from typing import Any

from kernbridge._ext.emulator.compiler import library
from kernbridge._ext.emulator.compiler.checks import Array, Checks
from kernbridge._ext.emulator.compiler.library import replaced
from kernbridge._src.base.errors import KernelCompilationError
from kernbridge._src.numba_common.private_llvmlite import TABLE, ir, opaque_pointers
from kernbridge._src.numba_common.private_llvmlite import binding as llvm

OUTSIDE = "kb.outside."  # and the description of an array in hexadecimal, see isolated_compile.py
OUTSIDE_MAX = 64  # descriptions that are distinguished: the bits of a number

_SHARED = 3  # the address space
_STATIC_MAX = 48 * 1024  # bytes of shared arrays of constant sizes, which ptxas admits
_ALIGNMENT = 16  # of shared arrays, at least
_NOT_COPIED = ("llvm.nvvm.", "llvm.dbg.", "llvm.used", OUTSIDE)  # how names of globals begin
_LAYOUT = "e-m:e-i64:64-i128:128-f80:128-n8:16:32:64-S128"

ASSEMBLY = {
    "mov.u32 $0, %dynamic_smem_size;": "kb.dynamic_shared",
    "activemask.b32 $0;": "kb.active_mask",
    "mov.u32 $0, %lanemask_lt;": "kb.lanemask_lt",
    "nanosleep.u32 $0;": "kb.nanosleep",
}
_INTEGERS = ("shl", "lshr", "ashr", "sdiv", "udiv", "srem", "urem")  # of arithmetic.ll


def refused(label: str, construct: str) -> KernelCompilationError:
    return KernelCompilationError(
        f"{label}: the kernel uses {construct}, which kernbridge does not run on CPUs; run it on a "
        "GPU [KB4005]"
    )


class HostModule:
    """The text of one kernel's modules. The caller holds Numba's compiler lock."""

    def __init__(self, label: str, modules: Sequence[Any], checks: Checks | None) -> None:
        self._label = label
        self._checks = checks
        self.outside: list[str] = []  # descriptions of the arrays that the kernel writes to
        self.tables: dict[str, str] = {}  # lines of large constant arrays, by their names
        self.shared_size = 0
        self.shared: dict[str, Array] = {}  # static arrays, then dynamic arrays
        if checks:
            checks.shared = self.shared
        with opaque_pointers():
            self._place_shared(modules)
            copies = [self._copied(module) for module in modules]
            self.texts = [str(copied) for copied in copies]
        self.declared = {f.name for copied in copies for f in copied.functions if not f.blocks}

    def _place_shared(self, modules: Sequence[Any]) -> None:
        found = {
            value.name: value
            for module in modules
            for value in module.global_values
            if getattr(value, "addrspace", 0) == _SHARED
        }
        layout = llvm.create_target_data(_LAYOUT)
        sizes = {name: value.value_type.get_abi_size(layout) for name, value in found.items()}
        if (whole := sum(sizes.values())) > _STATIC_MAX:
            raise KernelCompilationError(
                f"{self._label}: the kernel has {whole} bytes of static shared memory, and CUDA "
                f"allows {_STATIC_MAX} (48 KiB) a block; make an array dynamic, "
                "cuda.shared.array(0, dtype), and give its bytes with the launch: up to 227 KiB, "
                "depending on the GPU [KB4001]"
            )
        for name, size in sorted(sizes.items(), key=lambda named: not named[1]):
            item, alignment = found[name].value_type.element, found[name].align if size else None
            self.shared_size += -self.shared_size % max(alignment or 0, _ALIGNMENT)
            how = item.get_abi_size(layout), size, self.shared_size
            self.shared[name] = Array(name, str(item), *how)
            self.shared_size += size
        self.shared_size += -self.shared_size % _ALIGNMENT

    def _copied(self, module: Any) -> Any:
        self._made = made = ir.Module(module.name, module.context)
        made.triple = ""
        for value in module.global_values:
            if isinstance(value, ir.Function) and value.blocks:
                made.add_global(self._function(value))
            elif value.name not in self.shared and not value.name.startswith(_NOT_COPIED):
                made.add_global(_without_metadata(value))
        for value in made.globals.values():
            if isinstance(value, ir.GlobalVariable):
                value.addrspace = 0
                if value.name.startswith(TABLE):  # the text is printed and parsed repeatedly
                    data = base64.b64encode(value.initializer.constant).decode()
                    line = f"{library.TABLE_LINE}{value.name} {value.align} {data}\n"
                    self.tables[value.name] = line
                    value.initializer, value.linkage = None, ""
                if value.linkage == "common":
                    value.linkage = "internal"
        return made

    def _function(self, function: Any) -> Any:
        made = _without_metadata(function)
        made.parent, made.calling_convention = self._made, ""
        # Names of new values begin with "kb.", or are the names of the values that they replace.
        made.scope = type(function.scope)()
        made.attributes = copy.copy(function.attributes)
        made.attributes.discard("noinline")
        made.attributes.add("alwaysinline")
        made.blocks = []
        if self._checks:
            self._checks.begin_function(self)
        for block in function.blocks:
            self.block = copy.copy(block)
            self.block.parent, self.block.scope = made, made.scope
            self.block.instructions = []
            made.blocks.append(self.block)
            for instruction in block.instructions:
                instead = self._instead(instruction)
                if instead is not None and self._checks:
                    self._checks.put(instead, instruction.metadata.get("dbg"))
                elif instead is not None:
                    self.put(instead)
        return made

    def put(self, instruction: Any) -> Any:
        if instruction.metadata:
            instruction = _without_metadata(instruction)
        self.block.instructions.append(instruction)
        return instruction

    def call(
        self, name: str, result: Any, arguments: Sequence[Any], called: str = "kb.call"
    ) -> Any:
        """A call for `put`; `called` names its value."""
        # The types of arguments may differ from call to call in what pointers point to, which is
        # not printed.
        kind = ir.FunctionType(result, [a.type for a in arguments])
        function = ir.Function(ir.Module(), kind, name)
        self._made.globals.setdefault(name, function)
        return ir.CallInstr(self.block, function, arguments, called)

    def _instead(self, instruction: Any) -> Any:
        """What goes into the copy in place of an instruction; None if nothing does."""
        operation = instruction.opname
        is_cast = operation == "addrspacecast"
        if is_cast and getattr(instruction.operands[0], "name", "") in self.shared:
            return self._shared_array(instruction)
        for i, operand in enumerate(instruction.operands):
            space = getattr(operand.type, "addrspace", 0)
            if space == _SHARED:
                raise refused(self._label, "shared memory in a way that is not an array's")
            if space and isinstance(operand, ir.FormattedConstant):  # which llvmlite keeps as text
                text = re.sub(r" addrspace\(\d+\)", "", operand.constant)
                instruction = replaced(instruction, i, ir.FormattedConstant(operand.type, text))
        operands = instruction.operands
        if is_cast:
            instruction = copy.copy(instruction)
            instruction.opname = "bitcast"  # a CPU has one address space
            return instruction
        if operation == "call":
            return self._called(instruction)
        is_safe = operation in _INTEGERS and isinstance(operands[1], ir.Constant)
        if is_safe or operation not in (*_INTEGERS, "fptosi", "fptoui", "frem"):
            return instruction
        kinds = (getattr(v.type, "intrinsic_name", "") for v in (operands[0], instruction))
        name = ".".join(("kb", operation, *dict.fromkeys(kinds)))
        if not library.defines(name):
            return instruction
        return self.call(name, instruction.type, operands, instruction.name)

    def _shared_array(self, cast: Any) -> Any:
        name = cast.operands[0].name
        if self._checks:
            number = ir.Constant(ir.IntType(32), list(self.shared).index(name))
            return self.call("kb.check.shared", cast.type, [number], cast.name)
        offset = ir.Constant(ir.IntType(64), self.shared[name].offset)
        return self.call("kb.shared", cast.type, [offset], cast.name)

    def _called(self, call: Any) -> Any:
        if isinstance(call.callee, ir.InlineAsm):
            return self._assembled(call)
        name = call.callee.name
        if name.startswith("llvm.dbg."):
            return None
        if name.startswith("llvm.nvvm."):
            name = "kb." + name.removeprefix("llvm.nvvm.").removeprefix("read.ptx.sreg.")
            return self.call(name, call.type, call.args, call.name)
        if name.startswith(OUTSIDE):
            described = bytes.fromhex(name.removeprefix(OUTSIDE)).decode()
            if described not in self.outside:
                self.outside.append(described)
            number = min(self.outside.index(described), OUTSIDE_MAX - 1)
            arguments = [*call.args, ir.Constant(ir.IntType(64), number)]
            return self.call("kb.outside", call.type, arguments)
        return call

    def _assembled(self, call: Any) -> Any:
        assembly, arguments = call.callee.asm, call.args
        name = ASSEMBLY.get(assembly) or "kb." + assembly.removesuffix(" $0, $1;")
        if assembly in ASSEMBLY or library.defines(name):
            return self.call(name, call.type, arguments, call.name)
        if found := re.fullmatch(r"ld\.global\.c[gv]\.b(\d+) \$0, \[\$1\];", assembly):
            # Other threads may change this memory, and a thread may wait for it, see ir.py.
            size = int(found[1]) // 8
            made = ir.instructions.LoadAtomicInstr
            return made(self.block, arguments[0], "unordered", size, call.name, call.type)
        if re.fullmatch(r"ld\.global\.\w+\.b\d+ \$0, \[\$1\];", assembly):
            return ir.LoadInstr(self.block, arguments[0], call.name, typ=call.type)
        if re.fullmatch(r"st\.global\.\w+\.b\d+ \[\$0\], \$1;", assembly):
            made = ir.StoreInstr(self.block, arguments[1], arguments[0])
            made.align = None
            return made
        raise refused(self._label, f"inline PTX ({assembly})")


def _without_metadata(value: Any) -> Any:
    made = copy.copy(value)
    made.metadata = {}
    return made
