package web

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capriccio-go/capriccio/cmd/bgdump/web/internal/sample"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A counted source lets a second pass with each question.
type counted struct {
	*sample.Program
	asked atomic.Int64
}

func (c *counted) Snapshot(ctx context.Context) (*bgraph.Snapshot, error) {
	c.asked.Add(1)
	c.Advance(time.Second)
	return c.Program.Snapshot(ctx)
}

func TestTheSourceIsAskedOftenWhileSomebodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &counted{Program: sample.Shop()}
		p := New(src, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { p.Run(ctx); close(ended) }()

		<-time.After(61 * time.Second)
		if n := src.asked.Load(); n != 7 { // at once, and every 10 s
			t.Errorf("asked %d times in 61 s while nobody looked; want 7", n)
		}
		before := src.asked.Load()
		for range 20 {
			p.look()
			<-time.After(500 * time.Millisecond)
		}
		if n := src.asked.Load() - before; n < 10 || n > 11 {
			t.Errorf("asked %d times in 10 s while somebody looked; want 10", n)
		}
		<-time.After(lookFor)
		before = src.asked.Load()
		<-time.After(time.Minute)
		if n := src.asked.Load() - before; n > 7 {
			t.Errorf("asked %d times in a minute after the last look; want 6", n)
		}
		cancel()
		<-ended
	})
}

// A scripted source answers as it is told to.
type scripted struct {
	snapshot func(ctx context.Context) (*bgraph.Snapshot, error)
}

func (s *scripted) Snapshot(ctx context.Context) (*bgraph.Snapshot, error) { return s.snapshot(ctx) }
func (s *scripted) Name() string                                           { return "scripted" }

func TestASourceGoesAwayAndComesBack(t *testing.T) {
	prog := sample.Shop()
	p := New(prog, Options{})
	testenv.Equal(t, p.sourceState(time.Now()).State, "new", "state before the first answer")
	prog.Advance(time.Second)
	p.ask(t.Context())
	if got := p.sourceState(time.Now()); got.State != "ok" || got.Error != "" {
		t.Errorf("state %q, error %q; want ok and none", got.State, got.Error)
	}
	prog.Fail("connection refused")
	p.ask(t.Context())
	gone := p.sourceState(time.Now())
	if gone.State != "gone" || gone.Error != "connection refused" {
		t.Errorf("state %q, error %q; want gone and why", gone.State, gone.Error)
	}
	p.ask(t.Context())
	if again := p.sourceState(time.Now()); again.Since != gone.Since {
		t.Error("it is gone since the last question; want since the first that had no answer")
	}
	if moments, _ := p.history.all(); len(moments) != 1 {
		t.Errorf("%d moments; want what was there before", len(moments))
	}
	prog.Fail("")
	prog.Advance(time.Second)
	p.ask(t.Context())
	if got := p.sourceState(time.Now()); got.State != "ok" || got.Error != "" {
		t.Errorf("state %q, error %q after it came back; want ok and none", got.State, got.Error)
	}
}

// A tracedSource gives a new trace with each question.
type tracedSource struct{ counted }

func (c *tracedSource) Snapshot(ctx context.Context) (*bgraph.Snapshot, error) {
	s, err := c.counted.Snapshot(ctx)
	if err == nil {
		s.Kind = bgraph.KindGoroutines
	}
	return s, err
}

// A trace costs the program throughput: none is taken while nobody looks, not even the first.
func TestNoTraceWhileNobodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &tracedSource{counted{Program: sample.Shop()}}
		p := New(src, Options{Lazy: true})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { p.Run(ctx); close(ended) }()
		<-time.After(10 * time.Minute)
		testenv.Equal(t, src.asked.Load(), 0, "asked N times before anybody looked")
		p.look()
		<-time.After(time.Second / 2)
		testenv.Equal(t, src.asked.Load(), 1, "asked N times at the first look")
		<-time.After(lookFor)
		before := src.asked.Load()
		<-time.After(10 * time.Minute)
		testenv.AtMost(t, src.asked.Load()-before, 0, "asked N times after the last look")
		cancel()
		<-ended
	})
}

func TestASourceThatDoesNotChangeIsStill(t *testing.T) {
	p := New(sample.Shop(), Options{})
	for i := range stillAfter + 1 {
		if p.sourceState(time.Now()).Still {
			t.Fatalf("still after %d answers", i)
		}
		p.ask(t.Context())
	}
	if !p.sourceState(time.Now()).Still {
		t.Errorf("not still after %d equal answers", stillAfter+1)
	}
}

func TestASourceThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(&scripted{func(ctx context.Context) (*bgraph.Snapshot, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, Options{Timeout: 4 * time.Second})
		done := make(chan struct{})
		go func() { p.ask(t.Context()); close(done) }()
		<-time.After(3 * time.Second)
		testenv.Equal(t, p.sourceState(time.Now()).Asking, bgraph.Nanos(3*time.Second), "asking for")
		<-done
		if got := p.sourceState(time.Now()); got.State != "gone" || got.Asking != 0 {
			t.Errorf("state %q, asking %v; want gone and no question", got.State, got.Asking)
		}
	})
}

func TestASourceWithoutSnapshotAndErrorIsGone(t *testing.T) {
	p := New(&scripted{func(context.Context) (*bgraph.Snapshot, error) { return nil, nil }}, Options{})
	p.ask(t.Context())
	if got := p.sourceState(time.Now()); got.State != "gone" || got.Error == "" {
		t.Errorf("state %q, error %q; want gone and a reason", got.State, got.Error)
	}
}

func TestServeLeavesNothingBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	ln := testenv.Listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, ln, &counted{Program: sample.Shop()}, Options{}) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, body := testenv.Get(t, client, "http://"+ln.Addr().String()+"/api/state")
	if answer.StatusCode != 200 || !strings.Contains(body, `"sample shop"`) {
		t.Errorf("status %d, body %.100s; want the state of the sample", answer.StatusCode, body)
	}
	// A connection that is never used must not hold up the end.
	testenv.Dial(t, ln.Addr().String())
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Serve returned %v; want nil after its context is done", err)
	}
	testenv.Fails(t, testenv.Err(net.Dial("tcp", ln.Addr().String())), "the listener is still open")
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		if runtime.NumGoroutine() <= before {
			return
		}
		runtime.Gosched()
	}
	stacks := make([]byte, 1<<16)
	t.Errorf("%d goroutines; before there were %d\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
}

func TestServeSaysThatItsListenerFails(t *testing.T) {
	ln := testenv.Listen(t)
	ln.Close()
	testenv.ErrorIs(t, Serve(t.Context(), ln, sample.Shop(), Options{}), net.ErrClosed, "error")
}
