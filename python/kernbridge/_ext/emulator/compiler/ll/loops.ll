

; The form of kernels whose threads do not wait for each other: threads run one after the other,
; which is one of the orders that CUDA allows.
;
; Masks show LLVM that indices are not negative, without which it cannot see that neighbouring
; threads touch neighbouring elements.

; Runs the blocks from %begin to before %end. %sizes has the extents of the grid and of its blocks.
; If a write would have left its array, its description goes to %found.
define linkonce_odr void @kb.loops(ptr %words, ptr %sizes, i64 %begin, i64 %end, ptr %found) alwaysinline {
entry:
  %frame = alloca [72 x i8], align 8
  %tid.x = getelementptr i8, ptr %frame, i64 0
  %tid.y = getelementptr i8, ptr %frame, i64 4
  %tid.z = getelementptr i8, ptr %frame, i64 8
  %ntid.x = getelementptr i8, ptr %frame, i64 12
  %ntid.y = getelementptr i8, ptr %frame, i64 16
  %ntid.z = getelementptr i8, ptr %frame, i64 20
  %ctaid.x = getelementptr i8, ptr %frame, i64 24
  %ctaid.y = getelementptr i8, ptr %frame, i64 28
  %ctaid.z = getelementptr i8, ptr %frame, i64 32
  %nctaid.x = getelementptr i8, ptr %frame, i64 36
  %nctaid.y = getelementptr i8, ptr %frame, i64 40
  %nctaid.z = getelementptr i8, ptr %frame, i64 44
  %outside = getelementptr i8, ptr %frame, i64 64
  store i64 0, ptr %outside
  %gx.at = getelementptr i32, ptr %sizes, i64 0
  %gx = load i32, ptr %gx.at
  store i32 %gx, ptr %nctaid.x
  %gy.at = getelementptr i32, ptr %sizes, i64 1
  %gy = load i32, ptr %gy.at
  store i32 %gy, ptr %nctaid.y
  %gz.at = getelementptr i32, ptr %sizes, i64 2
  %gz = load i32, ptr %gz.at
  store i32 %gz, ptr %nctaid.z
  %bx.at = getelementptr i32, ptr %sizes, i64 3
  %bx.any = load i32, ptr %bx.at
  %bx = and i32 %bx.any, 2047
  store i32 %bx, ptr %ntid.x
  %by.at = getelementptr i32, ptr %sizes, i64 4
  %by.any = load i32, ptr %by.at
  %by = and i32 %by.any, 2047
  store i32 %by, ptr %ntid.y
  %bz.at = getelementptr i32, ptr %sizes, i64 5
  %bz.any = load i32, ptr %bz.at
  %bz = and i32 %bz.any, 2047
  store i32 %bz, ptr %ntid.z
  %gx64 = zext i32 %gx to i64
  %gy64 = zext i32 %gy to i64
  br label %block

block:
  %b = phi i64 [ %begin, %entry ], [ %b.next, %block.end ]
  %b.more = icmp slt i64 %b, %end
  br i1 %b.more, label %block.begin, label %done

block.begin:
  %cx64 = urem i64 %b, %gx64
  %row = udiv i64 %b, %gx64
  %cy64 = urem i64 %row, %gy64
  %cz64 = udiv i64 %row, %gy64
  %cx.any = trunc i64 %cx64 to i32
  %cy.any = trunc i64 %cy64 to i32
  %cz.any = trunc i64 %cz64 to i32
  %cx = and i32 %cx.any, 2147483647
  %cy = and i32 %cy.any, 65535
  %cz = and i32 %cz.any, 65535
  store i32 %cx, ptr %ctaid.x
  store i32 %cy, ptr %ctaid.y
  store i32 %cz, ptr %ctaid.z
  br label %z

z:
  %iz = phi i32 [ 0, %block.begin ], [ %z.next, %z.end ]
  %z.more = icmp ult i32 %iz, %bz
  br i1 %z.more, label %y.begin, label %block.end

y.begin:
  store i32 %iz, ptr %tid.z
  br label %y

y:
  %iy = phi i32 [ 0, %y.begin ], [ %y.next, %y.end ]
  %y.more = icmp ult i32 %iy, %by
  br i1 %y.more, label %x.begin, label %z.end

x.begin:
  store i32 %iy, ptr %tid.y
  br label %x

x:
  %ix = phi i32 [ 0, %x.begin ], [ %x.next, %thread ]
  %x.more = icmp ult i32 %ix, %bx
  br i1 %x.more, label %thread, label %y.end

thread:
  store i32 %ix, ptr %tid.x
  call void @kb.run(ptr %frame, ptr %words)
  %x.next = add nuw nsw i32 %ix, 1
  br label %x

y.end:
  %y.next = add nuw nsw i32 %iy, 1
  br label %y

z.end:
  %z.next = add nuw nsw i32 %iz, 1
  br label %z

block.end:
  %b.next = add nuw nsw i64 %b, 1
  br label %block

done:
  %bits = load i64, ptr %outside
  %inside = icmp eq i64 %bits, 0
  br i1 %inside, label %return, label %report

report:
  %first = call i64 @llvm.cttz.i64(i64 %bits, i1 true)
  %at = getelementptr ptr, ptr @kb.outside.all, i64 %first
  %what = load ptr, ptr %at
  store ptr %what, ptr %found
  br label %return

return:
  ret void
}

; A write to array number %which, less than 64, leaves it if %is. The answer becomes a bit of a
; number, which LLVM keeps in a register.
define linkonce_odr void @kb.outside(i1 %is, i64 %which) alwaysinline {
  %frame = call ptr @kb.frame()
  %at = getelementptr i8, ptr %frame, i64 64
  %bit = shl i64 1, %which
  %new = select i1 %is, i64 %bit, i64 0
  %old = load i64, ptr %at
  %both = or i64 %old, %new
  store i64 %both, ptr %at
  ret void
}

declare i64 @llvm.cttz.i64(i64, i1)
