package pace

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A response falls behind by less than a second and catches up; after a longer stop its pace begins anew.
func TestPaceCatchesUp(t *testing.T) {
	at := time.Unix(1000, 0)
	p := Pace{Rate: 80_000, Free: 1000}
	for i, step := range []struct {
		after time.Duration
		left  int64
		n     int64
		wait  time.Duration
	}{
		{0, 1 << 20, 1000, 0},
		{0, 1 << 20, 10_000, 0},
		{0, 1 << 20, 10_000, time.Second / 8},
		{time.Second / 2, 1 << 20, 10_000, 0}, // due after 1/4 s
		{0, 1 << 20, 10_000, 0},
		{0, 1 << 20, 10_000, 0},
		{time.Second / 16, 1 << 20, 10_000, time.Second / 16},
		{time.Minute, 1 << 20, 10_000, 0},
		{0, 500, 500, time.Second / 8},
	} {
		at = at.Add(step.after)
		n, wait := p.Next(at, step.left)
		testenv.Equal(t, n, step.n, "step %d: bytes", i)
		testenv.Equal(t, wait, step.wait, "step %d: wait", i)
	}
	for rate, piece := range map[int64]int64{0: 1 << 30, 1: least, 1 << 40: most} {
		p := Pace{Rate: rate}
		n, _ := p.Next(at, 1<<30)
		testenv.Equal(t, n, piece, "piece at rate %d", rate)
	}
}
