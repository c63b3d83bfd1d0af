//go:build ignore

// Goroutines that compute in a function without a stack frame.
package main

import (
	"os"
	"runtime/trace"
	"time"
)

var sum uint64

func rebuild() { // a goroutine whose first function needs no stack frame
	x := uint64(1)
	for {
		x = x*6364136223846793005 + 1442695040888963407
		if x == 0 {
			sum++
		}
	}
}

func main() {
	go rebuild()
	go rebuild()
	time.Sleep(100 * time.Millisecond)
	f, _ := os.Create(os.Args[1])
	trace.Start(f)
	time.Sleep(400 * time.Millisecond)
	trace.Stop()
}
