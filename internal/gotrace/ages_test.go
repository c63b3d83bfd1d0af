package gotrace

import (
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestNameUnknown: a goroutine that computes and whose function the trace does not tell gets the name of the only one in the list of
// which the trace knows nothing; if there are two such functions, it could be either.
func TestNameUnknown(t *testing.T) {
	const spin = "goroutine 7 [running]:\nmain.spin()\n\t/src/main.go:12 +0x1d\ncreated by main.main in goroutine 1\n\t/src/main.go:5 +0x2\n\n"
	const other = "goroutine 8 [runnable]:\nmain.hash()\n\t/src/main.go:30 +0x1d\n\n"
	const known = "goroutine 9 [running]:\nmain.serve()\n\t/src/main.go:40 +0x1d\n\n"
	for _, c := range []struct {
		name, list, want string
	}{
		{"one", spin + known, "main.spin"},
		{"two", spin + other, ""},
		{"none", known, ""},
	} {
		s := &bgraph.Snapshot{
			Starts: []bgraph.Start{{Now: 1}, {Function: "main.serve", File: "/src/main.go", Now: 1}},
			Nodes:  []bgraph.Node{{Key: 20, Reason: runningReason, Stack: []bgraph.Frame{{}}}},
		}
		testenv.Must(t, AddAges(s, strings.NewReader(c.list)))
		if start, node := s.Starts[0].Function, s.Nodes[0].Stack[0].Function; start != c.want || node != c.want {
			t.Errorf("%s: the goroutine began in %q and runs in %q, want %q", c.name, start, node, c.want)
		}
	}
}
