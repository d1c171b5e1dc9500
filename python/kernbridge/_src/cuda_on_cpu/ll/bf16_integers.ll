; Written by tests/ll/generate.py: change it there.

; bfloat16: conversions to and from integers.

define linkonce_odr i16 @kb.bf16.from.s16.rn(i16 %a) alwaysinline {
  %w = sitofp i16 %a to float
  %r = call i16 @kb.bf16.rn(float %w)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.to.s16.rn(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.rint.f64(double %w)
  %n = call i16 @llvm.fptosi.sat.i16.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i16 0, i16 %n
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.from.s16.rz(i16 %a) alwaysinline {
  %w = sitofp i16 %a to float
  %r = call i16 @kb.bf16.rz(float %w)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.to.s16.rz(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.trunc.f64(double %w)
  %n = call i16 @llvm.fptosi.sat.i16.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i16 0, i16 %n
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.from.s16.rd(i16 %a) alwaysinline {
  %w = sitofp i16 %a to float
  %r = call i16 @kb.bf16.rd(float %w)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.to.s16.rd(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.floor.f64(double %w)
  %n = call i16 @llvm.fptosi.sat.i16.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i16 0, i16 %n
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.from.s16.ru(i16 %a) alwaysinline {
  %w = sitofp i16 %a to float
  %r = call i16 @kb.bf16.ru(float %w)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.to.s16.ru(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.ceil.f64(double %w)
  %n = call i16 @llvm.fptosi.sat.i16.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i16 0, i16 %n
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.from.s32.rn(i32 %a) alwaysinline {
  %d = sitofp i32 %a to double
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.bf16.rn(float %w)
  ret i16 %r
}

define linkonce_odr i32 @kb.bf16.to.s32.rn(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.rint.f64(double %w)
  %n = call i32 @llvm.fptosi.sat.i32.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i16 @kb.bf16.from.s32.rz(i32 %a) alwaysinline {
  %d = sitofp i32 %a to double
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.bf16.rz(float %w)
  ret i16 %r
}

define linkonce_odr i32 @kb.bf16.to.s32.rz(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.trunc.f64(double %w)
  %n = call i32 @llvm.fptosi.sat.i32.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i16 @kb.bf16.from.s32.rd(i32 %a) alwaysinline {
  %d = sitofp i32 %a to double
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.bf16.rd(float %w)
  ret i16 %r
}

define linkonce_odr i32 @kb.bf16.to.s32.rd(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.floor.f64(double %w)
  %n = call i32 @llvm.fptosi.sat.i32.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i16 @kb.bf16.from.s32.ru(i32 %a) alwaysinline {
  %d = sitofp i32 %a to double
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.bf16.ru(float %w)
  ret i16 %r
}

define linkonce_odr i32 @kb.bf16.to.s32.ru(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.ceil.f64(double %w)
  %n = call i32 @llvm.fptosi.sat.i32.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i16 @kb.bf16.from.s64.rn(i64 %a) alwaysinline {
  %d = call double @kb.odd.s64(i64 %a)
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.bf16.rn(float %w)
  ret i16 %r
}

define linkonce_odr i64 @kb.bf16.to.s64.rn(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.rint.f64(double %w)
  %n = call i64 @llvm.fptosi.sat.i64.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i16 @kb.bf16.from.s64.rz(i64 %a) alwaysinline {
  %d = call double @kb.odd.s64(i64 %a)
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.bf16.rz(float %w)
  ret i16 %r
}

define linkonce_odr i64 @kb.bf16.to.s64.rz(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.trunc.f64(double %w)
  %n = call i64 @llvm.fptosi.sat.i64.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i16 @kb.bf16.from.s64.rd(i64 %a) alwaysinline {
  %d = call double @kb.odd.s64(i64 %a)
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.bf16.rd(float %w)
  ret i16 %r
}

define linkonce_odr i64 @kb.bf16.to.s64.rd(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.floor.f64(double %w)
  %n = call i64 @llvm.fptosi.sat.i64.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i16 @kb.bf16.from.s64.ru(i64 %a) alwaysinline {
  %d = call double @kb.odd.s64(i64 %a)
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.bf16.ru(float %w)
  ret i16 %r
}

define linkonce_odr i64 @kb.bf16.to.s64.ru(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.ceil.f64(double %w)
  %n = call i64 @llvm.fptosi.sat.i64.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i16 @kb.bf16.from.s8.rn(i8 %a) alwaysinline {
  %w = sitofp i8 %a to float
  %r = call i16 @kb.bf16.rn(float %w)
  ret i16 %r
}

define linkonce_odr i8 @kb.bf16.to.s8.rn(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.rint.f64(double %w)
  %n = call i8 @llvm.fptosi.sat.i8.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i8 0, i8 %n
  ret i8 %r
}

define linkonce_odr i16 @kb.bf16.from.s8.rz(i8 %a) alwaysinline {
  %w = sitofp i8 %a to float
  %r = call i16 @kb.bf16.rz(float %w)
  ret i16 %r
}

define linkonce_odr i8 @kb.bf16.to.s8.rz(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.trunc.f64(double %w)
  %n = call i8 @llvm.fptosi.sat.i8.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i8 0, i8 %n
  ret i8 %r
}

define linkonce_odr i16 @kb.bf16.from.s8.rd(i8 %a) alwaysinline {
  %w = sitofp i8 %a to float
  %r = call i16 @kb.bf16.rd(float %w)
  ret i16 %r
}

define linkonce_odr i8 @kb.bf16.to.s8.rd(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.floor.f64(double %w)
  %n = call i8 @llvm.fptosi.sat.i8.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i8 0, i8 %n
  ret i8 %r
}

define linkonce_odr i16 @kb.bf16.from.s8.ru(i8 %a) alwaysinline {
  %w = sitofp i8 %a to float
  %r = call i16 @kb.bf16.ru(float %w)
  ret i16 %r
}

define linkonce_odr i8 @kb.bf16.to.s8.ru(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.ceil.f64(double %w)
  %n = call i8 @llvm.fptosi.sat.i8.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i8 0, i8 %n
  ret i8 %r
}

define linkonce_odr i16 @kb.bf16.from.u16.rn(i16 %a) alwaysinline {
  %w = uitofp i16 %a to float
  %r = call i16 @kb.bf16.rn(float %w)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.to.u16.rn(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.rint.f64(double %w)
  %n = call i16 @llvm.fptoui.sat.i16.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i16 0, i16 %n
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.from.u16.rz(i16 %a) alwaysinline {
  %w = uitofp i16 %a to float
  %r = call i16 @kb.bf16.rz(float %w)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.to.u16.rz(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.trunc.f64(double %w)
  %n = call i16 @llvm.fptoui.sat.i16.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i16 0, i16 %n
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.from.u16.rd(i16 %a) alwaysinline {
  %w = uitofp i16 %a to float
  %r = call i16 @kb.bf16.rd(float %w)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.to.u16.rd(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.floor.f64(double %w)
  %n = call i16 @llvm.fptoui.sat.i16.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i16 0, i16 %n
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.from.u16.ru(i16 %a) alwaysinline {
  %w = uitofp i16 %a to float
  %r = call i16 @kb.bf16.ru(float %w)
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.to.u16.ru(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.ceil.f64(double %w)
  %n = call i16 @llvm.fptoui.sat.i16.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i16 0, i16 %n
  ret i16 %r
}

define linkonce_odr i16 @kb.bf16.from.u32.rn(i32 %a) alwaysinline {
  %d = uitofp i32 %a to double
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.bf16.rn(float %w)
  ret i16 %r
}

define linkonce_odr i32 @kb.bf16.to.u32.rn(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.rint.f64(double %w)
  %n = call i32 @llvm.fptoui.sat.i32.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i16 @kb.bf16.from.u32.rz(i32 %a) alwaysinline {
  %d = uitofp i32 %a to double
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.bf16.rz(float %w)
  ret i16 %r
}

define linkonce_odr i32 @kb.bf16.to.u32.rz(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.trunc.f64(double %w)
  %n = call i32 @llvm.fptoui.sat.i32.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i16 @kb.bf16.from.u32.rd(i32 %a) alwaysinline {
  %d = uitofp i32 %a to double
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.bf16.rd(float %w)
  ret i16 %r
}

define linkonce_odr i32 @kb.bf16.to.u32.rd(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.floor.f64(double %w)
  %n = call i32 @llvm.fptoui.sat.i32.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i16 @kb.bf16.from.u32.ru(i32 %a) alwaysinline {
  %d = uitofp i32 %a to double
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.bf16.ru(float %w)
  ret i16 %r
}

define linkonce_odr i32 @kb.bf16.to.u32.ru(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.ceil.f64(double %w)
  %n = call i32 @llvm.fptoui.sat.i32.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i16 @kb.bf16.from.u64.rn(i64 %a) alwaysinline {
  %d = call double @kb.odd.u64(i64 %a)
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.bf16.rn(float %w)
  ret i16 %r
}

define linkonce_odr i64 @kb.bf16.to.u64.rn(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.rint.f64(double %w)
  %n = call i64 @llvm.fptoui.sat.i64.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i16 @kb.bf16.from.u64.rz(i64 %a) alwaysinline {
  %d = call double @kb.odd.u64(i64 %a)
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.bf16.rz(float %w)
  ret i16 %r
}

define linkonce_odr i64 @kb.bf16.to.u64.rz(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.trunc.f64(double %w)
  %n = call i64 @llvm.fptoui.sat.i64.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i16 @kb.bf16.from.u64.rd(i64 %a) alwaysinline {
  %d = call double @kb.odd.u64(i64 %a)
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.bf16.rd(float %w)
  ret i16 %r
}

define linkonce_odr i64 @kb.bf16.to.u64.rd(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.floor.f64(double %w)
  %n = call i64 @llvm.fptoui.sat.i64.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i16 @kb.bf16.from.u64.ru(i64 %a) alwaysinline {
  %d = call double @kb.odd.u64(i64 %a)
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.bf16.ru(float %w)
  ret i16 %r
}

define linkonce_odr i64 @kb.bf16.to.u64.ru(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.ceil.f64(double %w)
  %n = call i64 @llvm.fptoui.sat.i64.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i16 @kb.bf16.from.u8.rn(i8 %a) alwaysinline {
  %w = uitofp i8 %a to float
  %r = call i16 @kb.bf16.rn(float %w)
  ret i16 %r
}

define linkonce_odr i8 @kb.bf16.to.u8.rn(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.rint.f64(double %w)
  %n = call i8 @llvm.fptoui.sat.i8.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i8 0, i8 %n
  ret i8 %r
}

define linkonce_odr i16 @kb.bf16.from.u8.rz(i8 %a) alwaysinline {
  %w = uitofp i8 %a to float
  %r = call i16 @kb.bf16.rz(float %w)
  ret i16 %r
}

define linkonce_odr i8 @kb.bf16.to.u8.rz(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.trunc.f64(double %w)
  %n = call i8 @llvm.fptoui.sat.i8.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i8 0, i8 %n
  ret i8 %r
}

define linkonce_odr i16 @kb.bf16.from.u8.rd(i8 %a) alwaysinline {
  %w = uitofp i8 %a to float
  %r = call i16 @kb.bf16.rd(float %w)
  ret i16 %r
}

define linkonce_odr i8 @kb.bf16.to.u8.rd(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.floor.f64(double %w)
  %n = call i8 @llvm.fptoui.sat.i8.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i8 0, i8 %n
  ret i8 %r
}

define linkonce_odr i16 @kb.bf16.from.u8.ru(i8 %a) alwaysinline {
  %w = uitofp i8 %a to float
  %r = call i16 @kb.bf16.ru(float %w)
  ret i16 %r
}

define linkonce_odr i8 @kb.bf16.to.u8.ru(i16 %a) alwaysinline {
  %w = call double @kb.bf16.wide(i16 %a)
  %whole = call double @llvm.ceil.f64(double %w)
  %n = call i8 @llvm.fptoui.sat.i8.f64(double %whole)
  %nan = fcmp uno double %w, %w
  %r = select i1 %nan, i8 0, i8 %n
  ret i8 %r
}

define linkonce_odr i32 @____nv_bfloat16__ZNK13__nv_bfloat16cvaEv_1(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.bf16.to.s8.rz(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @____nv_bfloat16__ZNK13__nv_bfloat16cvcEv_1(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.bf16.to.s8.rz(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @____nv_bfloat16__ZNK13__nv_bfloat16cvhEv_1(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.bf16.to.u8.rz(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @____nv_bfloat16__ZNK13__nv_bfloat16cvsEv_1(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.to.s16.rz(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @____nv_bfloat16__ZNK13__nv_bfloat16cvtEv_1(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.to.u16.rz(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @____nv_bfloat16__ZNK13__nv_bfloat16cviEv_1(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i32 @kb.bf16.to.s32.rz(i16 %v0)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @____nv_bfloat16__ZNK13__nv_bfloat16cvjEv_1(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i32 @kb.bf16.to.u32.rz(i16 %v0)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @____nv_bfloat16__ZNK13__nv_bfloat16cvlEv_1(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.bf16.to.s64.rz(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @____nv_bfloat16__ZNK13__nv_bfloat16cvmEv_1(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.bf16.to.u64.rz(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @____nv_bfloat16__ZNK13__nv_bfloat16cvxEv_1(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.bf16.to.s64.rz(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @____nv_bfloat16__ZNK13__nv_bfloat16cvyEv_1(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.bf16.to.u64.rz(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZN13__nv_bfloat16C1Es_nbst(ptr %ignored, ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.from.s16.rn(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZN13__nv_bfloat16C1Et_nbst(ptr %ignored, ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.from.u16.rn(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZN13__nv_bfloat16C1Ei_nbst(ptr %ignored, ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.bf16.from.s32.rn(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZN13__nv_bfloat16C1Ej_nbst(ptr %ignored, ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.bf16.from.u32.rn(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZN13__nv_bfloat16C1El_nbst(ptr %ignored, ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.bf16.from.s64.rn(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZN13__nv_bfloat16C1Em_nbst(ptr %ignored, ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.bf16.from.u64.rn(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZN13__nv_bfloat16C1Ex_nbst(ptr %ignored, ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.bf16.from.s64.rn(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZN13__nv_bfloat16C1Ey_nbst(ptr %ignored, ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.bf16.from.u64.rn(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL18__bfloat162char_rn13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.bf16.to.s8.rn(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL18__char2bfloat16_rna_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i8, ptr %p0
  %r = call i16 @kb.bf16.from.s8.rn(i8 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL18__bfloat162char_rz13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.bf16.to.s8.rz(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL18__char2bfloat16_rza_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i8, ptr %p0
  %r = call i16 @kb.bf16.from.s8.rz(i8 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL18__bfloat162char_rd13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.bf16.to.s8.rd(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL18__char2bfloat16_rda_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i8, ptr %p0
  %r = call i16 @kb.bf16.from.s8.rd(i8 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL18__bfloat162char_ru13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.bf16.to.s8.ru(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL18__char2bfloat16_rua_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i8, ptr %p0
  %r = call i16 @kb.bf16.from.s8.ru(i8 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__bfloat162uchar_rn13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.bf16.to.u8.rn(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__uchar2bfloat16_rnh_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i8, ptr %p0
  %r = call i16 @kb.bf16.from.u8.rn(i8 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__bfloat162uchar_rz13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.bf16.to.u8.rz(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__uchar2bfloat16_rzh_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i8, ptr %p0
  %r = call i16 @kb.bf16.from.u8.rz(i8 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__bfloat162uchar_rd13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.bf16.to.u8.rd(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__uchar2bfloat16_rdh_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i8, ptr %p0
  %r = call i16 @kb.bf16.from.u8.rd(i8 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__bfloat162uchar_ru13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.bf16.to.u8.ru(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__uchar2bfloat16_ruh_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i8, ptr %p0
  %r = call i16 @kb.bf16.from.u8.ru(i8 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__bfloat162short_rn13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.to.s16.rn(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__short2bfloat16_rns_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.from.s16.rn(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__bfloat162short_rz13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.to.s16.rz(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__short2bfloat16_rzs_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.from.s16.rz(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__bfloat162short_rd13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.to.s16.rd(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__short2bfloat16_rds_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.from.s16.rd(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__bfloat162short_ru13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.to.s16.ru(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL19__short2bfloat16_rus_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.from.s16.ru(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL20__bfloat162ushort_rn13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.to.u16.rn(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL20__ushort2bfloat16_rnt_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.from.u16.rn(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL20__bfloat162ushort_rz13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.to.u16.rz(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL20__ushort2bfloat16_rzt_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.from.u16.rz(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL20__bfloat162ushort_rd13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.to.u16.rd(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL20__ushort2bfloat16_rdt_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.from.u16.rd(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL20__bfloat162ushort_ru13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.to.u16.ru(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL20__ushort2bfloat16_rut_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.bf16.from.u16.ru(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL17__bfloat162int_rn13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i32 @kb.bf16.to.s32.rn(i16 %v0)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL17__int2bfloat16_rni_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.bf16.from.s32.rn(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL17__bfloat162int_rz13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i32 @kb.bf16.to.s32.rz(i16 %v0)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL17__int2bfloat16_rzi_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.bf16.from.s32.rz(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL17__bfloat162int_rd13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i32 @kb.bf16.to.s32.rd(i16 %v0)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL17__int2bfloat16_rdi_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.bf16.from.s32.rd(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL17__bfloat162int_ru13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i32 @kb.bf16.to.s32.ru(i16 %v0)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL17__int2bfloat16_rui_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.bf16.from.s32.ru(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL18__bfloat162uint_rn13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i32 @kb.bf16.to.u32.rn(i16 %v0)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL18__uint2bfloat16_rnj_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.bf16.from.u32.rn(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL18__bfloat162uint_rz13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i32 @kb.bf16.to.u32.rz(i16 %v0)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL18__uint2bfloat16_rzj_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.bf16.from.u32.rz(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL18__bfloat162uint_rd13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i32 @kb.bf16.to.u32.rd(i16 %v0)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL18__uint2bfloat16_rdj_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.bf16.from.u32.rd(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL18__bfloat162uint_ru13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i32 @kb.bf16.to.u32.ru(i16 %v0)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL18__uint2bfloat16_ruj_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.bf16.from.u32.ru(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL16__bfloat162ll_rn13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.bf16.to.s64.rn(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL16__ll2bfloat16_rnx_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.bf16.from.s64.rn(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL16__bfloat162ll_rz13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.bf16.to.s64.rz(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL16__ll2bfloat16_rzx_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.bf16.from.s64.rz(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL16__bfloat162ll_rd13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.bf16.to.s64.rd(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL16__ll2bfloat16_rdx_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.bf16.from.s64.rd(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL16__bfloat162ll_ru13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.bf16.to.s64.ru(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL16__ll2bfloat16_rux_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.bf16.from.s64.ru(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL17__bfloat162ull_rn13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.bf16.to.u64.rn(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL17__ull2bfloat16_rny_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.bf16.from.u64.rn(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL17__bfloat162ull_rz13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.bf16.to.u64.rz(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL17__ull2bfloat16_rzy_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.bf16.from.u64.rz(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL17__bfloat162ull_rd13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.bf16.to.u64.rd(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL17__ull2bfloat16_rdy_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.bf16.from.u64.rd(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL17__bfloat162ull_ru13__nv_bfloat16_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.bf16.to.u64.ru(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL17__ull2bfloat16_ruy_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.bf16.from.u64.ru(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

declare i16 @kb.bf16.rd(float)
declare i16 @kb.bf16.rn(float)
declare i16 @kb.bf16.ru(float)
declare i16 @kb.bf16.rz(float)
declare double @kb.bf16.wide(i16)
declare float @kb.odd.f32(double)
declare double @kb.odd.s64(i64)
declare double @kb.odd.u64(i64)
declare double @llvm.ceil.f64(double)
declare double @llvm.floor.f64(double)
declare i16 @llvm.fptosi.sat.i16.f64(double)
declare i32 @llvm.fptosi.sat.i32.f64(double)
declare i64 @llvm.fptosi.sat.i64.f64(double)
declare i8 @llvm.fptosi.sat.i8.f64(double)
declare i16 @llvm.fptoui.sat.i16.f64(double)
declare i32 @llvm.fptoui.sat.i32.f64(double)
declare i64 @llvm.fptoui.sat.i64.f64(double)
declare i8 @llvm.fptoui.sat.i8.f64(double)
declare double @llvm.rint.f64(double)
declare double @llvm.trunc.f64(double)
