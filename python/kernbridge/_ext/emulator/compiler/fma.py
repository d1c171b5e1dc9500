"""Fuses products and sums of a kernel for the CPU where NVVM and ptxas fuse them on a GPU.

Both may do so by default. The machine code of CUDA 13 shows these rules:

- NVVM fuses a product into each sum that reads it if at most four instructions read it, all of them
  sums in the same block; of two products in a sum, the first is fused.
- ptxas then fuses a product into all sums and differences that read it, through negations, if
  nothing else reads it, and no division, root or call lies in between.
- Functions of libdevice such as `fmul_rn` are never fused. Fences keep their instructions apart.

This works on text: llvmlite cannot change an instruction of a parsed module, and LLVM renumbers a
whole function to print one instruction.
"""

from __future__ import annotations

from kernbridge._src.llvm.text import Function, Instruction, Module, declared_once

_ARITHMETIC = {"fmul", "fadd", "fsub", "fneg"}
_DIVISIONS = {"sdiv", "udiv", "srem", "urem"}
_NOT_SPLITTING = ("llvm.", "__nv_fmin", "__nv_fmax", "__nv_fabs", "asm")
_OF_BOUNDS = ("%kb.inside", "%kb.rest")  # blocks of isolated_compile.py, not of the GPU's code
_TO_INTEGER = {f"llvm.fpto{sign}i.sat.i64.f64": sign for sign in "su"}
_FROM_INTEGER = {"sitofp": "s", "uitofp": "u"}
_USES_MAX = 4  # of a product that NVVM fuses
_SUFFIX = {"float": "f32", "double": "f64"}


def fused(text: str) -> str:
    """The module in which sums whose products are fused are calls of llvm.fma."""
    module = Module(text)
    kinds = {kind for f in module.defined.values() for kind in _Fusion(f).fuse()}
    declared = (f"declare {k} @llvm.fma.{_SUFFIX[k]}({k}, {k}, {k})\n" for k in sorted(kinds))
    return declared_once("".join((f"{module}\n", *declared)))


def without_fences(text: str) -> str:
    """The module without the fences that protect `__fmul_rn` and similar functions."""
    module = Module(text)
    for i in module.instructions("call"):
        if i.callee.startswith("llvm.arithmetic.fence."):
            i.text = f"  {i.result} = bitcast {i.type} {i.operands[0].value} to {i.type}"
    return str(module)


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
    return i.opcode == "fdiv" or (i.opcode in _DIVISIONS and i.type == "i64")


class _Fusion:
    """The instructions of a function that compute, by the names of their results."""

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

    def _product_of(self, name: str) -> Instruction | None:
        i = self._found.get(name)
        while i and i.opcode == "fneg":
            i = self._found.get(i.operands[0].value)
        return i if i and i.opcode == "fmul" else None

    def _settle(self, product: Instruction) -> None:
        """Fuse a product into all sums that read it, or into none, as ptxas does."""
        sums = self._sums(product, product) or []
        for i in sums:
            other = self._product_of(i.operands[0].value)
            if other and other is not product and self._sums(other, other):
                return  # the first of two products is fused
        self._takes.update((i.result, product) for i in sums)

    def _written(self, i: Instruction, product: Instruction) -> str:
        first, second = (operand.value for operand in i.operands)
        at_first = self._product_of(first) is product
        name, c = (first, second) if at_first else (second, first)
        negated = not at_first and i.opcode == "fsub"
        while self._found[name] is not product:
            negated = not negated
            name = self._found[name].operands[0].value
        a, b = (operand.value for operand in product.operands)
        kind, before = i.type, []
        if negated:
            before.append(f"  {_name(i.result, 'a')} = fneg {kind} {a}")
            a = _name(i.result, "a")
        if at_first and i.opcode == "fsub":
            before.append(f"  {_name(i.result, 'c')} = fneg {kind} {c}")
            c = _name(i.result, "c")
        flags = "".join(f"{flag} " for flag in i.flags)
        call = f"call {flags}{kind} @llvm.fma.{_SUFFIX[kind]}({kind} {a}, {kind} {b}, {kind} {c})"
        return "\n".join([*before, f"  {i.result} = {call}"])


def _name(result: str, part: str) -> str:
    plain = result[1:].strip('"')
    return f'%"{plain}.kb.{part}"'
