; What a thread knows of its place: the frame, which @kb_thread gets as its first parameter.
; loops.ll or fibres.ll, which are parsed together with this file, make it.

%kb.frame = type {
  [3 x i32], ; 0: the thread's index in its block
  [3 x i32], ; 1: the block's extents
  [3 x i32], ; 2: the block's index in the grid
  [3 x i32], ; 3: the grid's extents
  ptr,       ; 4: of fibres: the kb_thread
  ptr,       ; 5: of fibres: the block's shared memory
  i64        ; 6: of loops: the arrays that a write would have left, one bit for each
}

; Each call becomes the parameter of @kb_thread once everything is inlined there.
declare ptr @kb.frame()

; The descriptions of the arrays that the kernel writes to.
@kb.outside.all = external constant [0 x ptr]

; Runs one thread. The kernel's arguments lie in %words, one after the other.
declare void @kb.run(ptr %frame, ptr %words)

define linkonce_odr i32 @kb.tid.x() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr %kb.frame, ptr %frame, i64 0, i32 0, i64 0
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.tid.y() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr %kb.frame, ptr %frame, i64 0, i32 0, i64 1
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.tid.z() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr %kb.frame, ptr %frame, i64 0, i32 0, i64 2
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.ntid.x() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr %kb.frame, ptr %frame, i64 0, i32 1, i64 0
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.ntid.y() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr %kb.frame, ptr %frame, i64 0, i32 1, i64 1
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.ntid.z() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr %kb.frame, ptr %frame, i64 0, i32 1, i64 2
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.ctaid.x() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr %kb.frame, ptr %frame, i64 0, i32 2, i64 0
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.ctaid.y() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr %kb.frame, ptr %frame, i64 0, i32 2, i64 1
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.ctaid.z() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr %kb.frame, ptr %frame, i64 0, i32 2, i64 2
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.nctaid.x() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr %kb.frame, ptr %frame, i64 0, i32 3, i64 0
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.nctaid.y() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr %kb.frame, ptr %frame, i64 0, i32 3, i64 1
  %n = load i32, ptr %at
  ret i32 %n
}

define linkonce_odr i32 @kb.nctaid.z() alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr %kb.frame, ptr %frame, i64 0, i32 3, i64 2
  %n = load i32, ptr %at
  ret i32 %n
}
