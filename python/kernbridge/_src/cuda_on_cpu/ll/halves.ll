; Written by tests/ll/generate.py: change it there.

; Rounding to odd, for float16 and bfloat16: of the two neighbours of an inexact value, it takes the
; one whose last bit is set. Values are computed as floats or doubles; to round once in the end,
; what comes before rounds to odd.

define linkonce_odr float @kb.odd.f32(double %a) alwaysinline {
  %v = fptrunc double %a to float
  %back = fpext float %v to double
  %inexact = fcmp one double %back, %a
  %a_size = call double @llvm.fabs.f64(double %a)
  %v_size = call double @llvm.fabs.f64(double %back)
  %beyond = fcmp ogt double %a_size, %v_size
  %bits = bitcast float %v to i32
  %odd = trunc i32 %bits to i1
  %keep = select i1 %inexact, i1 %odd, i1 true
  %step = select i1 %beyond, i32 1, i32 -1
  %moved = add i32 %bits, %step
  %to = select i1 %keep, i32 %bits, i32 %moved
  %r = bitcast i32 %to to float
  ret float %r
}

define linkonce_odr double @kb.odd.s64(i64 %a) alwaysinline {
  %from = add i64 %a, 4503599627370496
  %exact = icmp ult i64 %from, 9007199254740992
  %low = and i64 %a, 2047
  %rest = icmp ne i64 %low, 0
  %bit = select i1 %rest, i64 2048, i64 0
  %high = and i64 %a, -2048
  %odd = or i64 %high, %bit
  %n = select i1 %exact, i64 %a, i64 %odd
  %r = sitofp i64 %n to double
  ret double %r
}

define linkonce_odr double @kb.odd.u64(i64 %a) alwaysinline {
  %from = add i64 %a, 0
  %exact = icmp ult i64 %from, 9007199254740992
  %low = and i64 %a, 2047
  %rest = icmp ne i64 %low, 0
  %bit = select i1 %rest, i64 2048, i64 0
  %high = and i64 %a, -2048
  %odd = or i64 %high, %bit
  %n = select i1 %exact, i64 %a, i64 %odd
  %r = uitofp i64 %n to double
  ret double %r
}

define linkonce_odr float @kb.odd.fma.float(float %a, float %b, float %c) alwaysinline {
  %p = fmul float %a, %b
  %v = fadd float %p, %c
  %c1 = fsub float %v, %p
  %p1 = fsub float %v, %c1
  %pe = fsub float %p, %p1
  %ce = fsub float %c, %c1
  %e = fadd float %pe, %ce
  %inexact = fcmp one float %e, 0.0
  %v_bits = bitcast float %v to i32
  %e_bits = bitcast float %e to i32
  %both = xor i32 %v_bits, %e_bits
  %beyond = icmp sge i32 %both, 0
  %bits = bitcast float %v to i32
  %odd = trunc i32 %bits to i1
  %keep = select i1 %inexact, i1 %odd, i1 true
  %step = select i1 %beyond, i32 1, i32 -1
  %moved = add i32 %bits, %step
  %to = select i1 %keep, i32 %bits, i32 %moved
  %r = bitcast i32 %to to float
  ret float %r
}

define linkonce_odr double @kb.odd.fma.double(double %a, double %b, double %c) alwaysinline {
  %p = fmul double %a, %b
  %v = fadd double %p, %c
  %c1 = fsub double %v, %p
  %p1 = fsub double %v, %c1
  %pe = fsub double %p, %p1
  %ce = fsub double %c, %c1
  %e = fadd double %pe, %ce
  %inexact = fcmp one double %e, 0.0
  %v_bits = bitcast double %v to i64
  %e_bits = bitcast double %e to i64
  %both = xor i64 %v_bits, %e_bits
  %beyond = icmp sge i64 %both, 0
  %bits = bitcast double %v to i64
  %odd = trunc i64 %bits to i1
  %keep = select i1 %inexact, i1 %odd, i1 true
  %step = select i1 %beyond, i64 1, i64 -1
  %moved = add i64 %bits, %step
  %to = select i1 %keep, i64 %bits, i64 %moved
  %r = bitcast i64 %to to double
  ret double %r
}

declare double @llvm.fabs.f64(double)
