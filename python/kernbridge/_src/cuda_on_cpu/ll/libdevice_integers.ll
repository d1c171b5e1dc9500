; libdevice on the CPU, see libdevice.ll: functions of integers and of the bits of a number.


; Integers.

define linkonce_odr i32 @__nv_brev(i32 %x) alwaysinline {
  %r = call i32 @llvm.bitreverse.i32(i32 %x)
  ret i32 %r
}

define linkonce_odr i64 @__nv_brevll(i64 %x) alwaysinline {
  %r = call i64 @llvm.bitreverse.i64(i64 %x)
  ret i64 %r
}

define linkonce_odr i32 @__nv_popc(i32 %x) alwaysinline {
  %r = call i32 @llvm.ctpop.i32(i32 %x)
  ret i32 %r
}

define linkonce_odr i32 @__nv_max(i32 %x, i32 %y) alwaysinline {
  %r = call i32 @llvm.smax.i32(i32 %x, i32 %y)
  ret i32 %r
}

define linkonce_odr i32 @__nv_min(i32 %x, i32 %y) alwaysinline {
  %r = call i32 @llvm.smin.i32(i32 %x, i32 %y)
  ret i32 %r
}

define linkonce_odr i32 @__nv_umax(i32 %x, i32 %y) alwaysinline {
  %r = call i32 @llvm.umax.i32(i32 %x, i32 %y)
  ret i32 %r
}

define linkonce_odr i32 @__nv_umin(i32 %x, i32 %y) alwaysinline {
  %r = call i32 @llvm.umin.i32(i32 %x, i32 %y)
  ret i32 %r
}

define linkonce_odr i64 @__nv_llmax(i64 %x, i64 %y) alwaysinline {
  %r = call i64 @llvm.smax.i64(i64 %x, i64 %y)
  ret i64 %r
}

define linkonce_odr i64 @__nv_llmin(i64 %x, i64 %y) alwaysinline {
  %r = call i64 @llvm.smin.i64(i64 %x, i64 %y)
  ret i64 %r
}

define linkonce_odr i64 @__nv_ullmax(i64 %x, i64 %y) alwaysinline {
  %r = call i64 @llvm.umax.i64(i64 %x, i64 %y)
  ret i64 %r
}

define linkonce_odr i64 @__nv_ullmin(i64 %x, i64 %y) alwaysinline {
  %r = call i64 @llvm.umin.i64(i64 %x, i64 %y)
  ret i64 %r
}

define linkonce_odr double @__nv_dsqrt_rn(double %x) alwaysinline {
  %r = call double @llvm.sqrt.f64(double %x)
  ret double %r
}

define linkonce_odr i32 @__nv_abs(i32 %x) alwaysinline {
  %r = call i32 @llvm.abs.i32(i32 %x, i1 false)
  ret i32 %r
}

define linkonce_odr i64 @__nv_llabs(i64 %x) alwaysinline {
  %r = call i64 @llvm.abs.i64(i64 %x, i1 false)
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

define linkonce_odr i32 @__nv_mulhi(i32 %x, i32 %y) alwaysinline {
  %xw = sext i32 %x to i64
  %yw = sext i32 %y to i64
  %p = mul i64 %xw, %yw
  %h = lshr i64 %p, 32
  %r = trunc i64 %h to i32
  ret i32 %r
}

define linkonce_odr i32 @__nv_umulhi(i32 %x, i32 %y) alwaysinline {
  %xw = zext i32 %x to i64
  %yw = zext i32 %y to i64
  %p = mul i64 %xw, %yw
  %h = lshr i64 %p, 32
  %r = trunc i64 %h to i32
  ret i32 %r
}

define linkonce_odr i64 @__nv_mul64hi(i64 %x, i64 %y) alwaysinline {
  %xw = sext i64 %x to i128
  %yw = sext i64 %y to i128
  %p = mul i128 %xw, %yw
  %h = lshr i128 %p, 64
  %r = trunc i128 %h to i64
  ret i64 %r
}

define linkonce_odr i64 @__nv_umul64hi(i64 %x, i64 %y) alwaysinline {
  %xw = zext i64 %x to i128
  %yw = zext i64 %y to i128
  %p = mul i128 %xw, %yw
  %h = lshr i128 %p, 64
  %r = trunc i128 %h to i64
  ret i64 %r
}

define linkonce_odr i32 @__nv_hadd(i32 %x, i32 %y) alwaysinline {
  %a = and i32 %x, %y
  %b = xor i32 %x, %y
  %c = ashr i32 %b, 1
  %r = add i32 %a, %c
  ret i32 %r
}

define linkonce_odr i32 @__nv_rhadd(i32 %x, i32 %y) alwaysinline {
  %a = or i32 %x, %y
  %b = xor i32 %x, %y
  %c = ashr i32 %b, 1
  %r = sub i32 %a, %c
  ret i32 %r
}

define linkonce_odr i32 @__nv_sad(i32 %x, i32 %y, i32 %z) alwaysinline {
  %a = call i32 @llvm.smax.i32(i32 %x, i32 %y)
  %b = call i32 @llvm.smin.i32(i32 %x, i32 %y)
  %c = sub i32 %a, %b
  %r = add i32 %c, %z
  ret i32 %r
}

define linkonce_odr i32 @__nv_uhadd(i32 %x, i32 %y) alwaysinline {
  %a = and i32 %x, %y
  %b = xor i32 %x, %y
  %c = lshr i32 %b, 1
  %r = add i32 %a, %c
  ret i32 %r
}

define linkonce_odr i32 @__nv_urhadd(i32 %x, i32 %y) alwaysinline {
  %a = or i32 %x, %y
  %b = xor i32 %x, %y
  %c = lshr i32 %b, 1
  %r = sub i32 %a, %c
  ret i32 %r
}

define linkonce_odr i32 @__nv_usad(i32 %x, i32 %y, i32 %z) alwaysinline {
  %a = call i32 @llvm.umax.i32(i32 %x, i32 %y)
  %b = call i32 @llvm.umin.i32(i32 %x, i32 %y)
  %c = sub i32 %a, %b
  %r = add i32 %c, %z
  ret i32 %r
}


; The same bits as another type, and what bits say.

define linkonce_odr i64 @__nv_double_as_longlong(double %x) alwaysinline {
  %r = bitcast double %x to i64
  ret i64 %r
}

define linkonce_odr double @__nv_longlong_as_double(i64 %x) alwaysinline {
  %r = bitcast i64 %x to double
  ret double %r
}

define linkonce_odr i32 @__nv_float_as_int(float %x) alwaysinline {
  %r = bitcast float %x to i32
  ret i32 %r
}

define linkonce_odr i32 @__nv_float_as_uint(float %x) alwaysinline {
  %r = bitcast float %x to i32
  ret i32 %r
}

define linkonce_odr float @__nv_int_as_float(i32 %x) alwaysinline {
  %r = bitcast i32 %x to float
  ret float %r
}

define linkonce_odr float @__nv_uint_as_float(i32 %x) alwaysinline {
  %r = bitcast i32 %x to float
  ret float %r
}

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

define linkonce_odr i32 @__nv_isnand(double %x) alwaysinline {
  %t = fcmp uno double %x, 0.0
  %r = zext i1 %t to i32
  ret i32 %r
}

define linkonce_odr i32 @__nv_isinfd(double %x) alwaysinline {
  %a = call double @llvm.fabs.f64(double %x)
  %t = fcmp oeq double %a, 0x7FF0000000000000
  %r = zext i1 %t to i32
  ret i32 %r
}

define linkonce_odr i32 @__nv_isfinited(double %x) alwaysinline {
  %a = call double @llvm.fabs.f64(double %x)
  %t = fcmp olt double %a, 0x7FF0000000000000
  %r = zext i1 %t to i32
  ret i32 %r
}

define linkonce_odr i32 @__nv_signbitd(double %x) alwaysinline {
  %b = bitcast double %x to i64
  %t = icmp slt i64 %b, 0
  %r = zext i1 %t to i32
  ret i32 %r
}

define linkonce_odr i32 @__nv_isnanf(float %x) alwaysinline {
  %t = fcmp uno float %x, 0.0
  %r = zext i1 %t to i32
  ret i32 %r
}

define linkonce_odr i32 @__nv_isinff(float %x) alwaysinline {
  %a = call float @llvm.fabs.f32(float %x)
  %t = fcmp oeq float %a, 0x7FF0000000000000
  %r = zext i1 %t to i32
  ret i32 %r
}

define linkonce_odr i32 @__nv_finitef(float %x) alwaysinline {
  %a = call float @llvm.fabs.f32(float %x)
  %t = fcmp olt float %a, 0x7FF0000000000000
  %r = zext i1 %t to i32
  ret i32 %r
}

define linkonce_odr i32 @__nv_signbitf(float %x) alwaysinline {
  %b = bitcast float %x to i32
  %t = icmp slt i32 %b, 0
  %r = zext i1 %t to i32
  ret i32 %r
}


; What is called above.

declare i32 @llvm.abs.i32(i32, i1)
declare i64 @llvm.abs.i64(i64, i1)
declare i32 @llvm.bitreverse.i32(i32)
declare i64 @llvm.bitreverse.i64(i64)
declare i32 @llvm.ctlz.i32(i32, i1)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i32 @llvm.ctpop.i32(i32)
declare i64 @llvm.ctpop.i64(i64)
declare i32 @llvm.cttz.i32(i32, i1)
declare i64 @llvm.cttz.i64(i64, i1)
declare float @llvm.fabs.f32(float)
declare double @llvm.fabs.f64(double)
declare i32 @llvm.smax.i32(i32, i32)
declare i64 @llvm.smax.i64(i64, i64)
declare i32 @llvm.smin.i32(i32, i32)
declare i64 @llvm.smin.i64(i64, i64)
declare double @llvm.sqrt.f64(double)
declare i32 @llvm.umax.i32(i32, i32)
declare i64 @llvm.umax.i64(i64, i64)
declare i32 @llvm.umin.i32(i32, i32)
declare i64 @llvm.umin.i64(i64, i64)
