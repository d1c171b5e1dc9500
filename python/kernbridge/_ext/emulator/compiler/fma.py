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

from dataclasses import dataclass, field

from kernbridge._src.llvm.text import Function, Instruction, Module, with_declared

_ARITHMETIC = {"fmul", "fadd", "fsub", "fneg"}
_DIVISIONS = {"sdiv", "udiv", "srem", "urem"}
_NOT_SPLITTING = ("llvm.", "__nv_fmin", "__nv_fmax", "__nv_fabs", "asm")
_OF_BOUNDS = ("%kb.inside", "%kb.rest")  # blocks of isolated_compile.py, not of the GPU's code
_TO_INTEGER = {f"llvm.fpto{sign}i.sat.i64.f64": sign for sign in "su"}
_FROM_INTEGER = {"sitofp": "s", "uitofp": "u"}
_USES_MAX = 4  # of a product that NVVM fuses
_SUFFIX = {"float": "f32", "double": "f64"}


@dataclass(eq=False)
class _Line:
    """An instruction that computes, with the instructions that read its result."""

    instruction: Instruction
    block: int
    part: int  # of the block, where ptxas splits it
    users: list[_Line | None] = field(default_factory=list)  # None: another kind of instruction
    takes: _Line | None = None  # the product that is fused into this sum

    def __post_init__(self) -> None:
        self.result, self.operation = self.instruction.result, self.instruction.opcode
        self.kind = self.instruction.type
        self.operands = [operand.value for operand in self.instruction.operands]


def fused(text: str) -> str:
    """The module in which sums whose products are fused are calls of llvm.fma."""
    module = Module(text)
    kinds = set().union(*map(_fuse, module.defined.values()))
    declared = (f"{k} @llvm.fma.{_SUFFIX[k]}({k}, {k}, {k})" for k in sorted(kinds))
    return with_declared(f"{module}\n", declared)


def without_fences(text: str) -> str:
    """The module without the fences that protect `__fmul_rn` and similar functions."""
    module = Module(text)
    for i in module.instructions("call"):
        if i.callee.startswith("llvm.arithmetic.fence."):
            i.text = f"  {i.result} = bitcast {i.type} {i.operands[0].value} to {i.type}"
    return str(module)


def _fuse(function: Function) -> set[str]:
    """Rewrite a function; return the types for which llvm.fma is called."""
    _keep_integers(function)
    found = _read(function)
    for line in found.values():
        if line.operation == "fadd":
            products = (found.get(operand) for operand in line.operands)
            line.takes = next((p for p in products if p and _only_sums_read(p)), None)
    for line in found.values():
        if line.operation == "fmul":
            _settle(line, found)
    kinds = set()
    for line in found.values():
        if line.takes:
            line.instruction.text = _written(line, found)
            kinds.add(line.kind)
    return kinds


def _keep_integers(function: Function) -> None:
    """Remove conversions of an integer to a double and back, as ptxas does."""
    calls = (i for i in function.instructions if i.opcode == "call")
    for i in (i for i in calls if i.callee in _TO_INTEGER):
        made = function.defined.get(i.operands[0].value)
        signs = made and ("su" if "nneg" in made.flags else _FROM_INTEGER.get(made.opcode, ""))
        if made and signs and _TO_INTEGER[i.callee] in signs and made.operands[0].type == "i64":
            i.text = f"  {i.result} = add i64 {made.operands[0].value}, 0"


def _read(function: Function) -> dict[str, _Line]:
    found: dict[str, _Line] = {}
    others: list[str] = []
    block = part = 0
    for n, i in enumerate(function.instructions):
        if i is i.block.instructions[0] and not i.block.name.startswith(_OF_BOUNDS):
            block = part = n
        if _splits(i):
            part = n
        if i.opcode in _ARITHMETIC and i.type in _SUFFIX:
            found[i.result] = _Line(i, block, part)
        else:
            others += i.names
    for line in found.values():
        for operand in line.operands:
            if operand in found:
                found[operand].users.append(line)
    for name in set(others).intersection(found):
        found[name].users.append(None)
    return found


def _splits(i: Instruction) -> bool:
    if i.opcode == "call":
        return not i.callee.startswith(_NOT_SPLITTING) or i.callee.startswith("llvm.sqrt.")
    return i.opcode == "fdiv" or (i.opcode in _DIVISIONS and i.type == "i64")


def _only_sums_read(product: _Line) -> bool:
    return (
        product.operation == "fmul"
        and len(product.users) <= _USES_MAX
        and all(u and u.operation == "fadd" and u.block == product.block for u in product.users)
    )


def _sums(product: _Line, value: _Line) -> list[_Line] | None:
    """The sums that can take a product, through negations; None if something else reads it."""
    sums = []
    for user in value.users:
        if user is None or user.part != product.part or user.operation == "fmul":
            return None
        if user.operation == "fneg":
            below = _sums(product, user)
            if below is None:
                return None
            sums += below
            continue
        if user.takes is product:
            continue
        if user.takes or user.operands.count(value.result) > 1:
            return None
        sums.append(user)
    return sums


def _product_of(name: str, found: dict[str, _Line]) -> _Line | None:
    line = found.get(name)
    while line and line.operation == "fneg":
        line = found.get(line.operands[0])
    return line if line and line.operation == "fmul" else None


def _settle(product: _Line, found: dict[str, _Line]) -> None:
    """Fuse a product into all sums that read it, or into none, as ptxas does."""
    sums = _sums(product, product)
    if not sums:
        return
    for line in sums:
        other = _product_of(line.operands[0], found)
        if other and other is not product and _sums(other, other):
            return  # the first of two products is fused
    for line in sums:
        line.takes = product


def _written(line: _Line, found: dict[str, _Line]) -> str:
    product = line.takes
    assert product
    at = 0 if _product_of(line.operands[0], found) is product else 1
    negated = at == 1 and line.operation == "fsub"
    name = line.operands[at]
    while found[name] is not product:
        negated = not negated
        name = found[name].operands[0]
    a, b = product.operands
    c = line.operands[1 - at]
    kind, before = line.kind, []
    if negated:
        before.append(f"  {_name(line.result, 'a')} = fneg {kind} {a}")
        a = _name(line.result, "a")
    if at == 0 and line.operation == "fsub":
        before.append(f"  {_name(line.result, 'c')} = fneg {kind} {c}")
        c = _name(line.result, "c")
    flags = "".join(f"{flag} " for flag in line.instruction.flags)
    call = f"call {flags}{kind} @llvm.fma.{_SUFFIX[kind]}({kind} {a}, {kind} {b}, {kind} {c})"
    return "\n".join([*before, f"  {line.result} = {call}"])


def _name(result: str, part: str) -> str:
    if result.endswith('"'):
        return f'{result[:-1]}.kb.{part}"'
    return f"%kb.v{result[1:]}.{part}" if result[1:].isdigit() else f"{result}.kb.{part}"
