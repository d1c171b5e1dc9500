; What a thread knows of its place: the frame, which @kb_thread gets as its first parameter.
; loops.ll or fibres.ll, which are parsed together with this file and with registers.ll, make it.

; offset  what
;      0  the thread's index in its block: x, y, z
;     12  the block's extents
;     24  the block's index in the grid
;     36  the grid's extents
;     48  of fibres: the kb_thread
;     56  of fibres: the block's shared memory
;     64  of loops: the arrays that a write would have left, one bit for each
;     72  its size
;
; Structures have no names here: LLVM renames one that the process has already, so that the text of
; a kernel would depend on what was compiled before.

; The descriptions of the arrays that the kernel writes to.
@kb.outside.all = external constant [0 x ptr]

; Runs one thread. The kernel's arguments lie in %words, one after the other.
declare void @kb.run(ptr %frame, ptr %words)
