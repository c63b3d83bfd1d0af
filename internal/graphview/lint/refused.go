package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// refusedShare is the share of the tasks that come to entrances from which on refusals are a
// warning. Fewer are what a short spike leaves.
const refusedShare = 0.01

// refused finds that work was turned away, and reports why.
func (l *linter) refused() {
	s := l.s.Sched
	if s == nil || s.Refused == 0 {
		return
	}
	share := float64(s.Refused) / (float64(s.Refused) + float64(s.Admitted))
	f := Finding{
		Severity: SeverityInfo, Check: CheckRefused,
		Message: fmt.Sprintf("%s of %s tasks were refused (%s)", words.Count(s.Refused), words.Count(s.Refused+s.Admitted), words.Percent(share)),
		Advice:  "find what is short: the states of the resources, the busy share of the loops, and the place where most tasks wait",
	}
	if share >= refusedShare {
		f.Severity = SeverityWarning
	}
	causes := slices.SortedFunc(slices.Values(s.Refusals), func(a, b bgraph.SchedRefusal) int { return int(min(max(int64(b.Count)-int64(a.Count), -1), 1)) })
	var why []string
	for _, r := range causes {
		if r.Count > 0 {
			why = append(why, fmt.Sprintf("%s for %s", r.Why, words.Count(r.Count)))
		}
	}
	if len(why) > 0 {
		f.Message += ": " + strings.Join(why, "; ")
	}
	l.add(share, f)
}
