package gotrace

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/exp/trace"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A list of goroutines says for how long one has waited at a node of the trace, in the words of
// either, and which have leaked.
func TestAges(t *testing.T) {
	const minute = bgraph.Nanos(time.Minute)
	waits := []struct {
		traced, listed string // reasons
		below, above   []string
		want           bgraph.Nanos
	}{
		{"chan receive", "chan receive, 7 minutes", []string{"runtime.gopark", "runtime.chanrecv1"}, nil, 7 * minute},
		{"chan send", "chan send (leaked)", []string{"runtime.chansend1"}, nil, 0},
		{"network", "IO wait, 61 minutes, locked to thread", []string{"internal/poll.runtime_pollWait", "internal/poll.(*pollDesc).wait"}, []string{"internal/poll.(*FD).Read"}, 61 * minute},
		{"sync", "sync.Mutex.Lock, 2 minutes", []string{"internal/sync.runtime_SemacquireMutex", "internal/sync.(*Mutex).lockSlow"}, []string{"sync.(*Mutex).Lock"}, 2 * minute},
		{"sync", "sync.WaitGroup.Wait, 3 minutes", []string{"sync.runtime_SemacquireWaitGroup"}, []string{"sync.(*WaitGroup).Wait"}, 3 * minute},
		{"select", "select, 4 minutes", []string{"runtime.selectgo"}, nil, 4 * minute},
		{"sleep", "sleep", []string{"time.Sleep"}, nil, 0},
	}
	st := newStream(t)
	var list strings.Builder
	for i, w := range waits {
		own := []string{fmt.Sprintf("main.(*T%d).wait[...]", i), fmt.Sprintf("main.start%d", i)}
		st.change(time.Duration(i+1), none, trace.GoID(i+1), trace.GoUndetermined, trace.GoWaiting, w.traced, stackOf(append(append(w.below, w.above...), own...)...))
		fmt.Fprintf(&list, "goroutine %d gp=0xc000 m=nil [%s]:\n", i+1, w.listed)
		for _, f := range append(append(w.below[len(w.below)-1:], w.above...), own...) {
			fmt.Fprintf(&list, "%s(0xc0000, {0x1, 0x2, ...})\n\t%s.go:7 +0x1d\n", f, f[strings.LastIndexByte(f, '/')+1:])
		}
		list.WriteString("...additional frames elided...\ncreated by main.main in goroutine 1\n\tmain.go:99 +0x2\n\n")
	}
	s := st.m.snapshot()
	testenv.Must(t, AddAges(s, strings.NewReader("goroutine 99 [running]:\nmain.other()\n\tmain.go:1\n\n"+list.String())))
	testenv.Must(t, s.Validate())
	before := bgraph.Nanos(len(waits))
	for i, w := range waits {
		start := fmt.Sprintf("main.start%d", i)
		found := 0
		for _, n := range s.Nodes {
			if len(n.Stack) > 0 && n.Stack[len(n.Stack)-1].Function == start {
				found++
				if n.Oldest < w.want || n.Oldest > w.want+before {
					t.Errorf("%s: oldest %v, want %v", w.listed, n.Oldest, w.want)
				}
			}
		}
		for _, begun := range s.Starts {
			if begun.Function == start {
				found++
				if begun.Oldest < w.want || begun.Oldest > w.want+before || (begun.Leaked == 1) != strings.Contains(w.listed, "leaked") {
					t.Errorf("%s: %+v", w.listed, begun)
				}
			}
		}
		testenv.Equal(t, found, 2, "%s: N nodes and starts of it", w.listed)
	}
}

// What is no list is an error; what came before a break is kept.
func TestBrokenAges(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"<html>":                       `no list of goroutines: it begins with "<html>"`,
		"goroutine profile: total 5\n": "no list of goroutines",
		"goroutine 1 [x]:\n" + strings.Repeat("y", longestInput+1):                                                   "cannot be read any further",
		"goroutine 1 [chan receive, 99999999999999999999 minutes]:\n\t:\nf()\n\tx.go:99999999999999999999\n)\n\t)\n": "",
	} {
		err := AddAges(new(bgraph.Snapshot), strings.NewReader(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}
