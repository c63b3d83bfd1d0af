package sample

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestProgramsGiveValidSnapshotsThatCanBeSubtracted(t *testing.T) {
	for _, p := range []*Program{Shop(), Wide(300), Hostile()} {
		var before *bgraph.Snapshot
		for i := range 20 {
			p.Advance(time.Second)
			s := testenv.Need(p.Snapshot(t.Context()))(t)
			if err := s.Validate(); err != nil {
				t.Fatalf("%s after %d s: %v", p.Name(), i+1, err)
			}
			if before != nil {
				d, err := bgraph.Diff(before, s)
				if err != nil {
					t.Fatalf("%s after %d s: %v", p.Name(), i+1, err)
				}
				testenv.Equal(t, d.Span, bgraph.Nanos(time.Second), "span")
			}
			before = s
		}
	}
}

func TestFailAndRestart(t *testing.T) {
	p := Shop()
	p.Fail("gone")
	if _, err := p.Snapshot(t.Context()); err == nil || err.Error() != "gone" {
		t.Errorf("error %v; want gone", err)
	}
	p.Fail("")
	a := testenv.Need(p.Snapshot(t.Context()))(t)
	p.Advance(time.Second)
	p.Restart()
	b := testenv.Need(p.Snapshot(t.Context()))(t)
	if a.Program.PID == b.Program.PID || a.Program.Started.Equal(b.Program.Started) {
		t.Error("a program started anew is the same run")
	}
}
