package orca

import (
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

var full = Report{
	CPU: 0.5, Memory: 0.25, Application: 0.75, RPS: 740, EPS: 2,
	Cost: []Value{{"cpu_seconds", 0.125}}, Utilisation: []Value{{"heap", 0.25}, {"inside request", 0.75}},
	Named: []Value{{InFlight, 12}, {Latency, 0.5}},
}

// TestForms: each form says what Envoy and gRPC read, and is read back.
func TestForms(t *testing.T) {
	text := string(full.AppendText(nil))
	testenv.Equal(t, text, "TEXT cpu_utilization=0.5,mem_utilization=0.25,rps_fractional=740,eps=2,application_utilization=0.75,named_metrics.in_flight=12,named_metrics.latency_seconds=0.5", "text")
	testenv.Equal(t, string(full.AppendJSON(nil)), `JSON {"cpu_utilization":0.5,"mem_utilization":0.25,"rps_fractional":740,"eps":2,"application_utilization":0.75,`+
		`"request_cost":{"cpu_seconds":0.125},"utilization":{"heap":0.25,"inside_request":0.75},"named_metrics":{"in_flight":12,"latency_seconds":0.5}}`, "JSON")
	small := Report{CPU: 1, Named: []Value{{"a", 2}}}
	testenv.Equal(t, hex.EncodeToString(small.AppendBinary(nil)), "09000000000000f03f"+"420c"+"0a0161"+"110000000000000040", "the message")
	brief := full
	brief.Cost, brief.Utilisation = nil, nil
	plain := full
	plain.Utilisation = []Value{{"heap", 0.25}, {"inside_request", 0.75}}
	for _, c := range []struct {
		value  string
		binary bool
		want   Report
	}{
		{text, false, brief},
		{string(full.AppendJSON(nil)), false, plain},
		{string(full.AppendBase64(nil)), true, full},
		{"BIN " + string(full.AppendBase64(nil)), false, full},
		{strings.TrimRight(string(full.AppendBase64(nil)), "="), true, full},
		{"TEXT cpu_utilization:0.5, named_metrics.x:1,unknown=7", false, Report{CPU: 0.5, Named: []Value{{"x", 1}}}},
		{`JSON {"cpuUtilization":0.5,"namedMetrics":{"x":1},"rps":"7","new":[1]}`, false, Report{CPU: 0.5, Named: []Value{{"x", 1}}}},
		{"", true, Report{}},
	} {
		got, err := Parse(c.value, c.binary)
		for _, l := range []*[]Value{&got.Cost, &got.Utilisation, &got.Named} {
			slices.SortFunc(*l, func(a, b Value) int { return strings.Compare(a.Name, b.Name) })
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %+v, %v; want %+v", c.value, got, err, c.want)
		}
	}
}

// TestLies: what can't be true is an error, and none of it is to be used.
func TestLies(t *testing.T) {
	many := "TEXT eps=1"
	for i := range MaxValues + 1 {
		many += fmt.Sprintf(",named_metrics.m%d=1", i)
	}
	binary := func(r Report) string { return "BIN " + string(r.AppendBase64(nil)) }
	for _, value := range []string{
		"", "TEXT", "TEXT ", "TEXT cpu_utilization", "TEXT cpu_utilization=", "TEXT cpu_utilization=NaN", "TEXT cpu_utilization=-0.1", "TEXT cpu_utilization=1e9",
		"TEXT cpu_utilization=Inf", "TEXT application_utilization=101", "TEXT eps=-1", "TEXT named_metrics.in_flight=NaN", "TEXT utilization.heap=-1", "TEXT request_cost.x=1e300",
		many, "XML <a/>", "JSON", "JSON {", `JSON {"cpu_utilization":"NaN"}`, `JSON {"cpu_utilization":-1}`, `JSON {"named_metrics":[1]}`,
		"BIN !", "BIN CQAA", "BIN /////////////w==", "TEXT " + strings.Repeat("a=1,", MaxSize/4),
		binary(Report{CPU: math.NaN()}), binary(Report{CPU: math.Inf(1)}), binary(Report{Memory: -1}), binary(Report{Application: 1e9}),
	} {
		if r, err := Parse(value, false); err == nil {
			t.Errorf("%.60q is %+v; want an error", value, r)
		}
	}
}

func TestInterval(t *testing.T) {
	for message, want := range map[string]float64{"": 0, "\x0a\x02\x08\x0a": 10, "\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01": 1.5, "\x12\x03abc": 0} {
		got, err := ParseInterval([]byte(message))
		testenv.Equal(t, got, want, "%x: %v", message, err)
	}
	_, err := ParseInterval([]byte("\x0a\x02\x08"))
	testenv.True(t, err != nil, "a message that is cut off")
}

func FuzzParse(f *testing.F) {
	f.Add(string(full.AppendText(nil)), false)
	f.Add(string(full.AppendJSON(nil)), false)
	f.Add(string(full.AppendBase64(nil)), true)
	f.Fuzz(func(t *testing.T, value string, binary bool) {
		r, err := Parse(value, binary)
		if err != nil {
			return
		}
		again, err := Parse(string(r.AppendBase64(nil)), true)
		if err != nil || again.CPU != r.CPU || len(again.Named) != len(r.Named) {
			t.Fatalf("%q is read as %+v, and that again as %+v, %v", value, r, again, err)
		}
	})
}
