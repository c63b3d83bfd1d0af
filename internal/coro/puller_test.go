package coro

import (
	"iter"
	"testing"
)

func TestPuller(t *testing.T) {
	if !Exact {
		t.Skip("not known without the assembly stubs")
	}
	me := G()
	if p := Puller(me); p != 0 {
		t.Fatalf("a plain goroutine is pulled by %x", p)
	}
	var outer uintptr
	next, _ := iter.Pull(func(yield func(int) bool) {
		outer = G()
		if p := Puller(outer); p != me {
			t.Errorf("pulled by %x, want %x", p, me)
		}
		inner, end := iter.Pull(func(yield func(int) bool) {
			if p := Puller(G()); p != outer || Puller(p) != me {
				t.Errorf("pulled by %x and %x, want %x and %x", p, Puller(p), outer, me)
			}
			yield(1)
		})
		defer end()
		inner()
		yield(1)
		if p := Puller(outer); p == me || p == 0 {
			t.Errorf("pulled by %x, want another than %x", p, me)
		}
	})
	next()
	done := make(chan struct{})
	go func() { // another goroutine pulls on
		defer close(done)
		next()
	}()
	<-done
}
