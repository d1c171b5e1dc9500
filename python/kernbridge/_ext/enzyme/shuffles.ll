; Shuffles of real numbers, see warps.py. KIND is float or double, and WIDEN and NARROW convert it.
; %source is the lane from which a thread reads, and %back the lane that alone may read from it, if
; there is such a lane. They are parts of a vector since Enzyme wants no integers.

define linkonce_odr KIND @kb.shfl.KIND(i32 %mask, KIND %x, i32 %source, i32 %back) alwaysinline convergent {
  %wide = WIDEN KIND %x to double
  %m = uitofp i32 %mask to double
  %s = uitofp i32 %source to double
  %b = uitofp i32 %back to double
  %v0 = insertelement <4 x double> undef, double %wide, i32 0
  %v1 = insertelement <4 x double> %v0, double %m, i32 1
  %v2 = insertelement <4 x double> %v1, double %s, i32 2
  %v3 = insertelement <4 x double> %v2, double %b, i32 3
  %y = call double @kb.gather.KIND(<4 x double> %v3)
  %r = NARROW double %y to KIND
  ret KIND %r
}
declare double @kb.gather.KIND(<4 x double>)
; After Enzyme:
declare i32 @llvm.nvvm.read.ptx.sreg.laneid()
declare { i32, i1 } @kb.shfl.sync.i32(i32, i32, i32, i32, i32) convergent
declare { i32, i1 } @kb.vote.sync(i32, i32, i1) convergent
define linkonce_odr i32 @kb.part(<4 x double> %v, i32 %which) alwaysinline {
  %x = extractelement <4 x double> %v, i32 %which
  %n = fptoui double %x to i32
  ret i32 %n
}
define linkonce_odr i32 @kb.read.i32(i32 %mask, i32 %x, i32 %lane) alwaysinline convergent {
  %pair = call { i32, i1 } @kb.shfl.sync.i32(i32 %mask, i32 0, i32 %x, i32 %lane, i32 31)
  %y = extractvalue { i32, i1 } %pair, 0
  ret i32 %y
}
define linkonce_odr float @kb.read.float(i32 %mask, float %x, i32 %lane) alwaysinline convergent {
  %w = bitcast float %x to i32
  %v = call i32 @kb.read.i32(i32 %mask, i32 %w, i32 %lane)
  %y = bitcast i32 %v to float
  ret float %y
}
define linkonce_odr double @kb.read.double(i32 %mask, double %x, i32 %lane) alwaysinline convergent {
  %w = bitcast double %x to <2 x i32>
  %w0 = extractelement <2 x i32> %w, i32 0
  %w1 = extractelement <2 x i32> %w, i32 1
  %v0 = call i32 @kb.read.i32(i32 %mask, i32 %w0, i32 %lane)
  %v1 = call i32 @kb.read.i32(i32 %mask, i32 %w1, i32 %lane)
  %u = insertelement <2 x i32> undef, i32 %v0, i32 0
  %v = insertelement <2 x i32> %u, i32 %v1, i32 1
  %y = bitcast <2 x i32> %v to double
  ret double %y
}
define linkonce_odr double @kb.gather.KIND.plain(<4 x double> %v) alwaysinline convergent {
  %wide = extractelement <4 x double> %v, i32 0
  %x = NARROW double %wide to KIND
  %mask = call i32 @kb.part(<4 x double> %v, i32 1)
  %source = call i32 @kb.part(<4 x double> %v, i32 2)
  %y = call KIND @kb.read.KIND(i32 %mask, KIND %x, i32 %source)
  %r = WIDEN KIND %y to double
  ret double %r
}
; The sum of the numbers of the lanes that read from this one. If these are this lane and %back at
; most, for all lanes, only %back is asked, and otherwise each lane.
define linkonce_odr double @kb.scatter.KIND.plain(<4 x double> %v) alwaysinline convergent {
entry:
  %wide = extractelement <4 x double> %v, i32 0
  %x = NARROW double %wide to KIND
  %mask = call i32 @kb.part(<4 x double> %v, i32 1)
  %source = call i32 @kb.part(<4 x double> %v, i32 2)
  %back = call i32 @kb.part(<4 x double> %v, i32 3)
  %lane = call i32 @llvm.nvvm.read.ptx.sreg.laneid()
  %keeps = icmp eq i32 %source, %lane
  %kept = select i1 %keeps, KIND %x, KIND 0.0
  %ballot = call { i32, i1 } @kb.vote.sync(i32 %mask, i32 3, i1 true)
  %present = extractvalue { i32, i1 } %ballot, 0
  %asked = call i32 @kb.read.i32(i32 %mask, i32 %back, i32 %source)
  %is.asked = icmp eq i32 %asked, %lane
  %is.known = or i1 %is.asked, %keeps
  %vote = call { i32, i1 } @kb.vote.sync(i32 %mask, i32 0, i1 %is.known)
  %has.one = extractvalue { i32, i1 } %vote, 1
  %n = select i1 %has.one, i32 1, i32 32
  br label %next
next:
  %i = phi i32 [ 0, %entry ], [ %i.next, %next ]
  %sum = phi KIND [ %kept, %entry ], [ %sum.next, %next ]
  %wanted = select i1 %has.one, i32 %back, i32 %i
  %shifted = lshr i32 %present, %wanted
  %is.there = trunc i32 %shifted to i1
  %k = select i1 %is.there, i32 %wanted, i32 %lane
  %its.source = call i32 @kb.read.i32(i32 %mask, i32 %source, i32 %k)
  %its = call KIND @kb.read.KIND(i32 %mask, KIND %x, i32 %k)
  %reads = icmp eq i32 %its.source, %lane
  %is.other = icmp ne i32 %k, %lane
  %counts = and i1 %reads, %is.other
  %added = select i1 %counts, KIND %its, KIND 0.0
  %sum.next = fadd KIND %sum, %added
  %i.next = add i32 %i, 1
  %more = icmp ult i32 %i.next, %n
  br i1 %more, label %next, label %end
end:
  %r = WIDEN KIND %sum.next to double
  ret double %r
}
