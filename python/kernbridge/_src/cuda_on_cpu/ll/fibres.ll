

; The form of kernels that have barriers, shared memory or operations of warps: src/hostcuda runs
; each thread as a fibre.

; A kb_thread begins like a frame, with the same twelve numbers; then come, see
; src/hostcuda/kb_thread.h and kb_layout.c:
;
; offset  what
;     48  the block's shared memory
;     56  the bytes of its dynamic shared arrays, as 32 bits

; Runs one thread. Its place is copied, since LLVM would have to read it again after every call;
; masks show that it is not negative.
define linkonce_odr void @kb.fibre(ptr %words, ptr %thread) alwaysinline {
  %frame = alloca [72 x i8], align 8
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
  call void @kb.run(ptr %frame, ptr %words)
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


; The checked mode, see src/hostcuda/kb_check.h.

declare ptr @kb_check_access(ptr, ptr, i64, i32, i32, ptr)
declare ptr @kb_check_local(ptr, ptr, i32)
declare ptr @kb_check_shared(ptr, i32)
declare void @kb_check_index(ptr, i64, i64, i32)
declare ptr @kb_check_pointer(ptr, ptr)
declare void @kb_check_fence(ptr)

define linkonce_odr ptr @kb.check.access(ptr %at, i64 %size, i32 %kind, i32 %site, ptr %value) alwaysinline {
  %thread = call ptr @kb.thread()
  %use = call ptr @kb_check_access(
    ptr %thread, ptr %at, i64 %size, i32 %kind, i32 %site, ptr %value)
  ret ptr %use
}

define linkonce_odr ptr @kb.check.local(ptr %array, i32 %which) alwaysinline {
  %thread = call ptr @kb.thread()
  %use = call ptr @kb_check_local(ptr %thread, ptr %array, i32 %which)
  ret ptr %use
}

define linkonce_odr ptr @kb.check.shared(i32 %which) alwaysinline {
  %thread = call ptr @kb.thread()
  %array = call ptr @kb_check_shared(ptr %thread, i32 %which)
  ret ptr %array
}

define linkonce_odr void @kb.check.index(i64 %index, i64 %extent, i32 %axis) alwaysinline {
  %thread = call ptr @kb.thread()
  call void @kb_check_index(ptr %thread, i64 %index, i64 %extent, i32 %axis)
  ret void
}

define linkonce_odr ptr @kb.check.pointer(ptr %at) alwaysinline {
  %thread = call ptr @kb.thread()
  %use = call ptr @kb_check_pointer(ptr %thread, ptr %at)
  ret ptr %use
}

define linkonce_odr void @kb.check.fence() alwaysinline {
  %thread = call ptr @kb.thread()
  call void @kb_check_fence(ptr %thread)
  ret void
}
