package engine

import (
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestUserFrame(t *testing.T) {
	var stack string
	slices.SortFunc([]int{2, 1}, func(int, int) int { stack = string(debug.Stack()); return 0 })
	if got := userFrame(stack); !strings.HasPrefix(got, "github.com/capriccio-go/capriccio/internal/engine.TestUserFrame.func1 ") || !strings.Contains(got, "userframe_test.go:") {
		t.Errorf("the frame is %q, of\n%s", got, stack)
	}
	const own = "goroutine 7 [chan receive, 2 minutes]:\n" +
		"github.com/capriccio-go/capriccio/netpoll.(*Conn).Read(0x1)\n\t/m/netpoll/conn.go:1 +0x1\n"
	for what, want := range map[string]string{
		own: "",
		own + "example.com/x/server.(*T).serve(...)\n\t/src/x/server.go:7\n":                          "example.com/x/server.(*T).serve /src/x/server.go:7",
		own + "github.com/capriccio-go/capriccio/knot.(*conn).serve(0x1)\n\t/m/knot/conn.go:3 +0x1\n": "github.com/capriccio-go/capriccio/knot.(*conn).serve /m/knot/conn.go:3",
		"":                         "",
		"goroutine 1 [running]:\n": "",
	} {
		testenv.Equal(t, userFrame(what), want, "%q", what)
	}
	if root := libraryRoot(); root != "" && !strings.HasSuffix(root, "/src/") {
		t.Errorf("the standard library is in %q", root)
	}
	library := "goroutine 7 [sleep]:\ntime.Sleep(0x1)\n\t" + libraryRoot() + "time/sleep.go:1 +0x1\nmain.main()\n\t/src/x.go:7\n"
	testenv.Equal(t, userFrame(library), "main.main /src/x.go:7")
	testenv.Equal(t, goroutineState(own), "chan receive", "the state")
}

// The report of a step that goes on tells where in the program the task is, and what it does there.
func TestWatchdogShowsTheProgram(t *testing.T) {
	log := make(testenv.Records, 100)
	rt, _ := newSimRuntime(t, 1, true, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(log, nil)); c.HoldLimit = time.Millisecond })
	blocked := make(chan bool)
	k := rt.Go(func() { <-blocked })
	for line := range log {
		if strings.Contains(line, "still does") {
			if !strings.Contains(line, "TestWatchdogShowsTheProgram.func2") || !strings.Contains(line, `doing="chan receive"`) {
				t.Errorf("the report is %s", line)
			}
			break
		}
	}
	close(blocked)
	k.Join()
}
