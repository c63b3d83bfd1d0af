//go:build cgo

package fromc

/*
#include <stdint.h>

extern void capriccioFromC(uintptr_t function);

static inline void capriccioCall(uintptr_t function) { capriccioFromC(function); }
*/
import "C"

import "runtime/cgo"

// Call calls f from a C function.
func Call(f func()) {
	h := cgo.NewHandle(f)
	defer h.Delete()
	C.capriccioCall(C.uintptr_t(h))
}

//export capriccioFromC
func capriccioFromC(h C.uintptr_t) { cgo.Handle(h).Value().(func())() }
