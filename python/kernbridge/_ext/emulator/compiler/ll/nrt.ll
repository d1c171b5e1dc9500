; Numba-CUDA's runtime for arrays that a kernel makes: memory with reference counts. The layout of a
; kb_nrt_memory, and what the C functions named NRT_... do, are in src/object/kb_nrt.h:
;
; offset  what
;      0  the references
;     24  the data
;
; What a thread holds when its block ends with a fault is never given back.

declare void @NRT_MemInfo_call_dtor(ptr)

define linkonce_odr ptr @NRT_MemInfo_data_fast(ptr %memory) alwaysinline {
  %at = getelementptr i8, ptr %memory, i64 24
  %data = load ptr, ptr %at
  ret ptr %data
}

; Arrays that are arguments have no count.
define linkonce_odr void @NRT_incref(ptr %memory) alwaysinline {
  %none = icmp eq ptr %memory, null
  br i1 %none, label %return, label %count

count:
  %before = atomicrmw add ptr %memory, i64 1 monotonic
  br label %return

return:
  ret void
}

define linkonce_odr void @NRT_decref(ptr %memory) alwaysinline {
  %none = icmp eq ptr %memory, null
  br i1 %none, label %return, label %count

count:
  %before = atomicrmw sub ptr %memory, i64 1 acq_rel
  %last = icmp eq i64 %before, 1
  br i1 %last, label %free, label %return

free:
  call void @NRT_MemInfo_call_dtor(ptr %memory)
  br label %return

return:
  ret void
}
