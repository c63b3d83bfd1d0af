package lint

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// growingIn lets 200 goroutines begin with the outermost of the functions and stay in a wait, and returns what is found of that. Before,
// waits there ended departures times, by a function of that name.
func growingIn(reason string, departures int, by string, functions ...string) []Finding {
	found := Find(graphcases.Traced(func(s *bgraph.Snapshot) {
		n := waited(reason, departures, 10*time.Microsecond, functions...)
		n.Key, n.Now, n.Arrivals = 101, 200, n.Departures+200
		n.Wakers = []bgraph.Waker{{Function: by, File: "main.go", Line: 5, Count: n.Departures}}
		s.Nodes = append(s.Nodes, n)
		s.Starts = append(s.Starts, bgraph.Start{Function: functions[len(functions)-1], File: "main.go", Line: 3, Created: 200, Now: 200})
	}))
	return slices.DeleteFunc(found, func(f Finding) bool { return f.Check != CheckGrowing })
}

// TestLeaksOfTheStandardLibrary: goroutines that a package starts for what the program must end are a leak. Those of dials and
// connections are not, nor those whose function is not known.
func TestLeaksOfTheStandardLibrary(t *testing.T) {
	for function, leaks := range map[string]bool{
		"database/sql.(*Tx).awaitDone":               true,
		"context.(*cancelCtx).propagateCancel.func2": true,
		"os/exec.(*Cmd).watchCtx":                    true,
		"net.(*netFD).connect.func2":                 false,
		"net/http.(*persistConn).writeLoop":          false,
		"others":                                     false,
		"":                                           false,
	} {
		found := growingIn("select", 0, "", function)
		testenv.Equal(t, len(found) == 1, leaks, "%s: found %+v: a leak", function, found)
		if leaks && len(found) == 1 && (found[0].Severity != SeverityWarning || !strings.Contains(found[0].Message, "created at "+funcname.Short(function)) || found[0].Advice != libraryAdvice) {
			t.Errorf("%s: %+v", function, found[0])
		}
	}
}

// TestWorkersThatHaveJustBegun: goroutines that stay, to which others hand work again and again, are a remark, not a leak.
func TestWorkersThatHaveJustBegun(t *testing.T) {
	const why = "where nothing is sent"
	for _, c := range []struct {
		name       string
		departures int
		by         string
		severity   string
		why        bool
	}{
		{"workers", 50_000, "main.submit", SeverityInfo, false},
		{"left with nothing to do", 0, "", SeverityWarning, true},
		{"left after two pieces of work", 400, "main.submit", SeverityWarning, false},
		{"woken by timers", 50_000, "", SeverityWarning, false},
	} {
		found := growingIn("channel receive", c.departures, c.by, "main.work")
		if len(found) != 1 || found[0].Severity != c.severity || strings.Contains(found[0].Message, why) != c.why || strings.Contains(found[0].Message, "leak") != (c.severity == SeverityWarning) {
			t.Errorf("%s: %+v", c.name, found)
		}
	}
}
