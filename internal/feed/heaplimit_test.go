package feed

import (
	"math"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestHeapLimitFollowsTheContainer(t *testing.T) {
	const none = math.MaxInt64
	for _, c := range []struct {
		name      string
		given     bool      // by GOMEMLIMIT
		program   int64     // what the program itself has set; 0: nothing
		container []float64 // as time goes on
		want, end int64
	}{
		{"a container", false, 0, []float64{1000}, 900, none},
		{"none", false, 0, []float64{0, 0}, none, none},
		{"it is made larger", false, 0, []float64{1000, 2000}, 1800, none},
		{"it is taken away", false, 0, []float64{1000, 0}, none, none},
		{"GOMEMLIMIT", true, 700, []float64{1000}, 700, 700},
		{"GOMEMLIMIT=off", true, 0, []float64{1000}, none, none},
		{"the program's own", false, 5000, []float64{1000}, 5000, 5000},
	} {
		limit := int64(none)
		if c.program != 0 {
			limit = c.program
		}
		process, sets := limitIn(&limit)
		h := newHeapLimit(nil, process, c.given)
		for _, bytes := range c.container {
			h.follow(bytes)
			before := *sets
			if h.follow(bytes); *sets != before {
				t.Errorf("%s: set again, though nothing has changed", c.name)
			}
		}
		testenv.Equal(t, limit, c.want, "%s: limit", c.name)
		h.release()
		if h.follow(1000); limit != c.end {
			t.Errorf("%s: limit %d in the end, want %d", c.name, limit, c.end)
		}
	}
}

// An empty GOMEMLIMIT, as from a variable of a compose file that nobody has set, is none.
func TestAnEmptyLimitIsNone(t *testing.T) {
	for value, want := range map[string]bool{"": false, "off": true, "512MiB": true} {
		t.Setenv("GOMEMLIMIT", value)
		testenv.Equal(t, limitGiven(), want, "GOMEMLIMIT=%q is a limit", value)
	}
}

// What the program sets while it runs is its own from then on.
func TestHeapLimitGivesWay(t *testing.T) {
	limit := int64(math.MaxInt64)
	process, _ := limitIn(&limit)
	h := newHeapLimit(nil, process, false)
	h.follow(1000)
	limit = 333
	h.follow(2000)
	h.release()
	if limit != 333 {
		t.Errorf("limit %d, want the program's 333", limit)
	}
}

// limitIn is a process whose limit is *limit, and how often that was set.
func limitIn(limit *int64) (process *processLimit, sets *int) {
	sets = new(int)
	return &processLimit{set: func(v int64) int64 {
		was := *limit
		if v >= 0 {
			*limit = v
			*sets++
		}
		return was
	}}, sets
}

// Of several runtimes the last one takes the limit back, and it follows the container until then.
func TestHeapLimitOfSeveralRuntimes(t *testing.T) {
	limit := int64(math.MaxInt64)
	process, _ := limitIn(&limit)
	want := func(v int64) {
		t.Helper()
		testenv.Equal(t, limit, v, "limit")
	}
	first, second := newHeapLimit(nil, process, false), newHeapLimit(nil, process, false)
	first.follow(1000)
	second.follow(1000)
	first.release()
	want(900)
	second.follow(2000)
	want(1800)
	second.release()
	want(math.MaxInt64)
	third := newHeapLimit(nil, process, false)
	third.follow(1000)
	want(900)
	third.release()
	want(math.MaxInt64)
}
