//go:build !purego

#include "textflag.h"

// func G() uintptr
TEXT ·G(SB), NOSPLIT, $0-8
	MOVQ (TLS), AX
	MOVQ AX, ret+0(FP)
	RET

// func Is(word *uintptr) bool
TEXT ·Is(SB), NOSPLIT, $0-9
	MOVQ  (TLS), AX
	MOVQ  word+0(FP), CX
	CMPQ  AX, (CX)
	SETEQ ret+8(FP)
	RET

// func Running(word *uintptr) State
TEXT ·Running(SB), NOSPLIT, $0-9
	MOVQ  (TLS), AX
	MOVQ  word+0(FP), CX
	XORL  DX, DX
	CMPQ  AX, (CX)
	JNE   locked
	MOVQ  $1, 8(CX)
	CMPQ  AX, (CX)
	SETEQ DX

locked:
	MOVQ  ·lockedOffset(SB), BX
	TESTQ BX, BX
	JZ    done
	CMPQ  (AX)(BX*1), $0
	SETNE CX
	SHLL  $1, CX
	ANDL  $2, CX
	ORL   CX, DX

done:
	MOVB DX, ret+8(FP)
	RET

// func RunsFree(word *uintptr) bool
TEXT ·RunsFree(SB), NOSPLIT, $0-9
	MOVQ (TLS), AX
	MOVQ word+0(FP), CX
	CMPQ AX, (CX)
	JNE  no
	MOVQ $1, 8(CX)
	CMPQ AX, (CX)
	JNE  no
	MOVQ ·lockedOffset(SB), CX
	CMPQ (AX)(CX*1), $0
	JNE  no
	MOVB $1, ret+8(FP)
	RET

no:
	MOVB $0, ret+8(FP)
	RET

// func Peek(addr uintptr) uint64
TEXT ·Peek(SB), NOSPLIT, $0-16
	MOVQ addr+0(FP), AX
	MOVQ (AX), AX
	MOVQ AX, ret+8(FP)
	RET

// func Headroom() uintptr
TEXT ·Headroom(SB), NOSPLIT, $0-8
	MOVQ (TLS), AX
	MOVQ SP, CX
	SUBQ (AX), CX
	MOVQ CX, ret+0(FP)
	RET

// func counter() uint64
TEXT ·counter(SB), NOSPLIT, $0-8
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET

// func Depth() uintptr
TEXT ·Depth(SB), NOSPLIT, $0-8
	MOVQ (TLS), AX
	MOVQ 8(AX), CX
	SUBQ BP, CX
	MOVQ CX, ret+0(FP)
	RET

#define FRAME \
	CMPQ  CX, SI     \
	JLS   done       \
	CMPQ  CX, DI     \
	JCC   done       \
	ADDQ  8(CX), R8  \
	IMULQ R9, R8     \
	MOVQ  (CX), CX

// func Fingerprint(base uintptr) uint64
//
// BP points at the caller's saved frame pointer; its return address stands above it. The caller of
// Fingerprint is the same each time, so the first frame that counts is its caller's.
TEXT ·Fingerprint(SB), NOSPLIT, $0-16
	MOVQ (TLS), AX
	MOVQ 0(AX), SI                  // stack.lo
	MOVQ 8(AX), DI                  // stack.hi
	SUBQ base+0(FP), DI             // frames at or above this are the runtime's
	MOVQ (BP), CX
	MOVQ $0xcbf29ce484222325, R8
	MOVQ $0x9e3779b97f4a7c15, R9
	MOVL $116, R10                  // frames at most, after the first 12

// A polynomial of the return addresses: the shortest chain of operations from frame to
// frame that a good hash can have. It is mixed once, at the end. The first frames have code of their
// own, and so branches that go the same way each time: a loop of as many rounds as there are
// frames ends with a wrong prediction.
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
	DECL R10
	JNZ  walk

done:
	MOVQ R8, DX
	SHRQ $32, DX
	XORQ DX, R8
	MOVQ R8, ret+8(FP)
	RET

// func lookAhead(soon, next uintptr, at *slot, end unsafe.Pointer)
//
// 56 is where g keeps the stack pointer, g.sched.sp.
TEXT ·lookAhead(SB), NOSPLIT, $0-32
	MOVQ       at+16(FP), BX
	MOVQ       end+24(FP), DX
	MOVQ       soon+0(FP), AX
	MOVQ       next+8(FP), CX
	PREFETCHT0 (BX)
	PREFETCHT0 (DX)
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	PREFETCHT0 128(AX)
	PREFETCHT0 192(AX)
	MOVQ       56(CX), DX
	PREFETCHT0 (DX)
	PREFETCHT0 64(DX)
	PREFETCHT0 128(DX)
	PREFETCHT0 192(DX)
	PREFETCHT0 256(DX)
	PREFETCHT0 320(DX)
	PREFETCHT0 384(DX)
	PREFETCHT0 448(DX)
	RET

// func Prefetch(p unsafe.Pointer)
TEXT ·Prefetch(SB), NOSPLIT, $0-8
	MOVQ       p+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func CopyWords(dst, src unsafe.Pointer, n uintptr)
TEXT ·CopyWords(SB), NOSPLIT, $0-24
	MOVQ  dst+0(FP), DI
	MOVQ  src+8(FP), SI
	MOVQ  n+16(FP), CX
	TESTQ CX, CX
	JZ    done

word:
	MOVQ (SI), AX
	MOVQ AX, (DI)
	ADDQ $8, SI
	ADDQ $8, DI
	DECQ CX
	JNZ  word

done:
	RET

// func Puller(of uintptr) uintptr
//
// The stack of that goroutine, if that is not the caller, may be moved meanwhile: what was read from it
// counts only if its base is still where it was. 8 is where g keeps that, g.stack.hi.
TEXT ·Puller(SB), NOSPLIT, $0-16
	MOVQ  of+0(FP), AX
	MOVQ  $0, ret+8(FP)
	MOVQ  ·pull+8(SB), BX // startAt
	MOVQ  ·pull+0(SB), CX // start
	MOVQ  ·pull+16(SB), SI // coroAt
	TESTQ BX, BX
	JZ    done
	CMPQ  (AX)(BX*1), CX
	JNE   done

again:
	MOVQ 8(AX), DX
	MOVQ DX, DI
	SUBQ SI, DI
	MOVQ (DI), R8 // the coro
	CMPQ 8(AX), DX
	JNE  again
	MOVQ (R8), R8
	MOVQ R8, ret+8(FP)

done:
	RET
