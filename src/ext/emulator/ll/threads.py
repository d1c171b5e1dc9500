"""What runs the threads of a block, and what these call: barriers, operations of warps, checks.

A function is named after what Numba-CUDA calls, with "kb." in place of "llvm.nvvm.". Functions of C
are declared in src/ext/emulator/kb_thread.h, kb_check.h and kb_reshape.h.
"""

from __future__ import annotations

from itertools import product

from expressions import Value, arguments, call, returned

_REGISTERS = [f"{name}.{x}" for name in ("tid", "ntid", "ctaid", "nctaid") for x in "xyz"]
_PAIR = "{ i32, i1 }"  # a word and a predicate, for which C returns 64 bits
_SHAPES = "i64 %n, ptr %d, ptr %s, i64 %n1, ptr %d1, ptr %s1, i64 %size, i32 %fortran"


def _asking(
    called: str,
    parameters: str,
    result: str = "void",
    waits: bool = False,
    first: str = "",
    given: str | None = None,
) -> str:
    """A function that calls one of C with its thread, and with the place where the thread waits."""
    given = parameters if given is None else given
    passed = ", ".join(filter(None, ("ptr %thread", given, "i32 %site" * waits)))
    body = f"call {result} @{called}({passed}) ret void"
    if result == _PAIR:
        body = f"""%w = call i64 @{called}({passed})
            %r = call {_PAIR} @kb.unpack(i64 %w) ret {_PAIR} %r"""
    elif result != "void":
        body = f"%r = call {result} @{called}({passed}) ret {result} %r"
    site = "%site = call i32 @kb.site()" if waits else ""
    return f"{result} ({parameters}) {{ %thread = call ptr @kb.thread() {site} {first} {body} }}"


def _numbers(*names: str) -> list[Value]:
    """Begins a function without parameters with the numbers of its thread that have these names."""
    function = Value("", [], "", "")
    return [function.made("i32", f"call i32 @kb.{name}()") for name in names]


def of_gpus() -> dict[str, str]:
    fence = "void () { fence seq_cst ret void }"
    shuffled = "i32 %m, i32 %mode, i32 %v, i32 %b, i32 %c"
    widened, voted = "%v = zext i1 %p to i32", "i32 %m, i32 %mode, i32 %v"
    asserted = "ptr %what, ptr %file, i32 %line"
    x, y, z, nx, ny = _numbers("tid.x", "tid.y", "tid.z", "ntid.x", "ntid.y")
    (lane,) = _numbers("laneid")
    (both,) = arguments("i64 %both")
    low, predicate = both.to("i32", "trunc"), both.by("lshr", 32).to("i1", "trunc")
    word = both.made(_PAIR, f"insertvalue {_PAIR} undef, {low}, 0")
    found = {
        "kb.warpsize": "i32 () { ret i32 32 }",
        "kb.laneid": returned((x + nx * (y + ny * z)) & 31),
        "kb.lanemask_lt": returned(lane.made("i32", f"shl i32 1, {lane.name}") - 1),
        "kb.barrier0": _asking("kb_barrier", "", waits=True),
        "kb.barrier.grid": _asking("kb_grid_barrier", "", waits=True),
        "cudaCGGetIntrinsicHandle": "i64 (i32 %scope) { ret i64 1 }",
        "cudaCGSynchronize": """i32 (i64 %grid, i32 %flags) {
            call void @kb.barrier.grid() ret i32 0 }""",
        "kb.unpack": returned(word.made(_PAIR, f"insertvalue {word}, {predicate}, 1")),
        "kb.bar.warp.sync": _asking("kb_warp_barrier", "i32 %mask", waits=True),
        "kb.active_mask": _asking("kb_active_mask", "", "i32", waits=True),
        "kb.shfl.sync.i32": _asking("kb_shuffle", shuffled, _PAIR, waits=True),
        "kb.vote.sync": _asking("kb_vote", "i32 %m, i32 %mode, i1 %p", _PAIR, True, widened, voted),
        "kb.match": _asking("kb_match", "i32 %m, i32 %all, i64 %v", "i64", waits=True),
        # A loop with a fence is one that may wait for other threads, see ir.py.
        "kb.nanosleep": fence.replace("()", "(i32 %ns)"),
        "vprintf": returned(call("i32", "kb_print", *arguments("ptr %format, ptr %arguments"))),
        "numba_attempt_nocopy_reshape": returned(call("i32", "kb_reshape", *arguments(_SHAPES))),
        # Kernels with debug=True: the thread comes to a place of the source, or raises.
        "kb.place": _asking("kb_place", "ptr %place"),
        "kb.raise": _asking("kb_raise", "ptr %what"),
        # What kernbridge's own kernels for GPUs call in place of an exception.
        "__assertfail": f"""void ({asserted}, ptr %function, i64 %size) {{
            call void @kb.raise(ptr %what) ret void }}""",
        # What `assert` of CUDA C++ calls, as the C library names it.
        "__assert_fail": _asking("kb_assert", f"{asserted}, ptr %function", given=asserted),
        "kb.tanh.approx.f32": returned(call("float", "__nv_tanhf", *arguments("float %v"))),
    }
    found |= {f"kb.membar.{scope}": fence for scope in ("gl", "cta", "sys")}
    for kind, name in enumerate(("popc", "and", "or")):  # a kb_reduction
        given = f"i32 {kind}, i32 %p"
        reduced = _asking("kb_barrier_reduce", "i32 %p", "i32", waits=True, given=given)
        found[f"kb.barrier0.{name}"] = reduced
    for (all_, name), bits in product(enumerate(("any", "all")), (32, 64)):
        m, v = arguments(f"i32 %m, i{bits} %v")
        lanes = call("i64", "kb.match", m, f"i32 {all_}", v.to("i64", "zext") if bits == 32 else v)
        matched = call(_PAIR, "kb.unpack", lanes) if all_ else lanes.to("i32", "trunc")
        found[f"kb.match.{name}.sync.i{bits}"] = returned(matched)
    return found


def registers() -> dict[str, str]:
    return {
        f"kb.{name}": f"""i32 () {{
            %frame = call ptr @kb.frame()
            {_load("n", "i32", "%frame", 4 * i)} ret i32 %n }}"""
        for i, name in enumerate(_REGISTERS)
    }


def _load(name: str, kind: str, base: str, offset: int) -> str:
    return f"""%{name}.at = getelementptr i8, ptr {base}, i64 {offset}
        %{name} = load {kind}, ptr %{name}.at"""


def loops() -> dict[str, str]:
    places = " ".join(
        f"%{name} = getelementptr i8, ptr %frame, i64 {4 * i}" for i, name in enumerate(_REGISTERS)
    )
    extents = index = ""
    for i, (x, largest) in enumerate((("x", 2147483647), ("y", 65535), ("z", 65535))):
        extents += f"""{_load(f"g{x}", "i32", "%sizes", 4 * i)}
            store i32 %g{x}, ptr %nctaid.{x}
            {_load(f"any{x}", "i32", "%sizes", 12 + 4 * i)}
            %b{x} = and i32 %any{x}, 2047
            store i32 %b{x}, ptr %ntid.{x} """
        index += f"""%c{x}.any = trunc i64 %c{x}64 to i32
            %c{x} = and i32 %c{x}.any, {largest}
            store i32 %c{x}, ptr %ctaid.{x} """
    inside = "call void @kb.run(ptr %frame, ptr %words) br label %x.end"
    for x, outer in (("x", "y"), ("y", "z"), ("z", "block")):
        inside = f"""br label %{x}
{x}:
  %i{x} = phi i32 [ 0, %{outer}.begin ], [ %{x}.next, %{x}.end ]
  %{x}.more = icmp ult i32 %i{x}, %b{x}
  br i1 %{x}.more, label %{x}.begin, label %{outer}.end
{x}.begin:
  store i32 %i{x}, ptr %tid.{x}
  {inside}
{x}.end:
  %{x}.next = add nuw nsw i32 %i{x}, 1
  br label %{x}"""
    return {
        **registers(),
        # Runs the blocks from %begin to before %end. %sizes has the extents of the grid and of its
        # blocks. If a write would have left its array, its description goes to %found.
        "kb.loops": f"""void (ptr %words, ptr %sizes, i64 %begin, i64 %end, ptr %found) {{
entry:
  %frame = alloca [72 x i8], align 8
  {places}
  %outside = getelementptr i8, ptr %frame, i64 64
  store i64 0, ptr %outside
  {extents}
  %gx64 = zext i32 %gx to i64
  %gy64 = zext i32 %gy to i64
  br label %block
block:
  %b = phi i64 [ %begin, %entry ], [ %b.next, %block.end ]
  %b.more = icmp slt i64 %b, %end
  br i1 %b.more, label %block.begin, label %done
block.begin:
  %cx64 = urem i64 %b, %gx64
  %row = udiv i64 %b, %gx64
  %cy64 = urem i64 %row, %gy64
  %cz64 = udiv i64 %row, %gy64
  {index}
  {inside}
block.end:
  %b.next = add nuw nsw i64 %b, 1
  br label %block
done:
  %bits = load i64, ptr %outside
  %inside = icmp eq i64 %bits, 0
  br i1 %inside, label %return, label %report
report:
  %first = call i64 @llvm.cttz.i64(i64 %bits, i1 true)
  %at = getelementptr ptr, ptr @kb.outside.all, i64 %first
  %what = load ptr, ptr %at
  store ptr %what, ptr %found
  br label %return
return:
  ret void }}""",
        # A write to array number %which, less than 64, leaves it if %is. The answer becomes a bit
        # of a number, which LLVM keeps in a register.
        "kb.outside": f"""void (i1 %is, i64 %which) {{
            %frame = call ptr @kb.frame()
            %bit = shl i64 1, %which
            %new = select i1 %is, i64 %bit, i64 0
            {_load("old", "i64", "%frame", 64)}
            %both = or i64 %old, %new
            store i64 %both, ptr %old.at ret void }}""",
    }


def fibres() -> dict[str, str]:
    frame = "%frame = call ptr @kb.frame()"
    address, row = arguments("i64 %address, i64 %row")
    masks = [1023] * 3 + [2047] * 3 + [2147483647] * 6
    copies = " ".join(
        f"""{_load(f"any{i}", "i32", "%thread", 4 * i)}
            %n{i} = and i32 %any{i}, {mask}
            %to{i} = getelementptr i8, ptr %frame, i64 {4 * i}
            store i32 %n{i}, ptr %to{i}"""
        for i, mask in enumerate(masks)
    )
    rows = """%rows = call ptr @kb_check_rows_of(ptr %thread)
        %at = getelementptr i8, ptr %frame, i64 64
        store ptr %rows, ptr %at"""
    # Runs one thread. Its place is copied, since LLVM would have to read it again after every call;
    # masks show that it is not negative.
    found = {
        name: f"""void (ptr %words, ptr %thread) {{
            %frame = alloca [72 x i8], align 8
            call void @kb.fill(ptr %frame, ptr %thread) {more}
            call void @kb.run(ptr %frame, ptr %words) ret void }}"""
        for name, more in (("kb.fibre", ""), ("kb.fibre.checked", rows))
    }
    return {
        **registers(),
        **found,
        "kb.fill": f"""void (ptr %frame, ptr %thread) {{ {copies}
            %thread.at = getelementptr i8, ptr %frame, i64 48
            store ptr %thread, ptr %thread.at
            {_load("shared", "ptr", "%thread", 48)}
            %to = getelementptr i8, ptr %frame, i64 56
            store ptr %shared, ptr %to ret void }}""",
        "kb.thread": f"""ptr () {{ {frame}
            {_load("thread", "ptr", "%frame", 48)} ret ptr %thread }}""",
        "kb.shared": f"""ptr (i64 %offset) {{ {frame}
            {_load("shared", "ptr", "%frame", 56)}
            %array = getelementptr i8, ptr %shared, i64 %offset ret ptr %array }}""",
        "kb.dynamic_shared": f"""i32 () {{ %thread = call ptr @kb.thread()
            {_load("size", "i32", "%thread", 56)} ret i32 %size }}""",
        # A write to array number %which leaves it if %is: the block ends at once.
        "kb.outside": """void (i1 %is, i64 %which) {
  br i1 %is, label %outside, label %inside
outside:
  %thread = call ptr @kb.thread()
  %at = getelementptr ptr, ptr @kb.outside.all, i64 %which
  %what = load ptr, ptr %at
  call void @kb_write_outside(ptr %thread, ptr %what)
  unreachable
inside:
  ret void }""",
        # The address of an argument, with the number of its row.
        "kb.check.argument": returned((address & (2**48 - 1)) | row.by("shl", 48)),
        # The memory to access in place of %at. What lies inside of an array that nobody writes to
        # is known here; the rest is asked for. %how is the kind of the access and its place.
        "kb.check.access": f"""ptr (ptr %at, i64 %size, i32 %how, i64 %value) {{
  %word = ptrtoint ptr %at to i64
  %row = lshr i64 %word, 48
  %address = and i64 %word, 281474976710655
  %memory = inttoptr i64 %address to ptr
  {frame}
  {_load("rows", "ptr", "%frame", 64)}
  %n = load i64, ptr %rows
  %known = icmp ult i64 %row, %n
  br i1 %known, label %look, label %ask
look:
  %behind = shl i64 %row, 5
  %place = getelementptr i8, ptr %rows, i64 %behind
  {_load("first", "i64", "%place", 32)}
  {_load("room", "i64", "%place", 40)}
  %offset = sub i64 %address, %first
  %begins = icmp ult i64 %offset, %room
  %left = sub i64 %room, %offset
  %ends = icmp ule i64 %size, %left
  %inside = and i1 %begins, %ends
  br i1 %inside, label %measured, label %ask
measured:
  {_load("cells", "ptr", "%place", 48)}
  %plain = icmp eq ptr %cells, null
  br i1 %plain, label %done, label %touch
touch:
  %thread = call ptr @kb.thread()
  call void @kb_check_touch(ptr %thread, i64 %row, i64 %offset, i64 %size, i32 %how, i64 %value)
  br label %done
ask:
  %asking = call ptr @kb.thread()
  %asked = call ptr @kb_check_ask(ptr %asking, ptr %at, i64 %size, i32 %how, i64 %value)
  br label %done
done:
  ret ptr %memory }}""",
        # The address %made, which an index made, and which knows of it if the index leaves its
        # axis. These are the comparisons that kernels make.
        "kb.check.axis": """ptr (ptr %made, i64 %index, i64 %extent, i32 %axis) {
entry:
  %before = icmp slt i64 %index, 0
  %behind = icmp sge i64 %index, %extent
  %outside = or i1 %before, %behind
  br i1 %outside, label %wrong, label %known
wrong:
  %thread = call ptr @kb.thread()
  %other = call ptr @kb_check_wrong(ptr %thread, ptr %made, i64 %index, i64 %extent, i32 %axis)
  br label %known
known:
  %use = phi ptr [ %made, %entry ], [ %other, %wrong ]
  ret ptr %use }""",
        "kb.check.local": _asking("kb_check_local_array", "ptr %array, i32 %which", "ptr"),
        "kb.check.shared": _asking("kb_check_shared_array", "i32 %which", "ptr"),
        "kb.check.fence": _asking("kb_check_fenced", ""),
        "kb.check.grid": _asking("kb_check_grid", ""),
    }


def nrt() -> dict[str, str]:
    counting = """void (ptr %memory) {{
  %none = icmp eq ptr %memory, null
  br i1 %none, label %return, label %count
count:
  %before = atomicrmw {}
return:
  ret void }}"""
    return {
        "NRT_MemInfo_data_fast": f"""ptr (ptr %memory) {{
            {_load("data", "ptr", "%memory", 24)} ret ptr %data }}""",
        "NRT_incref": counting.format("add ptr %memory, i64 1 monotonic br label %return"),
        "NRT_decref": counting.format("""sub ptr %memory, i64 1 acq_rel
  %last = icmp eq i64 %before, 1
  br i1 %last, label %free, label %return
free:
  call void @NRT_MemInfo_call_dtor(ptr %memory)
  br label %return"""),
    }


_GPU = """\
; What only GPUs have: barriers, operations of warps, fences and the functions that the CUDA runtime
; provides. kb.thread and the numbers of a thread's place are in loops.ll or fibres.ll, when the
; kernel is known not to wait or to wait. Each call of kb.site becomes the number of a place where
; threads wait, once it is inlined.
"""
_FRAME = """\
; A frame is what a thread knows of its place. @kb_thread gets it as its first parameter, which
; each call of @kb.frame becomes once everything is inlined there.
;
; offset  what
;      0  the thread's index in its block: x, y, z
;     12  the block's extents
;     24  the block's index in the grid
;     36  the grid's extents
;     48  of fibres: the kb_thread, which begins with the same twelve numbers
;     56  of fibres: the block's shared memory
;     64  of loops: the arrays that a write would have left, one bit for each
;         of fibres in checked mode: the rows of the launch's arrays
;     72  its size
;
; Structures have no names here: LLVM renames one that the process has already, so that the text of
; a kernel would depend on what was compiled before.

; The descriptions of the arrays that the kernel writes to.
@kb.outside.all = external constant [0 x ptr]
"""
_LOOPS = """\
; The form of kernels whose threads do not wait for each other: threads run one after the other,
; which is one of the orders that CUDA allows.
;
; Masks show LLVM that indices are not negative, without which it cannot see that neighbouring
; threads touch neighbouring elements.
;
"""
_FIBRES = """\
; The form of kernels that have barriers, shared memory or operations of warps: each thread runs as
; a fibre, see src/ext/emulator/kb_fibre.h. kb.check.* are of the checked mode, see kb_check.h. Of a
; kb_thread, see kb_thread.h and kb_layout.c, the block's shared memory is read at 48, and the bytes
; of its dynamic shared arrays at 56.
;
"""
_NRT = """\
; Numba-CUDA's runtime for arrays that a kernel makes: memory with reference counts. An array that
; is an argument has none. A kb_nrt_memory begins with its references, and its data follow at 24.
; src/object/kb_nrt.h has the C functions named NRT_*. What a thread holds when its block ends with
; a fault is never given back.
"""

FILES = {
    "nrt.ll": (_NRT, nrt),
    "gpu.ll": (_GPU, of_gpus),
    "loops.ll": (_LOOPS + _FRAME, loops),
    "fibres.ll": (_FIBRES + _FRAME, fibres),
}
