; Numba's temporary arrays, in a form that Enzyme sees through: a block of memory begins with its
; number of references, and has the address of the data at byte 24, as in Numba's runtime.

declare noalias ptr @malloc(i64)
declare void @free(ptr)

define internal ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 %alignment) alwaysinline {
  %all = add i64 %size, 64
  %block = call noalias ptr @malloc(i64 %all)
  %data = getelementptr i8, ptr %block, i64 64
  store i64 1, ptr %block, !enzyme_inactive !{}
  %place = getelementptr i8, ptr %block, i64 24
  store ptr %data, ptr %place
  ret ptr %block
}

define internal ptr @NRT_MemInfo_alloc(i64 %size) alwaysinline {
  %block = call ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 16)
  ret ptr %block
}

define internal ptr @NRT_Allocate(i64 %size) alwaysinline {
  %memory = call noalias ptr @malloc(i64 %size)
  ret ptr %memory
}

define internal void @NRT_Free(ptr %memory) alwaysinline {
  call void @free(ptr %memory)
  ret void
}

define internal void @NRT_incref(ptr %block) alwaysinline {
  %none = icmp eq ptr %block, null
  br i1 %none, label %end, label %count
count:
  %before = load i64, ptr %block, !enzyme_inactive !{}
  %after = add i64 %before, 1, !enzyme_inactive !{}
  store i64 %after, ptr %block, !enzyme_inactive !{}
  br label %end
end:
  ret void
}

define internal void @NRT_decref(ptr %block) alwaysinline {
  %none = icmp eq ptr %block, null
  br i1 %none, label %end, label %count
count:
  %before = load i64, ptr %block, !enzyme_inactive !{}
  %after = add i64 %before, -1, !enzyme_inactive !{}
  store i64 %after, ptr %block, !enzyme_inactive !{}
  %last = icmp eq i64 %after, 0, !enzyme_inactive !{}
  br i1 %last, label %release, label %end
release:
  call void @free(ptr %block)
  br label %end
end:
  ret void
}

define internal void @NRT_MemInfo_call_dtor(ptr %block) alwaysinline {
  call void @free(ptr %block)
  ret void
}

