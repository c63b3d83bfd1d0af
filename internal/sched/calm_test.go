package sched

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestCalm(t *testing.T) {
	l := NewLedger()
	scarce, err := l.Add(Spec{Name: "scarce", Limit: 10})
	testenv.Must(t, err)
	sign, err := l.Add(Spec{Name: "sign", Limit: 1, Kind: Sign, Of: "scarce"})
	testenv.Must(t, err)
	shown, err := l.Add(Spec{Name: "shown", Limit: 1, Kind: Shown})
	testenv.Must(t, err)
	g := l.NewGate("gate")
	for i, c := range []struct {
		used, sign float64
		full, want bool
	}{
		{0, 0, false, true},
		{10, 0, false, false},
		{0, 0, false, true},
		{7, 0, false, false},
		{5, 2, false, true}, // a sign of what is plentiful
		{0, 0, true, false},
		{0, 0, false, true},
	} {
		now := time.Duration(i+1) * 10 * time.Second
		l.Observe(now, scarce, c.used)
		l.Observe(now, sign, c.sign)
		l.Observe(now, shown, 2)
		l.Tick(now)
		if g.full = 0; c.full {
			g.full = now
		}
		if got := l.Calm(); got != c.want {
			t.Errorf("%d, %+v: calm is %v", i, c, got)
		}
	}
}
