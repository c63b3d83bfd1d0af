package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

// Until waits for ok, which nothing announces, and ends the test if that takes a minute. It is for
// plain goroutines: a task that calls it holds its loop.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !Soon(ok) {
		t.Fatal("not within a minute: " + what)
	}
}

// Soon waits for ok, at most a minute, and reports whether that has come about; otherwise it is as Until.
func Soon(ok func() bool) bool {
	deadline := time.Now().Add(time.Minute)
	for n := 0; !ok(); n++ {
		if time.Now().After(deadline) {
			return false
		}
		if n < 1000 {
			runtime.Gosched()
		} else {
			<-time.After(time.Millisecond)
		}
	}
	return true
}

// WaitGoroutines ends the test if there are not soon as few goroutines as wanted.
func WaitGoroutines(t testing.TB, want int) {
	t.Helper()
	if !Soon(func() bool { return runtime.NumGoroutine() <= want }) {
		t.Fatalf("%d goroutines, want %d\n%s", runtime.NumGoroutine(), want, stacks())
	}
}

func stacks() []byte {
	buf := make([]byte, 1<<20)
	return buf[:runtime.Stack(buf, true)]
}

// RunAndCheckLeaks runs all tests and returns the exit code: 1 also if descriptors or goroutines
// are left over in the end, or clean, which may be nil, does not become true.
func RunAndCheckLeaks(m *testing.M, clean func() bool) int {
	before, goroutines := OpenFiles(), runtime.NumGoroutine()
	if code := m.Run(); code != 0 {
		return code
	}
	if Soon(func() bool {
		runtime.GC()
		return runtime.NumGoroutine() <= goroutines && len(OpenFiles()) <= len(before) && (clean == nil || clean())
	}) {
		return 0
	}
	fmt.Printf("left after the tests: descriptors %v, want %v; %d goroutines, want %d\n%s\n", OpenFiles(), before, runtime.NumGoroutine(), goroutines, stacks())
	return 1
}

// OpenFiles lists the descriptors of the process.
func OpenFiles() (open []string) {
	names, _ := filepath.Glob("/proc/self/fd/*")
	for _, n := range names {
		if target, err := os.Readlink(n); err == nil {
			open = append(open, filepath.Base(n)+" "+target)
		}
	}
	slices.Sort(open)
	return open
}
