//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/cmd/bgdump/internal/metrics"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A scriptedReceiver gives what it is sent to a test, and answers with what the test says; errHangs makes it wait for the end of ctx.
type scriptedReceiver struct {
	got     chan []metrics.Family
	answers chan error
	closed  bool
}

var errHangs = errors.New("hangs")

func (r *scriptedReceiver) Send(ctx context.Context, all []metrics.Family, _ time.Time) error {
	r.got <- all
	err := <-r.answers
	if err == errHangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (r *scriptedReceiver) Close() error { r.closed = true; return nil }

// pass sets the clock forward once a goroutine waits for exactly that time.
func (c *fakeClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to := c.now.Add(d)
	for !slices.ContainsFunc(c.timers, func(t fakeTimer) bool { return t.at.Equal(to) }) {
		c.changed.Wait()
	}
	c.set(to)
}

// TestMetricsArePushed: the metrics of the page are sent every interval. A receiver that is away, refuses or hangs is told once, and
// meanwhile they are served.
func TestMetricsArePushed(t *testing.T) {
	clk := newFakeClock()
	began := clk.Now()
	pods := serving(t, podFleet(t, func(i int) *bgraph.Snapshot { return later(podGraph(t, i, began), clk.Now().Sub(began)) }))
	to := &scriptedReceiver{got: make(chan []metrics.Family), answers: make(chan error)}
	sur := &surroundings{clock: clk, openOTLP: func(url string) (receiver, error) {
		testenv.Equal(t, url, "http://collector:4318", "the receiver")
		return to, nil
	}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, w := io.Pipe()
	sur.stdout = w
	ended := make(chan result, 1)
	go func() {
		ended <- commandIn(t, ctx, sur, "-serve", ":0", "-timeout", "7s", "-otlp", "http://collector:4318", pods+"/0/debug/bgraph/")
	}()
	line := testenv.Need(bufio.NewReader(r).ReadString('\n'))(t)
	go io.Copy(io.Discard, r)
	get := getter(t, regexp.MustCompile(`http://127\.0\.0\.1:[1-9][0-9]*`).FindString(line))

	refused := errors.New("503 Service Unavailable")
	for i, answer := range []error{nil, refused, refused, nil, errHangs, errHangs, nil, refused} {
		var page strings.Builder
		testenv.Must(t, metrics.Write(&page, <-to.got))
		testenv.Contains(t, page.String(), "bgraph_place_waiting{source=", "what is sent")
		testenv.Equal(t, get("/metrics", 200), page.String(), "what is served while the receiver has not answered, time %d", i)
		to.answers <- answer
		if answer == errHangs {
			clk.pass(7 * time.Second)
		}
		clk.pass(time.Minute)
	}
	<-to.got
	cancel() // while the receiver hangs
	to.answers <- errHangs
	got := <-ended
	testenv.Equal(t, got.code, exitOK, "%s", got.errOut)
	testenv.True(t, to.closed, "the receiver is not closed")
	var said []string
	for line := range strings.Lines(got.errOut) {
		if strings.Contains(line, "metrics ") {
			said = append(said, strings.TrimSpace(line))
		}
	}
	const cannot, again = "bgdump: metrics can't be sent to http://collector:4318, and are tried again every 1m0s: ", "bgdump: metrics are sent to http://collector:4318 again"
	testenv.Equal(t, strings.Join(said, "\n"), strings.Join([]string{
		cannot + "503 Service Unavailable", again, cannot + "no answer within 7s; -timeout sets how long to wait", again, cannot + "503 Service Unavailable",
	}, "\n"), "lines")
}

// TestPushIsRefused: a command line that makes no sense, and a bgdump without the exporter.
func TestPushIsRefused(t *testing.T) {
	plain := func(string) (receiver, error) { return nil, errors.New("built without") }
	for _, c := range []struct{ args, want string }{
		{"-otlp http://x:1 -http :0", "-otlp has no meaning with -http; it is with -serve"},
		{"-otlp http://x:1", "-otlp has no meaning without one of them; it is with -serve"},
		{"-serve :0 -interval 1m", "-interval with -serve says how often to send metrics, and so needs -otlp"},
		{"-serve :0 -otlp http://x:1", "-otlp http://x:1: built without"},
	} {
		commandIn(t, context.Background(), &surroundings{clock: newFakeClock(), openOTLP: plain}, append(strings.Fields(c.args), "http://127.0.0.1:1")...).fails(t, c.want)
	}
}
