package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// taken is a WaitPoint from which another caller has removed every Waiter.
type taken struct{}

func (taken) Withdraw(*Waiter) bool { return false }

// A cutPoint is an Unwinder whose waits can only be cut short.
type cutPoint struct{ cut, unwound bool }

func (p *cutPoint) Withdraw(w *Waiter) bool {
	p.cut = true
	go w.Wake()
	return false
}

func (p *cutPoint) Unwound(*Waiter) { p.unwound = true }

// A wait that can only be cut short returns when it is cancelled, and ends the task when the
// runtime unwinds: in both cases after the Wake.
func TestWaitThatIsCutShort(t *testing.T) {
	rt, check := closing(t, 1)
	var p cutPoint
	ctx, cancel := context.WithCancel(context.Background())
	k := rt.Go(func() {
		Under(ctx, func() error {
			testenv.Check(t, Self().Wait(ReasonRead, &p))
			return nil
		})
		if !p.cut || p.unwound {
			t.Errorf("cancelled: %+v", p)
		}
		p = cutPoint{}
		for {
			Self().Wait(ReasonRead, &p) // ignores that it was cancelled
		}
	})
	waitParked(t, rt, 1, ReasonRead)
	cancel()
	l := rt.Loop(0)
	l.Post(func() {
		l.end.unwinding = true // as Shutdown does
		if k.state == stateParked {
			l.makeReady(k)
		}
	})
	if err := k.Join(); !errors.Is(err, ErrGoexit) || !p.cut || !p.unwound {
		t.Errorf("Join returned %v; %+v", err, p)
	}
	testenv.Check(t, rt.Close())
	check()
}

// A Wait without a point is over with the Wake only.
func TestWaitWithoutAPoint(t *testing.T) {
	rt := newRuntime(t, 1)
	var w *Waiter
	woken := false
	k, _ := rt.Spawn(Options{Context: cancelled()}, func() {
		w = Self()
		if err := w.Wait(ReasonRead, nil); err != nil || !woken {
			t.Errorf("Wait returned %v; woken: %v", err, woken)
		}
	})
	waitParked(t, rt, 1, ReasonRead)
	rt.Loop(0).Post(func() { woken = true; w.Wake() })
	k.Join()
}
