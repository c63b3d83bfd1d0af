//go:build linux

package netpoll

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
)

func openedResting(t *testing.T) restingEpoll {
	t.Helper()
	p, err := newResting()
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p.(restingEpoll)
}

// A rest is one, and what comes while the loop does not rest is no event for the Go runtime.
func TestRestIsTheGoRuntimes(t *testing.T) {
	p := openedResting(t)
	for range 3 {
		start := time.Now()
		must(t, p.Poll(time.Millisecond))
		if took := time.Since(start); took < time.Millisecond {
			t.Errorf("Rest returned after %v", took)
		}
		must(t, p.Wake())
		must(t, p.Poll(-1))
		if p.rest.refused || p.rest.file == nil || p.rest.in {
			t.Errorf("refused %v, file %v, in the set still: %v; want none, one, no", p.rest.refused, p.rest.file, p.rest.in)
		}
		var events [1]unix.EpollEvent
		must(t, p.Wake())
		if n, err := unix.EpollWait(p.rest.set, events[:], 0); n != 0 || err != nil {
			t.Errorf("outside of a rest the set has %d events (%v), want none", n, err)
		}
		must(t, p.Poll(-1))
	}
}

// Where it can't be had, or stops to work, the loop waits as it does otherwise.
func TestRestRefused(t *testing.T) {
	for name, spoil := range map[string]func(p restingEpoll){
		"from the start":     func(p restingEpoll) { p.rest.refused = true },
		"the file is closed": func(p restingEpoll) { p.rest.file.Close() },
		"it can't be joined": func(p restingEpoll) { p.rest.join(p.fd); p.rest.in = false },
	} {
		t.Run(name, func(t *testing.T) {
			p := openedResting(t)
			must(t, p.Poll(time.Microsecond))
			spoil(p)
			for range 2 {
				must(t, p.Poll(time.Microsecond))
				must(t, p.Wake())
				must(t, p.Poll(-1))
			}
			if !p.rest.refused {
				t.Error("it goes on trying")
			}
		})
	}
}

var _ engine.Rester = (*epoll)(nil)
