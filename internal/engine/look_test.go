package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/sim"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A notedPoller notes how it is asked. Loop-private.
type notedPoller struct {
	*sim.Poller
	asked []string
}

func (p *notedPoller) Poll(timeout time.Duration) error {
	how := "wait"
	if timeout == 0 {
		how = "look"
	}
	p.asked = append(p.asked, how)
	return p.Poller.Poll(timeout)
}

// After a wait that brought something at once a loop looks first.
func TestALoopLooksFirst(t *testing.T) {
	clock := sim.NewJumpingClock()
	p := &notedPoller{Poller: clock.NewPoller(0)}
	rt, err := New(Config{Loops: 1, Clock: clock, Log: quiet(), HoldLimit: -1,
		NewPoller: func(int) (Poller, error) { return p, nil }})
	testenv.Must(t, err)
	rt.Go(func() {
		for _, x := range []struct {
			comes time.Duration
			want  string
		}{
			{instantWait, "wait"},
			{instantWait - 1, "wait"},
			{0, "look"},
			{0, "look"},
			{instantWait, "look wait"},
			{instantWait, "wait"},
		} {
			p.asked = nil
			w := Self()
			p.After(x.comes, w.Wake)
			w.Wait(ReasonRead, anywhere{})
			if !slices.Equal(p.asked, strings.Fields(x.want)) {
				t.Errorf("an event after %v: the loop did %q, want %q", x.comes, p.asked, x.want)
			}
		}
	}).Join()
	testenv.Must(t, rt.Close())
}
