; libdevice on the CPU: an intrinsic of LLVM or a function of the C library takes the place of one
; that means the same. Others are defined here, or by src/hostcuda/kb_libdevice.h as kb_nv_x. Errors
; are at most those that CUDA's documentation states; conversions to integers saturate, as on GPUs.


; Roots.

define linkonce_odr double @__nv_sqrt(double %x) alwaysinline {
  %r = call double @llvm.sqrt.f64(double %x)
  ret double %r
}

define linkonce_odr float @__nv_sqrtf(float %x) alwaysinline {
  %r = call float @llvm.sqrt.f32(float %x)
  ret float %r
}

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

define linkonce_odr double @__nv_cbrt(double %x) alwaysinline {
  %r = call double @kb_nv_cbrt(double %x)
  ret double %r
}

define linkonce_odr double @__nv_rcbrt(double %x) alwaysinline {
  %r = call double @kb_nv_rcbrt(double %x)
  ret double %r
}

define linkonce_odr float @__nv_cbrtf(float %x) alwaysinline {
  %xd = fpext float %x to double
  %d = call double @kb_nv_cbrt(double %xd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_rcbrtf(float %x) alwaysinline {
  %xd = fpext float %x to double
  %d = call double @kb_nv_rcbrt(double %xd)
  %r = fptrunc double %d to float
  ret float %r
}


; Intrinsics of LLVM.

define linkonce_odr double @__nv_ceil(double %x) alwaysinline {
  %r = call double @llvm.ceil.f64(double %x)
  ret double %r
}

define linkonce_odr float @__nv_ceilf(float %x) alwaysinline {
  %r = call float @llvm.ceil.f32(float %x)
  ret float %r
}

define linkonce_odr double @__nv_copysign(double %x, double %y) alwaysinline {
  %r = call double @llvm.copysign.f64(double %x, double %y)
  ret double %r
}

define linkonce_odr float @__nv_copysignf(float %x, float %y) alwaysinline {
  %r = call float @llvm.copysign.f32(float %x, float %y)
  ret float %r
}

define linkonce_odr double @__nv_fabs(double %x) alwaysinline {
  %r = call double @llvm.fabs.f64(double %x)
  ret double %r
}

define linkonce_odr float @__nv_fabsf(float %x) alwaysinline {
  %r = call float @llvm.fabs.f32(float %x)
  ret float %r
}

define linkonce_odr double @__nv_floor(double %x) alwaysinline {
  %r = call double @llvm.floor.f64(double %x)
  ret double %r
}

define linkonce_odr float @__nv_floorf(float %x) alwaysinline {
  %r = call float @llvm.floor.f32(float %x)
  ret float %r
}

define linkonce_odr double @__nv_fma(double %x, double %y, double %z) alwaysinline {
  %r = call double @llvm.fma.f64(double %x, double %y, double %z)
  ret double %r
}

define linkonce_odr float @__nv_fmaf(float %x, float %y, float %z) alwaysinline {
  %r = call float @llvm.fma.f32(float %x, float %y, float %z)
  ret float %r
}

define linkonce_odr double @__nv_nearbyint(double %x) alwaysinline {
  %r = call double @llvm.nearbyint.f64(double %x)
  ret double %r
}

define linkonce_odr float @__nv_nearbyintf(float %x) alwaysinline {
  %r = call float @llvm.nearbyint.f32(float %x)
  ret float %r
}

define linkonce_odr double @__nv_rint(double %x) alwaysinline {
  %r = call double @llvm.rint.f64(double %x)
  ret double %r
}

define linkonce_odr float @__nv_rintf(float %x) alwaysinline {
  %r = call float @llvm.rint.f32(float %x)
  ret float %r
}

define linkonce_odr double @__nv_round(double %x) alwaysinline {
  %r = call double @llvm.round.f64(double %x)
  ret double %r
}

define linkonce_odr float @__nv_roundf(float %x) alwaysinline {
  %r = call float @llvm.round.f32(float %x)
  ret float %r
}

define linkonce_odr double @__nv_trunc(double %x) alwaysinline {
  %r = call double @llvm.trunc.f64(double %x)
  ret double %r
}

define linkonce_odr float @__nv_truncf(float %x) alwaysinline {
  %r = call float @llvm.trunc.f32(float %x)
  ret float %r
}


; Maximum and minimum. Of equal numbers, which the sign of zero may tell apart, the bits decide.

define linkonce_odr double @__nv_fmin(double %x, double %y) alwaysinline {
  %m = call double @llvm.minnum.f64(double %x, double %y)
  %t = fcmp oeq double %x, %y
  %a = bitcast double %x to i64
  %b = bitcast double %y to i64
  %c = or i64 %a, %b
  %d = bitcast i64 %c to double
  %r = select i1 %t, double %d, double %m
  ret double %r
}

define linkonce_odr double @__nv_fmax(double %x, double %y) alwaysinline {
  %m = call double @llvm.maxnum.f64(double %x, double %y)
  %t = fcmp oeq double %x, %y
  %a = bitcast double %x to i64
  %b = bitcast double %y to i64
  %c = and i64 %a, %b
  %d = bitcast i64 %c to double
  %r = select i1 %t, double %d, double %m
  ret double %r
}

define linkonce_odr float @__nv_fminf(float %x, float %y) alwaysinline {
  %m = call float @llvm.minnum.f32(float %x, float %y)
  %t = fcmp oeq float %x, %y
  %a = bitcast float %x to i32
  %b = bitcast float %y to i32
  %c = or i32 %a, %b
  %d = bitcast i32 %c to float
  %r = select i1 %t, float %d, float %m
  ret float %r
}

define linkonce_odr float @__nv_fmaxf(float %x, float %y) alwaysinline {
  %m = call float @llvm.maxnum.f32(float %x, float %y)
  %t = fcmp oeq float %x, %y
  %a = bitcast float %x to i32
  %b = bitcast float %y to i32
  %c = and i32 %a, %b
  %d = bitcast i32 %c to float
  %r = select i1 %t, float %d, float %m
  ret float %r
}

define linkonce_odr float @__nv_saturatef(float %x) alwaysinline {
  %over = fcmp ogt float %x, 0.0
  %low = select i1 %over, float %x, float 0.0
  %under = fcmp olt float %low, 1.0
  %r = select i1 %under, float %low, float 1.0
  ret float %r
}


; Functions of the C library.

define linkonce_odr double @__nv_acos(double %x) alwaysinline {
  %r = call double @acos(double %x)
  ret double %r
}

define linkonce_odr float @__nv_acosf(float %x) alwaysinline {
  %r = call float @acosf(float %x)
  ret float %r
}

define linkonce_odr double @__nv_acosh(double %x) alwaysinline {
  %r = call double @acosh(double %x)
  ret double %r
}

define linkonce_odr float @__nv_acoshf(float %x) alwaysinline {
  %r = call float @acoshf(float %x)
  ret float %r
}

define linkonce_odr double @__nv_asin(double %x) alwaysinline {
  %r = call double @asin(double %x)
  ret double %r
}

define linkonce_odr float @__nv_asinf(float %x) alwaysinline {
  %r = call float @asinf(float %x)
  ret float %r
}

define linkonce_odr double @__nv_asinh(double %x) alwaysinline {
  %r = call double @asinh(double %x)
  ret double %r
}

define linkonce_odr float @__nv_asinhf(float %x) alwaysinline {
  %r = call float @asinhf(float %x)
  ret float %r
}

define linkonce_odr double @__nv_atan(double %x) alwaysinline {
  %r = call double @atan(double %x)
  ret double %r
}

define linkonce_odr float @__nv_atanf(float %x) alwaysinline {
  %r = call float @atanf(float %x)
  ret float %r
}

define linkonce_odr double @__nv_atan2(double %x, double %y) alwaysinline {
  %r = call double @atan2(double %x, double %y)
  ret double %r
}

define linkonce_odr float @__nv_atan2f(float %x, float %y) alwaysinline {
  %r = call float @atan2f(float %x, float %y)
  ret float %r
}

define linkonce_odr double @__nv_atanh(double %x) alwaysinline {
  %r = call double @atanh(double %x)
  ret double %r
}

define linkonce_odr float @__nv_atanhf(float %x) alwaysinline {
  %r = call float @atanhf(float %x)
  ret float %r
}

define linkonce_odr double @__nv_cos(double %x) alwaysinline {
  %r = call double @cos(double %x)
  ret double %r
}

define linkonce_odr float @__nv_cosf(float %x) alwaysinline {
  %r = call float @cosf(float %x)
  ret float %r
}

define linkonce_odr double @__nv_erf(double %x) alwaysinline {
  %r = call double @erf(double %x)
  ret double %r
}

define linkonce_odr float @__nv_erff(float %x) alwaysinline {
  %r = call float @erff(float %x)
  ret float %r
}

define linkonce_odr double @__nv_erfc(double %x) alwaysinline {
  %r = call double @erfc(double %x)
  ret double %r
}

define linkonce_odr float @__nv_erfcf(float %x) alwaysinline {
  %r = call float @erfcf(float %x)
  ret float %r
}

define linkonce_odr double @__nv_exp(double %x) alwaysinline {
  %r = call double @exp(double %x)
  ret double %r
}

define linkonce_odr float @__nv_expf(float %x) alwaysinline {
  %r = call float @expf(float %x)
  ret float %r
}

define linkonce_odr double @__nv_exp2(double %x) alwaysinline {
  %r = call double @exp2(double %x)
  ret double %r
}

define linkonce_odr float @__nv_exp2f(float %x) alwaysinline {
  %r = call float @exp2f(float %x)
  ret float %r
}

define linkonce_odr double @__nv_expm1(double %x) alwaysinline {
  %r = call double @expm1(double %x)
  ret double %r
}

define linkonce_odr float @__nv_expm1f(float %x) alwaysinline {
  %r = call float @expm1f(float %x)
  ret float %r
}

define linkonce_odr double @__nv_fdim(double %x, double %y) alwaysinline {
  %r = call double @fdim(double %x, double %y)
  ret double %r
}

define linkonce_odr float @__nv_fdimf(float %x, float %y) alwaysinline {
  %r = call float @fdimf(float %x, float %y)
  ret float %r
}

define linkonce_odr double @__nv_fmod(double %x, double %y) alwaysinline {
  %r = call double @fmod(double %x, double %y)
  ret double %r
}

define linkonce_odr float @__nv_fmodf(float %x, float %y) alwaysinline {
  %r = call float @fmodf(float %x, float %y)
  ret float %r
}

define linkonce_odr double @__nv_frexp(double %x, ptr %y) alwaysinline {
  %r = call double @frexp(double %x, ptr %y)
  ret double %r
}

define linkonce_odr float @__nv_frexpf(float %x, ptr %y) alwaysinline {
  %r = call float @frexpf(float %x, ptr %y)
  ret float %r
}

define linkonce_odr double @__nv_hypot(double %x, double %y) alwaysinline {
  %r = call double @hypot(double %x, double %y)
  ret double %r
}

define linkonce_odr float @__nv_hypotf(float %x, float %y) alwaysinline {
  %r = call float @hypotf(float %x, float %y)
  ret float %r
}

define linkonce_odr double @__nv_ldexp(double %x, i32 %y) alwaysinline {
  %r = call double @ldexp(double %x, i32 %y)
  ret double %r
}

define linkonce_odr float @__nv_ldexpf(float %x, i32 %y) alwaysinline {
  %r = call float @ldexpf(float %x, i32 %y)
  ret float %r
}

define linkonce_odr double @__nv_log(double %x) alwaysinline {
  %r = call double @log(double %x)
  ret double %r
}

define linkonce_odr float @__nv_logf(float %x) alwaysinline {
  %r = call float @logf(float %x)
  ret float %r
}

define linkonce_odr double @__nv_log1p(double %x) alwaysinline {
  %r = call double @log1p(double %x)
  ret double %r
}

define linkonce_odr float @__nv_log1pf(float %x) alwaysinline {
  %r = call float @log1pf(float %x)
  ret float %r
}

define linkonce_odr double @__nv_log2(double %x) alwaysinline {
  %r = call double @log2(double %x)
  ret double %r
}

define linkonce_odr float @__nv_log2f(float %x) alwaysinline {
  %r = call float @log2f(float %x)
  ret float %r
}

define linkonce_odr double @__nv_logb(double %x) alwaysinline {
  %r = call double @logb(double %x)
  ret double %r
}

define linkonce_odr float @__nv_logbf(float %x) alwaysinline {
  %r = call float @logbf(float %x)
  ret float %r
}

define linkonce_odr double @__nv_modf(double %x, ptr %y) alwaysinline {
  %r = call double @modf(double %x, ptr %y)
  ret double %r
}

define linkonce_odr float @__nv_modff(float %x, ptr %y) alwaysinline {
  %r = call float @modff(float %x, ptr %y)
  ret float %r
}

define linkonce_odr double @__nv_nextafter(double %x, double %y) alwaysinline {
  %r = call double @nextafter(double %x, double %y)
  ret double %r
}

define linkonce_odr float @__nv_nextafterf(float %x, float %y) alwaysinline {
  %r = call float @nextafterf(float %x, float %y)
  ret float %r
}

define linkonce_odr double @__nv_pow(double %x, double %y) alwaysinline {
  %r = call double @pow(double %x, double %y)
  ret double %r
}

define linkonce_odr float @__nv_powf(float %x, float %y) alwaysinline {
  %r = call float @powf(float %x, float %y)
  ret float %r
}

define linkonce_odr double @__nv_remainder(double %x, double %y) alwaysinline {
  %r = call double @remainder(double %x, double %y)
  ret double %r
}

define linkonce_odr float @__nv_remainderf(float %x, float %y) alwaysinline {
  %r = call float @remainderf(float %x, float %y)
  ret float %r
}

define linkonce_odr double @__nv_remquo(double %x, double %y, ptr %z) alwaysinline {
  %r = call double @remquo(double %x, double %y, ptr %z)
  ret double %r
}

define linkonce_odr float @__nv_remquof(float %x, float %y, ptr %z) alwaysinline {
  %r = call float @remquof(float %x, float %y, ptr %z)
  ret float %r
}

define linkonce_odr double @__nv_sin(double %x) alwaysinline {
  %r = call double @sin(double %x)
  ret double %r
}

define linkonce_odr float @__nv_sinf(float %x) alwaysinline {
  %r = call float @sinf(float %x)
  ret float %r
}

define linkonce_odr double @__nv_sinh(double %x) alwaysinline {
  %r = call double @sinh(double %x)
  ret double %r
}

define linkonce_odr float @__nv_sinhf(float %x) alwaysinline {
  %r = call float @sinhf(float %x)
  ret float %r
}

define linkonce_odr double @__nv_tan(double %x) alwaysinline {
  %r = call double @tan(double %x)
  ret double %r
}

define linkonce_odr float @__nv_tanf(float %x) alwaysinline {
  %r = call float @tanf(float %x)
  ret float %r
}

define linkonce_odr float @__nv_coshf(float %x) alwaysinline {
  %r = call float @coshf(float %x)
  ret float %r
}

define linkonce_odr float @__nv_exp10f(float %x) alwaysinline {
  %r = call float @exp10f(float %x)
  ret float %r
}

define linkonce_odr float @__nv_log10f(float %x) alwaysinline {
  %r = call float @log10f(float %x)
  ret float %r
}

define linkonce_odr float @__nv_tanhf(float %x) alwaysinline {
  %r = call float @tanhf(float %x)
  ret float %r
}

define linkonce_odr double @__nv_j0(double %x) alwaysinline {
  %r = call double @j0(double %x)
  ret double %r
}

define linkonce_odr double @__nv_j1(double %x) alwaysinline {
  %r = call double @j1(double %x)
  ret double %r
}

define linkonce_odr double @__nv_y0(double %x) alwaysinline {
  %r = call double @y0(double %x)
  ret double %r
}

define linkonce_odr double @__nv_y1(double %x) alwaysinline {
  %r = call double @y1(double %x)
  ret double %r
}

define linkonce_odr double @__nv_tgamma(double %x) alwaysinline {
  %r = call double @tgamma(double %x)
  ret double %r
}

define linkonce_odr double @__nv_scalbn(double %x, i32 %y) alwaysinline {
  %r = call double @ldexp(double %x, i32 %y)
  ret double %r
}

define linkonce_odr float @__nv_scalbnf(float %x, i32 %y) alwaysinline {
  %r = call float @ldexpf(float %x, i32 %y)
  ret float %r
}


; What the C library computes otherwise at the edges.

define linkonce_odr i32 @__nv_ilogb(double %x) alwaysinline {
  %n = call i32 @ilogb(double %x)
  %t = fcmp ueq double %x, 0.0
  %r = select i1 %t, i32 -2147483648, i32 %n
  ret i32 %r
}

define linkonce_odr i32 @__nv_ilogbf(float %x) alwaysinline {
  %n = call i32 @ilogbf(float %x)
  %t = fcmp ueq float %x, 0.0
  %r = select i1 %t, i32 -2147483648, i32 %n
  ret i32 %r
}

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


; Fast forms.

define linkonce_odr float @__nv_fast_cosf(float %x) alwaysinline {
  %r = call float @cosf(float %x)
  ret float %r
}

define linkonce_odr float @__nv_fast_exp10f(float %x) alwaysinline {
  %r = call float @exp10f(float %x)
  ret float %r
}

define linkonce_odr float @__nv_fast_expf(float %x) alwaysinline {
  %r = call float @expf(float %x)
  ret float %r
}

define linkonce_odr float @__nv_fast_log10f(float %x) alwaysinline {
  %r = call float @log10f(float %x)
  ret float %r
}

define linkonce_odr float @__nv_fast_log2f(float %x) alwaysinline {
  %r = call float @log2f(float %x)
  ret float %r
}

define linkonce_odr float @__nv_fast_logf(float %x) alwaysinline {
  %r = call float @logf(float %x)
  ret float %r
}

define linkonce_odr float @__nv_fast_powf(float %x, float %y) alwaysinline {
  %l = call float @log2f(float %x)
  %p = fmul float %y, %l
  %r = call float @exp2f(float %p)
  ret float %r
}

define linkonce_odr float @__nv_fast_sinf(float %x) alwaysinline {
  %r = call float @sinf(float %x)
  ret float %r
}

define linkonce_odr float @__nv_fast_tanf(float %x) alwaysinline {
  %r = call float @tanf(float %x)
  ret float %r
}

define linkonce_odr ptr @__nv_fast_sincosf(float %x, ptr %ps, ptr %pc) alwaysinline {
  %s = call float @llvm.sin.f32(float %x)
  %c = call float @llvm.cos.f32(float %x)
  store float %s, ptr %ps
  store float %c, ptr %pc
  ret ptr null
}


; Functions of src/hostcuda/kb_libdevice.h.

define linkonce_odr double @__nv_cosh(double %x) alwaysinline {
  %r = call double @kb_nv_cosh(double %x)
  ret double %r
}

define linkonce_odr double @__nv_tanh(double %x) alwaysinline {
  %r = call double @kb_nv_tanh(double %x)
  ret double %r
}

define linkonce_odr double @__nv_exp10(double %x) alwaysinline {
  %r = call double @kb_nv_exp10(double %x)
  ret double %r
}

define linkonce_odr double @__nv_log10(double %x) alwaysinline {
  %r = call double @kb_nv_log10(double %x)
  ret double %r
}

define linkonce_odr double @__nv_lgamma(double %x) alwaysinline {
  %r = call double @kb_nv_lgamma(double %x)
  ret double %r
}

define linkonce_odr double @__nv_erfcx(double %x) alwaysinline {
  %r = call double @kb_nv_erfcx(double %x)
  ret double %r
}

define linkonce_odr double @__nv_erfinv(double %x) alwaysinline {
  %r = call double @kb_nv_erfinv(double %x)
  ret double %r
}

define linkonce_odr double @__nv_erfcinv(double %x) alwaysinline {
  %r = call double @kb_nv_erfcinv(double %x)
  ret double %r
}

define linkonce_odr double @__nv_normcdf(double %x) alwaysinline {
  %r = call double @kb_nv_normcdf(double %x)
  ret double %r
}

define linkonce_odr double @__nv_normcdfinv(double %x) alwaysinline {
  %r = call double @kb_nv_normcdfinv(double %x)
  ret double %r
}

define linkonce_odr double @__nv_sinpi(double %x) alwaysinline {
  %r = call double @kb_nv_sinpi(double %x)
  ret double %r
}

define linkonce_odr double @__nv_cospi(double %x) alwaysinline {
  %r = call double @kb_nv_cospi(double %x)
  ret double %r
}

define linkonce_odr double @__nv_jn(i32 %x, double %y) alwaysinline {
  %r = call double @kb_nv_jn(i32 %x, double %y)
  ret double %r
}

define linkonce_odr double @__nv_yn(i32 %x, double %y) alwaysinline {
  %r = call double @kb_nv_yn(i32 %x, double %y)
  ret double %r
}


; Functions of floats that round what the function of doubles returns.

define linkonce_odr float @__nv_lgammaf(float %x) alwaysinline {
  %xd = fpext float %x to double
  %d = call double @kb_nv_lgamma(double %xd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_tgammaf(float %x) alwaysinline {
  %xd = fpext float %x to double
  %d = call double @tgamma(double %xd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_erfcxf(float %x) alwaysinline {
  %xd = fpext float %x to double
  %d = call double @kb_nv_erfcx(double %xd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_erfinvf(float %x) alwaysinline {
  %xd = fpext float %x to double
  %d = call double @kb_nv_erfinv(double %xd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_erfcinvf(float %x) alwaysinline {
  %xd = fpext float %x to double
  %d = call double @kb_nv_erfcinv(double %xd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_normcdff(float %x) alwaysinline {
  %xd = fpext float %x to double
  %d = call double @kb_nv_normcdf(double %xd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_normcdfinvf(float %x) alwaysinline {
  %xd = fpext float %x to double
  %d = call double @kb_nv_normcdfinv(double %xd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_sinpif(float %x) alwaysinline {
  %xd = fpext float %x to double
  %d = call double @kb_nv_sinpi(double %xd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_cospif(float %x) alwaysinline {
  %xd = fpext float %x to double
  %d = call double @kb_nv_cospi(double %xd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_j0f(float %x) alwaysinline {
  %xd = fpext float %x to double
  %d = call double @j0(double %xd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_j1f(float %x) alwaysinline {
  %xd = fpext float %x to double
  %d = call double @j1(double %xd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_y0f(float %x) alwaysinline {
  %xd = fpext float %x to double
  %d = call double @y0(double %xd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_y1f(float %x) alwaysinline {
  %xd = fpext float %x to double
  %d = call double @y1(double %xd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_cyl_bessel_i0f(float %x) alwaysinline {
  %xd = fpext float %x to double
  %d = call double @kb_nv_cyl_bessel_i0(double %xd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_cyl_bessel_i1f(float %x) alwaysinline {
  %xd = fpext float %x to double
  %d = call double @kb_nv_cyl_bessel_i1(double %xd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_rhypotf(float %x, float %y) alwaysinline {
  %xd = fpext float %x to double
  %yd = fpext float %y to double
  %d = call double @kb_nv_rhypot(double %xd, double %yd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_norm3df(float %x, float %y, float %z) alwaysinline {
  %xd = fpext float %x to double
  %yd = fpext float %y to double
  %zd = fpext float %z to double
  %d = call double @kb_nv_norm3d(double %xd, double %yd, double %zd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_rnorm3df(float %x, float %y, float %z) alwaysinline {
  %xd = fpext float %x to double
  %yd = fpext float %y to double
  %zd = fpext float %z to double
  %d = call double @kb_nv_rnorm3d(double %xd, double %yd, double %zd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_norm4df(float %x, float %y, float %z, float %w) alwaysinline {
  %xd = fpext float %x to double
  %yd = fpext float %y to double
  %zd = fpext float %z to double
  %wd = fpext float %w to double
  %d = call double @kb_nv_norm4d(double %xd, double %yd, double %zd, double %wd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_rnorm4df(float %x, float %y, float %z, float %w) alwaysinline {
  %xd = fpext float %x to double
  %yd = fpext float %y to double
  %zd = fpext float %z to double
  %wd = fpext float %w to double
  %d = call double @kb_nv_rnorm4d(double %xd, double %yd, double %zd, double %wd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_jnf(i32 %n, float %x) alwaysinline {
  %xd = fpext float %x to double
  %d = call double @kb_nv_jn(i32 %n, double %xd)
  %r = fptrunc double %d to float
  ret float %r
}

define linkonce_odr float @__nv_ynf(i32 %n, float %x) alwaysinline {
  %xd = fpext float %x to double
  %d = call double @kb_nv_yn(i32 %n, double %xd)
  %r = fptrunc double %d to float
  ret float %r
}


; Pairs. Numba-CUDA declares that they return a pointer, and uses none.

define linkonce_odr ptr @__nv_sincos(double %x, ptr %ps, ptr %pc) alwaysinline {
  %s = call double @llvm.sin.f64(double %x)
  %c = call double @llvm.cos.f64(double %x)
  store double %s, ptr %ps
  store double %c, ptr %pc
  ret ptr null
}

define linkonce_odr ptr @__nv_sincospi(double %x, ptr %ps, ptr %pc) alwaysinline {
  %s = call double @kb_nv_sinpi(double %x)
  %c = call double @kb_nv_cospi(double %x)
  store double %s, ptr %ps
  store double %c, ptr %pc
  ret ptr null
}

define linkonce_odr ptr @__nv_sincosf(float %x, ptr %ps, ptr %pc) alwaysinline {
  %s = call float @llvm.sin.f32(float %x)
  %c = call float @llvm.cos.f32(float %x)
  store float %s, ptr %ps
  store float %c, ptr %pc
  ret ptr null
}

define linkonce_odr ptr @__nv_sincospif(float %x, ptr %ps, ptr %pc) alwaysinline {
  %s = call float @__nv_sinpif(float %x)
  %c = call float @__nv_cospif(float %x)
  store float %s, ptr %ps
  store float %c, ptr %pc
  ret ptr null
}


; What is called above.

declare double @acos(double) #0
declare float @acosf(float) #0
declare double @acosh(double) #0
declare float @acoshf(float) #0
declare double @asin(double) #0
declare float @asinf(float) #0
declare double @asinh(double) #0
declare float @asinhf(float) #0
declare double @atan(double) #0
declare double @atan2(double, double) #0
declare float @atan2f(float, float) #0
declare float @atanf(float) #0
declare double @atanh(double) #0
declare float @atanhf(float) #0
declare double @cos(double) #0
declare float @cosf(float) #0
declare float @coshf(float) #0
declare double @erf(double) #0
declare double @erfc(double) #0
declare float @erfcf(float) #0
declare float @erff(float) #0
declare double @exp(double) #0
declare float @exp10f(float) #0
declare double @exp2(double) #0
declare float @exp2f(float) #0
declare float @expf(float) #0
declare double @expm1(double) #0
declare float @expm1f(float) #0
declare double @fdim(double, double) #0
declare float @fdimf(float, float) #0
declare double @fmod(double, double) #0
declare float @fmodf(float, float) #0
declare double @frexp(double, ptr) #1
declare float @frexpf(float, ptr) #1
declare double @hypot(double, double) #0
declare float @hypotf(float, float) #0
declare i32 @ilogb(double) #0
declare i32 @ilogbf(float) #0
declare double @j0(double) #0
declare double @j1(double) #0
declare double @kb_nv_cbrt(double) #0
declare double @kb_nv_cosh(double) #0
declare double @kb_nv_cospi(double) #0
declare double @kb_nv_cyl_bessel_i0(double) #0
declare double @kb_nv_cyl_bessel_i1(double) #0
declare double @kb_nv_erfcinv(double) #0
declare double @kb_nv_erfcx(double) #0
declare double @kb_nv_erfinv(double) #0
declare double @kb_nv_exp10(double) #0
declare double @kb_nv_jn(i32, double) #0
declare double @kb_nv_lgamma(double) #0
declare double @kb_nv_log10(double) #0
declare double @kb_nv_norm3d(double, double, double) #0
declare double @kb_nv_norm4d(double, double, double, double) #0
declare double @kb_nv_normcdf(double) #0
declare double @kb_nv_normcdfinv(double) #0
declare double @kb_nv_rcbrt(double) #0
declare double @kb_nv_rhypot(double, double) #0
declare double @kb_nv_rnorm3d(double, double, double) #0
declare double @kb_nv_rnorm4d(double, double, double, double) #0
declare double @kb_nv_sinpi(double) #0
declare double @kb_nv_tanh(double) #0
declare double @kb_nv_yn(i32, double) #0
declare double @ldexp(double, i32) #0
declare float @ldexpf(float, i32) #0
declare double @log(double) #0
declare float @log10f(float) #0
declare double @log1p(double) #0
declare float @log1pf(float) #0
declare double @log2(double) #0
declare float @log2f(float) #0
declare double @logb(double) #0
declare float @logbf(float) #0
declare float @logf(float) #0
declare double @modf(double, ptr) #1
declare float @modff(float, ptr) #1
declare double @nextafter(double, double) #0
declare float @nextafterf(float, float) #0
declare double @pow(double, double) #0
declare float @powf(float, float) #0
declare double @remainder(double, double) #0
declare float @remainderf(float, float) #0
declare double @remquo(double, double, ptr) #1
declare float @remquof(float, float, ptr) #1
declare double @sin(double) #0
declare float @sinf(float) #0
declare double @sinh(double) #0
declare float @sinhf(float) #0
declare double @tan(double) #0
declare float @tanf(float) #0
declare float @tanhf(float) #0
declare double @tgamma(double) #0
declare double @y0(double) #0
declare double @y1(double) #0

declare float @llvm.ceil.f32(float)
declare double @llvm.ceil.f64(double)
declare float @llvm.copysign.f32(float, float)
declare double @llvm.copysign.f64(double, double)
declare float @llvm.cos.f32(float)
declare double @llvm.cos.f64(double)
declare float @llvm.fabs.f32(float)
declare double @llvm.fabs.f64(double)
declare float @llvm.floor.f32(float)
declare double @llvm.floor.f64(double)
declare float @llvm.fma.f32(float, float, float)
declare double @llvm.fma.f64(double, double, double)
declare float @llvm.maxnum.f32(float, float)
declare double @llvm.maxnum.f64(double, double)
declare float @llvm.minnum.f32(float, float)
declare double @llvm.minnum.f64(double, double)
declare float @llvm.nearbyint.f32(float)
declare double @llvm.nearbyint.f64(double)
declare float @llvm.rint.f32(float)
declare double @llvm.rint.f64(double)
declare float @llvm.round.f32(float)
declare double @llvm.round.f64(double)
declare float @llvm.sin.f32(float)
declare double @llvm.sin.f64(double)
declare float @llvm.sqrt.f32(float)
declare double @llvm.sqrt.f64(double)
declare float @llvm.trunc.f32(float)
declare double @llvm.trunc.f64(double)

attributes #0 = { nounwind willreturn memory(none) }
attributes #1 = { nounwind willreturn memory(argmem: readwrite) }
