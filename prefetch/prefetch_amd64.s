#include "textflag.h"

// func fetch(lines *[capacity]uintptr, n uint)
TEXT ·fetch(SB), NOSPLIT, $0-16
	MOVQ lines+0(FP), SI
	MOVQ n+8(FP), CX
	TESTQ CX, CX
	JEQ  done
next:
	MOVQ -8(SI)(CX*8), AX
	PREFETCHT0 (AX)
	DECQ CX
	JNE  next
done:
	RET
