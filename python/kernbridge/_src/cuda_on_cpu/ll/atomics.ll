; Written by tests/ll/generate.py: change it there.

; Atomic operations that no instruction has as Numba-CUDA calls them.

define linkonce_odr float @kb.atomic.load.add.f32.p0f32(ptr %at, float %v) alwaysinline {
  %old = atomicrmw fadd ptr %at, float %v monotonic
  ret float %old
}

define linkonce_odr float @___numba_atomic_float_add(ptr %at, float %v) alwaysinline {
  %old = atomicrmw fadd ptr %at, float %v monotonic
  ret float %old
}

define linkonce_odr float @___numba_atomic_float_sub(ptr %at, float %v) alwaysinline {
  %old = atomicrmw fsub ptr %at, float %v monotonic
  ret float %old
}

define linkonce_odr i32 @kb.atomic.load.inc.32.p0i32(ptr %at, i32 %v) alwaysinline {
  %old = atomicrmw uinc_wrap ptr %at, i32 %v monotonic
  ret i32 %old
}

define linkonce_odr i32 @___numba_atomic_u32_inc(ptr %at, i32 %v) alwaysinline {
  %old = atomicrmw uinc_wrap ptr %at, i32 %v monotonic
  ret i32 %old
}

define linkonce_odr i32 @kb.atomic.load.dec.32.p0i32(ptr %at, i32 %v) alwaysinline {
  %old = atomicrmw udec_wrap ptr %at, i32 %v monotonic
  ret i32 %old
}

define linkonce_odr i32 @___numba_atomic_u32_dec(ptr %at, i32 %v) alwaysinline {
  %old = atomicrmw udec_wrap ptr %at, i32 %v monotonic
  ret i32 %old
}

define linkonce_odr float @___numba_atomic_float_max(ptr %at, float %v) alwaysinline {
entry:
  %is_nan = fcmp uno float %v, %v
  %new = bitcast float %v to i32
  %first = load atomic i32, ptr %at monotonic, align 4
  br i1 %is_nan, label %done, label %again
again:
  %old = phi i32 [ %first, %entry ], [ %seen, %swap ]
  %number = bitcast i32 %old to float
  %replaces = fcmp olt float %number, %v
  br i1 %replaces, label %swap, label %done
swap:
  %pair = cmpxchg ptr %at, i32 %old, i32 %new monotonic monotonic
  %seen = extractvalue { i32, i1 } %pair, 0
  %swapped = extractvalue { i32, i1 } %pair, 1
  br i1 %swapped, label %done, label %again
done:
  %last = phi i32 [ %first, %entry ], [ %old, %again ], [ %old, %swap ]
  %result = bitcast i32 %last to float
  ret float %result
}

define linkonce_odr float @___numba_atomic_float_min(ptr %at, float %v) alwaysinline {
entry:
  %is_nan = fcmp uno float %v, %v
  %new = bitcast float %v to i32
  %first = load atomic i32, ptr %at monotonic, align 4
  br i1 %is_nan, label %done, label %again
again:
  %old = phi i32 [ %first, %entry ], [ %seen, %swap ]
  %number = bitcast i32 %old to float
  %replaces = fcmp ogt float %number, %v
  br i1 %replaces, label %swap, label %done
swap:
  %pair = cmpxchg ptr %at, i32 %old, i32 %new monotonic monotonic
  %seen = extractvalue { i32, i1 } %pair, 0
  %swapped = extractvalue { i32, i1 } %pair, 1
  br i1 %swapped, label %done, label %again
done:
  %last = phi i32 [ %first, %entry ], [ %old, %again ], [ %old, %swap ]
  %result = bitcast i32 %last to float
  ret float %result
}

define linkonce_odr float @___numba_atomic_float_nanmax(ptr %at, float %v) alwaysinline {
entry:
  %is_nan = fcmp uno float %v, %v
  %new = bitcast float %v to i32
  %first = load atomic i32, ptr %at monotonic, align 4
  br i1 %is_nan, label %done, label %again
again:
  %old = phi i32 [ %first, %entry ], [ %seen, %swap ]
  %number = bitcast i32 %old to float
  %replaces = fcmp ult float %number, %v
  br i1 %replaces, label %swap, label %done
swap:
  %pair = cmpxchg ptr %at, i32 %old, i32 %new monotonic monotonic
  %seen = extractvalue { i32, i1 } %pair, 0
  %swapped = extractvalue { i32, i1 } %pair, 1
  br i1 %swapped, label %done, label %again
done:
  %last = phi i32 [ %first, %entry ], [ %old, %again ], [ %old, %swap ]
  %result = bitcast i32 %last to float
  ret float %result
}

define linkonce_odr float @___numba_atomic_float_nanmin(ptr %at, float %v) alwaysinline {
entry:
  %is_nan = fcmp uno float %v, %v
  %new = bitcast float %v to i32
  %first = load atomic i32, ptr %at monotonic, align 4
  br i1 %is_nan, label %done, label %again
again:
  %old = phi i32 [ %first, %entry ], [ %seen, %swap ]
  %number = bitcast i32 %old to float
  %replaces = fcmp ugt float %number, %v
  br i1 %replaces, label %swap, label %done
swap:
  %pair = cmpxchg ptr %at, i32 %old, i32 %new monotonic monotonic
  %seen = extractvalue { i32, i1 } %pair, 0
  %swapped = extractvalue { i32, i1 } %pair, 1
  br i1 %swapped, label %done, label %again
done:
  %last = phi i32 [ %first, %entry ], [ %old, %again ], [ %old, %swap ]
  %result = bitcast i32 %last to float
  ret float %result
}

define linkonce_odr double @kb.atomic.load.add.f64.p0f64(ptr %at, double %v) alwaysinline {
  %old = atomicrmw fadd ptr %at, double %v monotonic
  ret double %old
}

define linkonce_odr double @___numba_atomic_double_add(ptr %at, double %v) alwaysinline {
  %old = atomicrmw fadd ptr %at, double %v monotonic
  ret double %old
}

define linkonce_odr double @___numba_atomic_double_sub(ptr %at, double %v) alwaysinline {
  %old = atomicrmw fsub ptr %at, double %v monotonic
  ret double %old
}

define linkonce_odr i64 @kb.atomic.load.inc.64.p0i64(ptr %at, i64 %v) alwaysinline {
  %old = atomicrmw uinc_wrap ptr %at, i64 %v monotonic
  ret i64 %old
}

define linkonce_odr i64 @___numba_atomic_u64_inc(ptr %at, i64 %v) alwaysinline {
  %old = atomicrmw uinc_wrap ptr %at, i64 %v monotonic
  ret i64 %old
}

define linkonce_odr i64 @kb.atomic.load.dec.64.p0i64(ptr %at, i64 %v) alwaysinline {
  %old = atomicrmw udec_wrap ptr %at, i64 %v monotonic
  ret i64 %old
}

define linkonce_odr i64 @___numba_atomic_u64_dec(ptr %at, i64 %v) alwaysinline {
  %old = atomicrmw udec_wrap ptr %at, i64 %v monotonic
  ret i64 %old
}

define linkonce_odr double @___numba_atomic_double_max(ptr %at, double %v) alwaysinline {
entry:
  %is_nan = fcmp uno double %v, %v
  %new = bitcast double %v to i64
  %first = load atomic i64, ptr %at monotonic, align 8
  br i1 %is_nan, label %done, label %again
again:
  %old = phi i64 [ %first, %entry ], [ %seen, %swap ]
  %number = bitcast i64 %old to double
  %replaces = fcmp olt double %number, %v
  br i1 %replaces, label %swap, label %done
swap:
  %pair = cmpxchg ptr %at, i64 %old, i64 %new monotonic monotonic
  %seen = extractvalue { i64, i1 } %pair, 0
  %swapped = extractvalue { i64, i1 } %pair, 1
  br i1 %swapped, label %done, label %again
done:
  %last = phi i64 [ %first, %entry ], [ %old, %again ], [ %old, %swap ]
  %result = bitcast i64 %last to double
  ret double %result
}

define linkonce_odr double @___numba_atomic_double_min(ptr %at, double %v) alwaysinline {
entry:
  %is_nan = fcmp uno double %v, %v
  %new = bitcast double %v to i64
  %first = load atomic i64, ptr %at monotonic, align 8
  br i1 %is_nan, label %done, label %again
again:
  %old = phi i64 [ %first, %entry ], [ %seen, %swap ]
  %number = bitcast i64 %old to double
  %replaces = fcmp ogt double %number, %v
  br i1 %replaces, label %swap, label %done
swap:
  %pair = cmpxchg ptr %at, i64 %old, i64 %new monotonic monotonic
  %seen = extractvalue { i64, i1 } %pair, 0
  %swapped = extractvalue { i64, i1 } %pair, 1
  br i1 %swapped, label %done, label %again
done:
  %last = phi i64 [ %first, %entry ], [ %old, %again ], [ %old, %swap ]
  %result = bitcast i64 %last to double
  ret double %result
}

define linkonce_odr double @___numba_atomic_double_nanmax(ptr %at, double %v) alwaysinline {
entry:
  %is_nan = fcmp uno double %v, %v
  %new = bitcast double %v to i64
  %first = load atomic i64, ptr %at monotonic, align 8
  br i1 %is_nan, label %done, label %again
again:
  %old = phi i64 [ %first, %entry ], [ %seen, %swap ]
  %number = bitcast i64 %old to double
  %replaces = fcmp ult double %number, %v
  br i1 %replaces, label %swap, label %done
swap:
  %pair = cmpxchg ptr %at, i64 %old, i64 %new monotonic monotonic
  %seen = extractvalue { i64, i1 } %pair, 0
  %swapped = extractvalue { i64, i1 } %pair, 1
  br i1 %swapped, label %done, label %again
done:
  %last = phi i64 [ %first, %entry ], [ %old, %again ], [ %old, %swap ]
  %result = bitcast i64 %last to double
  ret double %result
}

define linkonce_odr double @___numba_atomic_double_nanmin(ptr %at, double %v) alwaysinline {
entry:
  %is_nan = fcmp uno double %v, %v
  %new = bitcast double %v to i64
  %first = load atomic i64, ptr %at monotonic, align 8
  br i1 %is_nan, label %done, label %again
again:
  %old = phi i64 [ %first, %entry ], [ %seen, %swap ]
  %number = bitcast i64 %old to double
  %replaces = fcmp ugt double %number, %v
  br i1 %replaces, label %swap, label %done
swap:
  %pair = cmpxchg ptr %at, i64 %old, i64 %new monotonic monotonic
  %seen = extractvalue { i64, i1 } %pair, 0
  %swapped = extractvalue { i64, i1 } %pair, 1
  br i1 %swapped, label %done, label %again
done:
  %last = phi i64 [ %first, %entry ], [ %old, %again ], [ %old, %swap ]
  %result = bitcast i64 %last to double
  ret double %result
}

