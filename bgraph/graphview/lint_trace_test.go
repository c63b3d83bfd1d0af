package graphview

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
)

// Each check of traces has one graph in which it finds something, and a healthy one.
func TestLintTraces(t *testing.T) {
	traced := func(change func(s *bgraph.Snapshot)) *bgraph.Snapshot {
		var cpu, life, pause bgraph.Times
		for range 1000 {
			cpu.Add(50_000)
			life.Add(20_000)
		}
		pause.Add(bgraph.Nanos(time.Millisecond))
		s := &bgraph.Snapshot{
			Kind: bgraph.KindGoroutines, Span: bgraph.Nanos(time.Second), Sampling: 1, Loops: []bgraph.LoopStat{{Index: 0}, {Index: 1}},
			Nodes:   []bgraph.Node{{Key: 100, Reason: "read", Label: "request", Arrivals: 1000, Departures: 1000}},
			Edges:   []bgraph.Edge{{From: 100, To: 100, Count: 1000, CPU: cpu, Parts: bgraph.Parts{Calls: 2000, System: 5e6, Assist: 1e6}}},
			Starts:  []bgraph.Start{{Function: "main.work", Created: 1000, Ended: 1000, Life: life}},
			Stopped: pause,
		}
		change(s)
		return s
	}
	for check, change := range map[string]func(s *bgraph.Snapshot){
		"":               func(*bgraph.Snapshot) {},
		CheckSystemCalls: func(s *bgraph.Snapshot) { s.Edges[0].Parts.Calls, s.Edges[0].Parts.System = 40_000, 200e6 },
		CheckAssist:      func(s *bgraph.Snapshot) { s.Edges[0].Parts.Assist = 10e6 },
		CheckStopped:     func(s *bgraph.Snapshot) { s.Stopped.Add(bgraph.Nanos(20 * time.Millisecond)) },
		CheckChurn:       func(s *bgraph.Snapshot) { s.Starts[0].Created = 20_000 },
	} {
		found := Lint(traced(change))
		switch {
		case check == "" && len(found) > 0:
			t.Errorf("healthy, but %+v", found)
		case check != "" && (len(found) != 1 || found[0].Check != check || found[0].Message == "" || found[0].Advice == ""):
			t.Errorf("%s: found %+v", check, found)
		}
	}
}

// Findings of a trace speak of goroutines, and give no advice that only tasks can follow.
func TestLintWordsOfTraces(t *testing.T) {
	sc := sick()
	sc.Kind = bgraph.KindGoroutines
	for _, f := range Lint(sc.Snapshot) {
		for _, word := range []string{"task.Yield", "task.Offload", "{", "}", " tasks ", " loops "} {
			if f.Check != CheckLeak && f.Check != CheckUnbalanced && f.Check != CheckOverflow && hasWord(f.Message+f.Advice, word) {
				t.Errorf("%s says %q: %s %s", f.Check, word, f.Message, f.Advice)
			}
		}
	}
}

func hasWord(text, word string) bool {
	for i := 0; i+len(word) <= len(text); i++ {
		if text[i:i+len(word)] == word {
			return true
		}
	}
	return false
}
