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
