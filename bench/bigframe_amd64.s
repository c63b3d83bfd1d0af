#include "textflag.h"

// func bigFrame()
// The frame is bigFrameBytes of stackwork.go.
TEXT ·bigFrame(SB), 0, $1048576-0
	MOVQ SP, AX
	MOVQ $256, CX
touch:
	MOVB $1, (AX)
	ADDQ $4096, AX
	DECQ CX
	JNZ  touch
	RET
