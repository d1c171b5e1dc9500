"""The reader of LLVM IR as text loses nothing, and finds what llvmlite's own objects say."""

import pytest
from llvmlite import binding

numba = pytest.importorskip("numba")
pytest.importorskip("numba_cuda", reason="the compiler of the emulator is not installed")

from kernbridge._ext.emulator.compiler.compile import Module  # noqa: E402

pytestmark = pytest.mark.once

WRITTEN = r"""
; a comment
source_filename = "written"
%"a type" = type { i64, ptr, [3 x float] }
@"a name" = private unnamed_addr constant [7 x i8] c"}\0A%x @y", align 1
@table = internal global [2 x ptr] [ptr @f, ptr @"g g"], align 8

define internal i32 @f(i32 %0, ptr noalias nonnull align 8 %p, float) #0 {
  %3 = icmp slt i32 %0, 7
  %"x y" = getelementptr inbounds %"a type", ptr %p, i64 1, i32 2, i64 0
  switch i32 %0, label %9 [
    i32 1, label %5
    i32 2, label %"the end"
  ]

5:                                                ; preds = %2
  %6 = load atomic volatile i32, ptr %p syncscope("singlethread") acquire, align 4
  %7 = atomicrmw fadd ptr %"x y", float 1.000000e+00 monotonic, align 4
  %8 = cmpxchg weak ptr %p, i32 %6, i32 -1 seq_cst monotonic, align 4
  fence seq_cst
  br label %9

9:                                                ; preds = %5, %2
  %10 = phi i32 [ %6, %5 ], [ 0, %2 ]
  %11 = call fastcc noundef i32 (ptr, ...) @"g g"(ptr noundef nonnull %p, i32 %10, float 2.0) #1
  %12 = tail call i32 asm sideeffect "mov $0, 3, }", "=r"()
  %13 = call i32 %p(ptr inttoptr (i64 64 to ptr), ptr align 8 getelementptr (i8, ptr @table, i64 8))
  %14 = select i1 %3, i32 %12, i32 %13, !prof !0
  %15 = zext i32 %14 to i64
  %16 = fadd fast <2 x float> <float 1.0, float 2.0>, zeroinitializer
  store <2 x float> %16, ptr %"x y", align 4
  br i1 %3, label %5, label %"the end"

"the end":                                        ; preds = %9, %2
  ret i32 0
}

declare noundef i32 @"g g"(ptr noundef readonly, ...) #1

attributes #0 = { nounwind "key"="a } b" }
attributes #1 = { noinline }

!0 = !{!"branch_weights", i32 1, i32 2}
"""


# An instruction, and how it is read: the result, the operation, flags, the first type, operands.
EXAMPLES = {
    "%s = fadd nnan nsz double %a, 1.000000e+00, !dbg !7": (
        "%s fadd nnan nsz | double | double %a | double 1.000000e+00"
    ),
    "%c = icmp samesign ult <2 x i64> %a, splat (i64 1)": (
        "%c icmp samesign ult | <2 x i64> | <2 x i64> %a | <2 x i64> splat (i64 1)"
    ),
    "%v = load atomic float, ptr addrspace(3) %p monotonic, align 4": (
        "%v load atomic | float | ptr addrspace(3) %p"
    ),
    "store i8* inttoptr (i64 64 to i8*), i8** %p, align 8": (
        "store | i8* | i8* inttoptr (i64 64 to i8*) | i8** %p"
    ),
    '%"a b" = getelementptr inbounds [4 x i8], ptr @t, i64 0, i64 %i': (
        '%"a b" getelementptr inbounds | [4 x i8] | ptr @t | i64 0 | i64 %i'
    ),
    '%o = atomicrmw volatile fadd ptr %p, double %x syncscope("block") seq_cst': (
        "%o atomicrmw volatile fadd | ptr | ptr %p | double %x"
    ),
    "%k = cmpxchg ptr %p, i32 0, i32 %n monotonic monotonic, align 4": (
        "%k cmpxchg | ptr | ptr %p | i32 0 | i32 %n"
    ),
    "%d = sitofp i64 %n to double": "%d sitofp | double | i64 %n",
    "%x = phi fast double [ %a, %entry ], [ 0.0, %loop ]": (
        "%x phi fast | double | double %a | double 0.0"
    ),
    "%r = tail call fastcc noundef i32 (ptr, ...) @f(ptr noundef align 8 %p, i32 3) #4": (
        "%r call fastcc noundef | i32 | ptr %p | i32 3"
    ),
    '%m = call i32 asm sideeffect "mov.u32 $0, %laneid;", "=r"()': "%m call | i32",
    "switch i8 %c, label %d [\n    i8 1, label %e\n  ]": "switch | i8 | i8 %c | label %d",
    "br i1 %c, label %then, label %else": "br | i1 | i1 %c | label %then | label %else",
    "%n = alloca [3 x { i64, ptr }], i32 2, align 16": "%n alloca | [3 x { i64, ptr }] | i32 2",
    "ret void": "ret | void",
    "unreachable": "unreachable |",
}


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_instruction_is_read(line):
    text = f"define void @f() {{\n  {line}\n}}\n"
    (i,) = Module(text).instructions()
    read = " ".join(filter(None, (i.result, i.opcode, *i.flags)))
    assert " | ".join((read, i.type, *map(" ".join, i.operands))).rstrip() == EXAMPLES[line]


def of_numba():
    def kernel(x, n, out):
        for i in range(n):
            if x[i] > 0:
                out[i] = x[i] ** 0.5 + n
            elif i % 3:
                raise ValueError(i)

    compiled = numba.njit("void(float64[::1], int64, float32[:])", fastmath=True)(kernel)
    return "".join(compiled.inspect_llvm().values())


@pytest.fixture(params=["written", "numba", "printed"], scope="module")
def text(request):
    if request.param == "numba":
        return of_numba()
    return WRITTEN if request.param == "written" else str(binding.parse_assembly(WRITTEN))


def test_nothing_is_lost(text):
    module = Module(text)
    assert str(module) == text
    for function in module.functions.values():
        assert all(i.opcode and i.operands is not None for i in function.instructions)
    assert str(module) == text


def test_what_is_read_is_what_llvm_reads(text):
    """Functions, blocks, operations, operands and their types, callees and arguments."""
    text = str(binding.parse_assembly(text))
    found = Module(text).functions
    for function in binding.parse_assembly(text).functions:
        read = found.pop(function.name)
        assert read.is_declaration == function.is_declaration
        blocks = [] if function.is_declaration else list(function.blocks)
        assert len(read.blocks) == len(blocks)
        for block, own in zip(blocks, read.blocks, strict=True):
            instructions = list(block.instructions)
            assert [i.opcode for i in instructions] == [i.opcode for i in own.instructions]
            for wanted, instruction in zip(instructions, own.instructions, strict=True):
                check(wanted, instruction)
    assert not found


def check(wanted, instruction):
    operands = list(wanted.operands)
    if wanted.opcode == "call":
        callee = operands.pop()
        assert instruction.callee.lstrip("%") == (callee.name or instruction.callee)
    if wanted.opcode in ("br", "switch", "phi", "extractvalue", "insertvalue", "alloca"):
        return  # LLVM orders these operands otherwise, or has no operands for numbers in them
    assert [str(o.type) for o in operands] == [o.type for o in instruction.operands]
    for operand, (_, value) in zip(operands, instruction.operands, strict=True):
        assert not operand.name or operand.name == value[1:].strip('"')


def test_blocks_follow_each_other_as_they_are_written():
    (function,) = Module(WRITTEN).defined.values()
    assert [block.name for block in function.blocks] == ["%2", "%5", "%9", '%"the end"']
    assert [block.targets for block in function.blocks] == [
        ["%9", "%5", '%"the end"'],
        ["%9"],
        ["%5", '%"the end"'],
        [],
    ]
    assert function.defined["%10"].incoming == [("%6", "%5"), ("0", "%2")]
    assert [i.opcode for i in function.users["%6"]] == ["cmpxchg", "phi"]
    assert function.defined["%14"].metadata == {"prof": "!0"}


def test_variables_are_read():
    name, table = Module(WRITTEN).globals.values()
    assert (name.name, name.kind, name.type) == ("a name", "constant", "[7 x i8]")
    assert name.value == r'c"}\0A%x @y"'
    assert (table.kind, table.value) == ("global", '[ptr @f, ptr @"g g"]')
