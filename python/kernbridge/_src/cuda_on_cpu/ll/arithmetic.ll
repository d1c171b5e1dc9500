; Written by tests/ll/generate.py: change it there.

; What LLVM leaves undefined and a GPU defines, as functions in place of the instructions.
;
; - A number that does not fit becomes the nearest integer that does when it is converted. NaN
;   becomes 0 if it was a float, and the number with the highest bit alone if it was a double or the
;   integer has 64 bits. Conversions to 8 bits pass through 16 bits.
; - A shift by the width or more leaves zeros, or copies of the sign.
; - Division by zero makes all bits 1, and the smallest number divided by -1 is itself; x86
;   processors end the process instead.
; - The remainder of floats is made of a division that is rounded: it is not exact.

define linkonce_odr i8 @kb.shl.i8(i8 %x, i8 %count) alwaysinline {
  %fits = icmp ult i8 %count, 8
  %shifted = shl i8 %x, %count
  %r = select i1 %fits, i8 %shifted, i8 0
  ret i8 %r
}

define linkonce_odr i8 @kb.lshr.i8(i8 %x, i8 %count) alwaysinline {
  %fits = icmp ult i8 %count, 8
  %shifted = lshr i8 %x, %count
  %r = select i1 %fits, i8 %shifted, i8 0
  ret i8 %r
}

define linkonce_odr i8 @kb.ashr.i8(i8 %x, i8 %count) alwaysinline {
  %fits = icmp ult i8 %count, 8
  %last = select i1 %fits, i8 %count, i8 7
  %r = ashr i8 %x, %last
  ret i8 %r
}

define linkonce_odr i8 @kb.udiv.i8(i8 %x, i8 %y) alwaysinline {
  %zero = icmp eq i8 %y, 0
  %by = select i1 %zero, i8 1, i8 %y
  %q = udiv i8 %x, %by
  %r = select i1 %zero, i8 -1, i8 %q
  ret i8 %r
}

define linkonce_odr i8 @kb.sdiv.i8(i8 %x, i8 %y) alwaysinline {
  %zero = icmp eq i8 %y, 0
  %minus = icmp eq i8 %y, -1
  %special = or i1 %zero, %minus
  %by = select i1 %special, i8 1, i8 %y
  %q = sdiv i8 %x, %by
  %negated = sub i8 0, %x
  %or_negated = select i1 %minus, i8 %negated, i8 %q
  %r = select i1 %zero, i8 -1, i8 %or_negated
  ret i8 %r
}

define linkonce_odr i8 @kb.urem.i8(i8 %x, i8 %y) alwaysinline {
  %zero = icmp eq i8 %y, 0
  %by = select i1 %zero, i8 1, i8 %y
  %q = urem i8 %x, %by
  %r = select i1 %zero, i8 -1, i8 %q
  ret i8 %r
}

define linkonce_odr i8 @kb.srem.i8(i8 %x, i8 %y) alwaysinline {
  %zero = icmp eq i8 %y, 0
  %minus = icmp eq i8 %y, -1
  %special = or i1 %zero, %minus
  %by = select i1 %special, i8 1, i8 %y
  %q = srem i8 %x, %by
  %r = select i1 %zero, i8 -1, i8 %q
  ret i8 %r
}

define linkonce_odr i16 @kb.shl.i16(i16 %x, i16 %count) alwaysinline {
  %fits = icmp ult i16 %count, 16
  %shifted = shl i16 %x, %count
  %r = select i1 %fits, i16 %shifted, i16 0
  ret i16 %r
}

define linkonce_odr i16 @kb.lshr.i16(i16 %x, i16 %count) alwaysinline {
  %fits = icmp ult i16 %count, 16
  %shifted = lshr i16 %x, %count
  %r = select i1 %fits, i16 %shifted, i16 0
  ret i16 %r
}

define linkonce_odr i16 @kb.ashr.i16(i16 %x, i16 %count) alwaysinline {
  %fits = icmp ult i16 %count, 16
  %last = select i1 %fits, i16 %count, i16 15
  %r = ashr i16 %x, %last
  ret i16 %r
}

define linkonce_odr i16 @kb.udiv.i16(i16 %x, i16 %y) alwaysinline {
  %zero = icmp eq i16 %y, 0
  %by = select i1 %zero, i16 1, i16 %y
  %q = udiv i16 %x, %by
  %r = select i1 %zero, i16 -1, i16 %q
  ret i16 %r
}

define linkonce_odr i16 @kb.sdiv.i16(i16 %x, i16 %y) alwaysinline {
  %zero = icmp eq i16 %y, 0
  %minus = icmp eq i16 %y, -1
  %special = or i1 %zero, %minus
  %by = select i1 %special, i16 1, i16 %y
  %q = sdiv i16 %x, %by
  %negated = sub i16 0, %x
  %or_negated = select i1 %minus, i16 %negated, i16 %q
  %r = select i1 %zero, i16 -1, i16 %or_negated
  ret i16 %r
}

define linkonce_odr i16 @kb.urem.i16(i16 %x, i16 %y) alwaysinline {
  %zero = icmp eq i16 %y, 0
  %by = select i1 %zero, i16 1, i16 %y
  %q = urem i16 %x, %by
  %r = select i1 %zero, i16 -1, i16 %q
  ret i16 %r
}

define linkonce_odr i16 @kb.srem.i16(i16 %x, i16 %y) alwaysinline {
  %zero = icmp eq i16 %y, 0
  %minus = icmp eq i16 %y, -1
  %special = or i1 %zero, %minus
  %by = select i1 %special, i16 1, i16 %y
  %q = srem i16 %x, %by
  %r = select i1 %zero, i16 -1, i16 %q
  ret i16 %r
}

define linkonce_odr i32 @kb.shl.i32(i32 %x, i32 %count) alwaysinline {
  %fits = icmp ult i32 %count, 32
  %shifted = shl i32 %x, %count
  %r = select i1 %fits, i32 %shifted, i32 0
  ret i32 %r
}

define linkonce_odr i32 @kb.lshr.i32(i32 %x, i32 %count) alwaysinline {
  %fits = icmp ult i32 %count, 32
  %shifted = lshr i32 %x, %count
  %r = select i1 %fits, i32 %shifted, i32 0
  ret i32 %r
}

define linkonce_odr i32 @kb.ashr.i32(i32 %x, i32 %count) alwaysinline {
  %fits = icmp ult i32 %count, 32
  %last = select i1 %fits, i32 %count, i32 31
  %r = ashr i32 %x, %last
  ret i32 %r
}

define linkonce_odr i32 @kb.udiv.i32(i32 %x, i32 %y) alwaysinline {
  %zero = icmp eq i32 %y, 0
  %by = select i1 %zero, i32 1, i32 %y
  %q = udiv i32 %x, %by
  %r = select i1 %zero, i32 -1, i32 %q
  ret i32 %r
}

define linkonce_odr i32 @kb.sdiv.i32(i32 %x, i32 %y) alwaysinline {
  %zero = icmp eq i32 %y, 0
  %minus = icmp eq i32 %y, -1
  %special = or i1 %zero, %minus
  %by = select i1 %special, i32 1, i32 %y
  %q = sdiv i32 %x, %by
  %negated = sub i32 0, %x
  %or_negated = select i1 %minus, i32 %negated, i32 %q
  %r = select i1 %zero, i32 -1, i32 %or_negated
  ret i32 %r
}

define linkonce_odr i32 @kb.urem.i32(i32 %x, i32 %y) alwaysinline {
  %zero = icmp eq i32 %y, 0
  %by = select i1 %zero, i32 1, i32 %y
  %q = urem i32 %x, %by
  %r = select i1 %zero, i32 -1, i32 %q
  ret i32 %r
}

define linkonce_odr i32 @kb.srem.i32(i32 %x, i32 %y) alwaysinline {
  %zero = icmp eq i32 %y, 0
  %minus = icmp eq i32 %y, -1
  %special = or i1 %zero, %minus
  %by = select i1 %special, i32 1, i32 %y
  %q = srem i32 %x, %by
  %r = select i1 %zero, i32 -1, i32 %q
  ret i32 %r
}

define linkonce_odr i64 @kb.shl.i64(i64 %x, i64 %count) alwaysinline {
  %n = and i64 %count, 4294967295
  %fits = icmp ult i64 %n, 64
  %shifted = shl i64 %x, %n
  %r = select i1 %fits, i64 %shifted, i64 0
  ret i64 %r
}

define linkonce_odr i64 @kb.lshr.i64(i64 %x, i64 %count) alwaysinline {
  %n = and i64 %count, 4294967295
  %fits = icmp ult i64 %n, 64
  %shifted = lshr i64 %x, %n
  %r = select i1 %fits, i64 %shifted, i64 0
  ret i64 %r
}

define linkonce_odr i64 @kb.ashr.i64(i64 %x, i64 %count) alwaysinline {
  %n = and i64 %count, 4294967295
  %fits = icmp ult i64 %n, 64
  %last = select i1 %fits, i64 %n, i64 63
  %r = ashr i64 %x, %last
  ret i64 %r
}

define linkonce_odr i64 @kb.udiv.i64(i64 %x, i64 %y) alwaysinline {
  %zero = icmp eq i64 %y, 0
  %by = select i1 %zero, i64 1, i64 %y
  %q = udiv i64 %x, %by
  %r = select i1 %zero, i64 -1, i64 %q
  ret i64 %r
}

define linkonce_odr i64 @kb.sdiv.i64(i64 %x, i64 %y) alwaysinline {
  %zero = icmp eq i64 %y, 0
  %minus = icmp eq i64 %y, -1
  %special = or i1 %zero, %minus
  %by = select i1 %special, i64 1, i64 %y
  %q = sdiv i64 %x, %by
  %negated = sub i64 0, %x
  %or_negated = select i1 %minus, i64 %negated, i64 %q
  %r = select i1 %zero, i64 -1, i64 %or_negated
  ret i64 %r
}

define linkonce_odr i64 @kb.urem.i64(i64 %x, i64 %y) alwaysinline {
  %zero = icmp eq i64 %y, 0
  %by = select i1 %zero, i64 1, i64 %y
  %q = urem i64 %x, %by
  %r = select i1 %zero, i64 -1, i64 %q
  ret i64 %r
}

define linkonce_odr i64 @kb.srem.i64(i64 %x, i64 %y) alwaysinline {
  %zero = icmp eq i64 %y, 0
  %minus = icmp eq i64 %y, -1
  %special = or i1 %zero, %minus
  %by = select i1 %special, i64 1, i64 %y
  %q = srem i64 %x, %by
  %r = select i1 %zero, i64 -1, i64 %q
  ret i64 %r
}

define linkonce_odr i8 @kb.fptosi.f16.i8(half %x) alwaysinline {
  %n = call i16 @llvm.fptosi.sat.i16.f16(half %x)
  %r = trunc i16 %n to i8
  ret i8 %r
}

define linkonce_odr i16 @kb.fptosi.f16.i16(half %x) alwaysinline {
  %n = call i16 @llvm.fptosi.sat.i16.f16(half %x)
  ret i16 %n
}

define linkonce_odr i32 @kb.fptosi.f16.i32(half %x) alwaysinline {
  %n = call i32 @llvm.fptosi.sat.i32.f16(half %x)
  ret i32 %n
}

define linkonce_odr i64 @kb.fptosi.f16.i64(half %x) alwaysinline {
  %n = call i64 @llvm.fptosi.sat.i64.f16(half %x)
  %nan = fcmp uno half %x, %x
  %m = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %m
}

define linkonce_odr i8 @kb.fptoui.f16.i8(half %x) alwaysinline {
  %n = call i16 @llvm.fptoui.sat.i16.f16(half %x)
  %r = trunc i16 %n to i8
  ret i8 %r
}

define linkonce_odr i16 @kb.fptoui.f16.i16(half %x) alwaysinline {
  %n = call i16 @llvm.fptoui.sat.i16.f16(half %x)
  ret i16 %n
}

define linkonce_odr i32 @kb.fptoui.f16.i32(half %x) alwaysinline {
  %n = call i32 @llvm.fptoui.sat.i32.f16(half %x)
  ret i32 %n
}

define linkonce_odr i64 @kb.fptoui.f16.i64(half %x) alwaysinline {
  %n = call i64 @llvm.fptoui.sat.i64.f16(half %x)
  %nan = fcmp uno half %x, %x
  %m = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %m
}

define linkonce_odr i8 @kb.fptosi.f32.i8(float %x) alwaysinline {
  %n = call i16 @llvm.fptosi.sat.i16.f32(float %x)
  %r = trunc i16 %n to i8
  ret i8 %r
}

define linkonce_odr i16 @kb.fptosi.f32.i16(float %x) alwaysinline {
  %n = call i16 @llvm.fptosi.sat.i16.f32(float %x)
  ret i16 %n
}

define linkonce_odr i32 @kb.fptosi.f32.i32(float %x) alwaysinline {
  %n = call i32 @llvm.fptosi.sat.i32.f32(float %x)
  ret i32 %n
}

define linkonce_odr i64 @kb.fptosi.f32.i64(float %x) alwaysinline {
  %n = call i64 @llvm.fptosi.sat.i64.f32(float %x)
  %nan = fcmp uno float %x, %x
  %m = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %m
}

define linkonce_odr i8 @kb.fptoui.f32.i8(float %x) alwaysinline {
  %n = call i16 @llvm.fptoui.sat.i16.f32(float %x)
  %r = trunc i16 %n to i8
  ret i8 %r
}

define linkonce_odr i16 @kb.fptoui.f32.i16(float %x) alwaysinline {
  %n = call i16 @llvm.fptoui.sat.i16.f32(float %x)
  ret i16 %n
}

define linkonce_odr i32 @kb.fptoui.f32.i32(float %x) alwaysinline {
  %n = call i32 @llvm.fptoui.sat.i32.f32(float %x)
  ret i32 %n
}

define linkonce_odr i64 @kb.fptoui.f32.i64(float %x) alwaysinline {
  %n = call i64 @llvm.fptoui.sat.i64.f32(float %x)
  %nan = fcmp uno float %x, %x
  %m = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %m
}

define linkonce_odr i8 @kb.fptosi.f64.i8(double %x) alwaysinline {
  %n = call i16 @llvm.fptosi.sat.i16.f64(double %x)
  %nan = fcmp uno double %x, %x
  %m = select i1 %nan, i16 -32768, i16 %n
  %r = trunc i16 %m to i8
  ret i8 %r
}

define linkonce_odr i16 @kb.fptosi.f64.i16(double %x) alwaysinline {
  %n = call i16 @llvm.fptosi.sat.i16.f64(double %x)
  %nan = fcmp uno double %x, %x
  %m = select i1 %nan, i16 -32768, i16 %n
  ret i16 %m
}

define linkonce_odr i32 @kb.fptosi.f64.i32(double %x) alwaysinline {
  %n = call i32 @llvm.fptosi.sat.i32.f64(double %x)
  %nan = fcmp uno double %x, %x
  %m = select i1 %nan, i32 -2147483648, i32 %n
  ret i32 %m
}

define linkonce_odr i64 @kb.fptosi.f64.i64(double %x) alwaysinline {
  %n = call i64 @llvm.fptosi.sat.i64.f64(double %x)
  %nan = fcmp uno double %x, %x
  %m = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %m
}

define linkonce_odr i8 @kb.fptoui.f64.i8(double %x) alwaysinline {
  %n = call i16 @llvm.fptoui.sat.i16.f64(double %x)
  %nan = fcmp uno double %x, %x
  %m = select i1 %nan, i16 -32768, i16 %n
  %r = trunc i16 %m to i8
  ret i8 %r
}

define linkonce_odr i16 @kb.fptoui.f64.i16(double %x) alwaysinline {
  %n = call i16 @llvm.fptoui.sat.i16.f64(double %x)
  %nan = fcmp uno double %x, %x
  %m = select i1 %nan, i16 -32768, i16 %n
  ret i16 %m
}

define linkonce_odr i32 @kb.fptoui.f64.i32(double %x) alwaysinline {
  %n = call i32 @llvm.fptoui.sat.i32.f64(double %x)
  %nan = fcmp uno double %x, %x
  %m = select i1 %nan, i32 -2147483648, i32 %n
  ret i32 %m
}

define linkonce_odr i64 @kb.fptoui.f64.i64(double %x) alwaysinline {
  %n = call i64 @llvm.fptoui.sat.i64.f64(double %x)
  %nan = fcmp uno double %x, %x
  %m = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %m
}

define linkonce_odr float @kb.frem.f32(float %x, float %y) alwaysinline {
  %q = fdiv float %x, %y
  %whole = call float @llvm.floor.f32(float %q)
  %product = fmul float %whole, %y
  %r = fsub float %x, %product
  ret float %r
}

define linkonce_odr double @kb.frem.f64(double %x, double %y) alwaysinline {
  %q = fdiv double %x, %y
  %whole = call double @llvm.floor.f64(double %q)
  %product = fmul double %whole, %y
  %r = fsub double %x, %product
  ret double %r
}

declare float @llvm.floor.f32(float)
declare double @llvm.floor.f64(double)
declare i16 @llvm.fptosi.sat.i16.f16(half)
declare i16 @llvm.fptosi.sat.i16.f32(float)
declare i16 @llvm.fptosi.sat.i16.f64(double)
declare i32 @llvm.fptosi.sat.i32.f16(half)
declare i32 @llvm.fptosi.sat.i32.f32(float)
declare i32 @llvm.fptosi.sat.i32.f64(double)
declare i64 @llvm.fptosi.sat.i64.f16(half)
declare i64 @llvm.fptosi.sat.i64.f32(float)
declare i64 @llvm.fptosi.sat.i64.f64(double)
declare i16 @llvm.fptoui.sat.i16.f16(half)
declare i16 @llvm.fptoui.sat.i16.f32(float)
declare i16 @llvm.fptoui.sat.i16.f64(double)
declare i32 @llvm.fptoui.sat.i32.f16(half)
declare i32 @llvm.fptoui.sat.i32.f32(float)
declare i32 @llvm.fptoui.sat.i32.f64(double)
declare i64 @llvm.fptoui.sat.i64.f16(half)
declare i64 @llvm.fptoui.sat.i64.f32(float)
declare i64 @llvm.fptoui.sat.i64.f64(double)
