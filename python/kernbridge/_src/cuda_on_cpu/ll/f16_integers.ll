; Written by tests/ll/generate.py: change it there.

; half: conversions to and from integers.

define linkonce_odr i16 @kb.f16.from.s16.rn(i16 %a) alwaysinline {
  %w = sitofp i16 %a to float
  %r = call i16 @kb.f16.rn(float %w)
  ret i16 %r
}

define linkonce_odr i16 @kb.f16.to.s16.rn(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.rint.f32(float %w)
  %n = call i16 @llvm.fptosi.sat.i16.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i16 0, i16 %n
  ret i16 %r
}

define linkonce_odr i16 @kb.f16.from.s16.rz(i16 %a) alwaysinline {
  %w = sitofp i16 %a to float
  %r = call i16 @kb.f16.rz(float %w)
  ret i16 %r
}

define linkonce_odr i16 @kb.f16.to.s16.rz(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.trunc.f32(float %w)
  %n = call i16 @llvm.fptosi.sat.i16.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i16 0, i16 %n
  ret i16 %r
}

define linkonce_odr i16 @kb.f16.from.s16.rd(i16 %a) alwaysinline {
  %w = sitofp i16 %a to float
  %r = call i16 @kb.f16.rd(float %w)
  ret i16 %r
}

define linkonce_odr i16 @kb.f16.to.s16.rd(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.floor.f32(float %w)
  %n = call i16 @llvm.fptosi.sat.i16.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i16 0, i16 %n
  ret i16 %r
}

define linkonce_odr i16 @kb.f16.from.s16.ru(i16 %a) alwaysinline {
  %w = sitofp i16 %a to float
  %r = call i16 @kb.f16.ru(float %w)
  ret i16 %r
}

define linkonce_odr i16 @kb.f16.to.s16.ru(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.ceil.f32(float %w)
  %n = call i16 @llvm.fptosi.sat.i16.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i16 0, i16 %n
  ret i16 %r
}

define linkonce_odr i16 @kb.f16.from.s32.rn(i32 %a) alwaysinline {
  %d = sitofp i32 %a to double
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.f16.rn(float %w)
  ret i16 %r
}

define linkonce_odr i32 @kb.f16.to.s32.rn(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.rint.f32(float %w)
  %n = call i32 @llvm.fptosi.sat.i32.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i16 @kb.f16.from.s32.rz(i32 %a) alwaysinline {
  %d = sitofp i32 %a to double
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.f16.rz(float %w)
  ret i16 %r
}

define linkonce_odr i32 @kb.f16.to.s32.rz(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.trunc.f32(float %w)
  %n = call i32 @llvm.fptosi.sat.i32.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i16 @kb.f16.from.s32.rd(i32 %a) alwaysinline {
  %d = sitofp i32 %a to double
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.f16.rd(float %w)
  ret i16 %r
}

define linkonce_odr i32 @kb.f16.to.s32.rd(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.floor.f32(float %w)
  %n = call i32 @llvm.fptosi.sat.i32.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i16 @kb.f16.from.s32.ru(i32 %a) alwaysinline {
  %d = sitofp i32 %a to double
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.f16.ru(float %w)
  ret i16 %r
}

define linkonce_odr i32 @kb.f16.to.s32.ru(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.ceil.f32(float %w)
  %n = call i32 @llvm.fptosi.sat.i32.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i16 @kb.f16.from.s64.rn(i64 %a) alwaysinline {
  %d = call double @kb.odd.s64(i64 %a)
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.f16.rn(float %w)
  ret i16 %r
}

define linkonce_odr i64 @kb.f16.to.s64.rn(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.rint.f32(float %w)
  %n = call i64 @llvm.fptosi.sat.i64.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i16 @kb.f16.from.s64.rz(i64 %a) alwaysinline {
  %d = call double @kb.odd.s64(i64 %a)
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.f16.rz(float %w)
  ret i16 %r
}

define linkonce_odr i64 @kb.f16.to.s64.rz(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.trunc.f32(float %w)
  %n = call i64 @llvm.fptosi.sat.i64.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i16 @kb.f16.from.s64.rd(i64 %a) alwaysinline {
  %d = call double @kb.odd.s64(i64 %a)
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.f16.rd(float %w)
  ret i16 %r
}

define linkonce_odr i64 @kb.f16.to.s64.rd(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.floor.f32(float %w)
  %n = call i64 @llvm.fptosi.sat.i64.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i16 @kb.f16.from.s64.ru(i64 %a) alwaysinline {
  %d = call double @kb.odd.s64(i64 %a)
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.f16.ru(float %w)
  ret i16 %r
}

define linkonce_odr i64 @kb.f16.to.s64.ru(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.ceil.f32(float %w)
  %n = call i64 @llvm.fptosi.sat.i64.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i16 @kb.f16.from.s8.rn(i8 %a) alwaysinline {
  %w = sitofp i8 %a to float
  %r = call i16 @kb.f16.rn(float %w)
  ret i16 %r
}

define linkonce_odr i8 @kb.f16.to.s8.rn(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.rint.f32(float %w)
  %n = call i8 @llvm.fptosi.sat.i8.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i8 0, i8 %n
  ret i8 %r
}

define linkonce_odr i16 @kb.f16.from.s8.rz(i8 %a) alwaysinline {
  %w = sitofp i8 %a to float
  %r = call i16 @kb.f16.rz(float %w)
  ret i16 %r
}

define linkonce_odr i8 @kb.f16.to.s8.rz(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.trunc.f32(float %w)
  %n = call i8 @llvm.fptosi.sat.i8.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i8 0, i8 %n
  ret i8 %r
}

define linkonce_odr i16 @kb.f16.from.s8.rd(i8 %a) alwaysinline {
  %w = sitofp i8 %a to float
  %r = call i16 @kb.f16.rd(float %w)
  ret i16 %r
}

define linkonce_odr i8 @kb.f16.to.s8.rd(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.floor.f32(float %w)
  %n = call i8 @llvm.fptosi.sat.i8.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i8 0, i8 %n
  ret i8 %r
}

define linkonce_odr i16 @kb.f16.from.s8.ru(i8 %a) alwaysinline {
  %w = sitofp i8 %a to float
  %r = call i16 @kb.f16.ru(float %w)
  ret i16 %r
}

define linkonce_odr i8 @kb.f16.to.s8.ru(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.ceil.f32(float %w)
  %n = call i8 @llvm.fptosi.sat.i8.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i8 0, i8 %n
  ret i8 %r
}

define linkonce_odr i16 @kb.f16.from.u16.rn(i16 %a) alwaysinline {
  %w = uitofp i16 %a to float
  %r = call i16 @kb.f16.rn(float %w)
  ret i16 %r
}

define linkonce_odr i16 @kb.f16.to.u16.rn(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.rint.f32(float %w)
  %n = call i16 @llvm.fptoui.sat.i16.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i16 0, i16 %n
  ret i16 %r
}

define linkonce_odr i16 @kb.f16.from.u16.rz(i16 %a) alwaysinline {
  %w = uitofp i16 %a to float
  %r = call i16 @kb.f16.rz(float %w)
  ret i16 %r
}

define linkonce_odr i16 @kb.f16.to.u16.rz(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.trunc.f32(float %w)
  %n = call i16 @llvm.fptoui.sat.i16.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i16 0, i16 %n
  ret i16 %r
}

define linkonce_odr i16 @kb.f16.from.u16.rd(i16 %a) alwaysinline {
  %w = uitofp i16 %a to float
  %r = call i16 @kb.f16.rd(float %w)
  ret i16 %r
}

define linkonce_odr i16 @kb.f16.to.u16.rd(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.floor.f32(float %w)
  %n = call i16 @llvm.fptoui.sat.i16.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i16 0, i16 %n
  ret i16 %r
}

define linkonce_odr i16 @kb.f16.from.u16.ru(i16 %a) alwaysinline {
  %w = uitofp i16 %a to float
  %r = call i16 @kb.f16.ru(float %w)
  ret i16 %r
}

define linkonce_odr i16 @kb.f16.to.u16.ru(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.ceil.f32(float %w)
  %n = call i16 @llvm.fptoui.sat.i16.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i16 0, i16 %n
  ret i16 %r
}

define linkonce_odr i16 @kb.f16.from.u32.rn(i32 %a) alwaysinline {
  %d = uitofp i32 %a to double
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.f16.rn(float %w)
  ret i16 %r
}

define linkonce_odr i32 @kb.f16.to.u32.rn(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.rint.f32(float %w)
  %n = call i32 @llvm.fptoui.sat.i32.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i16 @kb.f16.from.u32.rz(i32 %a) alwaysinline {
  %d = uitofp i32 %a to double
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.f16.rz(float %w)
  ret i16 %r
}

define linkonce_odr i32 @kb.f16.to.u32.rz(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.trunc.f32(float %w)
  %n = call i32 @llvm.fptoui.sat.i32.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i16 @kb.f16.from.u32.rd(i32 %a) alwaysinline {
  %d = uitofp i32 %a to double
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.f16.rd(float %w)
  ret i16 %r
}

define linkonce_odr i32 @kb.f16.to.u32.rd(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.floor.f32(float %w)
  %n = call i32 @llvm.fptoui.sat.i32.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i16 @kb.f16.from.u32.ru(i32 %a) alwaysinline {
  %d = uitofp i32 %a to double
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.f16.ru(float %w)
  ret i16 %r
}

define linkonce_odr i32 @kb.f16.to.u32.ru(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.ceil.f32(float %w)
  %n = call i32 @llvm.fptoui.sat.i32.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i32 0, i32 %n
  ret i32 %r
}

define linkonce_odr i16 @kb.f16.from.u64.rn(i64 %a) alwaysinline {
  %d = call double @kb.odd.u64(i64 %a)
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.f16.rn(float %w)
  ret i16 %r
}

define linkonce_odr i64 @kb.f16.to.u64.rn(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.rint.f32(float %w)
  %n = call i64 @llvm.fptoui.sat.i64.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i16 @kb.f16.from.u64.rz(i64 %a) alwaysinline {
  %d = call double @kb.odd.u64(i64 %a)
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.f16.rz(float %w)
  ret i16 %r
}

define linkonce_odr i64 @kb.f16.to.u64.rz(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.trunc.f32(float %w)
  %n = call i64 @llvm.fptoui.sat.i64.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i16 @kb.f16.from.u64.rd(i64 %a) alwaysinline {
  %d = call double @kb.odd.u64(i64 %a)
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.f16.rd(float %w)
  ret i16 %r
}

define linkonce_odr i64 @kb.f16.to.u64.rd(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.floor.f32(float %w)
  %n = call i64 @llvm.fptoui.sat.i64.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i16 @kb.f16.from.u64.ru(i64 %a) alwaysinline {
  %d = call double @kb.odd.u64(i64 %a)
  %w = call float @kb.odd.f32(double %d)
  %r = call i16 @kb.f16.ru(float %w)
  ret i16 %r
}

define linkonce_odr i64 @kb.f16.to.u64.ru(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.ceil.f32(float %w)
  %n = call i64 @llvm.fptoui.sat.i64.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i64 -9223372036854775808, i64 %n
  ret i64 %r
}

define linkonce_odr i16 @kb.f16.from.u8.rn(i8 %a) alwaysinline {
  %w = uitofp i8 %a to float
  %r = call i16 @kb.f16.rn(float %w)
  ret i16 %r
}

define linkonce_odr i8 @kb.f16.to.u8.rn(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.rint.f32(float %w)
  %n = call i8 @llvm.fptoui.sat.i8.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i8 0, i8 %n
  ret i8 %r
}

define linkonce_odr i16 @kb.f16.from.u8.rz(i8 %a) alwaysinline {
  %w = uitofp i8 %a to float
  %r = call i16 @kb.f16.rz(float %w)
  ret i16 %r
}

define linkonce_odr i8 @kb.f16.to.u8.rz(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.trunc.f32(float %w)
  %n = call i8 @llvm.fptoui.sat.i8.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i8 0, i8 %n
  ret i8 %r
}

define linkonce_odr i16 @kb.f16.from.u8.rd(i8 %a) alwaysinline {
  %w = uitofp i8 %a to float
  %r = call i16 @kb.f16.rd(float %w)
  ret i16 %r
}

define linkonce_odr i8 @kb.f16.to.u8.rd(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.floor.f32(float %w)
  %n = call i8 @llvm.fptoui.sat.i8.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i8 0, i8 %n
  ret i8 %r
}

define linkonce_odr i16 @kb.f16.from.u8.ru(i8 %a) alwaysinline {
  %w = uitofp i8 %a to float
  %r = call i16 @kb.f16.ru(float %w)
  ret i16 %r
}

define linkonce_odr i8 @kb.f16.to.u8.ru(i16 %a) alwaysinline {
  %w = call float @kb.f16.wide(i16 %a)
  %whole = call float @llvm.ceil.f32(float %w)
  %n = call i8 @llvm.fptoui.sat.i8.f32(float %whole)
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i8 0, i8 %n
  ret i8 %r
}

define linkonce_odr i32 @_ZN6__halfC1Es_nbst(ptr %ignored, ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.f16.from.s16.rn(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZN6__halfC1Et_nbst(ptr %ignored, ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.f16.from.u16.rn(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZN6__halfC1Ei_nbst(ptr %ignored, ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.f16.from.s32.rn(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZN6__halfC1Ej_nbst(ptr %ignored, ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.f16.from.u32.rn(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZN6__halfC1El_nbst(ptr %ignored, ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.f16.from.s64.rn(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZN6__halfC1Em_nbst(ptr %ignored, ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.f16.from.u64.rn(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZN6__halfC1Ex_nbst(ptr %ignored, ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.f16.from.s64.rn(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZN6__halfC1Ey_nbst(ptr %ignored, ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.f16.from.u64.rn(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL14__half2char_rn6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.f16.to.s8.rn(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL14__char2half_rna_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i8, ptr %p0
  %r = call i16 @kb.f16.from.s8.rn(i8 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL14__half2char_rz6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.f16.to.s8.rz(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL14__char2half_rza_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i8, ptr %p0
  %r = call i16 @kb.f16.from.s8.rz(i8 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL14__half2char_rd6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.f16.to.s8.rd(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL14__char2half_rda_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i8, ptr %p0
  %r = call i16 @kb.f16.from.s8.rd(i8 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL14__half2char_ru6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.f16.to.s8.ru(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL14__char2half_rua_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i8, ptr %p0
  %r = call i16 @kb.f16.from.s8.ru(i8 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL15__half2uchar_rn6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.f16.to.u8.rn(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL15__uchar2half_rnh_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i8, ptr %p0
  %r = call i16 @kb.f16.from.u8.rn(i8 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL15__half2uchar_rz6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.f16.to.u8.rz(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL15__uchar2half_rzh_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i8, ptr %p0
  %r = call i16 @kb.f16.from.u8.rz(i8 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL15__half2uchar_rd6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.f16.to.u8.rd(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL15__uchar2half_rdh_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i8, ptr %p0
  %r = call i16 @kb.f16.from.u8.rd(i8 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL15__half2uchar_ru6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i8 @kb.f16.to.u8.ru(i16 %v0)
  store i8 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL15__uchar2half_ruh_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i8, ptr %p0
  %r = call i16 @kb.f16.from.u8.ru(i8 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL15__half2short_rn6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.f16.to.s16.rn(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL15__short2half_rns_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.f16.from.s16.rn(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL15__half2short_rz6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.f16.to.s16.rz(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL15__short2half_rzs_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.f16.from.s16.rz(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL15__half2short_rd6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.f16.to.s16.rd(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL15__short2half_rds_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.f16.from.s16.rd(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL15__half2short_ru6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.f16.to.s16.ru(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL15__short2half_rus_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.f16.from.s16.ru(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL16__half2ushort_rn6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.f16.to.u16.rn(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL16__ushort2half_rnt_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.f16.from.u16.rn(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL16__half2ushort_rz6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.f16.to.u16.rz(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL16__ushort2half_rzt_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.f16.from.u16.rz(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL16__half2ushort_rd6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.f16.to.u16.rd(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL16__ushort2half_rdt_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.f16.from.u16.rd(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL16__half2ushort_ru6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.f16.to.u16.ru(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL16__ushort2half_rut_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i16 @kb.f16.from.u16.ru(i16 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL13__half2int_rn6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i32 @kb.f16.to.s32.rn(i16 %v0)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL13__int2half_rni_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.f16.from.s32.rn(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL13__half2int_rz6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i32 @kb.f16.to.s32.rz(i16 %v0)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL13__int2half_rzi_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.f16.from.s32.rz(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL13__half2int_rd6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i32 @kb.f16.to.s32.rd(i16 %v0)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL13__int2half_rdi_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.f16.from.s32.rd(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL13__half2int_ru6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i32 @kb.f16.to.s32.ru(i16 %v0)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL13__int2half_rui_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.f16.from.s32.ru(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL14__half2uint_rn6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i32 @kb.f16.to.u32.rn(i16 %v0)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL14__uint2half_rnj_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.f16.from.u32.rn(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL14__half2uint_rz6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i32 @kb.f16.to.u32.rz(i16 %v0)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL14__uint2half_rzj_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.f16.from.u32.rz(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL14__half2uint_rd6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i32 @kb.f16.to.u32.rd(i16 %v0)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL14__uint2half_rdj_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.f16.from.u32.rd(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL14__half2uint_ru6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i32 @kb.f16.to.u32.ru(i16 %v0)
  store i32 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL14__uint2half_ruj_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i32, ptr %p0
  %r = call i16 @kb.f16.from.u32.ru(i32 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL12__half2ll_rn6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.f16.to.s64.rn(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL12__ll2half_rnx_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.f16.from.s64.rn(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL12__half2ll_rz6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.f16.to.s64.rz(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL12__ll2half_rzx_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.f16.from.s64.rz(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL12__half2ll_rd6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.f16.to.s64.rd(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL12__ll2half_rdx_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.f16.from.s64.rd(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL12__half2ll_ru6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.f16.to.s64.ru(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL12__ll2half_rux_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.f16.from.s64.ru(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL13__half2ull_rn6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.f16.to.u64.rn(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL13__ull2half_rny_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.f16.from.u64.rn(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL13__half2ull_rz6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.f16.to.u64.rz(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL13__ull2half_rzy_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.f16.from.u64.rz(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL13__half2ull_rd6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.f16.to.u64.rd(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL13__ull2half_rdy_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.f16.from.u64.rd(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL13__half2ull_ru6__half_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i16, ptr %p0
  %r = call i64 @kb.f16.to.u64.ru(i16 %v0)
  store i64 %r, ptr %to
  ret i32 0
}

define linkonce_odr i32 @_ZL13__ull2half_ruy_nbst(ptr %to, ptr %p0) alwaysinline {
  %v0 = load i64, ptr %p0
  %r = call i16 @kb.f16.from.u64.ru(i64 %v0)
  store i16 %r, ptr %to
  ret i32 0
}

define linkonce_odr i8 @kb.cvt.rni.s8.f16(i16 %v) alwaysinline {
  %n = call i8 @kb.f16.to.s8.rn(i16 %v)
  ret i8 %n
}

define linkonce_odr i16 @kb.cvt.rn.f16.s8(i8 %v) alwaysinline {
  %half = call i16 @kb.f16.from.s8.rn(i8 %v)
  ret i16 %half
}

define linkonce_odr i16 @kb.cvt.rni.s16.f16(i16 %v) alwaysinline {
  %n = call i16 @kb.f16.to.s16.rn(i16 %v)
  ret i16 %n
}

define linkonce_odr i16 @kb.cvt.rn.f16.s16(i16 %v) alwaysinline {
  %half = call i16 @kb.f16.from.s16.rn(i16 %v)
  ret i16 %half
}

define linkonce_odr i32 @kb.cvt.rni.s32.f16(i16 %v) alwaysinline {
  %n = call i32 @kb.f16.to.s32.rn(i16 %v)
  ret i32 %n
}

define linkonce_odr i16 @kb.cvt.rn.f16.s32(i32 %v) alwaysinline {
  %half = call i16 @kb.f16.from.s32.rn(i32 %v)
  ret i16 %half
}

define linkonce_odr i64 @kb.cvt.rni.s64.f16(i16 %v) alwaysinline {
  %n = call i64 @kb.f16.to.s64.rn(i16 %v)
  ret i64 %n
}

define linkonce_odr i16 @kb.cvt.rn.f16.s64(i64 %v) alwaysinline {
  %half = call i16 @kb.f16.from.s64.rn(i64 %v)
  ret i16 %half
}

define linkonce_odr i8 @kb.cvt.rni.u8.f16(i16 %v) alwaysinline {
  %n = call i8 @kb.f16.to.u8.rn(i16 %v)
  ret i8 %n
}

define linkonce_odr i16 @kb.cvt.rn.f16.u8(i8 %v) alwaysinline {
  %half = call i16 @kb.f16.from.u8.rn(i8 %v)
  ret i16 %half
}

define linkonce_odr i16 @kb.cvt.rni.u16.f16(i16 %v) alwaysinline {
  %n = call i16 @kb.f16.to.u16.rn(i16 %v)
  ret i16 %n
}

define linkonce_odr i16 @kb.cvt.rn.f16.u16(i16 %v) alwaysinline {
  %half = call i16 @kb.f16.from.u16.rn(i16 %v)
  ret i16 %half
}

define linkonce_odr i32 @kb.cvt.rni.u32.f16(i16 %v) alwaysinline {
  %n = call i32 @kb.f16.to.u32.rn(i16 %v)
  ret i32 %n
}

define linkonce_odr i16 @kb.cvt.rn.f16.u32(i32 %v) alwaysinline {
  %half = call i16 @kb.f16.from.u32.rn(i32 %v)
  ret i16 %half
}

define linkonce_odr i64 @kb.cvt.rni.u64.f16(i16 %v) alwaysinline {
  %n = call i64 @kb.f16.to.u64.rn(i16 %v)
  ret i64 %n
}

define linkonce_odr i16 @kb.cvt.rn.f16.u64(i64 %v) alwaysinline {
  %half = call i16 @kb.f16.from.u64.rn(i64 %v)
  ret i16 %half
}

declare i16 @kb.f16.rd(float)
declare i16 @kb.f16.rn(float)
declare i16 @kb.f16.ru(float)
declare i16 @kb.f16.rz(float)
declare float @kb.f16.wide(i16)
declare float @kb.odd.f32(double)
declare double @kb.odd.s64(i64)
declare double @kb.odd.u64(i64)
declare float @llvm.ceil.f32(float)
declare float @llvm.floor.f32(float)
declare i16 @llvm.fptosi.sat.i16.f32(float)
declare i32 @llvm.fptosi.sat.i32.f32(float)
declare i64 @llvm.fptosi.sat.i64.f32(float)
declare i8 @llvm.fptosi.sat.i8.f32(float)
declare i16 @llvm.fptoui.sat.i16.f32(float)
declare i32 @llvm.fptoui.sat.i32.f32(float)
declare i64 @llvm.fptoui.sat.i64.f32(float)
declare i8 @llvm.fptoui.sat.i8.f32(float)
declare float @llvm.rint.f32(float)
declare float @llvm.trunc.f32(float)
