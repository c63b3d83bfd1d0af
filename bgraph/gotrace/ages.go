package gotrace

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
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
			*g = listedGoroutine{frames: g.frames[:0]}
			g.head(found[1])
			continue
		}
		if listed == 0 {
			return fmt.Errorf("gotrace: this is no list of goroutines: it begins with %.60q", line)
		}
		g.line(line)
	}
	g.addTo(s, starts)
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
	if len(g.frames) == 0 || g.waits == 0 && !g.leaked {
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
