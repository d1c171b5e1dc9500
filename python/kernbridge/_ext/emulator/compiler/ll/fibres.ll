

; The form of kernels that have barriers, shared memory or operations of warps: src/ext/emulator runs
; each thread as a fibre.

; A kb_thread begins like a frame, with the same twelve numbers; then come, see
; src/ext/emulator/kb_thread.h and kb_layout.c:
;
; offset  what
;     48  the block's shared memory
;     56  the bytes of its dynamic shared arrays, as 32 bits

; Runs one thread. Its place is copied, since LLVM would have to read it again after every call;
; masks show that it is not negative.
define linkonce_odr void @kb.fibre(ptr %words, ptr %thread) alwaysinline {
  %frame = alloca [72 x i8], align 8
  call void @kb.fill(ptr %frame, ptr %thread)
  call void @kb.run(ptr %frame, ptr %words)
  ret void
}

define linkonce_odr void @kb.fill(ptr %frame, ptr %thread) alwaysinline {
  call void @kb.copy(ptr %frame, ptr %thread, i32 0, i32 1023)
  call void @kb.copy(ptr %frame, ptr %thread, i32 1, i32 1023)
  call void @kb.copy(ptr %frame, ptr %thread, i32 2, i32 1023)
  call void @kb.copy(ptr %frame, ptr %thread, i32 3, i32 2047)
  call void @kb.copy(ptr %frame, ptr %thread, i32 4, i32 2047)
  call void @kb.copy(ptr %frame, ptr %thread, i32 5, i32 2047)
  call void @kb.copy(ptr %frame, ptr %thread, i32 6, i32 2147483647)
  call void @kb.copy(ptr %frame, ptr %thread, i32 7, i32 2147483647)
  call void @kb.copy(ptr %frame, ptr %thread, i32 8, i32 2147483647)
  call void @kb.copy(ptr %frame, ptr %thread, i32 9, i32 2147483647)
  call void @kb.copy(ptr %frame, ptr %thread, i32 10, i32 2147483647)
  call void @kb.copy(ptr %frame, ptr %thread, i32 11, i32 2147483647)
  %thread.at = getelementptr i8, ptr %frame, i64 48
  store ptr %thread, ptr %thread.at
  %from = getelementptr i8, ptr %thread, i64 48
  %shared = load ptr, ptr %from
  %shared.at = getelementptr i8, ptr %frame, i64 56
  store ptr %shared, ptr %shared.at
  ret void
}

; Both structures begin with the same twelve numbers.
define linkonce_odr void @kb.copy(ptr %frame, ptr %thread, i32 %which, i32 %mask) alwaysinline {
  %from = getelementptr i32, ptr %thread, i32 %which
  %any = load i32, ptr %from
  %n = and i32 %any, %mask
  %to = getelementptr i32, ptr %frame, i32 %which
  store i32 %n, ptr %to
  ret void
}

define linkonce_odr ptr @kb.thread() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr i8, ptr %frame, i64 48
  %thread = load ptr, ptr %at
  ret ptr %thread
}

define linkonce_odr ptr @kb.shared(i64 %offset) alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr i8, ptr %frame, i64 56
  %shared = load ptr, ptr %at
  %array = getelementptr i8, ptr %shared, i64 %offset
  ret ptr %array
}

define linkonce_odr i32 @kb.dynamic_shared() alwaysinline {
  %thread = call ptr @kb.thread()
  %at = getelementptr i8, ptr %thread, i64 56
  %size = load i32, ptr %at
  ret i32 %size
}

declare void @kb_write_outside(ptr, ptr) noreturn cold

; A write to array number %which leaves it if %is: the block ends at once.
define linkonce_odr void @kb.outside(i1 %is, i64 %which) alwaysinline {
  br i1 %is, label %outside, label %inside

outside:
  %thread = call ptr @kb.thread()
  %at = getelementptr ptr, ptr @kb.outside.all, i64 %which
  %what = load ptr, ptr %at
  call void @kb_write_outside(ptr %thread, ptr %what)
  unreachable

inside:
  ret void
}


; The checked mode, see src/ext/emulator/kb_check.h. The address of the rows of the launch's arrays lies
; behind what other frames have.

declare ptr @kb_check_rows_of(ptr)
declare void @kb_check_touch(ptr, i64, i64, i64, i32, i64)
declare ptr @kb_check_ask(ptr, ptr, i64, i32, i64) cold
declare ptr @kb_check_wrong(ptr, ptr, i64, i64, i32) cold
declare ptr @kb_check_local_array(ptr, ptr, i32)
declare ptr @kb_check_shared_array(ptr, i32)
declare void @kb_check_fenced(ptr)
declare void @kb_check_grid(ptr)

define linkonce_odr void @kb.fibre.checked(ptr %words, ptr %thread) alwaysinline {
  %frame = alloca [72 x i8], align 8
  call void @kb.fill(ptr %frame, ptr %thread)
  %rows = call ptr @kb_check_rows_of(ptr %thread)
  %at = getelementptr i8, ptr %frame, i64 64
  store ptr %rows, ptr %at
  call void @kb.run(ptr %frame, ptr %words)
  ret void
}

; The address of an argument, with the number of its row.
define linkonce_odr i64 @kb.check.argument(i64 %address, i64 %row) alwaysinline {
  %bare = and i64 %address, 281474976710655
  %tag = shl i64 %row, 48
  %tagged = or i64 %bare, %tag
  ret i64 %tagged
}

; The memory to access in place of %at. What lies inside of an array that nobody writes to is known
; here; the rest is asked for. %how is the kind of the access and its place.
define linkonce_odr ptr @kb.check.access(ptr %at, i64 %size, i32 %how, i64 %value) alwaysinline {
  %word = ptrtoint ptr %at to i64
  %row = lshr i64 %word, 48
  %address = and i64 %word, 281474976710655
  %memory = inttoptr i64 %address to ptr
  %frame = call ptr @kb.frame()
  %rows.at = getelementptr i8, ptr %frame, i64 64
  %rows = load ptr, ptr %rows.at
  %n = load i64, ptr %rows
  %known = icmp ult i64 %row, %n
  br i1 %known, label %look, label %ask

look:
  %behind = shl i64 %row, 5
  %from = add i64 %behind, 32
  %first.at = getelementptr i8, ptr %rows, i64 %from
  %first = load i64, ptr %first.at
  %room.at = getelementptr i8, ptr %first.at, i64 8
  %room = load i64, ptr %room.at
  %offset = sub i64 %address, %first
  %begins = icmp ult i64 %offset, %room
  %left = sub i64 %room, %offset
  %ends = icmp ule i64 %size, %left
  %inside = and i1 %begins, %ends
  br i1 %inside, label %measured, label %ask

measured:
  %cells.at = getelementptr i8, ptr %first.at, i64 16
  %cells = load ptr, ptr %cells.at
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
  ret ptr %memory
}

; The address %made, which an index made, and which knows of it if the index leaves its axis. These
; are the comparisons that kernels make.
define linkonce_odr ptr @kb.check.axis(ptr %made, i64 %index, i64 %extent, i32 %axis) alwaysinline {
entry:
  %before = icmp slt i64 %index, 0
  %behind = icmp sge i64 %index, %extent
  %outside = or i1 %before, %behind
  br i1 %outside, label %wrong, label %known

wrong:
  %thread = call ptr @kb.thread()
  %other = call ptr @kb_check_wrong(
    ptr %thread, ptr %made, i64 %index, i64 %extent, i32 %axis)
  br label %known

known:
  %use = phi ptr [ %made, %entry ], [ %other, %wrong ]
  ret ptr %use
}

define linkonce_odr ptr @kb.check.local(ptr %array, i32 %which) alwaysinline {
  %thread = call ptr @kb.thread()
  %use = call ptr @kb_check_local_array(ptr %thread, ptr %array, i32 %which)
  ret ptr %use
}

define linkonce_odr ptr @kb.check.shared(i32 %which) alwaysinline {
  %thread = call ptr @kb.thread()
  %array = call ptr @kb_check_shared_array(ptr %thread, i32 %which)
  ret ptr %array
}

define linkonce_odr void @kb.check.fence() alwaysinline {
  %thread = call ptr @kb.thread()
  call void @kb_check_fenced(ptr %thread)
  ret void
}

define linkonce_odr void @kb.check.grid() alwaysinline {
  %thread = call ptr @kb.thread()
  call void @kb_check_grid(ptr %thread)
  ret void
}
