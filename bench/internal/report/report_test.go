package report

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// example has a swept metric with a gap, a metric at one point, and everything
// an environment can hold.
func example(t *testing.T) *Report {
	t.Helper()
	var s Samples
	add := func(system, metric, unit string, x float64, values ...float64) {
		for _, v := range values {
			testenv.Must(t, s.Add(system, metric, unit, x, v))
		}
	}
	add("capriccio", "yield", "ns", 2, 50, 54, 52)
	add("goroutine", "yield", "ns", 2, 88, 90, 89)
	add("capriccio", "yield", "ns", 1000, 57.5)
	add("goroutine", "yield", "ns", 1000, 82, 84)
	add("pthread", "yield", "ns", 2, 1234.5)
	add("goroutine", "rate", "ops/s", 16, 1290000)
	add("capriccio", "rate", "ops/s", 16, 2580000)
	return &Report{
		Name: "example", Commit: "0123456789ab", Rows: s.Rows(),
		Env: Env{
			Time: "2026-01-02T03:04:05Z", Go: "go1.26.0", Kernel: "6.18.0", CPU: "A & B <CPU>", Cores: 2,
			Quick: true, Notes: []string{"a note"},
			Skipped: map[string]string{"pthread rate": "no reason", "b": "c\nand its stack"},
		},
	}
}

func TestTableIsAsBefore(t *testing.T) {
	var out bytes.Buffer
	testenv.Must(t, example(t).WriteTable(&out, "knot", "capriccio"))
	testenv.Golden(t, "example.txt", out.Bytes())
}

func TestJSONIsAsBefore(t *testing.T) {
	var out bytes.Buffer
	testenv.Must(t, example(t).WriteJSON(&out))
	testenv.Golden(t, "example.json", out.Bytes())
}

func TestWhatIsKeptIsReadAsItWas(t *testing.T) {
	want := example(t)
	want.Env.Notes, want.Details = []string{"a <note>"}, []string{"rate"}
	for name, write := range map[string]func(io.Writer) error{"rows": want.WriteJSON, "series": want.WriteCompact} {
		var out bytes.Buffer
		testenv.Must(t, write(&out))
		got := testenv.Need(Read(out.Bytes()))(t)
		byCell := func(a, b Row) int {
			return cmp.Or(strings.Compare(a.System, b.System), strings.Compare(a.Metric, b.Metric), cmp.Compare(a.X, b.X))
		}
		for _, r := range []*Report{got, want} {
			slices.SortFunc(r.Rows, byCell)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v, from\n%s", name, got, want, &out)
		}
	}
	for text, want := range map[string]string{
		`{"series": [{"system": "a", "metric": "m", "x": [1, 2], "samples": [[1]]}]}`: "2 parameters",
		`{"series": [{"system": "a", "metric": "m", "x": [1], "samples": [[]]}]}`:     "no samples",
	} {
		testenv.ErrorSays(t, testenv.Err(Read([]byte(text))), want)
	}
}

func TestTableNamesWhatIsOnlyNumberedAndLeavesOutDetails(t *testing.T) {
	r := example(t)
	r.Env.Names, r.Details = map[int]string{2: "two"}, []string{"rate"}
	var out bytes.Buffer
	testenv.Must(t, r.WriteTable(&out, "capriccio"))
	if text := out.String(); !strings.Contains(text, " two 2 ") || !strings.Contains(text, " 1,000 ") || strings.Contains(text, "rate [") {
		t.Errorf("got:\n%s", text)
	}
}

func TestReportWithoutRowsHasAnEmptyList(t *testing.T) {
	var out bytes.Buffer
	testenv.Must(t, new(Report).WriteJSON(&out))
	testenv.Contains(t, out.String(), `"rows": []`)
}

func TestSVGIsWellFormed(t *testing.T) {
	charts := []Chart{
		{Title: "Lines & <more>", Metric: "yield", XLabel: "ready tasks"},
		{Title: "Decades", Metric: "yield", XLabel: "ready tasks", LogY: true},
		{Title: "Bars", Metric: "rate", XLabel: "pairs", Bars: true},
		{Title: "Nothing measured", Metric: "missing"},
	}
	var out bytes.Buffer
	drawn, err := example(t).WriteSVG(&out, charts)
	if err != nil || !drawn {
		t.Fatalf("drawn %v, error %v", drawn, err)
	}
	decoder := xml.NewDecoder(bytes.NewReader(out.Bytes()))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in:\n%s", err, out.String())
		}
	}
	if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") {
		t.Errorf("a coordinate is no number:\n%s", out.String())
	}
	if n := strings.Count(out.String(), "<polyline"); n != 6 {
		t.Errorf("%d lines drawn, want one for each of 3 systems, twice", n)
	}
}

func TestValueAxis(t *testing.T) {
	r := example(t)
	for _, c := range []struct {
		chart     Chart
		low, high float64
		ticks     int
	}{
		{Chart{Metric: "yield"}, 0, 2000, 5},
		{Chart{Metric: "yield", LogY: true}, 10, 10_000, 4},
		{Chart{Metric: "yield", LogY: true, Bars: true}, 0, 2000, 5},
	} {
		axis := r.valueAxis(c.chart)
		if axis.low != c.low || axis.high != c.high || len(axis.ticks()) != c.ticks {
			t.Errorf("%+v has axis %+v with ticks %v", c.chart, axis, axis.ticks())
		}
		if bottom, top := axis.y(axis.low), axis.y(axis.high); bottom != marginTop+plotHeight || top != marginTop {
			t.Errorf("%+v is drawn from %v to %v", c.chart, bottom, top)
		}
	}
}

func TestSVGOfNothingIsNotDrawn(t *testing.T) {
	var out bytes.Buffer
	drawn, err := new(Report).WriteSVG(&out, []Chart{{Metric: "yield"}})
	if drawn || err != nil || out.Len() > 0 {
		t.Errorf("drawn %v, error %v, wrote %q", drawn, err, out.String())
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{7}, 7}, {[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5},
	} {
		testenv.Equal(t, Median(c.values), c.want, "Median(%v)", c.values)
	}
	values := []float64{3, 1, 2}
	Median(values)
	testenv.Equal(t, values[0], 3, "Median sorted its argument: %v", values)
}

func TestSamplesRefuseWhatIsNoNumberOrChangesUnit(t *testing.T) {
	var s Samples
	testenv.Fails(t, s.Add("a", "m", "ns", 1, math.NaN()), "NaN was taken")
	testenv.Fails(t, s.Add("a", "m", "ns", 1, math.Inf(1)), "infinity was taken")
	testenv.Check(t, s.Add("a", "m", "ns", 1, 5))
	testenv.Fails(t, s.Add("a", "m", "µs", 1, 5), "another unit was taken")
	if rows := s.Rows(); len(rows) != 1 || rows[0].N != 1 {
		t.Errorf("rows %+v, want one of one value", rows)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 2: "2", 1000: "1,000", 1290000: "1,290,000", 0.5123: "0.512", 4.567: "4.57",
		63.14: "63.1", 782.4: "782", 12345.6: "12,346", -1234567: "-1,234,567",
	} {
		testenv.Equal(t, Number(v), want, "Number(%v)", v)
	}
}
