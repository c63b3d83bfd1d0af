// Package frames reads out of a Go binary what the compiler decided about the stack:
// how large the frame of every function is, at each of its calls, which functions it
// calls directly and which it holds inlined.
//
// Frame sizes come from the pcsp tables that the Go runtime unwinds stacks with, so
// they are right by construction, for assembly too. Direct calls are found in the
// machine code. On arm64, whose instructions all have four bytes, that is exact. On
// amd64 each byte is tried as the start of a call or jump instruction and counts if
// its target is the entry of a function: no direct call is missed, and a false one
// needs a chance of about one in 10^5 per megabyte of code, which only makes a bound
// larger.
//
// The format is that of Go 1.20 and later, in ELF files with a symbol table. Nothing
// in a damaged file makes it panic.
package frames
