; What only GPUs have: barriers, operations of warps, fences and the functions that the CUDA runtime
; provides. A function is named after what Numba-CUDA calls, with "kb." in place of "llvm.nvvm.".
; The C functions are declared in src/ext/emulator/kb_thread.h and kb_reshape.h.
;
; Every definition of these files is linkonce_odr, so that LLVM links those that a kernel needs.

declare void @kb_barrier(ptr, i32)
declare i32 @kb_barrier_reduce(ptr, i32, i32, i32)
declare void @kb_warp_barrier(ptr, i32, i32)
declare i64 @kb_shuffle(ptr, i32, i32, i32, i32, i32, i32)
declare i64 @kb_vote(ptr, i32, i32, i32, i32)
declare i64 @kb_match(ptr, i32, i32, i64, i32)
declare i32 @kb_active_mask(ptr, i32)
declare void @kb_grid_barrier(ptr, i32)
declare i32 @kb_print(ptr, ptr)
declare void @kb_assert(ptr, ptr, ptr, i32) noreturn cold
declare void @kb_place(ptr, ptr)
declare void @kb_raise(ptr, ptr) noreturn cold
declare i32 @kb_reshape(i64, ptr, ptr, i64, ptr, ptr, i64, i32)

; These are defined by loops.ll or fibres.ll, when the kernel is known not to wait or to wait.
declare ptr @kb.thread()
declare i32 @kb.tid.x()
declare i32 @kb.tid.y()
declare i32 @kb.tid.z()
declare i32 @kb.ntid.x()
declare i32 @kb.ntid.y()

; The number of the place where threads wait: each call becomes a constant once it is inlined.
declare i32 @kb.site()


; The thread's lane.

define linkonce_odr i32 @kb.warpsize() alwaysinline {
  ret i32 32
}

define linkonce_odr i32 @kb.laneid() alwaysinline {
  %tx = call i32 @kb.tid.x()
  %ty = call i32 @kb.tid.y()
  %tz = call i32 @kb.tid.z()
  %nx = call i32 @kb.ntid.x()
  %ny = call i32 @kb.ntid.y()
  %yz = mul i32 %ny, %tz
  %row = add i32 %ty, %yz
  %rows = mul i32 %nx, %row
  %linear = add i32 %tx, %rows
  %lane = and i32 %linear, 31
  ret i32 %lane
}

define linkonce_odr i32 @kb.lanemask_lt() alwaysinline {
  %lane = call i32 @kb.laneid()
  %bit = shl i32 1, %lane
  %mask = sub i32 %bit, 1
  ret i32 %mask
}


; Barriers of a block and of the grid.

define linkonce_odr void @kb.barrier0() alwaysinline {
  %thread = call ptr @kb.thread()
  %site = call i32 @kb.site()
  call void @kb_barrier(ptr %thread, i32 %site)
  ret void
}

define linkonce_odr i32 @kb.barrier0.popc(i32 %p) alwaysinline {
  %n = call i32 @kb.barrier.reduce(i32 0, i32 %p)
  ret i32 %n
}

define linkonce_odr i32 @kb.barrier0.and(i32 %p) alwaysinline {
  %n = call i32 @kb.barrier.reduce(i32 1, i32 %p)
  ret i32 %n
}

define linkonce_odr i32 @kb.barrier0.or(i32 %p) alwaysinline {
  %n = call i32 @kb.barrier.reduce(i32 2, i32 %p)
  ret i32 %n
}

; %kind is a kb_reduction.
define linkonce_odr i32 @kb.barrier.reduce(i32 %kind, i32 %p) alwaysinline {
  %thread = call ptr @kb.thread()
  %site = call i32 @kb.site()
  %n = call i32 @kb_barrier_reduce(ptr %thread, i32 %kind, i32 %p, i32 %site)
  ret i32 %n
}

define linkonce_odr i64 @cudaCGGetIntrinsicHandle(i32 %scope) alwaysinline {
  ret i64 1
}

define linkonce_odr i32 @cudaCGSynchronize(i64 %grid, i32 %flags) alwaysinline {
  %thread = call ptr @kb.thread()
  %site = call i32 @kb.site()
  call void @kb_grid_barrier(ptr %thread, i32 %site)
  ret i32 0
}

; A loop with a fence is one that may wait for other threads, see polls.py.
define linkonce_odr void @kb.nanosleep(i32 %ns) alwaysinline {
  fence seq_cst
  ret void
}


; Operations of a warp. The C functions return a word, with a predicate in bit 32.

define linkonce_odr { i32, i1 } @kb.unpack(i64 %w) alwaysinline {
  %low = trunc i64 %w to i32
  %high = lshr i64 %w, 32
  %p = trunc i64 %high to i1
  %one = insertvalue { i32, i1 } undef, i32 %low, 0
  %both = insertvalue { i32, i1 } %one, i1 %p, 1
  ret { i32, i1 } %both
}

define linkonce_odr void @kb.bar.warp.sync(i32 %mask) alwaysinline {
  %thread = call ptr @kb.thread()
  %site = call i32 @kb.site()
  call void @kb_warp_barrier(ptr %thread, i32 %mask, i32 %site)
  ret void
}

define linkonce_odr i32 @kb.active_mask() alwaysinline {
  %thread = call ptr @kb.thread()
  %site = call i32 @kb.site()
  %mask = call i32 @kb_active_mask(ptr %thread, i32 %site)
  ret i32 %mask
}

define linkonce_odr { i32, i1 } @kb.shfl.sync.i32(i32 %m, i32 %mode, i32 %v, i32 %b, i32 %c) alwaysinline {
  %thread = call ptr @kb.thread()
  %site = call i32 @kb.site()
  %w = call i64 @kb_shuffle(ptr %thread, i32 %m, i32 %mode, i32 %v, i32 %b, i32 %c, i32 %site)
  %both = call { i32, i1 } @kb.unpack(i64 %w)
  ret { i32, i1 } %both
}

define linkonce_odr { i32, i1 } @kb.vote.sync(i32 %m, i32 %mode, i1 %p) alwaysinline {
  %thread = call ptr @kb.thread()
  %site = call i32 @kb.site()
  %v = zext i1 %p to i32
  %w = call i64 @kb_vote(ptr %thread, i32 %m, i32 %mode, i32 %v, i32 %site)
  %both = call { i32, i1 } @kb.unpack(i64 %w)
  ret { i32, i1 } %both
}

define linkonce_odr i64 @kb.match(i32 %m, i32 %all, i64 %v) alwaysinline {
  %thread = call ptr @kb.thread()
  %site = call i32 @kb.site()
  %w = call i64 @kb_match(ptr %thread, i32 %m, i32 %all, i64 %v, i32 %site)
  ret i64 %w
}

define linkonce_odr i32 @kb.match.any.sync.i32(i32 %m, i32 %v) alwaysinline {
  %wide = zext i32 %v to i64
  %lanes = call i32 @kb.match.any.sync.i64(i32 %m, i64 %wide)
  ret i32 %lanes
}

define linkonce_odr i32 @kb.match.any.sync.i64(i32 %m, i64 %v) alwaysinline {
  %w = call i64 @kb.match(i32 %m, i32 0, i64 %v)
  %lanes = trunc i64 %w to i32
  ret i32 %lanes
}

define linkonce_odr { i32, i1 } @kb.match.all.sync.i32(i32 %m, i32 %v) alwaysinline {
  %wide = zext i32 %v to i64
  %both = call { i32, i1 } @kb.match.all.sync.i64(i32 %m, i64 %wide)
  ret { i32, i1 } %both
}

define linkonce_odr { i32, i1 } @kb.match.all.sync.i64(i32 %m, i64 %v) alwaysinline {
  %w = call i64 @kb.match(i32 %m, i32 1, i64 %v)
  %both = call { i32, i1 } @kb.unpack(i64 %w)
  ret { i32, i1 } %both
}


; Fences.

define linkonce_odr void @kb.membar.gl() alwaysinline {
  fence seq_cst
  ret void
}

define linkonce_odr void @kb.membar.cta() alwaysinline {
  fence seq_cst
  ret void
}

define linkonce_odr void @kb.membar.sys() alwaysinline {
  fence seq_cst
  ret void
}


; Functions of the CUDA runtime and of Numba.

define linkonce_odr i32 @vprintf(ptr %format, ptr %arguments) alwaysinline {
  %n = call i32 @kb_print(ptr %format, ptr %arguments)
  ret i32 %n
}

define linkonce_odr i32 @numba_attempt_nocopy_reshape(
    i64 %n, ptr %d, ptr %s, i64 %n1, ptr %d1, ptr %s1, i64 %size, i32 %fortran) alwaysinline {
  %done = call i32 @kb_reshape(
    i64 %n, ptr %d, ptr %s, i64 %n1, ptr %d1, ptr %s1, i64 %size, i32 %fortran)
  ret i32 %done
}


; Kernels with debug=True: the thread comes to a place of the source, or raises an exception.

define linkonce_odr void @kb.place(ptr %place) alwaysinline {
  %thread = call ptr @kb.thread()
  call void @kb_place(ptr %thread, ptr %place)
  ret void
}

define linkonce_odr void @kb.raise(ptr %what) alwaysinline {
  %thread = call ptr @kb.thread()
  call void @kb_raise(ptr %thread, ptr %what)
  ret void
}

; What kernbridge's own kernels for GPUs call in place of an exception.
define linkonce_odr void @__assertfail(
    ptr %what, ptr %file, i32 %line, ptr %function, i64 %size) alwaysinline {
  call void @kb.raise(ptr %what)
  ret void
}

; What `assert` of CUDA C++ calls, as the C library names it.
define linkonce_odr void @__assert_fail(
    ptr %what, ptr %file, i32 %line, ptr %function) alwaysinline {
  %thread = call ptr @kb.thread()
  call void @kb_assert(ptr %thread, ptr %what, ptr %file, i32 %line)
  ret void
}


; Inline PTX.

declare float @__nv_tanhf(float)

define linkonce_odr float @kb.tanh.approx.f32(float %v) alwaysinline {
  %t = call float @__nv_tanhf(float %v)
  ret float %t
}
