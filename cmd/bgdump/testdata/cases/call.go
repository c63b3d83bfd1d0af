//go:build ignore

// Goroutines that are in a slow system call nearly all the time.
package main

import (
	"os"
	"runtime/trace"
	"syscall"
	"time"
)

func slowCall() { // 20 goroutines are in here nearly always
	ts := syscall.NsecToTimespec(int64(30 * time.Millisecond))
	syscall.Nanosleep(&ts, nil)
}

func main() {
	for range 20 {
		go func() {
			for {
				slowCall()
			}
		}()
	}
	time.Sleep(200 * time.Millisecond)
	f, _ := os.Create(os.Args[1])
	trace.Start(f)
	time.Sleep(600 * time.Millisecond)
	trace.Stop()
}
