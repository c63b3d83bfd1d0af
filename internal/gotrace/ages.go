package gotrace

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
)

// Limits of a list of goroutines.
const (
	mostListed   = 1_000_000
	longestInput = 64 << 10 // of a line
)

var (
	// listHeader begins a goroutine: its number, its state and how long it has been in it.
	listHeader = regexp.MustCompile(`^goroutine \d+ (?:gp=.* )?\[([^\]]*)\]`)
	listPlace  = regexp.MustCompile(`^\t(.*):(\d+)(?: \+0x[0-9a-f]+)?$`)
	minutes    = regexp.MustCompile(`^(\d+) minutes$`)
)

// listedReasons are the words of a trace for those of a list, where they differ; behind a
// reason may stand more in brackets, as in "chan receive (nil chan)".
var listedReasons = map[string]string{
	"IO wait": "network", "semacquire": "sync", "sync.Mutex.Lock": "sync", "sync.RWMutex.RLock": "sync",
	"sync.RWMutex.Lock": "sync", "sync.WaitGroup.Wait": "sync", "sync.Cond.Wait": "sync.(*Cond).Wait", "syscall": "system call",
}

// AddAges adds to s, the graph of a trace, what a list of the goroutines of the same program
// tells, as net/http/pprof gives with goroutine?debug=2: how long they have waited, by minutes,
// also before the trace began, and which of them have leaked, if the list is that of
// goroutineleak?debug=2. The Go runtime looks at waits when it collects, so that times are
// short by up to the time between two collections. It is an error if r is no such list; what
// was read before that, or before the list was cut off, is kept. It does not park.
func AddAges(s *bgraph.Snapshot, r io.Reader) error {
	in := bufio.NewScanner(r)
	in.Buffer(nil, longestInput)
	starts := make(map[startKey]*bgraph.Start, len(s.Starts))
	for i := range s.Starts {
		starts[startKey{s.Starts[i].Function, s.Starts[i].File}] = &s.Starts[i]
	}
	listed := 0
	g := new(listedGoroutine)
	for in.Scan() {
		line := in.Text()
		if found := listHeader.FindStringSubmatch(line); found != nil {
			g.addTo(s, starts)
			if listed++; listed > mostListed {
				return fmt.Errorf("gotrace: there are more than %d goroutines", mostListed)
			}
			*g = listedGoroutine{frames: g.frames[:0], computing: g.computing}
			g.head(found[1])
			continue
		}
		if listed == 0 {
			return fmt.Errorf("gotrace: this is no list of goroutines: it begins with %.60q", line)
		}
		g.line(line)
	}
	g.addTo(s, starts)
	nameUnknown(s, g.computing)
	if err := in.Err(); err != nil {
		return fmt.Errorf("gotrace: the list of goroutines cannot be read any further: %w", err)
	}
	return nil
}

// A listedGoroutine is one of a list.
type listedGoroutine struct {
	reason   string
	waits    time.Duration
	leaked   bool
	frames   []bgraph.Frame // innermost first
	function string         // of the line before; "": there was none
	done     bool           // the rest of the text is about what created it

	computing map[startKey]bgraph.Frame // first functions that the trace does not know, of goroutines that compute
}

// head reads what stands between the brackets of the first line.
func (g *listedGoroutine) head(text string) {
	parts := strings.Split(text, ", ")
	reason, more, _ := strings.Cut(parts[0], " (")
	g.leaked = strings.Contains(more, "leaked)")
	if g.reason = reason; listedReasons[reason] != "" {
		g.reason = listedReasons[reason]
	}
	for _, part := range parts[1:] {
		if m := minutes.FindStringSubmatch(part); m != nil {
			n, _ := strconv.ParseInt(m[1], 10, 32)
			g.waits = time.Duration(n) * time.Minute
		}
	}
}

func (g *listedGoroutine) line(line string) {
	if place := listPlace.FindStringSubmatch(line); place != nil && g.function != "" {
		if n, err := strconv.ParseInt(place[2], 10, 32); err == nil && !g.done {
			if len(g.frames) == maxFrames {
				g.frames = g.frames[:maxFrames-1] // as framesOf does
			}
			g.frames = append(g.frames, bgraph.Frame{Function: clean(g.function), File: clean(place[1]), Line: int(n)})
		}
		g.function = ""
		return
	}
	if strings.HasPrefix(line, "created by ") {
		g.done = true
	}
	if g.function = ""; strings.HasSuffix(line, ")") {
		g.function = line[:max(strings.LastIndexByte(line, '('), 0)]
	}
}

// addTo adds what is known of the goroutine to its place in the graph and to where it began.
func (g *listedGoroutine) addTo(s *bgraph.Snapshot, starts map[startKey]*bgraph.Start) {
	if len(g.frames) == 0 {
		return
	}
	for len(g.frames) > 1 && g.frames[len(g.frames)-1].Function == "runtime.goexit" {
		g.frames = g.frames[:len(g.frames)-1]
	}
	if first := g.frames[len(g.frames)-1]; !funcname.OfStandardLibrary(first.Function) && (g.reason == "runnable" || g.reason == "running") && starts[startKey{first.Function, first.File}] == nil {
		if g.computing == nil {
			g.computing = map[startKey]bgraph.Frame{}
		}
		g.computing[startKey{first.Function, first.File}] = first
	}
	if g.waits == 0 && !g.leaked {
		return
	}
	waits := bgraph.Nanos(g.waits)
	first := g.frames[len(g.frames)-1]
	if st := starts[startKey{first.Function, first.File}]; st != nil {
		st.Oldest = max(st.Oldest, waits)
		if g.leaked {
			st.Leaked++
		}
	}
	kind, frames := refine(g.reason, g.frames), trim(g.frames)
	if n := s.Node(keyOf(kind, "", frames)); n != nil {
		n.Oldest = max(n.Oldest, waits)
	}
}

// nameUnknown gives goroutines that compute all the time the name of their function, which the trace does not tell if it has no frame,
// if there is one such function only.
func nameUnknown(s *bgraph.Snapshot, computing map[startKey]bgraph.Frame) {
	for _, f := range computing {
		if len(computing) > 1 {
			return
		}
		for i := range s.Starts {
			if st := &s.Starts[i]; st.Function == "" {
				st.Function, st.File, st.Line = f.Function, f.File, f.Line
			}
		}
		for i := range s.Nodes {
			n := &s.Nodes[i]
			if n.Reason == runningReason && (len(n.Stack) == 0 || n.Stack[0].Function == "") {
				n.Stack = []bgraph.Frame{f}
			}
		}
	}
}
