; What a thread knows of its place: the frame, which @kb_thread gets as its first parameter.
; loops.ll or fibres.ll, which are parsed together with this file, make it.

; offset  what
;      0  the thread's index in its block: x, y, z
;     12  the block's extents
;     24  the block's index in the grid
;     36  the grid's extents
;     48  of fibres: the kb_thread
;     56  of fibres: the block's shared memory
;     64  of loops: the arrays that a write would have left, one bit for each
;     72  its size
;
; Structures have no names here: LLVM renames one that the process has already, so that the text of
; a kernel would depend on what was compiled before.

; Each call becomes the parameter of @kb_thread once everything is inlined there.
declare ptr @kb.frame()

; The descriptions of the arrays that the kernel writes to.
@kb.outside.all = external constant [0 x ptr]

; Runs one thread. The kernel's arguments lie in %words, one after the other.
declare void @kb.run(ptr %frame, ptr %words)

define linkonce_odr i32 @kb.tid.x() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr i8, ptr %frame, i64 0
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.tid.y() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr i8, ptr %frame, i64 4
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.tid.z() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr i8, ptr %frame, i64 8
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.ntid.x() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr i8, ptr %frame, i64 12
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.ntid.y() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr i8, ptr %frame, i64 16
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.ntid.z() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr i8, ptr %frame, i64 20
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.ctaid.x() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr i8, ptr %frame, i64 24
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.ctaid.y() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr i8, ptr %frame, i64 28
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.ctaid.z() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr i8, ptr %frame, i64 32
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.nctaid.x() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr i8, ptr %frame, i64 36
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.nctaid.y() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr i8, ptr %frame, i64 40
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.nctaid.z() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr i8, ptr %frame, i64 44
  %n = load i32, ptr %at
  ret i32 %n
}
