package coro

import "unsafe"

// A Counter is written by one loop and may be read from anywhere. It spares that loop the locked
// instruction of an atomic addition; see Peek for what readers get.
type Counter struct{ n int64 }

// Add is for the loop that writes it.
func (c *Counter) Add(d int64) { c.n += d }

// Own is Load for the loop that writes it.
func (c *Counter) Own() int64 { return c.n }

// Load may be called from any goroutine.
func (c *Counter) Load() int64 { return int64(Peek(uintptr(unsafe.Pointer(&c.n)))) }
