package main

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Each program with a fault marks where that is.
func TestPlantedProgramsMarkTheirFaults(t *testing.T) {
	for _, p := range plantedPrograms {
		if p.says == "" {
			continue
		}
		if _, err := causeOf("planted", p); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
	}
}

// The score tells where a finding names line, function and fault: all three.
func TestPlantedScores(t *testing.T) {
	c := testenv.Need(causeOf("planted", plantedPrograms[0]))(t)
	at := c.places[0].at
	other := lint.Finding{Severity: lint.SeverityWarning, Check: "queue", Name: "mutex main.other", Message: "It holds a mutex."}
	cause := lint.Finding{Severity: lint.SeverityWarning, Check: "convoy", Message: "main.(*rates).lookup (" + at + ") holds its mutex."}
	elsewhere, vague := cause, cause
	elsewhere.Message = "main.(*rates).lookup (locks.go:1) holds its mutex."
	vague.Message = "main.(*rates).lookup (" + at + ") is slow."
	for _, k := range []struct {
		findings []lint.Finding
		score    float64
	}{
		{[]lint.Finding{cause}, 3},
		{[]lint.Finding{other, cause}, 2},
		{[]lint.Finding{other, other, other, cause}, 1},
		{[]lint.Finding{elsewhere, vague, other}, 0},
	} {
		said := &plantedReading{findings: k.findings, screen: "LOOK AT FIRST: some findings\n"}
		for _, f := range k.findings {
			said.screen += "  " + f.Severity + " " + f.Check + ": " + f.Name + "\n    " + f.Message + "\n"
		}
		said.screen += "  CPU: 100% of it elsewhere\n\nNODES: 1\n"
		screen, found := c.score(said)
		testenv.Equal(t, screen, k.score, "of the first screen:\n%s", said.screen)
		testenv.Equal(t, found, k.score, "of -lint:\n%s", said.screen)
	}
	remark := cause
	remark.Severity = lint.SeverityInfo
	if _, found := c.score(&plantedReading{findings: []lint.Finding{remark}}); found != 0 {
		t.Errorf("a remark scores %v", found)
	}
}
