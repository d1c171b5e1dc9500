; libdevice on the CPU, see libdevice.ll: conversions, and arithmetic with a direction of rounding.


; Numbers to integers. Those that do not fit saturate; NaN becomes 0 where neither type has 64 bits,
; else the number with the highest bit alone, as PTX has it.

define linkonce_odr i32 @__nv_double2int_rn(double %x) alwaysinline {
  %w = call double @llvm.rint.f64(double %x)
  %n = call i32 @llvm.fptosi.sat.i32.f64(double %w)
  %t = fcmp uno double %x, 0.0
  %r = select i1 %t, i32 -2147483648, i32 %n
  ret i32 %r
}

define linkonce_odr i32 @__nv_double2int_rz(double %x) alwaysinline {
  %w = call double @llvm.trunc.f64(double %x)
  %n = call i32 @llvm.fptosi.sat.i32.f64(double %w)
  %t = fcmp uno double %x, 0.0
  %r = select i1 %t, i32 -2147483648, i32 %n
  ret i32 %r
}

define linkonce_odr i32 @__nv_double2int_ru(double %x) alwaysinline {
  %w = call double @llvm.ceil.f64(double %x)
  %n = call i32 @llvm.fptosi.sat.i32.f64(double %w)
  %t = fcmp uno double %x, 0.0
  %r = select i1 %t, i32 -2147483648, i32 %n
  ret i32 %r
}

define linkonce_odr i32 @__nv_double2int_rd(double %x) alwaysinline {
  %w = call double @llvm.floor.f64(double %x)
  %n = call i32 @llvm.fptosi.sat.i32.f64(double %w)
  %t = fcmp uno double %x, 0.0
  %r = select i1 %t, i32 -2147483648, i32 %n
  ret i32 %r
}

define linkonce_odr i32 @__nv_double2uint_rn(double %x) alwaysinline {
  %w = call double @llvm.rint.f64(double %x)
  %n = call i32 @llvm.fptoui.sat.i32.f64(double %w)
  %t = fcmp uno double %x, 0.0
  %r = select i1 %t, i32 -2147483648, i32 %n
  ret i32 %r
}

define linkonce_odr i32 @__nv_double2uint_rz(double %x) alwaysinline {
  %w = call double @llvm.trunc.f64(double %x)
  %n = call i32 @llvm.fptoui.sat.i32.f64(double %w)
  %t = fcmp uno double %x, 0.0
  %r = select i1 %t, i32 -2147483648, i32 %n
  ret i32 %r
}

define linkonce_odr i32 @__nv_double2uint_ru(double %x) alwaysinline {
  %w = call double @llvm.ceil.f64(double %x)
  %n = call i32 @llvm.fptoui.sat.i32.f64(double %w)
  %t = fcmp uno double %x, 0.0
  %r = select i1 %t, i32 -2147483648, i32 %n
  ret i32 %r
}

define linkonce_odr i32 @__nv_double2uint_rd(double %x) alwaysinline {
  %w = call double @llvm.floor.f64(double %x)
  %n = call i32 @llvm.fptoui.sat.i32.f64(double %w)
  %t = fcmp uno double %x, 0.0
  %r = select i1 %t, i32 -2147483648, i32 %n
  ret i32 %r
}

define linkonce_odr i64 @__nv_double2ll_rn(double %x) alwaysinline {
  %w = call double @llvm.rint.f64(double %x)
  %n = call i64 @llvm.fptosi.sat.i64.f64(double %w)
  %t = fcmp uno double %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i64 @__nv_double2ll_rz(double %x) alwaysinline {
  %w = call double @llvm.trunc.f64(double %x)
  %n = call i64 @llvm.fptosi.sat.i64.f64(double %w)
  %t = fcmp uno double %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i64 @__nv_double2ll_ru(double %x) alwaysinline {
  %w = call double @llvm.ceil.f64(double %x)
  %n = call i64 @llvm.fptosi.sat.i64.f64(double %w)
  %t = fcmp uno double %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i64 @__nv_double2ll_rd(double %x) alwaysinline {
  %w = call double @llvm.floor.f64(double %x)
  %n = call i64 @llvm.fptosi.sat.i64.f64(double %w)
  %t = fcmp uno double %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i64 @__nv_double2ull_rn(double %x) alwaysinline {
  %w = call double @llvm.rint.f64(double %x)
  %n = call i64 @llvm.fptoui.sat.i64.f64(double %w)
  %t = fcmp uno double %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i64 @__nv_double2ull_rz(double %x) alwaysinline {
  %w = call double @llvm.trunc.f64(double %x)
  %n = call i64 @llvm.fptoui.sat.i64.f64(double %w)
  %t = fcmp uno double %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i64 @__nv_double2ull_ru(double %x) alwaysinline {
  %w = call double @llvm.ceil.f64(double %x)
  %n = call i64 @llvm.fptoui.sat.i64.f64(double %w)
  %t = fcmp uno double %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i64 @__nv_double2ull_rd(double %x) alwaysinline {
  %w = call double @llvm.floor.f64(double %x)
  %n = call i64 @llvm.fptoui.sat.i64.f64(double %w)
  %t = fcmp uno double %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i64 @__nv_llrint(double %x) alwaysinline {
  %w = call double @llvm.rint.f64(double %x)
  %n = call i64 @llvm.fptosi.sat.i64.f64(double %w)
  %t = fcmp uno double %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i64 @__nv_llround(double %x) alwaysinline {
  %w = call double @llvm.round.f64(double %x)
  %n = call i64 @llvm.fptosi.sat.i64.f64(double %w)
  %t = fcmp uno double %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i32 @__nv_float2int_rn(float %x) alwaysinline {
  %w = call float @llvm.rint.f32(float %x)
  %n = call i32 @llvm.fptosi.sat.i32.f32(float %w)
  %t = fcmp uno float %x, 0.0
  %r = select i1 %t, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i32 @__nv_float2int_rz(float %x) alwaysinline {
  %w = call float @llvm.trunc.f32(float %x)
  %n = call i32 @llvm.fptosi.sat.i32.f32(float %w)
  %t = fcmp uno float %x, 0.0
  %r = select i1 %t, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i32 @__nv_float2int_ru(float %x) alwaysinline {
  %w = call float @llvm.ceil.f32(float %x)
  %n = call i32 @llvm.fptosi.sat.i32.f32(float %w)
  %t = fcmp uno float %x, 0.0
  %r = select i1 %t, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i32 @__nv_float2int_rd(float %x) alwaysinline {
  %w = call float @llvm.floor.f32(float %x)
  %n = call i32 @llvm.fptosi.sat.i32.f32(float %w)
  %t = fcmp uno float %x, 0.0
  %r = select i1 %t, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i32 @__nv_float2uint_rn(float %x) alwaysinline {
  %w = call float @llvm.rint.f32(float %x)
  %n = call i32 @llvm.fptoui.sat.i32.f32(float %w)
  %t = fcmp uno float %x, 0.0
  %r = select i1 %t, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i32 @__nv_float2uint_rz(float %x) alwaysinline {
  %w = call float @llvm.trunc.f32(float %x)
  %n = call i32 @llvm.fptoui.sat.i32.f32(float %w)
  %t = fcmp uno float %x, 0.0
  %r = select i1 %t, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i32 @__nv_float2uint_ru(float %x) alwaysinline {
  %w = call float @llvm.ceil.f32(float %x)
  %n = call i32 @llvm.fptoui.sat.i32.f32(float %w)
  %t = fcmp uno float %x, 0.0
  %r = select i1 %t, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i32 @__nv_float2uint_rd(float %x) alwaysinline {
  %w = call float @llvm.floor.f32(float %x)
  %n = call i32 @llvm.fptoui.sat.i32.f32(float %w)
  %t = fcmp uno float %x, 0.0
  %r = select i1 %t, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i64 @__nv_float2ll_rn(float %x) alwaysinline {
  %w = call float @llvm.rint.f32(float %x)
  %n = call i64 @llvm.fptosi.sat.i64.f32(float %w)
  %t = fcmp uno float %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i64 @__nv_float2ll_rz(float %x) alwaysinline {
  %w = call float @llvm.trunc.f32(float %x)
  %n = call i64 @llvm.fptosi.sat.i64.f32(float %w)
  %t = fcmp uno float %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i64 @__nv_float2ll_ru(float %x) alwaysinline {
  %w = call float @llvm.ceil.f32(float %x)
  %n = call i64 @llvm.fptosi.sat.i64.f32(float %w)
  %t = fcmp uno float %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i64 @__nv_float2ll_rd(float %x) alwaysinline {
  %w = call float @llvm.floor.f32(float %x)
  %n = call i64 @llvm.fptosi.sat.i64.f32(float %w)
  %t = fcmp uno float %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i64 @__nv_float2ull_rn(float %x) alwaysinline {
  %w = call float @llvm.rint.f32(float %x)
  %n = call i64 @llvm.fptoui.sat.i64.f32(float %w)
  %t = fcmp uno float %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i64 @__nv_float2ull_rz(float %x) alwaysinline {
  %w = call float @llvm.trunc.f32(float %x)
  %n = call i64 @llvm.fptoui.sat.i64.f32(float %w)
  %t = fcmp uno float %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i64 @__nv_float2ull_ru(float %x) alwaysinline {
  %w = call float @llvm.ceil.f32(float %x)
  %n = call i64 @llvm.fptoui.sat.i64.f32(float %w)
  %t = fcmp uno float %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i64 @__nv_float2ull_rd(float %x) alwaysinline {
  %w = call float @llvm.floor.f32(float %x)
  %n = call i64 @llvm.fptoui.sat.i64.f32(float %w)
  %t = fcmp uno float %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i64 @__nv_llrintf(float %x) alwaysinline {
  %w = call float @llvm.rint.f32(float %x)
  %n = call i64 @llvm.fptosi.sat.i64.f32(float %w)
  %t = fcmp uno float %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i64 @__nv_llroundf(float %x) alwaysinline {
  %w = call float @llvm.round.f32(float %x)
  %n = call i64 @llvm.fptosi.sat.i64.f32(float %w)
  %t = fcmp uno float %x, 0.0
  %r = select i1 %t, i64 -9223372036854775808, i64 %n
  ret i64 %r
}


; One instruction, rounded to nearest. GPUs never fuse these products and sums with others; fma.py, which fuses as NVVM
; and ptxas do, takes the fences away afterwards.

define linkonce_odr double @__nv_dadd_rn(double %x, double %y) alwaysinline {
  %a = call double @llvm.arithmetic.fence.f64(double %x)
  %b = call double @llvm.arithmetic.fence.f64(double %y)
  %r = fadd double %a, %b
  ret double %r
}

define linkonce_odr double @__nv_dsub_rn(double %x, double %y) alwaysinline {
  %a = call double @llvm.arithmetic.fence.f64(double %x)
  %b = call double @llvm.arithmetic.fence.f64(double %y)
  %r = fsub double %a, %b
  ret double %r
}

define linkonce_odr double @__nv_dmul_rn(double %x, double %y) alwaysinline {
  %m = fmul double %x, %y
  %r = call double @llvm.arithmetic.fence.f64(double %m)
  ret double %r
}

define linkonce_odr double @__nv_ddiv_rn(double %x, double %y) alwaysinline {
  %r = fdiv double %x, %y
  ret double %r
}

define linkonce_odr double @__nv_drcp_rn(double %x) alwaysinline {
  %r = fdiv double 1.0, %x
  ret double %r
}

define linkonce_odr float @__nv_fadd_rn(float %x, float %y) alwaysinline {
  %a = call float @llvm.arithmetic.fence.f32(float %x)
  %b = call float @llvm.arithmetic.fence.f32(float %y)
  %r = fadd float %a, %b
  ret float %r
}

define linkonce_odr float @__nv_fsub_rn(float %x, float %y) alwaysinline {
  %a = call float @llvm.arithmetic.fence.f32(float %x)
  %b = call float @llvm.arithmetic.fence.f32(float %y)
  %r = fsub float %a, %b
  ret float %r
}

define linkonce_odr float @__nv_fmul_rn(float %x, float %y) alwaysinline {
  %m = fmul float %x, %y
  %r = call float @llvm.arithmetic.fence.f32(float %m)
  ret float %r
}

define linkonce_odr float @__nv_fdiv_rn(float %x, float %y) alwaysinline {
  %r = fdiv float %x, %y
  ret float %r
}

define linkonce_odr float @__nv_frcp_rn(float %x) alwaysinline {
  %r = fdiv float 1.0, %x
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

define linkonce_odr float @__nv_double2float_rn(double %x) alwaysinline {
  %r = fptrunc double %x to float
  ret float %r
}

define linkonce_odr double @__nv_int2double_rn(i32 %x) alwaysinline {
  %r = sitofp i32 %x to double
  ret double %r
}

define linkonce_odr float @__nv_int2float_rn(i32 %x) alwaysinline {
  %r = sitofp i32 %x to float
  ret float %r
}

define linkonce_odr double @__nv_ll2double_rn(i64 %x) alwaysinline {
  %r = sitofp i64 %x to double
  ret double %r
}

define linkonce_odr float @__nv_ll2float_rn(i64 %x) alwaysinline {
  %r = sitofp i64 %x to float
  ret float %r
}

define linkonce_odr double @__nv_uint2double_rn(i32 %x) alwaysinline {
  %r = uitofp i32 %x to double
  ret double %r
}

define linkonce_odr float @__nv_uint2float_rn(i32 %x) alwaysinline {
  %r = uitofp i32 %x to float
  ret float %r
}

define linkonce_odr double @__nv_ull2double_rn(i64 %x) alwaysinline {
  %r = uitofp i64 %x to double
  ret double %r
}

define linkonce_odr float @__nv_ull2float_rn(i64 %x) alwaysinline {
  %r = uitofp i64 %x to float
  ret float %r
}

define linkonce_odr float @__nv_fsqrt_rn(float %x) alwaysinline {
  %r = call float @llvm.sqrt.f32(float %x)
  ret float %r
}

define linkonce_odr double @__nv_fma_rn(double %x, double %y, double %z) alwaysinline {
  %r = call double @llvm.fma.f64(double %x, double %y, double %z)
  ret double %r
}

define linkonce_odr float @__nv_fmaf_rn(float %x, float %y, float %z) alwaysinline {
  %r = call float @llvm.fma.f32(float %x, float %y, float %z)
  ret float %r
}


; Instructions with another rounding, which src/hostcuda/kb_libdevice.h has.

define linkonce_odr double @__nv_dadd_rd(double %x, double %y) alwaysinline {
  %r = call double @kb_nv_dadd_rd(double %x, double %y)
  ret double %r
}

define linkonce_odr double @__nv_dadd_ru(double %x, double %y) alwaysinline {
  %r = call double @kb_nv_dadd_ru(double %x, double %y)
  ret double %r
}

define linkonce_odr double @__nv_dadd_rz(double %x, double %y) alwaysinline {
  %r = call double @kb_nv_dadd_rz(double %x, double %y)
  ret double %r
}

define linkonce_odr double @__nv_dmul_rd(double %x, double %y) alwaysinline {
  %r = call double @kb_nv_dmul_rd(double %x, double %y)
  ret double %r
}

define linkonce_odr double @__nv_dmul_ru(double %x, double %y) alwaysinline {
  %r = call double @kb_nv_dmul_ru(double %x, double %y)
  ret double %r
}

define linkonce_odr double @__nv_dmul_rz(double %x, double %y) alwaysinline {
  %r = call double @kb_nv_dmul_rz(double %x, double %y)
  ret double %r
}

define linkonce_odr double @__nv_ddiv_rd(double %x, double %y) alwaysinline {
  %r = call double @kb_nv_ddiv_rd(double %x, double %y)
  ret double %r
}

define linkonce_odr double @__nv_ddiv_ru(double %x, double %y) alwaysinline {
  %r = call double @kb_nv_ddiv_ru(double %x, double %y)
  ret double %r
}

define linkonce_odr double @__nv_ddiv_rz(double %x, double %y) alwaysinline {
  %r = call double @kb_nv_ddiv_rz(double %x, double %y)
  ret double %r
}

define linkonce_odr double @__nv_drcp_rd(double %x) alwaysinline {
  %r = call double @kb_nv_drcp_rd(double %x)
  ret double %r
}

define linkonce_odr double @__nv_drcp_ru(double %x) alwaysinline {
  %r = call double @kb_nv_drcp_ru(double %x)
  ret double %r
}

define linkonce_odr double @__nv_drcp_rz(double %x) alwaysinline {
  %r = call double @kb_nv_drcp_rz(double %x)
  ret double %r
}

define linkonce_odr double @__nv_dsqrt_rd(double %x) alwaysinline {
  %r = call double @kb_nv_dsqrt_rd(double %x)
  ret double %r
}

define linkonce_odr double @__nv_dsqrt_ru(double %x) alwaysinline {
  %r = call double @kb_nv_dsqrt_ru(double %x)
  ret double %r
}

define linkonce_odr double @__nv_dsqrt_rz(double %x) alwaysinline {
  %r = call double @kb_nv_dsqrt_rz(double %x)
  ret double %r
}

define linkonce_odr double @__nv_fma_rd(double %x, double %y, double %z) alwaysinline {
  %r = call double @kb_nv_fma_rd(double %x, double %y, double %z)
  ret double %r
}

define linkonce_odr double @__nv_fma_ru(double %x, double %y, double %z) alwaysinline {
  %r = call double @kb_nv_fma_ru(double %x, double %y, double %z)
  ret double %r
}

define linkonce_odr double @__nv_fma_rz(double %x, double %y, double %z) alwaysinline {
  %r = call double @kb_nv_fma_rz(double %x, double %y, double %z)
  ret double %r
}

define linkonce_odr float @__nv_fadd_rd(float %x, float %y) alwaysinline {
  %r = call float @kb_nv_fadd_rd(float %x, float %y)
  ret float %r
}

define linkonce_odr float @__nv_fadd_ru(float %x, float %y) alwaysinline {
  %r = call float @kb_nv_fadd_ru(float %x, float %y)
  ret float %r
}

define linkonce_odr float @__nv_fadd_rz(float %x, float %y) alwaysinline {
  %r = call float @kb_nv_fadd_rz(float %x, float %y)
  ret float %r
}

define linkonce_odr float @__nv_fsub_rd(float %x, float %y) alwaysinline {
  %r = call float @kb_nv_fsub_rd(float %x, float %y)
  ret float %r
}

define linkonce_odr float @__nv_fsub_ru(float %x, float %y) alwaysinline {
  %r = call float @kb_nv_fsub_ru(float %x, float %y)
  ret float %r
}

define linkonce_odr float @__nv_fsub_rz(float %x, float %y) alwaysinline {
  %r = call float @kb_nv_fsub_rz(float %x, float %y)
  ret float %r
}

define linkonce_odr float @__nv_fmul_rd(float %x, float %y) alwaysinline {
  %r = call float @kb_nv_fmul_rd(float %x, float %y)
  ret float %r
}

define linkonce_odr float @__nv_fmul_ru(float %x, float %y) alwaysinline {
  %r = call float @kb_nv_fmul_ru(float %x, float %y)
  ret float %r
}

define linkonce_odr float @__nv_fmul_rz(float %x, float %y) alwaysinline {
  %r = call float @kb_nv_fmul_rz(float %x, float %y)
  ret float %r
}

define linkonce_odr float @__nv_fdiv_rd(float %x, float %y) alwaysinline {
  %r = call float @kb_nv_fdiv_rd(float %x, float %y)
  ret float %r
}

define linkonce_odr float @__nv_fdiv_ru(float %x, float %y) alwaysinline {
  %r = call float @kb_nv_fdiv_ru(float %x, float %y)
  ret float %r
}

define linkonce_odr float @__nv_fdiv_rz(float %x, float %y) alwaysinline {
  %r = call float @kb_nv_fdiv_rz(float %x, float %y)
  ret float %r
}

define linkonce_odr float @__nv_frcp_rd(float %x) alwaysinline {
  %r = call float @kb_nv_frcp_rd(float %x)
  ret float %r
}

define linkonce_odr float @__nv_frcp_ru(float %x) alwaysinline {
  %r = call float @kb_nv_frcp_ru(float %x)
  ret float %r
}

define linkonce_odr float @__nv_frcp_rz(float %x) alwaysinline {
  %r = call float @kb_nv_frcp_rz(float %x)
  ret float %r
}

define linkonce_odr float @__nv_fsqrt_rd(float %x) alwaysinline {
  %r = call float @kb_nv_fsqrt_rd(float %x)
  ret float %r
}

define linkonce_odr float @__nv_fsqrt_ru(float %x) alwaysinline {
  %r = call float @kb_nv_fsqrt_ru(float %x)
  ret float %r
}

define linkonce_odr float @__nv_fsqrt_rz(float %x) alwaysinline {
  %r = call float @kb_nv_fsqrt_rz(float %x)
  ret float %r
}

define linkonce_odr float @__nv_fmaf_rd(float %x, float %y, float %z) alwaysinline {
  %r = call float @kb_nv_fmaf_rd(float %x, float %y, float %z)
  ret float %r
}

define linkonce_odr float @__nv_fmaf_ru(float %x, float %y, float %z) alwaysinline {
  %r = call float @kb_nv_fmaf_ru(float %x, float %y, float %z)
  ret float %r
}

define linkonce_odr float @__nv_fmaf_rz(float %x, float %y, float %z) alwaysinline {
  %r = call float @kb_nv_fmaf_rz(float %x, float %y, float %z)
  ret float %r
}

define linkonce_odr float @__nv_double2float_rd(double %x) alwaysinline {
  %r = call float @kb_nv_double2float_rd(double %x)
  ret float %r
}

define linkonce_odr float @__nv_double2float_ru(double %x) alwaysinline {
  %r = call float @kb_nv_double2float_ru(double %x)
  ret float %r
}

define linkonce_odr float @__nv_double2float_rz(double %x) alwaysinline {
  %r = call float @kb_nv_double2float_rz(double %x)
  ret float %r
}

define linkonce_odr float @__nv_int2float_rd(i32 %x) alwaysinline {
  %r = call float @kb_nv_int2float_rd(i32 %x)
  ret float %r
}

define linkonce_odr float @__nv_int2float_ru(i32 %x) alwaysinline {
  %r = call float @kb_nv_int2float_ru(i32 %x)
  ret float %r
}

define linkonce_odr float @__nv_int2float_rz(i32 %x) alwaysinline {
  %r = call float @kb_nv_int2float_rz(i32 %x)
  ret float %r
}

define linkonce_odr float @__nv_uint2float_rd(i32 %x) alwaysinline {
  %r = call float @kb_nv_uint2float_rd(i32 %x)
  ret float %r
}

define linkonce_odr float @__nv_uint2float_ru(i32 %x) alwaysinline {
  %r = call float @kb_nv_uint2float_ru(i32 %x)
  ret float %r
}

define linkonce_odr float @__nv_uint2float_rz(i32 %x) alwaysinline {
  %r = call float @kb_nv_uint2float_rz(i32 %x)
  ret float %r
}

define linkonce_odr float @__nv_ll2float_rd(i64 %x) alwaysinline {
  %r = call float @kb_nv_ll2float_rd(i64 %x)
  ret float %r
}

define linkonce_odr float @__nv_ll2float_ru(i64 %x) alwaysinline {
  %r = call float @kb_nv_ll2float_ru(i64 %x)
  ret float %r
}

define linkonce_odr float @__nv_ll2float_rz(i64 %x) alwaysinline {
  %r = call float @kb_nv_ll2float_rz(i64 %x)
  ret float %r
}

define linkonce_odr float @__nv_ull2float_rd(i64 %x) alwaysinline {
  %r = call float @kb_nv_ull2float_rd(i64 %x)
  ret float %r
}

define linkonce_odr float @__nv_ull2float_ru(i64 %x) alwaysinline {
  %r = call float @kb_nv_ull2float_ru(i64 %x)
  ret float %r
}

define linkonce_odr float @__nv_ull2float_rz(i64 %x) alwaysinline {
  %r = call float @kb_nv_ull2float_rz(i64 %x)
  ret float %r
}

define linkonce_odr double @__nv_ll2double_rd(i64 %x) alwaysinline {
  %r = call double @kb_nv_ll2double_rd(i64 %x)
  ret double %r
}

define linkonce_odr double @__nv_ll2double_ru(i64 %x) alwaysinline {
  %r = call double @kb_nv_ll2double_ru(i64 %x)
  ret double %r
}

define linkonce_odr double @__nv_ll2double_rz(i64 %x) alwaysinline {
  %r = call double @kb_nv_ll2double_rz(i64 %x)
  ret double %r
}

define linkonce_odr double @__nv_ull2double_rd(i64 %x) alwaysinline {
  %r = call double @kb_nv_ull2double_rd(i64 %x)
  ret double %r
}

define linkonce_odr double @__nv_ull2double_ru(i64 %x) alwaysinline {
  %r = call double @kb_nv_ull2double_ru(i64 %x)
  ret double %r
}

define linkonce_odr double @__nv_ull2double_rz(i64 %x) alwaysinline {
  %r = call double @kb_nv_ull2double_rz(i64 %x)
  ret double %r
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


; What is called above.

declare double @kb_nv_dadd_rd(double, double) #0
declare double @kb_nv_dadd_ru(double, double) #0
declare double @kb_nv_dadd_rz(double, double) #0
declare double @kb_nv_ddiv_rd(double, double) #0
declare double @kb_nv_ddiv_ru(double, double) #0
declare double @kb_nv_ddiv_rz(double, double) #0
declare double @kb_nv_dmul_rd(double, double) #0
declare double @kb_nv_dmul_ru(double, double) #0
declare double @kb_nv_dmul_rz(double, double) #0
declare float @kb_nv_double2float_rd(double) #0
declare float @kb_nv_double2float_ru(double) #0
declare float @kb_nv_double2float_rz(double) #0
declare double @kb_nv_drcp_rd(double) #0
declare double @kb_nv_drcp_ru(double) #0
declare double @kb_nv_drcp_rz(double) #0
declare double @kb_nv_dsqrt_rd(double) #0
declare double @kb_nv_dsqrt_ru(double) #0
declare double @kb_nv_dsqrt_rz(double) #0
declare float @kb_nv_fadd_rd(float, float) #0
declare float @kb_nv_fadd_ru(float, float) #0
declare float @kb_nv_fadd_rz(float, float) #0
declare float @kb_nv_fdiv_rd(float, float) #0
declare float @kb_nv_fdiv_ru(float, float) #0
declare float @kb_nv_fdiv_rz(float, float) #0
declare double @kb_nv_fma_rd(double, double, double) #0
declare double @kb_nv_fma_ru(double, double, double) #0
declare double @kb_nv_fma_rz(double, double, double) #0
declare float @kb_nv_fmaf_rd(float, float, float) #0
declare float @kb_nv_fmaf_ru(float, float, float) #0
declare float @kb_nv_fmaf_rz(float, float, float) #0
declare float @kb_nv_fmul_rd(float, float) #0
declare float @kb_nv_fmul_ru(float, float) #0
declare float @kb_nv_fmul_rz(float, float) #0
declare float @kb_nv_frcp_rd(float) #0
declare float @kb_nv_frcp_ru(float) #0
declare float @kb_nv_frcp_rz(float) #0
declare float @kb_nv_fsqrt_rd(float) #0
declare float @kb_nv_fsqrt_ru(float) #0
declare float @kb_nv_fsqrt_rz(float) #0
declare float @kb_nv_fsub_rd(float, float) #0
declare float @kb_nv_fsub_ru(float, float) #0
declare float @kb_nv_fsub_rz(float, float) #0
declare float @kb_nv_int2float_rd(i32) #0
declare float @kb_nv_int2float_ru(i32) #0
declare float @kb_nv_int2float_rz(i32) #0
declare double @kb_nv_ll2double_rd(i64) #0
declare double @kb_nv_ll2double_ru(i64) #0
declare double @kb_nv_ll2double_rz(i64) #0
declare float @kb_nv_ll2float_rd(i64) #0
declare float @kb_nv_ll2float_ru(i64) #0
declare float @kb_nv_ll2float_rz(i64) #0
declare float @kb_nv_uint2float_rd(i32) #0
declare float @kb_nv_uint2float_ru(i32) #0
declare float @kb_nv_uint2float_rz(i32) #0
declare double @kb_nv_ull2double_rd(i64) #0
declare double @kb_nv_ull2double_ru(i64) #0
declare double @kb_nv_ull2double_rz(i64) #0
declare float @kb_nv_ull2float_rd(i64) #0
declare float @kb_nv_ull2float_ru(i64) #0
declare float @kb_nv_ull2float_rz(i64) #0

declare float @llvm.ceil.f32(float)
declare double @llvm.ceil.f64(double)
declare float @llvm.floor.f32(float)
declare double @llvm.floor.f64(double)
declare float @llvm.arithmetic.fence.f32(float)
declare double @llvm.arithmetic.fence.f64(double)
declare float @llvm.fma.f32(float, float, float)
declare double @llvm.fma.f64(double, double, double)
declare i32 @llvm.fptosi.sat.i32.f32(float)
declare i32 @llvm.fptosi.sat.i32.f64(double)
declare i64 @llvm.fptosi.sat.i64.f32(float)
declare i64 @llvm.fptosi.sat.i64.f64(double)
declare i32 @llvm.fptoui.sat.i32.f32(float)
declare i32 @llvm.fptoui.sat.i32.f64(double)
declare i64 @llvm.fptoui.sat.i64.f32(float)
declare i64 @llvm.fptoui.sat.i64.f64(double)
declare float @llvm.rint.f32(float)
declare double @llvm.rint.f64(double)
declare float @llvm.round.f32(float)
declare double @llvm.round.f64(double)
declare float @llvm.sqrt.f32(float)
declare float @llvm.trunc.f32(float)
declare double @llvm.trunc.f64(double)

attributes #0 = { nounwind willreturn memory(none) }
