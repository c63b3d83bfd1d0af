package engine

import (
	"os"
	"testing"
	"time"
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

func TestRunDelayGrows(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("no schedstat here: ", err)
	}
	a, ok := runDelay()
	b, ok2 := runDelay()
	if !ok || !ok2 {
		t.Skip("schedstat can't be read here")
	}
	if a < 0 || b < 0 {
		t.Errorf("runDelay is %v, then %v", a, b)
	}
}
