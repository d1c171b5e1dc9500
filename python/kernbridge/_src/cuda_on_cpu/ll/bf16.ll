; Written by tests/ll/generate.py: change it there.

; bfloat16: kb.bf16.* compute on bits as i16. What Numba-CUDA calls of CUDA's headers has
; C++'s mangled name: it takes pointers to its result and to its arguments.
;
; NaNs that come out of a computation are 0x7fff, as on GPUs. XLA has processors take subnormal
; floats for zero, so that what may be one is either a double or bits: bfloat16 has the range of
; floats.

define linkonce_odr float @kb.bf16.widen(i16 %a) alwaysinline {
  %z = zext i16 %a to i32
  %s = shl i32 %z, 16
  %w = bitcast i32 %s to float
  ret float %w
}

define linkonce_odr double @kb.bf16.wide(i16 %a) alwaysinline {
  %w = call float @kb.bf16.widen(i16 %a)
  %d = fpext float %w to double
  %size = and i16 %a, 32767
  %before = sub i16 %size, 1
  %subnormal = icmp ult i16 %before, 127
  %i = zext i16 %size to i32
  %n = sitofp i32 %i to double
  %positive = fmul double %n, 0x37A0000000000000
  %negative = fneg double %positive
  %sign = icmp slt i16 %a, 0
  %s = select i1 %sign, double %negative, double %positive
  %r = select i1 %subnormal, double %s, double %d
  ret double %r
}

define linkonce_odr i16 @kb.bf16.narrow(double %a) alwaysinline {
  %w = call float @kb.odd.f32(double %a)
  %n = call i16 @kb.bf16.rn(float %w)
  %size = call double @llvm.fabs.f64(double %a)
  %subnormal = fcmp olt double %size, 0x3810000000000000
  %scaled = fmul double %size, 0x4840000000000000
  %whole = call double @llvm.rint.f64(double %scaled)
  %i = fptosi double %whole to i32
  %bits = bitcast double %a to i64
  %high = lshr i64 %bits, 48
  %top = trunc i64 %high to i16
  %sign = and i16 %top, -32768
  %low = trunc i32 %i to i16
  %s = or i16 %sign, %low
  %r = select i1 %subnormal, i16 %s, i16 %n
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.copy(i16 %a) alwaysinline {
  ret i16 %a
}

define linkonce_odr i16 @kb.bf16.rn(float %w) alwaysinline {
  %bits = bitcast float %w to i32
  %last = lshr i32 %bits, 16
  %even = and i32 %last, 1
  %half = add i32 %even, 32767
  %up = add i32 %bits, %half
  %high = lshr i32 %up, 16
  %n = trunc i32 %high to i16
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i16 32767, i16 %n
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.rz(float %w) alwaysinline {
  %near = call i16 @kb.bf16.rn(float %w)
  %back = call float @kb.bf16.widen(i16 %near)
  %bits = bitcast float %w to i32
  %back_bits = bitcast float %back to i32
  %size = and i32 %bits, 2147483647
  %back_size = and i32 %back_bits, 2147483647
  %larger = icmp ugt i32 %back_size, %size
  %smaller = icmp ult i32 %back_size, %size
  %negative = icmp slt i16 %near, 0
  %wrong = select i1 %negative, i1 %larger, i1 %larger
  %step = select i1 %negative, i16 -1, i16 -1
  %next = add i16 %near, %step
  %r0 = select i1 %wrong, i16 %next, i16 %near
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i16 32767, i16 %r0
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.rd(float %w) alwaysinline {
  %near = call i16 @kb.bf16.rn(float %w)
  %back = call float @kb.bf16.widen(i16 %near)
  %bits = bitcast float %w to i32
  %back_bits = bitcast float %back to i32
  %size = and i32 %bits, 2147483647
  %back_size = and i32 %back_bits, 2147483647
  %larger = icmp ugt i32 %back_size, %size
  %smaller = icmp ult i32 %back_size, %size
  %negative = icmp slt i16 %near, 0
  %wrong = select i1 %negative, i1 %smaller, i1 %larger
  %step = select i1 %negative, i16 1, i16 -1
  %next = add i16 %near, %step
  %r0 = select i1 %wrong, i16 %next, i16 %near
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i16 32767, i16 %r0
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.ru(float %w) alwaysinline {
  %near = call i16 @kb.bf16.rn(float %w)
  %back = call float @kb.bf16.widen(i16 %near)
  %bits = bitcast float %w to i32
  %back_bits = bitcast float %back to i32
  %size = and i32 %bits, 2147483647
  %back_size = and i32 %back_bits, 2147483647
  %larger = icmp ugt i32 %back_size, %size
  %smaller = icmp ult i32 %back_size, %size
  %negative = icmp slt i16 %near, 0
  %wrong = select i1 %negative, i1 %larger, i1 %smaller
  %step = select i1 %negative, i16 -1, i16 1
  %next = add i16 %near, %step
  %r0 = select i1 %wrong, i16 %next, i16 %near
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i16 32767, i16 %r0
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.neg(i16 %a) alwaysinline {
  %r = xor i16 %a, -32768
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.abs(i16 %a) alwaysinline {
  %r = and i16 %a, 32767
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.rcp(i16 %a) alwaysinline {
  %r = call i16 @kb.bf16.div(i16 16256, i16 %a)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.sat(i16 %a) alwaysinline {
  %wa = call double @kb.bf16.wide(i16 %a)
  %positive = fcmp ogt double %wa, 0.0
  %large = fcmp ogt double %wa, 1.0
  %low = select i1 %positive, i16 %a, i16 0
  %r = select i1 %large, i16 16256, i16 %low
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.relu(i16 %a) alwaysinline {
  %n = icmp slt i16 %a, 0
  %r = select i1 %n, i16 0, i16 %a
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.add(i16 %a, i16 %b) alwaysinline {
  %wa = call double @kb.bf16.wide(i16 %a)
  %wb = call double @kb.bf16.wide(i16 %b)
  %v = fadd double %wa, %wb
  %r = call i16 @kb.bf16.narrow(double %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.add.sat(i16 %a, i16 %b) alwaysinline {
  %v = call i16 @kb.bf16.add(i16 %a, i16 %b)
  %r = call i16 @kb.bf16.sat(i16 %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.sub(i16 %a, i16 %b) alwaysinline {
  %wa = call double @kb.bf16.wide(i16 %a)
  %wb = call double @kb.bf16.wide(i16 %b)
  %v = fsub double %wa, %wb
  %r = call i16 @kb.bf16.narrow(double %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.sub.sat(i16 %a, i16 %b) alwaysinline {
  %v = call i16 @kb.bf16.sub(i16 %a, i16 %b)
  %r = call i16 @kb.bf16.sat(i16 %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.mul(i16 %a, i16 %b) alwaysinline {
  %wa = call double @kb.bf16.wide(i16 %a)
  %wb = call double @kb.bf16.wide(i16 %b)
  %v = fmul double %wa, %wb
  %r = call i16 @kb.bf16.narrow(double %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.mul.sat(i16 %a, i16 %b) alwaysinline {
  %v = call i16 @kb.bf16.mul(i16 %a, i16 %b)
  %r = call i16 @kb.bf16.sat(i16 %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.div(i16 %a, i16 %b) alwaysinline {
  %wa = call double @kb.bf16.wide(i16 %a)
  %wb = call double @kb.bf16.wide(i16 %b)
  %v = fdiv double %wa, %wb
  %r = call i16 @kb.bf16.narrow(double %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.div.sat(i16 %a, i16 %b) alwaysinline {
  %v = call i16 @kb.bf16.div(i16 %a, i16 %b)
  %r = call i16 @kb.bf16.sat(i16 %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.fma(i16 %a, i16 %b, i16 %c) alwaysinline {
  %wa = call double @kb.bf16.wide(i16 %a)
  %wb = call double @kb.bf16.wide(i16 %b)
  %wc = call double @kb.bf16.wide(i16 %c)
  %v = call double @kb.odd.fma.double(double %wa, double %wb, double %wc)
  %r = call i16 @kb.bf16.narrow(double %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.fma.sat(i16 %a, i16 %b, i16 %c) alwaysinline {
  %v = call i16 @kb.bf16.fma(i16 %a, i16 %b, i16 %c)
  %r = call i16 @kb.bf16.sat(i16 %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.fma.relu(i16 %a, i16 %b, i16 %c) alwaysinline {
  %v = call i16 @kb.bf16.fma(i16 %a, i16 %b, i16 %c)
  %r = call i16 @kb.bf16.relu(i16 %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.atomic.add(ptr %at, i16 %b) alwaysinline {
entry:
  %first = load atomic i16, ptr %at monotonic, align 2
  br label %again
again:
  %old = phi i16 [ %first, %entry ], [ %seen, %again ]
  %new = call i16 @kb.bf16.add(i16 %old, i16 %b)
  %pair = cmpxchg ptr %at, i16 %old, i16 %new monotonic monotonic
  %seen = extractvalue { i16, i1 } %pair, 0
  %done = extractvalue { i16, i1 } %pair, 1
  br i1 %done, label %end, label %again
end:
  ret i16 %old
}

define linkonce_odr i32 @kb.bf16.isinf(i16 %a) alwaysinline {
  %size = and i16 %a, 32767
  %is = icmp eq i16 %size, 32640
  %negative = icmp slt i16 %a, 0
  %sign = select i1 %negative, i32 -1, i32 1
  %r = select i1 %is, i32 %sign, i32 0
  ret i32 %r
}

define linkonce_odr i8 @kb.bf16.isnan(i16 %a) alwaysinline {
  %r = call i8 @kb.bf16.uno(i16 %a, i16 %a)
  ret i8 %r
}

define linkonce_odr i8 @kb.bf16.bool(i16 %a) alwaysinline {
  %r = call i8 @kb.bf16.une(i16 %a, i16 0)
  ret i8 %r
}

define linkonce_odr i8 @kb.bf16.uno(i16 %a, i16 %b) alwaysinline {
  %x = call double @kb.bf16.wide(i16 %a)
  %y = call double @kb.bf16.wide(i16 %b)
  %is = fcmp uno double %x, %y
  %r = zext i1 %is to i8
  ret i8 %r
}

define linkonce_odr i8 @kb.bf16.oeq(i16 %a, i16 %b) alwaysinline {
  %x = call double @kb.bf16.wide(i16 %a)
  %y = call double @kb.bf16.wide(i16 %b)
  %is = fcmp oeq double %x, %y
  %r = zext i1 %is to i8
  ret i8 %r
}

define linkonce_odr i8 @kb.bf16.one(i16 %a, i16 %b) alwaysinline {
  %x = call double @kb.bf16.wide(i16 %a)
  %y = call double @kb.bf16.wide(i16 %b)
  %is = fcmp one double %x, %y
  %r = zext i1 %is to i8
  ret i8 %r
}

define linkonce_odr i8 @kb.bf16.ole(i16 %a, i16 %b) alwaysinline {
  %x = call double @kb.bf16.wide(i16 %a)
  %y = call double @kb.bf16.wide(i16 %b)
  %is = fcmp ole double %x, %y
  %r = zext i1 %is to i8
  ret i8 %r
}

define linkonce_odr i8 @kb.bf16.oge(i16 %a, i16 %b) alwaysinline {
  %x = call double @kb.bf16.wide(i16 %a)
  %y = call double @kb.bf16.wide(i16 %b)
  %is = fcmp oge double %x, %y
  %r = zext i1 %is to i8
  ret i8 %r
}

define linkonce_odr i8 @kb.bf16.olt(i16 %a, i16 %b) alwaysinline {
  %x = call double @kb.bf16.wide(i16 %a)
  %y = call double @kb.bf16.wide(i16 %b)
  %is = fcmp olt double %x, %y
  %r = zext i1 %is to i8
  ret i8 %r
}

define linkonce_odr i8 @kb.bf16.ogt(i16 %a, i16 %b) alwaysinline {
  %x = call double @kb.bf16.wide(i16 %a)
  %y = call double @kb.bf16.wide(i16 %b)
  %is = fcmp ogt double %x, %y
  %r = zext i1 %is to i8
  ret i8 %r
}

define linkonce_odr i8 @kb.bf16.ueq(i16 %a, i16 %b) alwaysinline {
  %x = call double @kb.bf16.wide(i16 %a)
  %y = call double @kb.bf16.wide(i16 %b)
  %is = fcmp ueq double %x, %y
  %r = zext i1 %is to i8
  ret i8 %r
}

define linkonce_odr i8 @kb.bf16.une(i16 %a, i16 %b) alwaysinline {
  %x = call double @kb.bf16.wide(i16 %a)
  %y = call double @kb.bf16.wide(i16 %b)
  %is = fcmp une double %x, %y
  %r = zext i1 %is to i8
  ret i8 %r
}

define linkonce_odr i8 @kb.bf16.ule(i16 %a, i16 %b) alwaysinline {
  %x = call double @kb.bf16.wide(i16 %a)
  %y = call double @kb.bf16.wide(i16 %b)
  %is = fcmp ule double %x, %y
  %r = zext i1 %is to i8
  ret i8 %r
}

define linkonce_odr i8 @kb.bf16.uge(i16 %a, i16 %b) alwaysinline {
  %x = call double @kb.bf16.wide(i16 %a)
  %y = call double @kb.bf16.wide(i16 %b)
  %is = fcmp uge double %x, %y
  %r = zext i1 %is to i8
  ret i8 %r
}

define linkonce_odr i8 @kb.bf16.ult(i16 %a, i16 %b) alwaysinline {
  %x = call double @kb.bf16.wide(i16 %a)
  %y = call double @kb.bf16.wide(i16 %b)
  %is = fcmp ult double %x, %y
  %r = zext i1 %is to i8
  ret i8 %r
}

define linkonce_odr i8 @kb.bf16.ugt(i16 %a, i16 %b) alwaysinline {
  %x = call double @kb.bf16.wide(i16 %a)
  %y = call double @kb.bf16.wide(i16 %b)
  %is = fcmp ugt double %x, %y
  %r = zext i1 %is to i8
  ret i8 %r
}

define linkonce_odr i16 @kb.bf16.max(i16 %a, i16 %b) alwaysinline {
  %x = call double @kb.bf16.wide(i16 %a)
  %y = call double @kb.bf16.wide(i16 %b)
  %an = fcmp uno double %x, %x
  %bn = fcmp uno double %y, %y
  %as = ashr i16 %a, 15
  %am = and i16 %as, 32767
  %ak = xor i16 %a, %am
  %bs = ashr i16 %b, 15
  %bm = and i16 %bs, 32767
  %bk = xor i16 %b, %bm
  %better = icmp sgt i16 %ak, %bk
  %best = select i1 %better, i16 %a, i16 %b
  %one = select i1 %bn, i16 %a, i16 %best
  %r0 = select i1 %an, i16 %b, i16 %one
  %nan = and i1 %an, %bn
  %r = select i1 %nan, i16 32767, i16 %r0
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.max.nan(i16 %a, i16 %b) alwaysinline {
  %x = call double @kb.bf16.wide(i16 %a)
  %y = call double @kb.bf16.wide(i16 %b)
  %an = fcmp uno double %x, %x
  %bn = fcmp uno double %y, %y
  %as = ashr i16 %a, 15
  %am = and i16 %as, 32767
  %ak = xor i16 %a, %am
  %bs = ashr i16 %b, 15
  %bm = and i16 %bs, 32767
  %bk = xor i16 %b, %bm
  %better = icmp sgt i16 %ak, %bk
  %best = select i1 %better, i16 %a, i16 %b
  %r0 = add i16 %best, 0
  %nan = or i1 %an, %bn
  %r = select i1 %nan, i16 32767, i16 %r0
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.min(i16 %a, i16 %b) alwaysinline {
  %x = call double @kb.bf16.wide(i16 %a)
  %y = call double @kb.bf16.wide(i16 %b)
  %an = fcmp uno double %x, %x
  %bn = fcmp uno double %y, %y
  %as = ashr i16 %a, 15
  %am = and i16 %as, 32767
  %ak = xor i16 %a, %am
  %bs = ashr i16 %b, 15
  %bm = and i16 %bs, 32767
  %bk = xor i16 %b, %bm
  %better = icmp slt i16 %ak, %bk
  %best = select i1 %better, i16 %a, i16 %b
  %one = select i1 %bn, i16 %a, i16 %best
  %r0 = select i1 %an, i16 %b, i16 %one
  %nan = and i1 %an, %bn
  %r = select i1 %nan, i16 32767, i16 %r0
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.min.nan(i16 %a, i16 %b) alwaysinline {
  %x = call double @kb.bf16.wide(i16 %a)
  %y = call double @kb.bf16.wide(i16 %b)
  %an = fcmp uno double %x, %x
  %bn = fcmp uno double %y, %y
  %as = ashr i16 %a, 15
  %am = and i16 %as, 32767
  %ak = xor i16 %a, %am
  %bs = ashr i16 %b, 15
  %bm = and i16 %bs, 32767
  %bk = xor i16 %b, %bm
  %better = icmp slt i16 %ak, %bk
  %best = select i1 %better, i16 %a, i16 %b
  %r0 = add i16 %best, 0
  %nan = or i1 %an, %bn
  %r = select i1 %nan, i16 32767, i16 %r0
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.cos(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %v = call double @__nv_cos(double %w)
  %r = call i16 @kb.bf16.narrow(double %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.exp(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %v = call double @__nv_exp(double %w)
  %r = call i16 @kb.bf16.narrow(double %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.exp10(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %v = call double @__nv_exp10(double %w)
  %r = call i16 @kb.bf16.narrow(double %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.exp2(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %v = call double @__nv_exp2(double %w)
  %r = call i16 @kb.bf16.narrow(double %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.log(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %v = call double @__nv_log(double %w)
  %r = call i16 @kb.bf16.narrow(double %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.log10(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %v = call double @__nv_log10(double %w)
  %r = call i16 @kb.bf16.narrow(double %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.log2(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %v = call double @__nv_log2(double %w)
  %r = call i16 @kb.bf16.narrow(double %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.sin(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %v = call double @__nv_sin(double %w)
  %r = call i16 @kb.bf16.narrow(double %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.tanh(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %v = call double @__nv_tanh(double %w)
  %r = call i16 @kb.bf16.narrow(double %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.trunc(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %v = call double @llvm.trunc.f64(double %w)
  %r = call i16 @kb.bf16.narrow(double %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.ceil(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %v = call double @llvm.ceil.f64(double %w)
  %r = call i16 @kb.bf16.narrow(double %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.floor(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %v = call double @llvm.floor.f64(double %w)
  %r = call i16 @kb.bf16.narrow(double %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.rint(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %v = call double @llvm.rint.f64(double %w)
  %r = call i16 @kb.bf16.narrow(double %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.sqrt(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %v = call double @llvm.sqrt.f64(double %w)
  %r = call i16 @kb.bf16.narrow(double %v)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.rsqrt(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %v = call double @llvm.sqrt.f64(double %w)
  %u = fdiv double 1.0, %v
  %r = call i16 @kb.bf16.narrow(double %u)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.__ldg(ptr %at) alwaysinline {
  %r = load i16, ptr %at
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.__ldcg(ptr %at) alwaysinline {
  %r = load i16, ptr %at
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.__ldca(ptr %at) alwaysinline {
  %r = load i16, ptr %at
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.__ldcs(ptr %at) alwaysinline {
  %r = load i16, ptr %at
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.__ldlu(ptr %at) alwaysinline {
  %r = load i16, ptr %at
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.__ldcv(ptr %at) alwaysinline {
  %r = load volatile i16, ptr %at
  ret i16 %r
}

define linkonce_odr i32 @kb.bf16.store(ptr %at, i16 %a) alwaysinline {
  store i16 %a, ptr %at
  ret i32 0
}

define linkonce_odr i16 @kb.bf16.__shfl_sync(i32 %mask, i16 %a, i32 %lane, i32 %width) alwaysinline {
  %v = zext i16 %a to i32
  %outside = sub i32 32, %width
  %high = shl i32 %outside, 8
  %clamp = or i32 %high, 31
  %b = call { i32, i1 } @kb.shfl.sync.i32(i32 %mask, i32 0, i32 %v, i32 %lane, i32 %clamp)
  %w = extractvalue { i32, i1 } %b, 0
  %r = trunc i32 %w to i16
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.__shfl_up_sync(i32 %mask, i16 %a, i32 %lane, i32 %width) alwaysinline {
  %v = zext i16 %a to i32
  %outside = sub i32 32, %width
  %high = shl i32 %outside, 8
  %clamp = or i32 %high, 0
  %b = call { i32, i1 } @kb.shfl.sync.i32(i32 %mask, i32 1, i32 %v, i32 %lane, i32 %clamp)
  %w = extractvalue { i32, i1 } %b, 0
  %r = trunc i32 %w to i16
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.__shfl_down_sync(i32 %mask, i16 %a, i32 %lane, i32 %width) alwaysinline {
  %v = zext i16 %a to i32
  %outside = sub i32 32, %width
  %high = shl i32 %outside, 8
  %clamp = or i32 %high, 31
  %b = call { i32, i1 } @kb.shfl.sync.i32(i32 %mask, i32 2, i32 %v, i32 %lane, i32 %clamp)
  %w = extractvalue { i32, i1 } %b, 0
  %r = trunc i32 %w to i16
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.__shfl_xor_sync(i32 %mask, i16 %a, i32 %lane, i32 %width) alwaysinline {
  %v = zext i16 %a to i32
  %outside = sub i32 32, %width
  %high = shl i32 %outside, 8
  %clamp = or i32 %high, 31
  %b = call { i32, i1 } @kb.shfl.sync.i32(i32 %mask, i32 3, i32 %v, i32 %lane, i32 %clamp)
  %w = extractvalue { i32, i1 } %b, 0
  %r = trunc i32 %w to i16
  ret i16 %r
}

define linkonce_odr i32 @_ZN13__nv_bfloat16C1Ef_nbst(ptr %ignored, ptr %to, ptr %p0) alwaysinline {
  %v0 = load float, ptr %p0
  %r = call i16 @kb.bf16.rn(float %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZN13__nv_bfloat16C1Ed_nbst(ptr %ignored, ptr %to, ptr %p0) alwaysinline {
  %v0 = load double, ptr %p0
  %r = call i16 @kb.bf16.narrow(double %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZN13__nv_bfloat16C1ERK17__nv_bfloat16_raw_nbst(ptr %ignored, ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.copy(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL17__double2bfloat16d_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load double, ptr %p0
  %r = call i16 @kb.bf16.narrow(double %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL16__float2bfloat16f_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load float, ptr %p0
  %r = call i16 @kb.bf16.rn(float %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL16__bfloat162float13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call float @kb.bf16.widen(i16 %v0)
  store float %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL8__hisinf13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i32 @kb.bf16.isinf(i16 %v0)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL8__hisnan13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.bf16.isnan(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL12htanh_approx13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.tanh(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL9atomicAddP13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load ptr, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.atomic.add(ptr %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZpsRK13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.copy(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZngRK13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.neg(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @____nv_bfloat16__ZNK13__nv_bfloat16cvfEv_1(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call float @kb.bf16.widen(i16 %v0)
  store float %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @____nv_bfloat16__ZNK13__nv_bfloat16cvbEv_1(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.bf16.bool(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @____nv_bfloat16__ZNK13__nv_bfloat16cv17__nv_bfloat16_rawEv_1(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.copy(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @____nv_bfloat16__ZNVK13__nv_bfloat16cv17__nv_bfloat16_rawEv_1(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.copy(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__float2bfloat16_rnf_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load float, ptr %p0
  %r = call i16 @kb.bf16.rn(float %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__float2bfloat16_rzf_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load float, ptr %p0
  %r = call i16 @kb.bf16.rz(float %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__float2bfloat16_rdf_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load float, ptr %p0
  %r = call i16 @kb.bf16.rd(float %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__float2bfloat16_ruf_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load float, ptr %p0
  %r = call i16 @kb.bf16.ru(float %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__bfloat16_as_short13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.copy(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__short_as_bfloat16s_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.copy(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL20__bfloat16_as_ushort13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.copy(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL20__ushort_as_bfloat16t_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.copy(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZplRK13__nv_bfloat16S1__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.add(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZpLR13__nv_bfloat16RKS__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.add(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__hadd13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.add(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL9__hadd_rn13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.add(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL10__hadd_sat13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.add.sat(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZmiRK13__nv_bfloat16S1__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.sub(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZmIR13__nv_bfloat16RKS__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.sub(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__hsub13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.sub(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL9__hsub_rn13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.sub(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL10__hsub_sat13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.sub.sat(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZmlRK13__nv_bfloat16S1__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.mul(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZmLR13__nv_bfloat16RKS__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.mul(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__hmul13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.mul(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL9__hmul_rn13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.mul(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL10__hmul_sat13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.mul.sat(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZdvRK13__nv_bfloat16S1__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.div(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZdVR13__nv_bfloat16RKS__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.div(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__hdiv13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.div(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL9__hdiv_rn13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.div(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL10__hdiv_sat13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.div.sat(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__hfma13__nv_bfloat16S_S__nbst(ptr %to, ptr %p0, ptr %p1, ptr %p2) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %v2 = load i16, ptr %p2
  %r = call i16 @kb.bf16.fma(i16 %v0, i16 %v1, i16 %v2)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL10__hfma_sat13__nv_bfloat16S_S__nbst(ptr %to, ptr %p0, ptr %p1, ptr %p2) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %v2 = load i16, ptr %p2
  %r = call i16 @kb.bf16.fma.sat(i16 %v0, i16 %v1, i16 %v2)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL11__hfma_relu13__nv_bfloat16S_S__nbst(ptr %to, ptr %p0, ptr %p1, ptr %p2) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %v2 = load i16, ptr %p2
  %r = call i16 @kb.bf16.fma.relu(i16 %v0, i16 %v1, i16 %v2)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL5__heq13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i8 @kb.bf16.oeq(i16 %v0, i16 %v1)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__hequ13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i8 @kb.bf16.ueq(i16 %v0, i16 %v1)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZeqRK13__nv_bfloat16S1__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i8 @kb.bf16.oeq(i16 %v0, i16 %v1)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL5__hne13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i8 @kb.bf16.one(i16 %v0, i16 %v1)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__hneu13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i8 @kb.bf16.une(i16 %v0, i16 %v1)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZneRK13__nv_bfloat16S1__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i8 @kb.bf16.une(i16 %v0, i16 %v1)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL5__hle13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i8 @kb.bf16.ole(i16 %v0, i16 %v1)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__hleu13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i8 @kb.bf16.ule(i16 %v0, i16 %v1)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZleRK13__nv_bfloat16S1__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i8 @kb.bf16.ole(i16 %v0, i16 %v1)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL5__hge13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i8 @kb.bf16.oge(i16 %v0, i16 %v1)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__hgeu13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i8 @kb.bf16.uge(i16 %v0, i16 %v1)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZgeRK13__nv_bfloat16S1__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i8 @kb.bf16.oge(i16 %v0, i16 %v1)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL5__hlt13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i8 @kb.bf16.olt(i16 %v0, i16 %v1)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__hltu13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i8 @kb.bf16.ult(i16 %v0, i16 %v1)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZltRK13__nv_bfloat16S1__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i8 @kb.bf16.olt(i16 %v0, i16 %v1)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL5__hgt13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i8 @kb.bf16.ogt(i16 %v0, i16 %v1)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__hgtu13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i8 @kb.bf16.ugt(i16 %v0, i16 %v1)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZgtRK13__nv_bfloat16S1__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i8 @kb.bf16.ogt(i16 %v0, i16 %v1)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__hmax13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.max(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL10__hmax_nan13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.max.nan(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__hmin13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.min(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL10__hmin_nan13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load i16, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i16 @kb.bf16.min.nan(i16 %v0, i16 %v1)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__hneg13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.neg(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__habs13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.abs(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL4hcos13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.cos(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL4hexp13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.exp(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6hexp1013__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.exp10(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL5hexp213__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.exp2(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL4hlog13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.log(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6hlog1013__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.log10(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL5hlog213__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.log2(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL4hsin13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.sin(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL5htanh13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.tanh(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6htrunc13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.trunc(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL5hceil13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.ceil(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6hfloor13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.floor(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL5hrint13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.rint(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL5hsqrt13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.sqrt(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6hrsqrt13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.rsqrt(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL4hrcp13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.rcp(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL5__ldgPK13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load ptr, ptr %p0
  %r = call i16 @kb.bf16.__ldg(ptr %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__ldcgPK13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load ptr, ptr %p0
  %r = call i16 @kb.bf16.__ldcg(ptr %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__ldcaPK13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load ptr, ptr %p0
  %r = call i16 @kb.bf16.__ldca(ptr %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__ldcsPK13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load ptr, ptr %p0
  %r = call i16 @kb.bf16.__ldcs(ptr %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__ldluPK13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load ptr, ptr %p0
  %r = call i16 @kb.bf16.__ldlu(ptr %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__ldcvPK13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load ptr, ptr %p0
  %r = call i16 @kb.bf16.__ldcv(ptr %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__stwbP13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load ptr, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i32 @kb.bf16.store(ptr %v0, i16 %v1)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__stcgP13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load ptr, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i32 @kb.bf16.store(ptr %v0, i16 %v1)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__stcsP13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load ptr, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i32 @kb.bf16.store(ptr %v0, i16 %v1)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL6__stwtP13__nv_bfloat16S__nbst(ptr %to, ptr %p0, ptr %p1) alwaysinline {
  %v0 = load ptr, ptr %p0
  %v1 = load i16, ptr %p1
  %r = call i32 @kb.bf16.store(ptr %v0, i16 %v1)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL11__shfl_syncj13__nv_bfloat16ii_nbst(ptr %to, ptr %p0, ptr %p1, ptr %p2, ptr %p3) alwaysinline {
  %v0 = load i32, ptr %p0
  %v1 = load i16, ptr %p1
  %v2 = load i32, ptr %p2
  %v3 = load i32, ptr %p3
  %r = call i16 @kb.bf16.__shfl_sync(i32 %v0, i16 %v1, i32 %v2, i32 %v3)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL14__shfl_up_syncj13__nv_bfloat16ji_nbst(ptr %to, ptr %p0, ptr %p1, ptr %p2, ptr %p3) alwaysinline {
  %v0 = load i32, ptr %p0
  %v1 = load i16, ptr %p1
  %v2 = load i32, ptr %p2
  %v3 = load i32, ptr %p3
  %r = call i16 @kb.bf16.__shfl_up_sync(i32 %v0, i16 %v1, i32 %v2, i32 %v3)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL16__shfl_down_syncj13__nv_bfloat16ji_nbst(ptr %to, ptr %p0, ptr %p1, ptr %p2, ptr %p3) alwaysinline {
  %v0 = load i32, ptr %p0
  %v1 = load i16, ptr %p1
  %v2 = load i32, ptr %p2
  %v3 = load i32, ptr %p3
  %r = call i16 @kb.bf16.__shfl_down_sync(i32 %v0, i16 %v1, i32 %v2, i32 %v3)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL15__shfl_xor_syncj13__nv_bfloat16ii_nbst(ptr %to, ptr %p0, ptr %p1, ptr %p2, ptr %p3) alwaysinline {
  %v0 = load i32, ptr %p0
  %v1 = load i16, ptr %p1
  %v2 = load i32, ptr %p2
  %v3 = load i32, ptr %p3
  %r = call i16 @kb.bf16.__shfl_xor_sync(i32 %v0, i16 %v1, i32 %v2, i32 %v3)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZN13__nv_bfloat16C1Ev_nbst(ptr %ignored, ptr %self) alwaysinline {
  ret i32 0
}

define linkonce_odr i32 @_ZN6__halfC1E13__nv_bfloat16_nbst(ptr %ignored, ptr %to, ptr %p) alwaysinline {
  %a = load i16, ptr %p
  %w = call float @kb.bf16.widen(i16 %a)
  %r = call i16 @kb.f16.rn(float %w)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZN13__nv_bfloat16C1E6__half_nbst(ptr %ignored, ptr %to, ptr %p) alwaysinline {
  %a = load i16, ptr %p
  %w = call float @kb.f16.widen(i16 %a)
  %r = call i16 @kb.bf16.rn(float %w)
  store i16 %r, ptr %to
  ret i32 0
}

declare double @__nv_cos(double)
declare double @__nv_exp(double)
declare double @__nv_exp10(double)
declare double @__nv_exp2(double)
declare double @__nv_log(double)
declare double @__nv_log10(double)
declare double @__nv_log2(double)
declare double @__nv_sin(double)
declare double @__nv_tanh(double)
declare i16 @kb.f16.rn(float)
declare float @kb.f16.widen(i16)
declare float @kb.odd.f32(double)
declare double @kb.odd.fma.double(double, double, double)
declare { i32, i1 } @kb.shfl.sync.i32(i32, i32, i32, i32, i32)
declare double @llvm.ceil.f64(double)
declare double @llvm.fabs.f64(double)
declare double @llvm.floor.f64(double)
declare double @llvm.rint.f64(double)
declare double @llvm.sqrt.f64(double)
declare double @llvm.trunc.f64(double)
