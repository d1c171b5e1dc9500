; Numba's temporary arrays, in a form that Enzyme sees through: a block of memory begins with its
; number of references. The data of an array is at byte 64. Its address is not stored, and the number
; of references has a type tag of its own, so that LLVM removes data that is never read. A list or a
; string has its data in another block, whose address is at byte 24, as in Numba's runtime.

declare noalias ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 %alignment) alwaysinline {
  %all = add i64 %size, 64
  %block = call noalias ptr @malloc(i64 %all)
  store i64 1, ptr %block, !tbaa !{!{!"count", !{!"kernbridge"}, i64 0}, !{!"count", !{!"kernbridge"}, i64 0}, i64 0}, !enzyme_inactive !{}
  %place = getelementptr i8, ptr %block, i64 24
  store ptr null, ptr %place
  ret ptr %block
}

define internal ptr @NRT_MemInfo_alloc(i64 %size) alwaysinline {
  %block = call ptr @NRT_MemInfo_new_varsize_dtor(i64 %size, ptr null)
  ret ptr %block
}

define internal ptr @NRT_MemInfo_new_varsize_dtor(i64 %size, ptr %dtor) alwaysinline {
  %block = call noalias ptr @malloc(i64 64)
  %data = call noalias ptr @malloc(i64 %size)
  store i64 1, ptr %block, !tbaa !{!{!"count", !{!"kernbridge"}, i64 0}, !{!"count", !{!"kernbridge"}, i64 0}, i64 0}, !enzyme_inactive !{}
  %place = getelementptr i8, ptr %block, i64 24
  store ptr %data, ptr %place
  %extent = getelementptr i8, ptr %block, i64 32
  store i64 %size, ptr %extent, !enzyme_inactive !{}
  ret ptr %block
}

define internal ptr @NRT_MemInfo_varsize_realloc(ptr %block, i64 %size) alwaysinline {
  %data = call noalias ptr @malloc(i64 %size)
  %place = getelementptr i8, ptr %block, i64 24
  %before = load ptr, ptr %place
  %extent = getelementptr i8, ptr %block, i64 32
  %had = load i64, ptr %extent, !enzyme_inactive !{}
  %kept = call i64 @llvm.umin.i64(i64 %had, i64 %size)
  call void @llvm.memcpy.p0.p0.i64(ptr %data, ptr %before, i64 %kept, i1 false)
  call void @free(ptr %before)
  store ptr %data, ptr %place
  store i64 %size, ptr %extent, !enzyme_inactive !{}
  ret ptr %data
}
declare i64 @llvm.umin.i64(i64, i64)

define internal void @NRT_incref(ptr %block) alwaysinline {
  %none = icmp eq ptr %block, null
  br i1 %none, label %end, label %count
count:
  %before = load i64, ptr %block, !tbaa !{!{!"count", !{!"kernbridge"}, i64 0}, !{!"count", !{!"kernbridge"}, i64 0}, i64 0}, !enzyme_inactive !{}
  %after = add i64 %before, 1, !enzyme_inactive !{}
  store i64 %after, ptr %block, !tbaa !{!{!"count", !{!"kernbridge"}, i64 0}, !{!"count", !{!"kernbridge"}, i64 0}, i64 0}, !enzyme_inactive !{}
  br label %end
end:
  ret void
}

define internal void @NRT_decref(ptr %block) alwaysinline {
  %none = icmp eq ptr %block, null
  br i1 %none, label %end, label %count
count:
  %before = load i64, ptr %block, !tbaa !{!{!"count", !{!"kernbridge"}, i64 0}, !{!"count", !{!"kernbridge"}, i64 0}, i64 0}, !enzyme_inactive !{}
  %after = add i64 %before, -1, !enzyme_inactive !{}
  store i64 %after, ptr %block, !tbaa !{!{!"count", !{!"kernbridge"}, i64 0}, !{!"count", !{!"kernbridge"}, i64 0}, i64 0}, !enzyme_inactive !{}
  %last = icmp eq i64 %after, 0, !enzyme_inactive !{}
  br i1 %last, label %release, label %end
release:
  %place = getelementptr i8, ptr %block, i64 24
  %data = load ptr, ptr %place
  call void @free(ptr %data)
  call void @free(ptr %block)
  br label %end
end:
  ret void
}

