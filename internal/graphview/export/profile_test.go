package export

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/internal/words"
)

func writeFolded(t *testing.T, s *bgraph.Snapshot, metric string) string {
	t.Helper()
	var b bytes.Buffer
	testenv.Must(t, WriteFolded(&b, s, metric))
	return b.String()
}

func TestWriteFolded(t *testing.T) {
	for _, metric := range metricNames {
		testenv.Golden(t, "folded-"+metric+".golden", []byte(writeFolded(t, graphcases.Sample(), metric)))
	}
}

func TestWriteFoldedUnknownMetric(t *testing.T) {
	err := WriteFolded(&bytes.Buffer{}, graphcases.Sample(), "speed")
	testenv.ErrorSays(t, err, `"speed"; there are cpu, wait, ready, count, heap`, "error")
}

// Whatever the names are, each line is frames, a blank and a number, and no frame is
// empty.
func TestFoldedLines(t *testing.T) {
	line := regexp.MustCompile(`^[^;\n]+(;[^;\n]+)* [1-9][0-9]*\n$`)
	for what, s := range graphcases.Odd() {
		for _, metric := range metricNames {
			text := writeFolded(t, s, metric)
			graphcases.CheckPlain(t, text)
			for l := range strings.Lines(text) {
				if !line.MatchString(l) {
					t.Errorf("%s, %s: %q", what, metric, l)
				}
			}
		}
	}
}

// The flame graph of CPU is as wide as all CPU time, estimated from the steps that were
// timed; that of counts as all arrivals.
func TestFoldedAddsUp(t *testing.T) {
	s := graphcases.Sample()
	var arrivals uint64
	for i := range s.Nodes {
		arrivals += s.Nodes[i].Arrivals
	}
	for metric, want := range map[string]float64{"cpu": words.TotalCPU(s), "count": float64(arrivals)} {
		var sum float64
		for l := range strings.Lines(writeFolded(t, s, metric)) {
			n := testenv.Need(strconv.ParseInt(strings.TrimSpace(l[strings.LastIndexByte(l, ' '):]), 10, 64))(t)
			sum += float64(n)
		}
		if sum < want-20 || sum > want+20 { // each line is rounded
			t.Errorf("%s: %.0f in all, want %.0f", metric, sum, want)
		}
	}
}

func TestCommonStack(t *testing.T) {
	node := func(k bgraph.Key, calls ...string) bgraph.Node {
		n := bgraph.Node{Key: k}
		for _, c := range calls {
			n.Stack = append(n.Stack, bgraph.Frame{Function: c, Line: int(k)})
		}
		return n
	}
	s := &bgraph.Snapshot{Nodes: []bgraph.Node{
		{Key: bgraph.KeyStart}, {Key: bgraph.KeyEnd},
		node(20, "read", "head", "serve", "main"), node(21, "write", "serve", "main"), node(22, "sleep", "other"),
	}}
	for _, c := range []struct {
		from, to bgraph.Key
		want     string
	}{
		{20, 21, "serve main"}, {21, 20, "serve main"}, {20, 20, "read head serve main"}, {20, 22, ""},
		{bgraph.KeyStart, 20, "main"}, {21, bgraph.KeyEnd, "main"}, {bgraph.KeyStart, bgraph.KeyEnd, ""}, {20, 999, "main"},
	} {
		var got []string
		for _, f := range commonStack(s, c.from, c.to) {
			got = append(got, f.Function)
		}
		testenv.Equal(t, strings.Join(got, " "), c.want, "%d to %d: %q", c.from, c.to, got)
	}
}

func readProfile(t *testing.T, s *bgraph.Snapshot) (*profile.Profile, []byte) {
	t.Helper()
	var b bytes.Buffer
	testenv.Must(t, WriteProfile(&b, s))
	p := testenv.Need(profile.ParseData(b.Bytes()))(t)
	testenv.Must(t, p.CheckValid())
	return p, b.Bytes()
}

func TestWriteProfile(t *testing.T) {
	s := graphcases.Sample()
	p, _ := readProfile(t, s)
	testenv.Golden(t, "profile.golden", []byte(p.String()))
	if p.DurationNanos != int64(s.Span) || p.TimeNanos != s.Program.Started.UnixNano() {
		t.Errorf("from %d, %d long; want %d, %d", p.TimeNanos, p.DurationNanos, s.Program.Started.UnixNano(), s.Span)
	}
	var sums [metricKinds]int64
	for _, x := range p.Sample {
		for i, v := range x.Value {
			sums[i] += v
		}
	}
	var want [metricKinds]float64
	for i := range s.Nodes {
		n := &s.Nodes[i]
		want[metricWait] += float64(n.Wait.Mean()) * float64(n.Departures)
		want[metricReady] += float64(n.Ready.Mean()) * float64(n.Departures)
		want[metricCount] += float64(n.Arrivals)
	}
	for i := range s.Edges {
		e := &s.Edges[i]
		want[metricCPU] += float64(e.TotalCPU())
		want[metricHeap] += words.MeanChange(&e.Heap) * float64(e.Count)
	}
	for i, v := range sums {
		if p.SampleType[i].Type != metricNames[i] || p.SampleType[i].Unit != metricUnits[i] {
			t.Errorf("sample type %d is %+v", i, p.SampleType[i])
		}
		if f := float64(v); f < want[i]*0.9999 || f > want[i]*1.0001 {
			t.Errorf("%s: %d in all, want %.0f", metricNames[i], v, want[i])
		}
	}
}

func TestProfileOfOddSnapshots(t *testing.T) {
	for what, s := range graphcases.Odd() {
		p, _ := readProfile(t, s)
		var sums [metricKinds]int64
		for _, x := range p.Sample {
			for i, v := range x.Value {
				if sums[i] += v; v < 0 || sums[i] < 0 {
					t.Errorf("%s: %s overflows", what, metricNames[i])
				}
			}
		}
		for _, f := range p.Function {
			graphcases.CheckPlain(t, f.Name+f.Filename)
		}
	}
}

func TestGoToolPprofAcceptsProfile(t *testing.T) {
	testenv.NeedsFull(t, "the go command builds pprof")
	for what, s := range map[string]*bgraph.Snapshot{"sample": graphcases.Sample(), "hostile": graphcases.Hostile()} {
		_, data := readProfile(t, s)
		file := filepath.Join(t.TempDir(), "profile.pb.gz")
		testenv.Must(t, os.WriteFile(file, data, 0o600))
		run := func(args ...string) string {
			t.Helper()
			return testenv.Run(t, "", []string{"PPROF_TMPDIR=" + t.TempDir()}, "go", slices.Concat([]string{"tool", "pprof"}, args, []string{file})...)
		}
		testenv.Contains(t, run("-raw"), "cpu/nanoseconds[dflt] wait/nanoseconds ready/nanoseconds count/count heap/bytes", what)
		if what != "sample" {
			continue
		}
		if top := run("-top"); !regexp.MustCompile(`24\.40s 59\.30%.* render page → read web\.\(\*conn\)\.readHead\n`).MatchString(top) {
			t.Errorf("the step with most CPU is missing in\n%s", top)
		}
		if top := run("-top", "-sample_index=wait"); !regexp.MustCompile(`17\.70hrs.* mutex web\.\(\*sessions\)\.find\n`).MatchString(top) {
			t.Errorf("the lock is missing in\n%s", top)
		}
	}
}

func TestWriteJSON(t *testing.T) {
	s := graphcases.Sample()
	var b bytes.Buffer
	few := *s
	few.Nodes, few.Edges = s.Nodes[2:4], s.Edges[2:4]
	testenv.Must(t, WriteJSON(&b, &few))
	testenv.Golden(t, "snapshot.json.golden", b.Bytes())
	b.Reset()
	testenv.Must(t, WriteJSON(&b, s))
	var back bgraph.Snapshot
	testenv.Must(t, json.Unmarshal(b.Bytes(), &back))
	var again bytes.Buffer
	testenv.Must(t, WriteJSON(&again, &back))
	if !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Error("what was read back is written differently")
	}
	if !reflect.DeepEqual(back.Edges, s.Edges) || !reflect.DeepEqual(back.Sched, s.Sched) {
		t.Error("edges or scheduler changed on their way through JSON")
	}
}

func TestJSONHasNoNull(t *testing.T) {
	for what, s := range graphcases.Odd() {
		var b bytes.Buffer
		testenv.Must(t, WriteJSON(&b, s))
		if i := bytes.Index(b.Bytes(), []byte(": null")); i >= 0 {
			t.Errorf("%s: %q", what, b.Bytes()[max(i-40, 0):i+8])
		}
	}
}

// A profile of one metric has its samples, and no others.
func TestProfileOfOneMetric(t *testing.T) {
	s := graphcases.Sample()
	var all bytes.Buffer
	testenv.Must(t, WriteProfile(&all, s))
	whole := testenv.Need(profile.Parse(&all))(t)
	for i, metric := range metricNames {
		var b bytes.Buffer
		testenv.Must(t, WriteProfileOf(&b, s, metric))
		p := testenv.Need(profile.Parse(&b))(t)
		testenv.Must(t, p.CheckValid())
		testenv.Equal(t, len(p.SampleType), 1, "sample types of %s", metric)
		testenv.Equal(t, p.SampleType[0].Type+" "+p.DefaultSampleType, metric+" "+metric)
		var want, got int64
		for _, x := range whole.Sample {
			want += x.Value[i]
		}
		for _, x := range p.Sample {
			if got += x.Value[0]; x.Value[0] == 0 {
				t.Errorf("%s: a sample of nothing", metric)
			}
		}
		testenv.Equal(t, got, want, "%s in all", metric)
	}
	var b bytes.Buffer
	testenv.ErrorSays(t, WriteProfileOf(&b, s, "time"), `no metric "time"`)
	testenv.Equal(t, b.Len(), 0, "bytes of an unknown metric")
}
