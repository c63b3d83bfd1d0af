package report

import (
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestAims(t *testing.T) {
	r := example(t)
	r.Env.Names = map[int]string{16: "sixteen"}
	aims := []Aim{
		{Metric: "yield", System: "capriccio", X: 2, Limit: 52},                                                          // just reached: less is better
		{Metric: "yield", System: "capriccio", X: 2, Over: "goroutine", OverX: 2, Limit: 0.5},                            // 52 ÷ 89
		{Metric: "rate", System: "capriccio", Row: "sixteen", Over: "goroutine", Limit: 2},                               // more is better
		{Metric: "yield", System: "capriccio", X: 2, Over: "capriccio", OverX: 1000, Limit: 0.5},                         // other parameter
		{Metric: "rate", System: "capriccio", Row: "seventeen", Limit: 1},                                                // no such row
		{Metric: "yield", System: "pthread", X: 1000, Limit: 1}, {Metric: "rate", System: "capriccio", X: 16, Over: "x"}, // not measured
	}
	table := strings.Split(strings.TrimSpace(r.AimsTable(aims)), "\n")
	for i, want := range []string{
		"| capriccio: yield, x = 2 | ≤ 52 ns | 52 | reached |",
		"| capriccio: yield, x = 2 ÷ goroutine | ≤ 0.500 | 0.584 | **missed** |",
		"| capriccio: rate, x = sixteen ÷ goroutine | ≥ 2 | 2 | reached |",
		"| capriccio: yield, x = 2 ÷ capriccio, x = 1,000 | ≤ 0.500 | 0.904 | **missed** |",
		"| capriccio: rate, x = seventeen | ≥ 1 ops/s | – | not measured |",
		"| pthread: yield, x = 1,000 | ≤ 1 ns | – | not measured |",
	} {
		testenv.Equal(t, table[i+2], want, "line %d", i)
	}
	if text := MissedTable([]*Report{r}, map[string][]Aim{"example": aims, "other": aims}); !strings.HasPrefix(text, "Of 4 aims that were measured 2 are reached. These are not:\n") || strings.Count(text, "| example |") != 2 {
		t.Errorf("got:\n%s", text)
	}

	other := *r
	other.Env.CPU = "another"
	if text := MissedTable([]*Report{&other, r, r}, map[string][]Aim{"example": aims}); !strings.Contains(text, "no processor is named it was an "+r.Env.CPU+".\n") || strings.Count(text, "| example |") != 4 || strings.Count(text, "| example, another |") != 2 {
		t.Errorf("of two processors:\n%s", text)
	}
}
