package words

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestChain(t *testing.T) {
	frame := func(function string, line int) bgraph.Frame {
		return bgraph.Frame{Function: function, File: "/src/" + PackageOf(function) + "/a.go", Line: line}
	}
	call := []bgraph.Frame{frame("net/http.(*persistConn).roundTrip", 1), frame("net/http.(*Client).Do", 2), frame("main.askAds", 20), frame("main.gather", 35), frame("example.org/web.(*server).serve", 9)}
	lock := []bgraph.Frame{frame("sync.(*Mutex).Lock", 1), frame("main.save", 14)}
	task := []bgraph.Frame{frame("github.com/capriccio-go/capriccio/task.Sleep", 1), frame("main.wait", 5), frame("main.serve", 3)}
	for _, c := range []struct {
		name              string
		stack             []bgraph.Frame
		columns           int
		wantChain, wantIn string
	}{
		{"a call of a library", call, 60, "web.(*server).serve ← main.gather ← askAds ← net/http", "web.(*server).serve a.go:9 ← main.gather a.go:35 ← main.askAds a.go:20 ← net/http"},
		{"with less room", call, 40, "main.gather ← askAds ← net/http", ""},
		{"with little room", call, 24, "main.askAds ← net/http", ""},
		{"with none", call, 10, "", ""},
		{"the name says it all", lock, 60, "", ""},
		{"the runtime is no library", task, 60, "main.serve ← wait", "main.serve a.go:3 ← main.wait a.go:5"},
		{"the standard library alone", call[:2], 60, "", ""},
		{"no stack", nil, 60, "", ""},
	} {
		n := &bgraph.Node{Reason: "select", Stack: c.stack}
		testenv.Equal(t, Chain(n, c.columns), c.wantChain, "%s: chain", c.name)
		if c.columns == 60 {
			testenv.Equal(t, Path(n), c.wantIn, "%s: path", c.name)
		}
	}
}
