package bgraph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/buckets"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Whatever is decoded is valid, and comes back the same when it is encoded again; what
// Encode writes has a fixed form.
func FuzzDecode(f *testing.F) {
	f.Add(encoded(f, smallSnapshot()))
	f.Add(encoded(f, docExample()))
	f.Add(encoded(f, new(Snapshot)))
	f.Add(encoded(f, randomSnapshot(seeded(f, 2), 3, 4)))
	f.Add(encoded(f, &Snapshot{Kind: KindGoroutines, Starts: []Start{{Function: "main.main", Now: 1}}, Spans: []Span{{Kind: "task", Path: []PathPart{{Node: 7, Count: 3, Depth: 1}}}}, Slowest: []Span{{Kind: "request", Begun: 9, Open: true, Path: []PathPart{{Node: 7, From: 5, By: Frame{Function: "main.f", Line: 3}}}, Timeline: []PathPart{{Node: 7, Wait: 4, Depth: 2}}}}, Notes: []string{"cut off"}, Sources: []Source{{Name: "pod", Skew: -1, Places: []SourcePlace{{Node: 7, Share: 0.5}}}}}))
	f.Fuzz(func(t *testing.T, dump []byte) {
		s, err := Decode(bytes.NewReader(dump))
		if err != nil {
			return
		}
		testenv.Must(t, s.Validate(), "decoded, but")
		again := encoded(t, s)
		got := decoded(t, again)
		if !reflect.DeepEqual(got, s) {
			t.Fatalf("decoded again it is\n%+v\nwas\n%+v", got, s)
		}
		if !bytes.Equal(encoded(t, got), again) {
			t.Fatalf("encoded again it is\n%s\nwas\n%s", encoded(t, got), again)
		}
		useHostile(t, s)
	})
}

// FuzzExtremes puts extreme values into fields of a Snapshot, of which many stay valid.
func FuzzExtremes(f *testing.F) {
	for i := range 20 {
		f.Add(uint64(i), []byte{byte(i), 1, byte(3 * i), 2, byte(5 * i), 3, byte(7 * i), 4})
	}
	f.Fuzz(func(t *testing.T, seed uint64, where []byte) {
		s := randomSnapshot(rand.New(rand.NewPCG(seed, 1)), 3, 6)
		var fields []reflect.Value
		numbers(reflect.ValueOf(s).Elem(), &fields)
		for ; len(where) >= 3; where = where[3:] {
			setExtreme(fields[(int(where[0])<<8|int(where[1]))%len(fields)], where[2])
		}
		dump, err := s.dump()
		testenv.MustEqual(t, err == nil, s.Validate() == nil, "encoded: %v; valid: %v", err, s.Validate())
		if err != nil {
			return
		}
		if got := decoded(t, dump); !reflect.DeepEqual(got, s) {
			t.Fatalf("decoded it is\n%+v\nwas\n%+v", got, s)
		}
		useHostile(t, s)
	})
}

// numbers collects the fields that are numbers.
func numbers(v reflect.Value, out *[]reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			numbers(v.Field(i), out)
		}
	case reflect.Slice:
		for i := range v.Len() {
			numbers(v.Index(i), out)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			numbers(v.Elem(), out)
		}
	case reflect.String:
	default:
		*out = append(*out, v)
	}
}

func setExtreme(v reflect.Value, which byte) {
	ints := []int64{0, 1, -1, 1 << 31, 1<<31 - 1, 1 << 53, 1<<62 - 1, 1 << 62, 1<<62 + 1, math.MaxInt64, math.MinInt64}
	switch {
	case v.CanInt():
		v.SetInt(ints[int(which)%len(ints)])
	case v.CanUint():
		v.SetUint(uint64(ints[int(which)%len(ints)]))
	case v.CanFloat():
		floats := []float64{0, 1, -1, 1e-320, 1 << 62, -1 << 62, 1e19, 1e37, 1e38, math.MaxFloat64, math.Inf(1), math.NaN()}
		v.SetFloat(floats[int(which)%len(floats)])
	}
}

// useHostile does with a valid Snapshot from a stranger what can be done with two.
func useHostile(t *testing.T, s *Snapshot) {
	d, err := Diff(s, s)
	switch {
	case s.Kind == KindGoroutines: // it has no differences
		d = s
	case err != nil:
		t.Fatalf("no difference to itself: %v", err)
	default:
		for i := range d.Nodes {
			if n := &d.Nodes[i]; n.Arrivals != 0 || n.Wait.Sum != 0 || n.Wait.Max < 0 {
				t.Fatalf("the difference to itself is %+v", n)
			}
		}
	}
	testenv.Must(t, d.Validate(), "the difference is not valid")
	other := s.Clone()
	other.Program.PID = s.Program.PID/2 + 1
	other.Program.Host = "other"
	if m, err := Merge(s, other); err == nil {
		testenv.Must(t, m.Validate(), "merged it is not valid")
		testenv.Must(t, testenv.Err(m.dump()), "merged it cannot be written")
	}
}

func totalAlloc() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// fleetSnapshot is a large graph with stacks as they are.
func fleetSnapshot(t testing.TB) *Snapshot {
	s := randomSnapshot(seeded(t, 3), 1000, 4000)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for len(n.Stack) < 12 {
			n.Stack = append(n.Stack, Frame{
				Function: "github.com/capriccio-go/capriccio/knot.(*conn).readHead.func1",
				File:     "/home/someone/go/pkg/mod/github.com/capriccio-go/capriccio@v1.2.3/knot/conn.go", Line: 1234, Offset: 56,
			})
		}
	}
	return s
}

func BenchmarkDump(b *testing.B) {
	s := fleetSnapshot(b)
	dump := encoded(b, s)
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(dump)))
		for b.Loop() {
			testenv.Need(s.dump())(b)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(dump)))
		for b.Loop() {
			testenv.Need(Decode(bytes.NewReader(dump)))(b)
		}
	})
}

// The document describes every member, and the limits as they are.
func TestDumpFormatIsDocumented(t *testing.T) {
	text := testenv.Need(os.ReadFile("../../docs/dump-format.md"))(t)
	doc := string(text)
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(v reflect.Type) {
		for v.Kind() == reflect.Slice || v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct || v == reflect.TypeFor[time.Time]() || seen[v] {
			return
		}
		seen[v] = true
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Field(i).Tag.Get("json"), ",")
			testenv.Contains(t, doc, "| `"+name+"` |", "the document has no %v.%s", v, v.Field(i).Name)
			visit(v.Field(i).Type)
		}
	}
	visit(reflect.TypeFor[Snapshot]())
	testenv.AtLeast(t, len(seen), 15, "only N types were visited")
	for _, limit := range []string{
		"64 MiB", grouped(graphlimits.Nodes), grouped(graphlimits.Edges), grouped(graphlimits.Loops), fmt.Sprint(graphlimits.Frames),
		fmt.Sprint(graphlimits.Resources), fmt.Sprint(graphlimits.Overruns), grouped(graphlimits.Text), grouped(graphlimits.Stack), fmt.Sprint(buckets.Count), "2^62",
	} {
		if !strings.Contains(doc, limit) {
			t.Errorf("the limit %s is not in the document", limit)
		}
	}
	checkDocExample(t, doc)
}

// checkDocExample compares the dump that the document shows, with its JSON indented.
func checkDocExample(t *testing.T, doc string) {
	want := encoded(t, docExample())
	_, shown, _ := strings.Cut(doc, "```\n"+dumpTitle+"1\n")
	shown, _, _ = strings.Cut(shown, "```")
	var got bytes.Buffer
	got.WriteString(dumpTitle + "1\n")
	err := json.Compact(&got, []byte(shown))
	if err != nil || !bytes.Equal(bytes.TrimSpace(got.Bytes()), bytes.TrimSpace(want)) {
		var b bytes.Buffer
		_ = json.Indent(&b, want[len(dumpTitle)+2:], "", "  ")
		t.Errorf("the example in the document (%v) is not\n%s1\n%s", err, dumpTitle, b.Bytes())
	}
}

func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// docExample is the dump that the document shows.
func docExample() *Snapshot {
	s := smallSnapshot()
	read := s.Nodes[1]
	read.Stack = read.Stack[1:]
	read.Wait.Hist, read.Ready.Hist = []uint64{0, 48, 2}, []uint64{50}
	read.Wait.Sum, read.Wait.Max, read.Ready.Sum, read.Ready.Max = 2400, 100, 1000, 30
	start := s.Nodes[0]
	edge := s.Edges[1]
	edge.From, edge.To, edge.Overruns = read.Key, read.Key, 0
	edge.CPU.Hist, edge.CPU.Sum, edge.CPU.Max = []uint64{0, 0, 50}, 4000, 96
	s.Nodes, s.Edges = []Node{start, read}, []Edge{edge}
	s.Overruns, s.Sched, s.Overflow = nil, nil, Overflow{MaxNodes: 4096, MaxEdges: 16384}
	return s
}
