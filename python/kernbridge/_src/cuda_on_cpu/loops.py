"""The loops over the blocks of a launch and the threads of each, as LLVM IR."""

LOOPS = """\
  %kb.gx64 = zext i32 %kb.gx to i64
  %kb.gy64 = zext i32 %kb.gy to i64
  br label %kb.block
kb.block:
  %kb.b = phi i64 [ %kb.begin, %entry ], [ %kb.bnext, %kb.block.end ]
  %kb.more = icmp slt i64 %kb.b, %kb.end
  br i1 %kb.more, label %kb.block.begin, label %kb.done
kb.block.begin:
  %kb.cx = urem i64 %kb.b, %kb.gx64
  %kb.row = udiv i64 %kb.b, %kb.gx64
  %kb.cy = urem i64 %kb.row, %kb.gy64
  %kb.cz = udiv i64 %kb.row, %kb.gy64
  %kb.cxt = trunc i64 %kb.cx to i32
  %kb.cyt = trunc i64 %kb.cy to i32
  %kb.czt = trunc i64 %kb.cz to i32
  %kb.cx32 = and i32 %kb.cxt, 2147483647
  %kb.cy32 = and i32 %kb.cyt, 65535
  %kb.cz32 = and i32 %kb.czt, 65535
  store i32 %kb.cx32, ptr %kb.ctaid.x
  store i32 %kb.cy32, ptr %kb.ctaid.y
  store i32 %kb.cz32, ptr %kb.ctaid.z
  br label %kb.z
kb.z:
  %kb.iz = phi i32 [ 0, %kb.block.begin ], [ %kb.znext, %kb.z.end ]
  %kb.zmore = icmp ult i32 %kb.iz, %kb.bz
  br i1 %kb.zmore, label %kb.y.begin, label %kb.block.end
kb.y.begin:
  store i32 %kb.iz, ptr %kb.tid.z
  br label %kb.y
kb.y:
  %kb.iy = phi i32 [ 0, %kb.y.begin ], [ %kb.ynext, %kb.y.end ]
  %kb.ymore = icmp ult i32 %kb.iy, %kb.by
  br i1 %kb.ymore, label %kb.x.begin, label %kb.z.end
kb.x.begin:
  store i32 %kb.iy, ptr %kb.tid.y
  br label %kb.x
kb.x:
  %kb.ix = phi i32 [ 0, %kb.x.begin ], [ %kb.xnext, %kb.thread ]
  %kb.xmore = icmp ult i32 %kb.ix, %kb.bx
  br i1 %kb.xmore, label %kb.thread, label %kb.y.end
kb.thread:
  store i32 %kb.ix, ptr %kb.tid.x
  call void @kb_thread(ARGUMENTS)
  %kb.xnext = add nuw nsw i32 %kb.ix, 1
  br label %kb.x
kb.y.end:
  %kb.ynext = add nuw nsw i32 %kb.iy, 1
  br label %kb.y
kb.z.end:
  %kb.znext = add nuw nsw i32 %kb.iz, 1
  br label %kb.z
kb.block.end:
  %kb.bnext = add nuw nsw i64 %kb.b, 1
  br label %kb.block
kb.done:
  ret void
}
"""
