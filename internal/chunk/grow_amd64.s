//go:build !purego

#include "textflag.h"
#include "funcdata.h"

// A frame of half the size makes the Go runtime grow the stack to the size in one step
// (GOROOT/src/runtime/stack.go, newstack). The frame is not touched.

// func grow4K()
TEXT ·grow4K(SB), 0, $2048-0
	NO_LOCAL_POINTERS
	RET

// func grow8K()
TEXT ·grow8K(SB), 0, $4096-0
	NO_LOCAL_POINTERS
	RET

// func grow16K()
TEXT ·grow16K(SB), 0, $8192-0
	NO_LOCAL_POINTERS
	RET

// func grow32K()
TEXT ·grow32K(SB), 0, $16384-0
	NO_LOCAL_POINTERS
	RET

// func grow64K()
TEXT ·grow64K(SB), 0, $32768-0
	NO_LOCAL_POINTERS
	RET

// func grow128K()
TEXT ·grow128K(SB), 0, $65536-0
	NO_LOCAL_POINTERS
	RET

// func grow256K()
TEXT ·grow256K(SB), 0, $131072-0
	NO_LOCAL_POINTERS
	RET

// func grow512K()
TEXT ·grow512K(SB), 0, $262144-0
	NO_LOCAL_POINTERS
	RET

// func grow1M()
TEXT ·grow1M(SB), 0, $524288-0
	NO_LOCAL_POINTERS
	RET

// func grow2M()
TEXT ·grow2M(SB), 0, $1048576-0
	NO_LOCAL_POINTERS
	RET

// func grow4M()
TEXT ·grow4M(SB), 0, $2097152-0
	NO_LOCAL_POINTERS
	RET

// func grow8M()
TEXT ·grow8M(SB), 0, $4194304-0
	NO_LOCAL_POINTERS
	RET
