package gotrace

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/trace"
	"strings"
	"sync"
	"testing"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

var (
	smallTrace = sync.OnceValue(func() []byte { return traceOf(300) })
	longTrace  = sync.OnceValue(func() []byte { return traceOf(15_000) }) // has full batches
)

// traceOf is a trace of two goroutines that pass values; nil if none can be taken.
func traceOf(rounds int) []byte {
	var b bytes.Buffer
	if trace.Start(&b) != nil {
		return nil
	}
	ping, pong := make(chan int), make(chan int)
	var wg sync.WaitGroup
	wg.Go(func() { pinger(ping, pong, rounds) })
	wg.Go(func() { ponger(ping, pong) })
	wg.Wait()
	runtime.GC()
	trace.Stop()
	return b.Bytes()
}

// Whatever is cut off or broken: what came before is shown with a note, or it is an error.
func TestBrokenTraces(t *testing.T) {
	whole := smallTrace()
	if whole == nil {
		t.Skip("no trace can be taken")
	}
	full := testenv.Need(Read(bytes.NewReader(whole), Options{}))(t)
	check := func(what string, data []byte) {
		s, err := Read(bytes.NewReader(data), Options{})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "gotrace: ") {
				t.Errorf("%s: %v", what, err)
			}
			return
		}
		testenv.Must(t, s.Validate(), what)
		if s.Span == 0 {
			t.Errorf("%s: nothing was read of %d bytes, and that is no error", what, len(data))
		}
		testenv.AtMost(t, len(s.Edges), len(full.Edges)+100, "%s: N edges", what)
	}
	step := max(len(whole)/200, 1)
	for n := 0; n < len(whole); n += step {
		check("cut off", whole[:n])
	}
	for n := 16; n < len(whole); n += step {
		broken := bytes.Clone(whole)
		broken[n] ^= 0x55
		check("broken", broken)
	}
	s, err := Read(bytes.NewReader(whole), Options{MaxBytes: int64(len(whole) * 3 / 4)})
	if err == nil && len(s.Notes) == 0 {
		t.Error("a limit of bytes leaves no note")
	}
}

// Limits are kept, and what they leave out is counted.
func TestLimits(t *testing.T) {
	whole := smallTrace()
	if whole == nil {
		t.Skip("no trace can be taken")
	}
	s, err := Read(bytes.NewReader(whole), Options{MaxNodes: 5, MaxEdges: 2, MaxGoroutines: 3})
	testenv.Must(t, err)
	testenv.Must(t, s.Validate())
	if len(s.Nodes) > 5 || len(s.Edges) > 2 {
		t.Errorf("%d nodes and %d edges", len(s.Nodes), len(s.Edges))
	}
	found := false
	for _, note := range s.Notes {
		found = found || strings.Contains(note, "more goroutines")
	}
	if !found {
		t.Errorf("notes %q", s.Notes)
	}
	s, err = Read(bytes.NewReader(whole), Options{MaxEdges: 2})
	if err != nil || s.Overflow.Edges == 0 || s.Overflow.MaxEdges != 2 {
		t.Errorf("overflow %+v, %v", s.Overflow, err)
	}
	s, err = Read(bytes.NewReader(whole), Options{MaxNodes: 1})
	if err != nil || s.Overflow.Nodes == 0 || s.Validate() != nil {
		t.Errorf("overflow %+v, %v", s.Overflow, err)
	}
}

func TestIsTrace(t *testing.T) {
	for head, want := range map[string]bool{
		"go 1.26 trace\x00\x00\x00rest": true,
		"go 1.19 trace\x00\x00\x00":     true,
		"capriccio blocking graph 1\n":  false,
		"go 1.2":                        false,
		"":                              false,
	} {
		testenv.Equal(t, IsTrace([]byte(head)), want, "%q", head)
	}
}

func FuzzRead(f *testing.F) {
	if whole := smallTrace(); whole != nil {
		f.Add(whole[:min(len(whole), 4<<10)])
	}
	f.Add([]byte("go 1.22 trace\x00\x00\x00"))
	f.Add([]byte("goroutine 1 [IO wait (leaked), 9 minutes]:\nmain.f(...)\n\tmain.go:1 +0x1\ncreated by main.main\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Read(bytes.NewReader(data), Options{MaxBytes: 1 << 20, MaxGoroutines: 1000})
		if err != nil {
			s = &bgraph.Snapshot{Starts: []bgraph.Start{{Function: "main.f", File: "main.go"}}}
			_ = AddAges(s, bytes.NewReader(data))
		}
		testenv.Must(t, s.Validate())
	})
}

// Texts of a trace cannot do anything to a terminal.
func TestTextsAreClean(t *testing.T) {
	if got := clean("a\x1b[2Jb\n" + strings.Repeat("x", 10_000)); strings.ContainsAny(got, "\x1b\n") || len(got) > graphlimits.Text {
		t.Errorf("%d bytes: %.20q", len(got), got)
	}
}

// Whatever is handed on in batches is what was read, however it is asked for.
func TestBatchesLeaveATraceAsItIs(t *testing.T) {
	var all [][]byte
	files := testenv.Need(filepath.Glob("testdata/releases/*.trace"))(t)
	for _, f := range append(files, "testdata/go1.26.trace") {
		data := testenv.Need(os.ReadFile(f))(t)
		all = append(all, data)
	}
	batch := func(length int) []byte {
		return append([]byte{eventBatch, 1, 2, 3, byte(length) | 0x80, byte(length>>7) | 0x80, byte(length >> 14)}, make([]byte, length)...)
	}
	begin := []byte("go 1.26 trace\x00\x00\x00")
	all = append(all, longTrace(), nil, []byte("go"), begin,
		append(bytes.Clone(begin), endOfGeneration, endOfGeneration, eventBatch, 0xff),
		append(bytes.Clone(begin), bytes.Repeat([]byte{eventBatch, 0xff, 0xff, 0xff, 0xff}, 50)...),
		append(bytes.Clone(begin), batch(maxBatch+1)...),
		append(append(bytes.Clone(begin), batch(maxBatch)...), batch(directRead + 1)[:directRead]...))
	for i, data := range all {
		for _, most := range []int{1, 100, 70_000} {
			random := rand.New(rand.NewPCG(1, 2))
			b := &batchReader{in: bufio.NewReader(bytes.NewReader(data))}
			var got []byte
			for ends := 0; ends < 2; {
				p := make([]byte, 1+random.IntN(most))
				if b.left > directRead && most > maxBatch {
					p = make([]byte, b.left)
				}
				n, err := b.Read(p)
				got = append(got, p[:n]...)
				if n > 0 {
					ends = 0
				}
				if err == io.EOF || err == io.ErrUnexpectedEOF {
					ends++
				} else {
					testenv.Must(t, err)
				}
			}
			if !bytes.Equal(got, data) {
				t.Errorf("trace %d, %d bytes, read up to %d at a time: %d bytes came", i, len(data), most, len(got))
			}
		}
	}
}

// Each batch is in memory once.
func TestMemoryOfATrace(t *testing.T) {
	small, long := smallTrace(), longTrace()
	if small == nil || long == nil {
		t.Skip("no trace can be taken")
	}
	allocated := func(whole []byte) int64 {
		least := int64(1) << 62
		for range 3 { // others may allocate meanwhile
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			testenv.Need(Read(bytes.NewReader(whole), Options{}))(t)
			runtime.ReadMemStats(&after)
			least = min(least, int64(after.TotalAlloc-before.TotalAlloc))
		}
		return least
	}
	more, bytes := allocated(long)-allocated(small), int64(len(long)-len(small))
	if more > bytes*5/2 { // the race detector makes it 2.2; with the library alone it is 2.8 and 5.8
		t.Errorf("%d bytes more of a trace take %d bytes", bytes, more)
	}
}

// What takes a trace and a CPU profile in a program is not the program's.
func TestTakersOfTracesAreLeftOut(t *testing.T) {
	m := &model{starts: map[startKey]*start{}}
	for function, system := range map[string]bool{
		"main.main": false, "runtime.main": false, "runtime/pprof.StartCPUProfile": false, "net/http.(*conn).serve": false,
		"runtime/pprof.profileWriter": true, "runtime/trace.Start.gowrap1": true, "runtime.bgsweep": true,
	} {
		testenv.Equal(t, m.startOf(bgraph.Frame{Function: function}).system, system, function)
	}
	for function, taking := range map[string]bool{"net/http/pprof.Trace": true, "net/http/pprof.Profile": true, "main.Trace": false} {
		n := &node{}
		n.Stack = []bgraph.Frame{{Function: function}}
		testenv.Equal(t, n.tracing(), taking, function)
	}
}
