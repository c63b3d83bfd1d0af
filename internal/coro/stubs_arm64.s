//go:build !purego

#include "textflag.h"

// func G() uintptr
TEXT ·G(SB), NOSPLIT, $0-8
	MOVD g, ret+0(FP)
	RET

// func Is(word *uintptr) bool
TEXT ·Is(SB), NOSPLIT, $0-9
	MOVD word+0(FP), R1
	MOVD (R1), R3
	CMP  g, R3
	CSET EQ, R2
	MOVB R2, ret+8(FP)
	RET

// func Running(word *uintptr) State
TEXT ·Running(SB), NOSPLIT, $0-9
	MOVD word+0(FP), R1
	MOVD ZR, R2
	MOVD (R1), R3
	CMP  g, R3
	BNE  locked
	MOVD $1, R3
	MOVD R3, 8(R1)
	MOVD (R1), R3
	CMP  g, R3
	CSET EQ, R2

locked:
	MOVD ·lockedOffset(SB), R3
	CBZ  R3, done
	ADD  g, R3, R3
	MOVD (R3), R4
	CBZ  R4, done
	ORR  $2, R2, R2

done:
	MOVB R2, ret+8(FP)
	RET

// func RunsFree(word *uintptr) bool
TEXT ·RunsFree(SB), NOSPLIT, $0-9
	MOVD word+0(FP), R1
	MOVD (R1), R3
	CMP  g, R3
	BNE  no
	MOVD $1, R3
	MOVD R3, 8(R1)
	MOVD (R1), R3
	CMP  g, R3
	BNE  no
	MOVD ·lockedOffset(SB), R3
	ADD  g, R3, R3
	MOVD (R3), R4
	CBNZ R4, no
	MOVD $1, R2
	MOVB R2, ret+8(FP)
	RET

no:
	MOVB ZR, ret+8(FP)
	RET

// func Peek(addr uintptr) uint64
TEXT ·Peek(SB), NOSPLIT, $0-16
	MOVD addr+0(FP), R0
	MOVD (R0), R0
	MOVD R0, ret+8(FP)
	RET

// func Headroom() uintptr
TEXT ·Headroom(SB), NOSPLIT, $0-8
	MOVD (g), R0
	MOVD RSP, R1
	SUB  R0, R1, R1
	MOVD R1, ret+0(FP)
	RET

// func counter() uint64
TEXT ·counter(SB), NOSPLIT, $0-8
	WORD $0xd53be040 // MRS CNTVCT_EL0, R0
	MOVD R0, ret+0(FP)
	RET

// func Depth() uintptr
TEXT ·Depth(SB), NOSPLIT, $0-8
	MOVD 8(g), R0
	SUB  R29, R0, R0
	MOVD R0, ret+0(FP)
	RET

#define FRAME \
	CMP  R1, R4     \
	BLS  done       \
	CMP  R2, R4     \
	BHS  done       \
	MOVD 8(R4), R8  \
	ADD  R8, R5, R5 \
	MUL  R6, R5, R5 \
	MOVD (R4), R4

// func Fingerprint(base uintptr) uint64
TEXT ·Fingerprint(SB), NOSPLIT, $0-16
	MOVD 0(g), R1                   // stack.lo
	MOVD 8(g), R2                   // stack.hi
	MOVD base+0(FP), R3
	SUB  R3, R2, R2
	MOVD (R29), R4
	MOVD $0xcbf29ce484222325, R5
	MOVD $0x9e3779b97f4a7c15, R6
	MOVD $116, R7 // frames at most, after the first 12

// As for amd64.
	FRAME
	FRAME
	FRAME
	FRAME
	FRAME
	FRAME
	FRAME
	FRAME
	FRAME
	FRAME
	FRAME
	FRAME

walk:
	FRAME
	SUBS $1, R7, R7
	BNE  walk

done:
	LSR  $32, R5, R8
	EOR  R8, R5, R5
	MOVD R5, ret+8(FP)
	RET

// func lookAhead(soon, next uintptr, at *slot, end unsafe.Pointer)
TEXT ·lookAhead(SB), NOSPLIT, $0-32
	MOVD at+16(FP), R3
	MOVD end+24(FP), R4
	MOVD soon+0(FP), R0
	MOVD next+8(FP), R1
	PRFM (R3), PLDL1KEEP
	PRFM (R4), PLDL1KEEP
	PRFM (R0), PLDL1KEEP
	PRFM 64(R0), PLDL1KEEP
	PRFM 128(R0), PLDL1KEEP
	PRFM 192(R0), PLDL1KEEP
	MOVD 56(R1), R2
	PRFM (R2), PLDL1KEEP
	PRFM 64(R2), PLDL1KEEP
	PRFM 128(R2), PLDL1KEEP
	PRFM 192(R2), PLDL1KEEP
	PRFM 256(R2), PLDL1KEEP
	PRFM 320(R2), PLDL1KEEP
	PRFM 384(R2), PLDL1KEEP
	PRFM 448(R2), PLDL1KEEP
	RET

// func Prefetch(p unsafe.Pointer)
TEXT ·Prefetch(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET

// func CopyWords(dst, src unsafe.Pointer, n uintptr)
TEXT ·CopyWords(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD n+16(FP), R2
	CBZ  R2, done

word:
	MOVD.P 8(R1), R3
	MOVD.P R3, 8(R0)
	SUB    $1, R2
	CBNZ   R2, word

done:
	RET

// func Puller(of uintptr) uintptr
//
// See stubs_amd64.s.
TEXT ·Puller(SB), NOSPLIT, $0-16
	MOVD of+0(FP), R0
	MOVD ZR, ret+8(FP)
	MOVD ·pull+8(SB), R1  // startAt
	MOVD ·pull+0(SB), R2  // start
	MOVD ·pull+16(SB), R3 // coroAt
	CBZ  R1, done
	MOVD (R0)(R1), R4
	CMP  R4, R2
	BNE  done

again:
	MOVD 8(R0), R4
	SUB  R3, R4, R5
	MOVD (R5), R6
	DMB  $0x9 // loads before later loads
	MOVD 8(R0), R7
	CMP  R7, R4
	BNE  again
	MOVD (R6), R6
	MOVD R6, ret+8(FP)

done:
	RET
