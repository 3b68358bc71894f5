#include "textflag.h"

// func fetch(lines []uintptr)
TEXT ·fetch(SB), NOSPLIT, $0-24
	MOVQ  lines_base+0(FP), SI
	MOVQ  lines_len+8(FP), CX
	TESTQ CX, CX
	JEQ   done

next:
	MOVQ       -8(SI)(CX*8), AX
	PREFETCHT0 (AX)
	DECQ       CX
	JNE        next

done:
	RET

// func cpuid(leaf, part uint32) (a, b, c, d uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-24
	MOVL leaf+0(FP), AX
	MOVL part+4(FP), CX
	CPUID
	MOVL AX, a+8(FP)
	MOVL BX, b+12(FP)
	MOVL CX, c+16(FP)
	MOVL DX, d+20(FP)
	RET
