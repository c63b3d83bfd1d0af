package admit

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestCalm(t *testing.T) {
	l := NewLedger()
	scarce := mustAdd(t, l, Spec{Name: "scarce", Limit: 10})
	sign := mustAdd(t, l, Spec{Name: "sign", Limit: 1, Kind: Sign, Of: "scarce"})
	shown := mustAdd(t, l, Spec{Name: "shown", Limit: 1, Kind: Shown})
	g := l.NewLimit("limit")
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
		if g.fullSince = 0; c.full {
			g.fullSince = now
		}
		testenv.Equal(t, l.Calm(), c.want, "%d, %+v: calm", i, c)
	}
}
