package engine

import (
	"os"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestParseSchedstat(t *testing.T) {
	for text, want := range map[string]time.Duration{"12 345 6\n": 345, "0 0 0": 0} {
		if d, ok := parseSchedstat([]byte(text)); !ok || d != want {
			t.Errorf("parseSchedstat(%q) = %v, %v; want %v", text, d, ok, want)
		}
	}
	for _, text := range []string{"", "1 2", "1 x 2", "1 -2 3", "1 2 3 4", "1 99999999999999999999 3"} {
		if d, ok := parseSchedstat([]byte(text)); ok {
			t.Errorf("parseSchedstat(%q) = %v, want a refusal", text, d)
		}
	}
}

func TestRunDelaysGrow(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("no schedstat here: ", err)
	}
	a, b := runDelays(), runDelays()
	if a == nil || b == nil {
		t.Skip("schedstat can't be read here")
	}
	if sum, most := b.since(a); sum < 0 || most < 0 || most > sum {
		t.Errorf("%v, then %v", a, b)
	}
}

// What threads waited for at the same time is not taken from a step that runs on one of them.
func TestWhatAStepWasHeldUp(t *testing.T) {
	const ms = time.Millisecond
	before := delays{"1": 5 * ms, "2": 7 * ms}
	for _, c := range []struct {
		lasted time.Duration
		now    delays
		want   time.Duration
	}{
		{9 * ms, before, 0},
		{30 * ms, before, 30 * ms},
		{30 * ms, delays{"1": 20 * ms, "2": 7 * ms}, 15 * ms},
		{30 * ms, delays{"1": 20 * ms, "2": 20 * ms}, 0}, // 15 ms, or 2
		{200 * ms, delays{"1": 105 * ms, "2": 107 * ms}, 100 * ms},
		{200 * ms, delays{"1": 115 * ms, "2": 107 * ms}, 0},
		{200 * ms, delays{"1": 5 * ms, "2": 7 * ms, "3": 50 * ms}, 150 * ms},
		{200 * ms, nil, 200 * ms},
	} {
		testenv.Equal(t, ownHold(c.lasted, 10*ms, before, c.now), c.want, "%v, %v", c.lasted, c.now)
	}
}
