; libdevice on the CPU: functions that follow no rule. src/ext/emulator/ll/libdevice.py writes the others.


; Roots.

define linkonce_odr double @__nv_rsqrt(double %given) alwaysinline {
  %tiny = fcmp olt double %given, 0x2000000000000000
  %up = select i1 %tiny, double 0x5FF0000000000000, double 1.0
  %back = select i1 %tiny, double 0x4FF0000000000000, double 1.0
  %x = fmul double %given, %up
  %root = call double @llvm.sqrt.f64(double %x)
  %inverse = fdiv double 1.0, %root
  %minus = fneg double %root
  %lost = call double @llvm.fma.f64(double %minus, double %root, double %x)
  %left = call double @llvm.fma.f64(double %minus, double %inverse, double 1.0)
  %square = fmul double %inverse, %inverse
  %half = fmul double %square, -0.5
  %step = call double @llvm.fma.f64(double %lost, double %half, double %left)
  %better = call double @llvm.fma.f64(double %inverse, double %step, double %inverse)
  %positive = fcmp ogt double %x, 0.0
  %finite = fcmp olt double %x, 0x7FF0000000000000
  %usual = and i1 %positive, %finite
  %value = select i1 %usual, double %better, double %inverse
  %r = fmul double %value, %back
  ret double %r
}

define linkonce_odr float @__nv_rsqrtf(float %x) alwaysinline {
  %root = call float @llvm.sqrt.f32(float %x)
  %r = fdiv float 1.0, %root
  ret float %r
}

define linkonce_odr float @__nv_frsqrt_rn(float %x) alwaysinline {
  %wide = fpext float %x to double
  %root = call double @llvm.sqrt.f64(double %wide)
  %inverse = fdiv double 1.0, %root
  %r = fptrunc double %inverse to float
  ret float %r
}


; Powers, quotients and limits.

define linkonce_odr double @__nv_powi(double %x, i32 %n) alwaysinline {
  %y = sitofp i32 %n to double
  %r = call double @pow(double %x, double %y)
  ret double %r
}

define linkonce_odr float @__nv_powif(float %x, i32 %n) alwaysinline {
  %wide = fpext float %x to double
  %y = sitofp i32 %n to double
  %power = call double @pow(double %wide, double %y)
  %r = fptrunc double %power to float
  ret float %r
}

define linkonce_odr float @__nv_fast_powf(float %x, float %y) alwaysinline {
  %l = call float @log2f(float %x)
  %p = fmul float %y, %l
  %r = call float @exp2f(float %p)
  ret float %r
}

; A divisor above 2^126 gives a zero, or NaN of what is infinite, as on GPUs.
define linkonce_odr float @__nv_fast_fdividef(float %x, float %y) alwaysinline {
  %size = call float @llvm.fabs.f32(float %y)
  %large = fcmp ogt float %size, 0x47D0000000000000
  %zero = call float @llvm.copysign.f32(float 0.0, float %y)
  %p = fmul float %x, %zero
  %q = fdiv float %x, %y
  %r = select i1 %large, float %p, float %q
  ret float %r
}

define linkonce_odr float @__nv_saturatef(float %x) alwaysinline {
  %over = fcmp ogt float %x, 0.0
  %low = select i1 %over, float %x, float 0.0
  %under = fcmp olt float %low, 1.0
  %r = select i1 %under, float %low, float 1.0
  ret float %r
}


; Half precision.

define linkonce_odr float @__nv_half2float(i16 %x) alwaysinline {
  %bits = zext i16 %x to i32
  %size = and i32 %bits, 32767
  %top = and i32 %bits, 32768
  %sign = shl i32 %top, 16
  %shifted = shl i32 %size, 13
  %normal = add i32 %shifted, 939524096
  %special = or i32 %shifted, 2139095040
  %count = uitofp i32 %size to float
  %tiny = fmul float %count, 0x3E70000000000000
  %subnormal = bitcast float %tiny to i32
  %small = icmp ult i32 %size, 1024
  %large = icmp uge i32 %size, 31744
  %a = select i1 %small, i32 %subnormal, i32 %normal
  %b = select i1 %large, i32 %special, i32 %a
  %c = or i32 %b, %sign
  %r = bitcast i32 %c to float
  ret float %r
}

define linkonce_odr i16 @__nv_float2half_rn(float %x) alwaysinline {
  %bits = bitcast float %x to i32
  %size = and i32 %bits, 2147483647
  %top = lshr i32 %bits, 16
  %sign = and i32 %top, 32768
  %kept = lshr i32 %size, 13
  %odd = and i32 %kept, 1
  %half = add i32 %size, 4095
  %up = add i32 %half, %odd
  %rebased = sub i32 %up, 939524096
  %normal = lshr i32 %rebased, 13
  %positive = bitcast i32 %size to float
  %scaled = fmul float %positive, 0x4170000000000000
  %whole = call float @llvm.rint.f32(float %scaled)
  %subnormal = call i32 @llvm.fptoui.sat.i32.f32(float %whole)
  %small = icmp ult i32 %size, 947912704
  %large = icmp uge i32 %size, 1199566848
  %nan = icmp ugt i32 %size, 2139095040
  %a = select i1 %small, i32 %subnormal, i32 %normal
  %b = select i1 %large, i32 31744, i32 %a
  %c = or i32 %b, %sign
  %d = select i1 %nan, i32 32767, i32 %c
  %r = trunc i32 %d to i16
  ret i16 %r
}


; Integers.

define linkonce_odr i32 @__nv_abs(i32 %x) alwaysinline {
  %r = call i32 @llvm.abs.i32(i32 %x, i1 false)
  ret i32 %r
}

define linkonce_odr i64 @__nv_llabs(i64 %x) alwaysinline {
  %r = call i64 @llvm.abs.i64(i64 %x, i1 false)
  ret i64 %r
}

define linkonce_odr i32 @__nv_brev(i32 %x) alwaysinline {
  %r = call i32 @llvm.bitreverse.i32(i32 %x)
  ret i32 %r
}

define linkonce_odr i64 @__nv_brevll(i64 %x) alwaysinline {
  %r = call i64 @llvm.bitreverse.i64(i64 %x)
  ret i64 %r
}

define linkonce_odr i32 @__nv_clz(i32 %x) alwaysinline {
  %r = call i32 @llvm.ctlz.i32(i32 %x, i1 false)
  ret i32 %r
}

define linkonce_odr i32 @__nv_clzll(i64 %x) alwaysinline {
  %n = call i64 @llvm.ctlz.i64(i64 %x, i1 false)
  %r = trunc i64 %n to i32
  ret i32 %r
}

define linkonce_odr i32 @__nv_popc(i32 %x) alwaysinline {
  %r = call i32 @llvm.ctpop.i32(i32 %x)
  ret i32 %r
}

define linkonce_odr i32 @__nv_popcll(i64 %x) alwaysinline {
  %n = call i64 @llvm.ctpop.i64(i64 %x)
  %r = trunc i64 %n to i32
  ret i32 %r
}

define linkonce_odr i32 @__nv_ffs(i32 %x) alwaysinline {
  %n = call i32 @llvm.cttz.i32(i32 %x, i1 false)
  %next = add i32 %n, 1
  %zero = icmp eq i32 %x, 0
  %r = select i1 %zero, i32 0, i32 %next
  ret i32 %r
}

define linkonce_odr i32 @__nv_ffsll(i64 %x) alwaysinline {
  %n = call i64 @llvm.cttz.i64(i64 %x, i1 false)
  %next = add i64 %n, 1
  %zero = icmp eq i64 %x, 0
  %wide = select i1 %zero, i64 0, i64 %next
  %r = trunc i64 %wide to i32
  ret i32 %r
}

define linkonce_odr i32 @__nv_mul24(i32 %x, i32 %y) alwaysinline {
  %xh = shl i32 %x, 8
  %xs = ashr i32 %xh, 8
  %yh = shl i32 %y, 8
  %ys = ashr i32 %yh, 8
  %r = mul i32 %xs, %ys
  ret i32 %r
}

define linkonce_odr i32 @__nv_umul24(i32 %x, i32 %y) alwaysinline {
  %xs = and i32 %x, 16777215
  %ys = and i32 %y, 16777215
  %r = mul i32 %xs, %ys
  ret i32 %r
}

define linkonce_odr i32 @__nv_byte_perm(i32 %x, i32 %y, i32 %z) alwaysinline {
  %low = zext i32 %x to i64
  %top = zext i32 %y to i64
  %high = shl i64 %top, 32
  %both = or i64 %high, %low
  %s = zext i32 %z to i64
  %s0 = shl i64 %s, 3
  %s1 = lshr i64 %s, 1
  %s2 = lshr i64 %s, 5
  %s3 = lshr i64 %s, 9
  %n0 = and i64 %s0, 56
  %n1 = and i64 %s1, 56
  %n2 = and i64 %s2, 56
  %n3 = and i64 %s3, 56
  %w0 = lshr i64 %both, %n0
  %w1 = lshr i64 %both, %n1
  %w2 = lshr i64 %both, %n2
  %w3 = lshr i64 %both, %n3
  %b0 = and i64 %w0, 255
  %b1 = and i64 %w1, 255
  %b2 = and i64 %w2, 255
  %p1 = shl i64 %b1, 8
  %p2 = shl i64 %b2, 16
  %p3 = shl i64 %w3, 24
  %p01 = or i64 %b0, %p1
  %p23 = or i64 %p2, %p3
  %p = or i64 %p01, %p23
  %r = trunc i64 %p to i32
  ret i32 %r
}


; The bits of a number.

define linkonce_odr i32 @__nv_double2hiint(double %x) alwaysinline {
  %bits = bitcast double %x to i64
  %high = lshr i64 %bits, 32
  %r = trunc i64 %high to i32
  ret i32 %r
}

define linkonce_odr i32 @__nv_double2loint(double %x) alwaysinline {
  %bits = bitcast double %x to i64
  %r = trunc i64 %bits to i32
  ret i32 %r
}

define linkonce_odr double @__nv_hiloint2double(i32 %x, i32 %y) alwaysinline {
  %top = zext i32 %x to i64
  %high = shl i64 %top, 32
  %low = zext i32 %y to i64
  %bits = or i64 %high, %low
  %r = bitcast i64 %bits to double
  ret double %r
}


; What is called above.

declare double @pow(double, double) #0
declare float @exp2f(float) #0
declare float @log2f(float) #0

declare i32 @llvm.abs.i32(i32, i1)
declare i64 @llvm.abs.i64(i64, i1)
declare i32 @llvm.bitreverse.i32(i32)
declare i64 @llvm.bitreverse.i64(i64)
declare float @llvm.copysign.f32(float, float)
declare i32 @llvm.ctlz.i32(i32, i1)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i32 @llvm.ctpop.i32(i32)
declare i64 @llvm.ctpop.i64(i64)
declare i32 @llvm.cttz.i32(i32, i1)
declare i64 @llvm.cttz.i64(i64, i1)
declare float @llvm.fabs.f32(float)
declare double @llvm.fma.f64(double, double, double)
declare i32 @llvm.fptoui.sat.i32.f32(float)
declare float @llvm.rint.f32(float)
declare float @llvm.sqrt.f32(float)
declare double @llvm.sqrt.f64(double)

attributes #0 = { nounwind willreturn memory(none) }
