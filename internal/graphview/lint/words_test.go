package lint

import (
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// stackIn is a stack in one file, innermost first.
func stackIn(functions ...string) (stack []bgraph.Frame) {
	for i, f := range functions {
		stack = append(stack, bgraph.Frame{Function: f, File: "/src/shop/main.go", Line: 30 + i})
	}
	return stack
}

// TestLockOwner: a lock is called by the type that has it, where the stack tells.
func TestLockOwner(t *testing.T) {
	for _, c := range []struct {
		want  string
		stack []string
	}{
		{"log.Logger", []string{"internal/sync.(*Mutex).lockSlow", "sync.(*Mutex).Lock", "log.(*Logger).output", "log.(*Logger).Printf", "main.trail"}},
		{"main.sessionCache", []string{"sync.(*Mutex).Lock", "main.(*sessionCache).get", "main.handle"}},
		{"main.rates", []string{"sync.(*RWMutex).RLock", "main.rates.lookup"}},
		{"", []string{"sync.(*Mutex).Lock", "main.lookup"}},
		{"", []string{"sync.(*Mutex).Lock", "main.lookup.func1"}},
	} {
		testenv.Equal(t, lockOwner(&bgraph.Node{Reason: "mutex", Stack: stackIn(c.stack...)}), c.want, "owner of the lock at %v", c.stack)
	}
}

// TestLeakOfASender: goroutines that wait for ever to send are a leak, with the line where they begin, and no crowd before a slow
// receiver.
func TestLeakOfASender(t *testing.T) {
	found := Find(graphcases.Traced(func(s *bgraph.Snapshot) {
		s.Starts = []bgraph.Start{{Function: "main.handle.func1", File: "/src/shop/main.go", Line: 35, Created: 910, Now: 910}}
		s.Nodes = append(s.Nodes, bgraph.Node{Key: 101, Reason: "channel send", Arrivals: 910, Now: 910, Peak: 910, Stack: stackIn("main.handle.func1")})
		s.Span *= 10
	}))
	if len(found) != 1 || found[0].Check != CheckGrowing || found[0].Severity != SeverityWarning || found[0].At != "/src/shop/main.go:35" ||
		!strings.HasPrefix(found[0].Message, "Goroutine leak: 91.0 a second are created at main.handle.func1 (main.go:35) and none ends") || !strings.Contains(found[0].Message, "where the receiver has gone") {
		t.Errorf("%+v", found)
	}
}

// TestLeakBelowWaitGroup: goroutines that the method Go of a sync.WaitGroup begins are called by the function that was given to it.
func TestLeakBelowWaitGroup(t *testing.T) {
	const begin = "sync.(*WaitGroup).Go.func1"
	found := Find(graphcases.Traced(func(s *bgraph.Snapshot) {
		s.Starts = []bgraph.Start{{Function: begin, File: "sync/waitgroup.go", Line: 236, Created: 910, Now: 910}}
		s.Nodes = append(s.Nodes, bgraph.Node{Key: 101, Reason: "select", Arrivals: 910, Now: 910, Peak: 910, Stack: stackIn("main.wait", "main.gather.func1", begin)})
	}))
	if len(found) != 1 || found[0].Name != "goroutines of main.gather.func1" || found[0].At != "/src/shop/main.go:31" {
		t.Errorf("%+v", found)
	}
}
