package orcatest

import (
	"maps"
	"strings"
	"testing"

	v3 "github.com/cncf/xds/go/xds/data/orca/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/capriccio-go/capriccio/internal/orca"
)

func message() *v3.OrcaLoadReport {
	return &v3.OrcaLoadReport{
		CpuUtilization: 0.5, MemUtilization: 0.25, ApplicationUtilization: 0.75, RpsFractional: 740, Eps: 2,
		RequestCost: map[string]float64{"cpu_seconds": 0.125}, Utilization: map[string]float64{"heap": 0.25, "gc": 0},
		NamedMetrics: map[string]float64{orca.InFlight: 12},
	}
}

// report is the message as package orca has it.
func report(m *v3.OrcaLoadReport) *orca.Report {
	list := func(all map[string]float64) (l []orca.Value) {
		for name, v := range maps.All(all) {
			l = append(l, orca.Value{Name: name, Value: v})
		}
		return l
	}
	return &orca.Report{
		CPU: m.CpuUtilization, Memory: m.MemUtilization, Application: m.ApplicationUtilization, RPS: m.RpsFractional, EPS: m.Eps,
		Cost: list(m.RequestCost), Utilisation: list(m.Utilization), Named: list(m.NamedMetrics),
	}
}

// TestTypes: what package orca writes the types of xds read as the same message, and the other way round.
func TestTypes(t *testing.T) {
	want := message()
	var got v3.OrcaLoadReport
	if err := proto.Unmarshal(report(want).AppendBinary(nil), &got); err != nil || !proto.Equal(&got, want) {
		t.Errorf("the message is read as %v, %v", &got, err)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	got.Reset()
	text := strings.TrimPrefix(string(report(want).AppendJSON(nil)), "JSON ")
	if err := protojson.Unmarshal([]byte(text), &got); err != nil || !proto.Equal(&got, want) {
		t.Errorf("%s is read as %v, %v", text, &got, err)
	}
	for _, json := range []protojson.MarshalOptions{{}, {UseProtoNames: true, EmitUnpopulated: true}} {
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		back, err := orca.Parse("JSON "+string(text), false)
		if again := new(v3.OrcaLoadReport); err != nil || proto.Unmarshal(back.AppendBinary(nil), again) != nil || !proto.Equal(again, want) {
			t.Errorf("%s is read as %+v, %v", text, back, err)
		}
	}
}
