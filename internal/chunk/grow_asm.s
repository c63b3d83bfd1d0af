//go:build (amd64 || arm64) && !purego

#include "textflag.h"
#include "funcdata.h"

// A frame of half the size makes the Go runtime grow the stack to the size in one step
// (GOROOT/src/runtime/stack.go, newstack). The frame is not touched.
#define GROW(function, frame) \
	TEXT function(SB), 0, $frame-0; \
		NO_LOCAL_POINTERS; \
		RET

GROW(·grow4K, 2048)
GROW(·grow8K, 4096)
GROW(·grow16K, 8192)
GROW(·grow32K, 16384)
GROW(·grow64K, 32768)
GROW(·grow128K, 65536)
GROW(·grow256K, 131072)
GROW(·grow512K, 262144)
GROW(·grow1M, 524288)
GROW(·grow2M, 1048576)
GROW(·grow4M, 2097152)
GROW(·grow8M, 4194304)
