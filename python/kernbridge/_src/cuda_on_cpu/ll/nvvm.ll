; Intrinsics of GPUs by the names and with the types that LLVM has for them today, as MLIR writes them,
; by the functions of gpu.ll, which have the names that Numba-CUDA uses.
;
; Every definition of these files is linkonce_odr, so that LLVM links those that a kernel needs.

declare void @kb.barrier0()
declare i32 @kb.barrier0.popc(i32)
declare i32 @kb.barrier0.and(i32)
declare i32 @kb.barrier0.or(i32)
declare { i32, i1 } @kb.shfl.sync.i32(i32, i32, i32, i32, i32)
declare { i32, i1 } @kb.vote.sync(i32, i32, i1)
declare { i32, i1 } @kb.match.all.sync.i32(i32, i32)
declare { i32, i1 } @kb.match.all.sync.i64(i32, i64)
declare i32 @kb.active_mask()
declare i32 @kb.lanemask_lt()


; Barriers of a block; the number of the barrier is 0.

define linkonce_odr void @kb.barrier.cta.sync.aligned.all(i32 %barrier) alwaysinline {
  call void @kb.barrier0()
  ret void
}

define linkonce_odr i32 @kb.barrier.cta.red.popc.aligned.all(i32 %barrier, i1 %p) alwaysinline {
  %wide = zext i1 %p to i32
  %n = call i32 @kb.barrier0.popc(i32 %wide)
  ret i32 %n
}

define linkonce_odr i1 @kb.barrier.cta.red.and.aligned.all(i32 %barrier, i1 %p) alwaysinline {
  %wide = zext i1 %p to i32
  %n = call i32 @kb.barrier0.and(i32 %wide)
  %is = icmp ne i32 %n, 0
  ret i1 %is
}

define linkonce_odr i1 @kb.barrier.cta.red.or.aligned.all(i32 %barrier, i1 %p) alwaysinline {
  %wide = zext i1 %p to i32
  %n = call i32 @kb.barrier0.or(i32 %wide)
  %is = icmp ne i32 %n, 0
  ret i1 %is
}


; Operations of a warp.

define linkonce_odr i32 @kb.shfl.sync.idx.i32(i32 %m, i32 %v, i32 %b, i32 %c) alwaysinline {
  %both = call { i32, i1 } @kb.shfl.sync.i32(i32 %m, i32 0, i32 %v, i32 %b, i32 %c)
  %got = extractvalue { i32, i1 } %both, 0
  ret i32 %got
}

define linkonce_odr float @kb.shfl.sync.idx.f32(i32 %m, float %v, i32 %b, i32 %c) alwaysinline {
  %bits = bitcast float %v to i32
  %got = call i32 @kb.shfl.sync.idx.i32(i32 %m, i32 %bits, i32 %b, i32 %c)
  %value = bitcast i32 %got to float
  ret float %value
}

define linkonce_odr i32 @kb.shfl.sync.up.i32(i32 %m, i32 %v, i32 %b, i32 %c) alwaysinline {
  %both = call { i32, i1 } @kb.shfl.sync.i32(i32 %m, i32 1, i32 %v, i32 %b, i32 %c)
  %got = extractvalue { i32, i1 } %both, 0
  ret i32 %got
}

define linkonce_odr float @kb.shfl.sync.up.f32(i32 %m, float %v, i32 %b, i32 %c) alwaysinline {
  %bits = bitcast float %v to i32
  %got = call i32 @kb.shfl.sync.up.i32(i32 %m, i32 %bits, i32 %b, i32 %c)
  %value = bitcast i32 %got to float
  ret float %value
}

define linkonce_odr i32 @kb.shfl.sync.down.i32(i32 %m, i32 %v, i32 %b, i32 %c) alwaysinline {
  %both = call { i32, i1 } @kb.shfl.sync.i32(i32 %m, i32 2, i32 %v, i32 %b, i32 %c)
  %got = extractvalue { i32, i1 } %both, 0
  ret i32 %got
}

define linkonce_odr float @kb.shfl.sync.down.f32(i32 %m, float %v, i32 %b, i32 %c) alwaysinline {
  %bits = bitcast float %v to i32
  %got = call i32 @kb.shfl.sync.down.i32(i32 %m, i32 %bits, i32 %b, i32 %c)
  %value = bitcast i32 %got to float
  ret float %value
}

define linkonce_odr i32 @kb.shfl.sync.bfly.i32(i32 %m, i32 %v, i32 %b, i32 %c) alwaysinline {
  %both = call { i32, i1 } @kb.shfl.sync.i32(i32 %m, i32 3, i32 %v, i32 %b, i32 %c)
  %got = extractvalue { i32, i1 } %both, 0
  ret i32 %got
}

define linkonce_odr float @kb.shfl.sync.bfly.f32(i32 %m, float %v, i32 %b, i32 %c) alwaysinline {
  %bits = bitcast float %v to i32
  %got = call i32 @kb.shfl.sync.bfly.i32(i32 %m, i32 %bits, i32 %b, i32 %c)
  %value = bitcast i32 %got to float
  ret float %value
}

define linkonce_odr i1 @kb.vote.all.sync(i32 %m, i1 %p) alwaysinline {
  %both = call { i32, i1 } @kb.vote.sync(i32 %m, i32 0, i1 %p)
  %is = extractvalue { i32, i1 } %both, 1
  ret i1 %is
}

define linkonce_odr i1 @kb.vote.any.sync(i32 %m, i1 %p) alwaysinline {
  %both = call { i32, i1 } @kb.vote.sync(i32 %m, i32 1, i1 %p)
  %is = extractvalue { i32, i1 } %both, 1
  ret i1 %is
}

define linkonce_odr i1 @kb.vote.uni.sync(i32 %m, i1 %p) alwaysinline {
  %both = call { i32, i1 } @kb.vote.sync(i32 %m, i32 2, i1 %p)
  %is = extractvalue { i32, i1 } %both, 1
  ret i1 %is
}

define linkonce_odr i32 @kb.vote.ballot.sync(i32 %m, i1 %p) alwaysinline {
  %both = call { i32, i1 } @kb.vote.sync(i32 %m, i32 3, i1 %p)
  %lanes = extractvalue { i32, i1 } %both, 0
  ret i32 %lanes
}

define linkonce_odr { i32, i1 } @kb.match.all.sync.i32p(i32 %m, i32 %v) alwaysinline {
  %both = call { i32, i1 } @kb.match.all.sync.i32(i32 %m, i32 %v)
  ret { i32, i1 } %both
}

define linkonce_odr { i32, i1 } @kb.match.all.sync.i64p(i32 %m, i64 %v) alwaysinline {
  %both = call { i32, i1 } @kb.match.all.sync.i64(i32 %m, i64 %v)
  ret { i32, i1 } %both
}

define linkonce_odr i32 @kb.activemask() alwaysinline {
  %mask = call i32 @kb.active_mask()
  ret i32 %mask
}

define linkonce_odr i32 @kb.lanemask.lt() alwaysinline {
  %mask = call i32 @kb.lanemask_lt()
  ret i32 %mask
}
