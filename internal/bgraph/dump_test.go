package bgraph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/buckets"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// smallSnapshot has something in every field. It does not change, so that the golden
// file guards the format.
func smallSnapshot() *Snapshot {
	at := time.Date(2026, 3, 14, 15, 9, 26, 535897932, time.UTC)
	read, lock := Key(0x2b992ddfa23249d6), Key(0x8ad0c5fa91b3e710)
	change := Change{Steps: 1000, Sum: -1000, Recent: Moments{Mean: -1, Variance: 0.25}}
	return &Snapshot{
		Program: Program{Name: "shop", PID: 4711, Host: "web-1", Go: "go1.26.8", Started: at.Add(-time.Minute)},
		Taken:   at, Span: Nanos(time.Minute), Sampling: 20, HeapEvery: 320,
		Loops:     []LoopStat{{Index: 0, Tasks: 12, Steps: 2100}},
		Resources: []Resource{{Name: "connection buffers", Unit: "bytes", InUse: 4096, Acquired: 8192, Released: 4096, Limit: 1 << 20}},
		Nodes: []Node{
			{Key: KeyStart, Reason: "start", Arrivals: 100, Departures: 100},
			{
				Key: read, Reason: "read", Now: 12, Peak: 40, Arrivals: 1012, Departures: 1000,
				Stack: []Frame{
					{Function: "github.com/capriccio-go/capriccio/netpoll.(*Conn).Read", File: "/src/netpoll/conn.go", Line: 88, Offset: 12},
					{Function: "example.com/shop.(*session).serve", File: "/src/shop/session.go", Line: 41, Offset: 7},
				},
				Wait:  Times{Count: 50, Sum: 5e9, Max: 4e8, Hist: []uint64{20: 49, 24: 1}},
				Ready: Times{Count: 50, Sum: 50_000, Max: 9000, Hist: []uint64{5: 50}}, Oldest: 3e8,
				Loops: []NodeLoop{{Loop: 0, Now: 12, Peak: 40, Arrivals: 1012, Departures: 1000}},
			},
			{Key: lock, Reason: "mutex", Label: "check out", Arrivals: 1000, Departures: 1000},
		},
		Edges: []Edge{
			{From: KeyStart, To: read, Count: 100},
			{
				From: read, To: lock, Count: 1000, CPU: Times{Count: 50, Sum: 600_000, Max: 90_000, Hist: []uint64{9: 49, 12: 1}},
				Recent: Moments{Mean: 12_100.5, Variance: 4e6}, Heap: Change{Steps: 3, Sum: 900, Recent: Moments{Mean: 300, Variance: 2}},
				Changes: []Change{change}, Overruns: 1,
			},
		},
		Overflow: Overflow{MaxNodes: 4096, MaxEdges: 16384, Nodes: 2, Edges: 1},
		Overruns: []Overrun{{From: read, To: lock, Task: "session 7", Loop: 0, At: at.Add(-time.Second), Held: 2e7, Stack: "goroutine 7 [running]:\nmain.f()\n\t/src/f.go:1 +0x1d\n"}},
		Sched: &Sched{
			Policy: "resource", Admitted: 100, Deferred: 3, Refused: 1, Refusals: []SchedRefusal{{Why: "waited too long", Count: 1}},
			Resources: []SchedResource{{Name: "heap", Utilisation: 0.75, Trend: -0.01, State: "rising"}},
			Nodes:     []SchedNode{{Key: lock, Loop: 0, Priority: 1.5, Tickets: 10, Pass: math.MaxUint64, Ready: 2, Held: "heap is at its limit"}},
		},
	}
}

func encoded(t testing.TB, s *Snapshot) []byte {
	t.Helper()
	var b bytes.Buffer
	testenv.Must(t, s.Encode(&b))
	return b.Bytes()
}

func decoded(t testing.TB, dump []byte) *Snapshot {
	t.Helper()
	return testenv.Need(Decode(bytes.NewReader(dump)))(t)
}

// A dump of format 1 stays readable, and means the same.
func TestDumpFormatIsStable(t *testing.T) {
	testenv.Golden(t, "dump_format1.golden", encoded(t, smallSnapshot()))
	old := testenv.Need(ReadFile("testdata/dump_format1.golden"))(t)
	if !reflect.DeepEqual(old, smallSnapshot()) {
		t.Errorf("decoded to\n%+v\nwant\n%+v", old, smallSnapshot())
	}
}

func TestDecodeReturnsWhatWasEncoded(t *testing.T) {
	r := seeded(t, 1)
	for i := range testenv.Rounds(50, 200) {
		s := randomSnapshot(r, i%20, i)
		testenv.Must(t, s.Validate())
		dump := encoded(t, s)
		got := decoded(t, dump)
		if !reflect.DeepEqual(got, s) {
			t.Fatalf("round %d: got\n%+v\nwant\n%+v", i, got, s)
		}
		if again := encoded(t, got); !bytes.Equal(again, dump) {
			t.Fatalf("round %d: encoded again it is\n%s\nwas\n%s", i, again, dump)
		}
	}
	for _, s := range []*Snapshot{{}, sampleSnapshot()} {
		if got := decoded(t, encoded(t, s)); !bytes.Equal(encoded(t, got), encoded(t, s)) {
			t.Errorf("got %+v, want %+v", got, s)
		}
	}
}

// Encode does it in pieces.
func TestDumpIsWhatEncodingJSONWrites(t *testing.T) {
	r := seeded(t, 10)
	all := []*Snapshot{{}, {Nodes: []Node{}, Edges: []Edge{}}, smallSnapshot(), sampleSnapshot()}
	for i := range 50 {
		all = append(all, randomSnapshot(r, i, 2*i))
	}
	for _, s := range all {
		want := testenv.Need(json.Marshal(s))(t)
		if got := string(encoded(t, s)); got != "capriccio blocking graph 1\n"+string(want)+"\n" {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func TestEncodeDoesNotChangeTheSnapshot(t *testing.T) {
	zone := time.FixedZone("", 3600)
	s := smallSnapshot()
	s.Taken = s.Taken.In(zone)
	s.Overruns[0].At = s.Overruns[0].At.In(zone)
	s.Nodes[1].Label = "a\x1b[31m"
	was := s.Clone()
	dump := encoded(t, s)
	if !reflect.DeepEqual(s, was) {
		t.Errorf("is now %+v, was %+v", s, was)
	}
	got := decoded(t, dump)
	if !got.Taken.Equal(s.Taken) || got.Taken.Location() != time.UTC || got.Overruns[0].At.Location() != time.UTC {
		t.Errorf("times are %v and %v; want UTC", got.Taken, got.Overruns[0].At)
	}
}

func TestDecodeKnowsWhatIsNoDump(t *testing.T) {
	title := dumpTitle + "1\n"
	whole := string(encoded(t, smallSnapshot()))
	for _, c := range []struct{ dump, want string }{
		{"", "empty"},
		{"<!DOCTYPE html>\n<html>", "web page"},
		{"\n  <html>", "web page"},
		{"\x1f\x8b\x08\x00\x00", "gzip"},
		{`{"program":{}}`, "JSON without that line"},
		{"\x1b[2J\x07boo", `"\x1b[2J\aboo"`},
		{"capriccio blocking graph one\n{}", "not a dump"},
		{"capriccio blocking graph 0\n{}", "not a dump"},
		{"capriccio blocking graph 01\n{}", "not a dump"},
		{"capriccio blocking graph -1\n{}", "not a dump"},
		{"capriccio blocking graph 1 \n{}", "not a dump"},
		{"capriccio blocking graph 1\r\n{}", "not a dump"},
		{"capriccio blocking graph 99999999999999999999999999\n{}", "not a dump"},
		{"\n" + title + "{}", "not a dump"},
		{"capriccio blocking graph 2\n{}", "this dump has format 2; this program reads 1; use a newer bgdump"},
		{"capriccio blocking graph 12345\nanything", "this dump has format 12345;"},
		{"capricc", "cut off in its first line"},
		{"capriccio blocking graph ", "cut off in its first line"},
		{"capriccio blocking graph 1", "cut off in its first line"},
		{title, "cut off after its first line"},
		{title + "\n \t", "cut off after its first line"},
		{title + "null", "malformed at byte 27: a JSON object should begin there, not 'n'"},
		{title + "[]", "malformed at byte 27"},
		{title + "  7", "malformed at byte 29"},
		{title + "{", "cut off after 28 bytes"},
		{whole[:len(whole)/2], fmt.Sprintf("cut off after %d bytes", len(whole)/2)},
		{whole[:len(whole)-2], "cut off after"},
		{title + `{"span_ns":1,,}`, "malformed at byte 40: invalid character ','"},
		{title + `{"span_ns":01}`, "malformed at byte 39"},
		{title + `{"span_ns":"1s"}`, "span_ns is a JSON string; want one that fits bgraph.Nanos"},
		{title + `{"span_ns":1.5}`, "span_ns is a JSON number 1.5"},
		{title + `{"span_ns":99999999999999999999}`, "span_ns is a JSON number 9999"},
		{title + `{"nodes":[{"arrivals":-1}]}`, "arrivals is a JSON number -1; want one that fits uint64"},
		{title + `{"edges":[{"recent":{"mean":1e999}}]}`, "recent.mean is a JSON number 1e999"},
		{title + `{"nodes":[{"key":"12"}]}`, "want 16 hexadecimal digits"},
		{title + `{"nodes":[{"key":"\u001b[2J"}]}`, `"\x1b[2J"`},
		{title + `{"taken":"yesterday"}`, `"yesterday"`},
		{title + `{"taken":"0000-01-01T00:00:00+23:00"}`, "taken is in the year -1"},
		{whole + "x", "malformed at byte " + fmt.Sprint(len(whole))},
		{whole + whole, "malformed at byte " + fmt.Sprint(len(whole))},
		{title + strings.Repeat("[", 100), "a JSON object should begin there"},
		{title + `{"x":` + strings.Repeat("[", 100), "nested deeper than 64 levels"},
		{title + `{"nodes":[{"key":"0000000000000001","wait":{"hist":[` + strings.Repeat("0,", buckets.Count) + `0]}}]}`, `a list "hist" has more than 32 elements`},
	} {
		_, err := Decode(strings.NewReader(c.dump))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "bgraph: reading the dump: ") {
			t.Errorf("%.80q: error %v; want one with %q", c.dump, err, c.want)
		} else if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
			t.Errorf("%.80q: the error %q has control characters", c.dump, err)
		}
	}
}

func TestDecodePassesReadErrorsOn(t *testing.T) {
	broken := errors.New("the line is down")
	dump := encoded(t, smallSnapshot())
	for _, n := range []int{0, 5, 100, len(dump) - 1} {
		_, err := Decode(io.MultiReader(bytes.NewReader(dump[:n]), iotest.ErrReader(broken)))
		testenv.ErrorIs(t, err, broken, "after %d bytes: error", n)
	}
	if got, err := Decode(iotest.OneByteReader(bytes.NewReader(dump))); err != nil || !reflect.DeepEqual(got, smallSnapshot()) {
		t.Errorf("byte by byte: %+v, %v", got, err)
	}
}

type zeros struct{ read int }

func (z *zeros) Read(p []byte) (int, error) {
	clear(p)
	for i := range p {
		p[i] = ' '
	}
	z.read += len(p)
	return len(p), nil
}

func TestDecodeStopsReading(t *testing.T) {
	var endless zeros
	if _, err := Decode(&endless); err == nil || endless.read > 1<<16 {
		t.Errorf("of what is no dump, %d bytes were read (error %v)", endless.read, err)
	}
	endless.read = 0
	_, err := Decode(io.MultiReader(strings.NewReader(dumpTitle+"1\n"), &endless))
	if err == nil || !strings.Contains(err.Error(), "more than 67108864 bytes") || endless.read > graphlimits.Bytes+1<<20 {
		t.Errorf("error %v after %d bytes", err, endless.read)
	}
}

func TestDecodeAcceptsWhatLaterVersionsAdd(t *testing.T) {
	dump := dumpTitle + `1
{"nodes":[{"key":"0000000000000010","reason":"read","colour":{"deep":[[1,2],{"x":null}]}}],"edges":null,"loops":[],"later":[1,2,3]}`
	got := decoded(t, []byte(dump+" \n\n"))
	if want := (&Snapshot{Nodes: []Node{{Key: 16, Reason: "read"}}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestDecodeOfEmptyLists(t *testing.T) {
	got := decoded(t, []byte(dumpTitle+`1
{"nodes":[],"sched":{"refusals":[],"resources":[],"nodes":[]},"starts":[]}`))
	if want := (&Snapshot{Sched: &Sched{}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTextsAreMadePrintable(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"plain, with <b>&amp;\" and 日本語 é 😀", ""},
		{"", ""},
		{"\x1b[2J\x1b]0;title\x07", "\ufffd[2J\ufffd]0;title\ufffd"},
		{"a\nb\tc\rd", "a\ufffdb\ufffdc\ufffdd"},
		{"a\u007fb\u009bc", "a\ufffdb\ufffdc"},
		{"right\u202eto left\u2066", "right\ufffdto left\ufffd"},
		{"line\u2028paragraph\u2029", "line\ufffdparagraph\ufffd"},
		{"\ufeffbyte order\u200bzero width", "\ufffdbyte order\ufffdzero width"},
		{"\ue000private \ufffe none", "\ufffdprivate \ufffd none"},
		{"\xff\xfeinvalid\xc3", "\ufffd\ufffdinvalid\ufffd"},
		{strings.Repeat("x", graphlimits.Text), ""},
		{strings.Repeat("x", graphlimits.Text+1), strings.Repeat("x", graphlimits.Text-3) + "…"},
		{strings.Repeat("é", graphlimits.Text), strings.Repeat("é", graphlimits.Text/2-2) + "…"},
		{strings.Repeat("\x00", graphlimits.Text), strings.Repeat("\ufffd", graphlimits.Text/3-1) + "…"},
	} {
		if c.want == "" {
			c.want = c.text
		}
		testenv.Equal(t, nameRule.Clean(c.text), c.want, "%.50q became", c.text)
		testenv.Equal(t, nameRule.Fits(c.text), c.text == c.want, "%.50q fits", c.text)
		if !nameRule.Fits(c.want) {
			t.Errorf("%.50q does not fit", c.want)
		}
	}
	testenv.Equal(t, stackRule.Clean("a\n\tb\x1b\r"), "a\n\tb\ufffd\ufffd", "stack became")
}

// Every text field is cleaned, whether by the encoder or, where another program wrote
// the dump, by the decoder.
func TestNoTextIsForgotten(t *testing.T) {
	const bad = "bad\x1btext"
	texts, only := 0, 0 // if only is not 0, the text of that number alone is spoilt
	var spoil func(v reflect.Value)
	spoil = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			if texts++; only == 0 || only == texts {
				v.SetString(bad)
			}
		case reflect.Struct:
			if v.Type() != reflect.TypeFor[time.Time]() {
				for i := range v.NumField() {
					spoil(v.Field(i))
				}
			}
		case reflect.Slice:
			for i := range v.Len() {
				spoil(v.Index(i))
			}
		case reflect.Pointer:
			spoil(v.Elem())
		}
	}
	s := smallSnapshot()
	spoil(reflect.ValueOf(s).Elem())
	if texts < 20 {
		t.Fatalf("only %d texts were found", texts)
	}
	for i := range texts {
		texts, only = 0, i+1
		s := smallSnapshot()
		spoil(reflect.ValueOf(s).Elem())
		testenv.Fails(t, s.Validate(), "valid, though text %d cannot be printed", only)
	}
	foreign := testenv.Need(json.Marshal(s))(t)
	for how, dump := range map[string][]byte{"encoded": encoded(t, s), "foreign": append([]byte(dumpTitle+"1\n"), foreign...)} {
		got := testenv.Need(json.Marshal(decoded(t, dump)))(t)
		if strings.Contains(string(got), `\u001b`) || strings.Count(string(got), "bad\ufffdtext") != texts {
			t.Errorf("%s: %s", how, got)
		}
	}
}

func TestListsAreBoundedBeforeTheyAreDecoded(t *testing.T) {
	for _, c := range []struct{ head, element, tail, want string }{
		{`{"nodes":[`, `0,`, `0]}`, `a list "nodes" has more than`},
		{`{"nodes":[`, `{},`, `{}]}`, `a list "nodes" has more than`},
		{`{"n\u006fdes":[`, `0,`, `0]}`, `a list "n\\u006fdes" has more than`},
		{`{"NODES":[`, `null,`, `0]}`, `a list "NODES" has more than`},
		{`{"nodes":[{"stack":[`, `0,`, `0]}]}`, `a list "stack" has more than 512 elements`},
		{`{"nodes":[`, `{"stack":[` + strings.Repeat("0,", 400) + `0]},`, `0]}`, "more than 335544320 bytes of memory"},
		{`{"edges":[`, `{"changes":[` + strings.Repeat("0,", 60) + `0]},`, `0]}`, "more than 335544320 bytes of memory"},
	} {
		const size = 20 << 20
		dump := dumpTitle + "1\n" + c.head + strings.Repeat(c.element, size/len(c.element)) + c.tail
		before := totalAlloc()
		if _, err := Decode(strings.NewReader(dump)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v; want one with %q", c.head, err, c.want)
		}
		// Reading into a slice that grows takes a few times its size in all, with Go 1.25 a little more.
		if used := totalAlloc() - before; used > 7*size {
			t.Errorf("%s: %d MiB were allocated", c.head, used>>20)
		}
	}
}

// What listLimits says of sizes is right, and no honest dump meets maxDecodedBytes.
func TestSizesOfElements(t *testing.T) {
	for _, c := range []struct {
		key  string
		size uintptr
		zero any
	}{
		{"nodes", unsafe.Sizeof(Node{}), Node{}},
		{"edges", unsafe.Sizeof(Edge{}), Edge{}},
		{"stack", unsafe.Sizeof(Frame{}), Frame{}},
		{"hist", unsafe.Sizeof(uint64(0)), 0},
		{"loops", unsafe.Sizeof(LoopStat{}), LoopStat{}},
		{"loops", unsafe.Sizeof(NodeLoop{}), NodeLoop{}},
		{"resources", unsafe.Sizeof(Resource{}), Resource{}},
		{"resources", unsafe.Sizeof(SchedResource{}), SchedResource{}},
		{"refusals", unsafe.Sizeof(SchedRefusal{}), SchedRefusal{}},
		{"nodes", unsafe.Sizeof(SchedNode{}), SchedNode{}},
		{"changes", unsafe.Sizeof(Change{}), Change{}},
		{"overruns", unsafe.Sizeof(Overrun{}), Overrun{}},
	} {
		most, size := listLimits(c.key)
		testenv.AtMost(t, int(c.size), size, "%T has %d bytes; listLimits says %d", c.zero, c.size, size)
		text := testenv.Need(json.Marshal(c.zero))(t)
		testenv.AtMost(t, float64(size)/float64(len(text)+len(",")), maxDecodedBytes/graphlimits.Bytes, "%T: %d bytes of JSON count as %d", c.zero, len(text)+1, size)
		if most <= 0 {
			t.Errorf("%s: limit %d", c.key, most)
		}
	}
}

func TestEncodeRefusesWhatIsTooLarge(t *testing.T) {
	s := &Snapshot{Loops: []LoopStat{{}}}
	text := strings.Repeat("x", graphlimits.Text)
	for i := range graphlimits.Bytes/graphlimits.Text + 1 {
		s.Nodes = append(s.Nodes, Node{Key: Key(i + 1), Label: text})
	}
	var b bytes.Buffer
	if err := s.Encode(&b); err == nil || !strings.Contains(err.Error(), "67108864 can be read again") || b.Len() > 0 {
		t.Errorf("error %v, %d bytes written", err, b.Len())
	}
	if err := (*Snapshot)(nil).Encode(&b); err == nil || b.Len() > 0 {
		t.Errorf("nil: error %v, %d bytes written", err, b.Len())
	}
	broken := errors.New("disk full")
	testenv.ErrorIs(t, smallSnapshot().Encode(writerFunc(func([]byte) (int, error) { return 0, broken })), broken, "error")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
