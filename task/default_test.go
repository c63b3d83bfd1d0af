package task

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A goroutine that goes on after the end, as one of an http.Server may, does not take the process down.
func TestPlainGoroutinesAfterTheLastRuntime(t *testing.T) {
	rt := testenv.Need(engine.New(engine.Config{Loops: 1, NewPoller: enginetest.NewChanPoller}))(t)
	rt.Close()
	never := func() { t.Error("ran") }
	testenv.ErrorIs(t, engine.Go(never).Join(), engine.ErrShutdown, "Join")
	testenv.ErrorIs(t, engine.Start(never), engine.ErrShutdown, "Start")
	if !AfterFunc(0, never).Stop() {
		t.Error("a timer has fired")
	}
	var wg WaitGroup
	wg.Go(never)
	wg.Wait()
	var g Group
	g.Go(func() error { never(); return nil })
	testenv.ErrorIs(t, g.Wait(), engine.ErrShutdown, "Group.Wait")
}
