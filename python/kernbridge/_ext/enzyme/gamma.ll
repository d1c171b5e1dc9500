; The gamma function and the logarithm of its absolute value, from what Enzyme can differentiate.
; Within 1e-13 of libm's. What is not taken is computed of a harmless number: its derivative, of
; which there is zero times, must be finite.

declare double @llvm.exp.f64(double)
declare double @llvm.fabs.f64(double)
declare double @llvm.floor.f64(double)
declare double @llvm.log.f64(double)
declare double @llvm.sin.f64(double)

define internal double @kb.lgamma(double %x) alwaysinline {
  ; Below 1/2, log(gamma(x)) = log(pi) - log|sin(pi x)| - log(gamma(1 - x)).
  %below = fcmp olt double %x, 0.5
  %mirrored = fsub double 1.0, %x
  %a = select i1 %below, double %mirrored, double %x
  %given = select i1 %below, double %x, double 0.25
  %shifted = fadd double %given, 0.5
  %nearest = call double @llvm.floor.f64(double %shifted)
  %rest = fsub double %given, %nearest
  %angle = fmul double %rest, 0x400921FB54442D18
  %sine = call double @llvm.sin.f64(double %angle)
  %size = call double @llvm.fabs.f64(double %sine)
  %log.sine = call double @llvm.log.f64(double %size)
  %reflection = fsub double 0x3FF250D048E7A1BD, %log.sine
  ; Below 8, gamma(a) = gamma(a + 8) / (a (a + 1) ... (a + 7)), where a (a + 7) is q, and the other
  ; pairs of factors are q + 6, q + 10 and q + 12.
  %is.small = fcmp olt double %a, 8.0
  %a0 = select i1 %is.small, double %a, double 1.0
  %a7 = fadd double %a0, 7.0
  %q0 = fmul double %a0, %a7
  %q1 = fadd double %q0, 6.0
  %q2 = fadd double %q0, 10.0
  %q3 = fadd double %q0, 12.0
  %p1 = fmul double %q0, %q1
  %p2 = fmul double %p1, %q2
  %p3 = fmul double %p2, %q3
  %log.product = call double @llvm.log.f64(double %p3)
  %less = select i1 %is.small, double %log.product, double 0.0
  %step = select i1 %is.small, double 8.0, double 0.0
  ; Stirling's series.
  %y = fadd double %a, %step
  %w = fdiv double 1.0, %y
  %w2 = fmul double %w, %w
  %s6 = fmul double %w2, 0x3F7A41A41A41A41A ; 1 / 156
  %s5 = fadd double %s6, 0xBF5F6AB0D9993C7D ; -691 / 360360
  %t5 = fmul double %w2, %s5
  %s4 = fadd double %t5, 0x3F4B951E2B18FF23 ; 1 / 1188
  %t4 = fmul double %w2, %s4
  %s3 = fadd double %t4, 0xBF43813813813814 ; -1 / 1680
  %t3 = fmul double %w2, %s3
  %s2 = fadd double %t3, 0x3F4A01A01A01A01A ; 1 / 1260
  %t2 = fmul double %w2, %s2
  %s1 = fadd double %t2, 0xBF66C16C16C16C17 ; -1 / 360
  %t1 = fmul double %w2, %s1
  %s0 = fadd double %t1, 0x3FB5555555555555 ; 1 / 12
  %series = fmul double %w, %s0
  %log.y = call double @llvm.log.f64(double %y)
  %half = fsub double %y, 0.5
  %main = fmul double %half, %log.y
  %less.y = fsub double %main, %y
  %constant = fadd double %less.y, 0x3FED67F1C864BEB4 ; log(2 pi) / 2
  %stirling = fadd double %constant, %series
  %of.a = fsub double %stirling, %less
  %reflected = fsub double %reflection, %of.a
  %r = select i1 %below, double %reflected, double %of.a
  ret double %r
}

define internal double @kb.tgamma(double %x) alwaysinline {
  %log = call double @kb.lgamma(double %x)
  %size = call double @llvm.exp.f64(double %log)
  %whole = call double @llvm.floor.f64(double %x)
  %half = fmul double %whole, 0.5
  %floor = call double @llvm.floor.f64(double %half)
  %is.odd = fcmp une double %half, %floor
  %is.negative = fcmp olt double %x, 0.0
  %changes = and i1 %is.odd, %is.negative
  %minus = fneg double %size
  %r = select i1 %changes, double %minus, double %size
  ret double %r
}
