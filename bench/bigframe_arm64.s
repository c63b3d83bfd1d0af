#include "textflag.h"

// func bigFrame()
// The frame is bigFrameBytes of stackwork.go.
TEXT ·bigFrame(SB), 0, $1048576-0
	MOVD RSP, R0
	MOVD $256, R1
	MOVD $1, R2
touch:
	MOVB R2, 8(R0)
	ADD  $4096, R0, R0
	SUBS $1, R1, R1
	BNE  touch
	RET
