package gotrace

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/exp/trace"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/internal/words"
)

// The stack of a connection of net/http, innermost function first: below serve, below a handler, and at the end of a response.
func idleStack() trace.Stack {
	return stackOf("internal/poll.(*FD).Read", "net/http.(*connReader).Read", "bufio.(*Reader).Peek", serveFunction)
}

func handlerStack(functions ...string) trace.Stack {
	return stackOf(append(functions, "net/http.HandlerFunc.ServeHTTP", "net/http.(*ServeMux).ServeHTTP", "net/http.serverHandler.ServeHTTP", serveFunction)...)
}

func replyStack() trace.Stack {
	return stackOf("syscall.write", "internal/poll.(*FD).Write", replyFunction, serveFunction)
}

// repliedStack is where a connection waits after a response.
func repliedStack() trace.Stack {
	return stackOf("sync.runtime_notifyListWait", "sync.(*Cond).Wait", "net/http.(*connReader).abortPendingRead", replyFunction, serveFunction)
}

// A requestStream is a stream with goroutine 1, that serves a connection, and 2, a worker.
type requestStream struct {
	*stream
	now time.Duration
}

func newRequestStream(t *testing.T) *requestStream {
	s := &requestStream{newStream(t), 10}
	s.change(s.now, none, 1, trace.GoUndetermined, trace.GoRunning, "", stackOf(serveFunction))
	s.change(s.now, none, 2, trace.GoUndetermined, trace.GoRunning, "", stackOf("main.work"))
	s.block(1, "network", idleStack())
	return s
}

// block lets g run for 1 ns and then wait.
func (s *requestStream) block(g trace.GoID, reason string, at trace.Stack) {
	s.now++
	s.change(s.now, g, g, trace.GoRunning, trace.GoWaiting, reason, at)
}

// wake ends a wait of g after some time; 1 ns later it runs.
func (s *requestStream) wake(after time.Duration, by, g trace.GoID, from trace.Stack) {
	s.now += after
	s.change(s.now, by, g, trace.GoWaiting, trace.GoRunnable, "", from)
	s.now++
	s.change(s.now, none, g, trace.GoRunnable, trace.GoRunning, "", trace.NoStack)
}

// reply sends the response of the request of goroutine 1, and lets the connection wait for the next one.
func (s *requestStream) reply() {
	s.now++
	s.change(s.now, 1, 1, trace.GoRunning, trace.GoSyscall, "", replyStack())
	s.change(s.now, 1, 1, trace.GoSyscall, trace.GoRunning, "", trace.NoStack)
	s.block(1, "network", idleStack())
}

// TestExactRequest: a request that waits for a lock, whose holder sleeps meanwhile, and that calls a function three times, is known to
// the nanosecond: what it was at, in which order, what ended its waits, and what the goroutine did that ended them.
func TestExactRequest(t *testing.T) {
	lock := handlerStack("sync.(*Mutex).Lock", "main.getUser")
	query := handlerStack("time.Sleep", "main.load", "main.getUser")
	sleep := stackOf("time.Sleep", "main.work")
	s := newRequestStream(t)
	s.wake(5, none, 1, trace.NoStack) // the request comes
	begun := s.now - 1
	s.block(1, "sync", lock)
	s.block(2, "sleep", sleep)
	s.wake(100, none, 2, trace.NoStack)
	s.wake(3, 2, 1, stackOf("sync.(*Mutex).Unlock", "main.work"))
	for range 3 {
		s.block(1, "sleep", query)
		s.wake(20, none, 1, trace.NoStack)
	}
	s.reply()
	took := bgraph.Nanos(s.now - 1 - begun)
	got := s.m.snapshot()
	testenv.Must(t, got.Validate())
	if len(got.Slowest) != 1 {
		t.Fatalf("%+v", got.Slowest)
	}
	r := got.Slowest[0]
	if r.Kind != "request" || r.Name != "main.getUser" || r.Times.Sum != took || r.Begun != bgraph.Nanos(begun) || r.Open {
		t.Errorf("%+v; want one of main.getUser that took %d from %d on", r, took, begun)
	}
	read, mutex, slept, load := at(t, got, "read", "http.(*connReader).Read"), at(t, got, "mutex", "main.getUser"), at(t, got, "sleep", "main.work"), at(t, got, "sleep", "main.load")
	unlocked := bgraph.Frame{Function: "main.work", File: "main.work.go", Line: 7}
	var sum bgraph.Nanos
	for i, want := range []bgraph.PathPart{
		{Node: read.Key, Ready: 1, Step: 1},
		{Node: mutex.Key, Count: 1, From: 2, Ready: 1, Step: 1, By: unlocked},
		{Node: bgraph.KeyStart, Depth: 1, From: 2, Step: 1},
		{Node: slept.Key, Depth: 1, Count: 1, From: 3, Wait: 100, Ready: 1, Step: 3},
		{Node: load.Key, Count: 3, From: 109, Wait: 60, Ready: 3, Step: 3},
	} {
		if i >= len(r.Path) || r.Path[i] != want {
			t.Fatalf("visit %d: got %+v\nwant %+v", i, r.Path, want)
		}
		sum += want.Total()
	}
	if sum != took {
		t.Errorf("the visits take %d of %d", sum, took)
	}

	for i, want := range []bgraph.PathPart{
		{Node: read.Key, Ready: 1, Step: 1},
		{Node: mutex.Key, Count: 1, From: 2, Wait: 105, Ready: 1, Step: 1, By: unlocked},
		{Node: bgraph.KeyStart, Depth: 1, From: 2, Step: 1},
		{Node: slept.Key, Depth: 1, Count: 1, From: 3, Wait: 100, Ready: 1, Step: 3},
		{Node: load.Key, Count: 1, From: 109, Wait: 20, Ready: 1, Step: 1},
		{Node: load.Key, Count: 1, From: 131, Wait: 20, Ready: 1, Step: 1},
		{Node: load.Key, Count: 1, From: 153, Wait: 20, Ready: 1, Step: 1},
	} {
		if i >= len(r.Timeline) || r.Timeline[i] != want {
			t.Fatalf("visit %d of the timeline: got %+v\nwant %+v", i, r.Timeline, want)
		}
	}

	if len(got.Spans) != 1 || got.Spans[0].Kind != "request" || got.Spans[0].Name != "main.getUser" || got.Spans[0].Times.Sum != took {
		t.Fatalf("%+v", got.Spans)
	}
	for i, want := range []bgraph.PathPart{
		{Node: mutex.Key, Wait: 105, Ready: 1, Step: 1, Count: 1},
		{Node: slept.Key, Wait: 100, Ready: 1, Step: 3, Count: 1, Depth: 1},
		{Node: load.Key, Wait: 60, Ready: 3, Step: 3, Count: 3},
	} {
		if path := got.Spans[0].Path; path[i] != want {
			t.Errorf("part %d of the path: got %+v\nwant %+v", i, path, want)
		}
	}
}

// TestWakerOfAWaitGroup: a wait for a sync.WaitGroup is ended by the function of the program whose goroutine called Done last: that
// which called it, or, if package sync did so for it, that which was given to the method Go.
func TestWakerOfAWaitGroup(t *testing.T) {
	for _, c := range []struct {
		name  string
		works trace.Stack // where the last goroutine waits before
		done  trace.Stack // how it ends the wait
		want  string
	}{
		{"Done", stackOf("time.Sleep", "main.load", "main.gather.func1"), stackOf("sync.(*WaitGroup).Add", "sync.(*WaitGroup).Done", "main.gather.func1"), "main.gather.func1"},
		{"a deferred Done", stackOf("time.Sleep", "main.load", "main.work"), stackOf("sync.(*WaitGroup).Add", "sync.(*WaitGroup).Done", "main.finish", "main.work"), "main.finish"},
		{"Go", stackOf("time.Sleep", "main.load", "main.gather.func1", "sync.(*WaitGroup).Go.func1"), stackOf("sync.(*WaitGroup).Add", "sync.(*WaitGroup).Done", "sync.(*WaitGroup).Go.func1"), "main.gather.func1"},
	} {
		s := newRequestStream(t)
		s.wake(1, none, 1, trace.NoStack)
		s.block(2, "sleep", c.works)
		s.block(1, "sync", handlerStack("sync.(*WaitGroup).Wait", "main.gather"))
		s.wake(50, none, 2, trace.NoStack)
		s.wake(1, 2, 1, c.done)
		s.reply()
		got := s.m.snapshot()
		wait := at(t, got, "waitgroup", "main.gather")
		if len(wait.Wakers) != 1 || wait.Wakers[0].Function != c.want {
			t.Errorf("%s: ended by %+v; want %s", c.name, wait.Wakers, c.want)
		}
	}
}

// TestResponsesPastTheBuffer: a response that the handler has sent itself counts, as one that net/http sends after the handler does, and
// neither counts twice.
func TestResponsesPastTheBuffer(t *testing.T) {
	s := newRequestStream(t)
	replied := func() {
		s.block(1, "sync", repliedStack())
		s.wake(1, none, 1, trace.NoStack)
	}
	handle := func() {
		s.block(1, "sleep", handlerStack("time.Sleep", "main.getUser"))
		s.wake(10, none, 1, trace.NoStack)
	}
	begin := func() {
		s.now++
		s.change(s.now, 1, 3, trace.GoNotExist, trace.GoRunnable, "", stackOf("net/http.(*connReader).startBackgroundRead", serveFunction))
		s.change(s.now, 3, 3, trace.GoRunning, trace.GoNotExist, "", trace.NoStack)
	}
	s.wake(1, none, 1, trace.NoStack)
	begin()
	handle()
	replied()
	begin() // of a request that was there already, as are the next three
	begin()
	replied()
	begin()
	handle()
	begin()
	handle()
	s.block(1, "network", idleStack())
	s.wake(1, none, 1, trace.NoStack)
	replied()
	s.block(1, "network", idleStack())
	s.wake(1, none, 1, trace.NoStack)
	handle()
	s.change(s.now, 1, 1, trace.GoRunning, trace.GoSyscall, "", replyStack())
	s.change(s.now, 1, 1, trace.GoSyscall, trace.GoRunning, "", trace.NoStack)
	replied()
	s.block(1, "network", idleStack())
	got := s.m.snapshot()
	testenv.Must(t, got.Validate())
	testenv.Equal(t, words.Requests(got), 7, "requests")
	spans := map[string]uint64{}
	for _, sp := range got.Spans {
		spans[sp.Name] += sp.Times.Count
	}
	testenv.Equal(t, fmt.Sprint(spans), fmt.Sprint(map[string]uint64{"main.getUser": 4, noRoute: 3}), "requests by handler")
}

// TestSlowestRequests: of many requests the slowest are kept, and one that has not ended, or had begun before the trace, counts.
func TestSlowestRequests(t *testing.T) {
	s := newRequestStream(t)
	s.m.o.Slowest = 3
	waits := []time.Duration{50, 900, 10, 700, 30, 800, 20}
	for _, wait := range waits {
		s.wake(1, none, 1, trace.NoStack)
		s.block(1, "sleep", handlerStack("time.Sleep", "main.getUser"))
		s.wake(wait, none, 1, trace.NoStack)
		s.reply()
	}
	s.wake(1, none, 1, trace.NoStack)
	s.block(1, "sleep", handlerStack("time.Sleep", "main.getUser"))
	s.block(2, "sleep", stackOf("time.Sleep", "main.work"))
	s.wake(850, none, 2, trace.NoStack)
	got := s.m.snapshot()
	var took []string
	for _, r := range got.Slowest {
		took = append(took, fmt.Sprint(int64(r.Times.Sum), " ", r.Open))
	}
	if want := []string{"904 false", "854 true", "804 false"}; !slices.Equal(took, want) {
		t.Errorf("got %q\nwant %q", took, want)
	}
	if n := got.Spans[0].Times.Count; n != uint64(len(waits)) {
		t.Errorf("%d have ended; want %d", n, len(waits))
	}
}

// TestRequestsBeforeTheTrace: a request that a handler serves when the trace begins is as long as the trace tells, and not counted.
func TestRequestsBeforeTheTrace(t *testing.T) {
	s := &requestStream{newStream(t), 10}
	s.change(s.now, none, 1, trace.GoUndetermined, trace.GoWaiting, "sleep", handlerStack("time.Sleep", "main.getUser"))
	s.wake(500, none, 1, trace.NoStack)
	s.reply()
	got := s.m.snapshot()
	if len(got.Slowest) != 1 || got.Slowest[0].Begun != 0 || got.Slowest[0].Times.Sum < 500 || len(got.Spans) != 0 {
		t.Errorf("%+v, %+v", got.Slowest, got.Spans)
	}
}

// TestRequestWithManyPlaces: of more places than there is room for, those where most time went are kept.
func TestRequestWithManyPlaces(t *testing.T) {
	const places = 100
	s := newRequestStream(t)
	s.wake(1, none, 1, trace.NoStack)
	for i := range places {
		s.block(1, "sleep", handlerStack("time.Sleep", fmt.Sprintf("main.load%d", i), "main.getUser"))
		s.wake(time.Duration(i+10), none, 1, trace.NoStack)
	}
	s.reply()
	got := s.m.snapshot()
	testenv.Must(t, got.Validate())
	path := got.Slowest[0].Path
	if len(path) != graphlimits.Path {
		t.Fatalf("%d places", len(path))
	}
	rest := path[graphlimits.Path-1]
	if rest.Node != bgraph.KeyOverflow || rest.Count != places+1-(graphlimits.Path-1) {
		t.Errorf("the rest is %+v", rest)
	}
	for _, p := range path[:graphlimits.Path-1] {
		if p.Wait <= places-graphlimits.Path+10 {
			t.Errorf("one of %d was kept", p.Wait)
		}
	}
}

// TestTimelineWithManyVisits: of more visits than a timeline has room for the longest are kept, and the times of all of them.
func TestTimelineWithManyVisits(t *testing.T) {
	const calls = 3 * graphlimits.Timeline
	s := newRequestStream(t)
	s.wake(1, none, 1, trace.NoStack)
	for i := range calls {
		s.block(1, "sleep", handlerStack("time.Sleep", "main.load", "main.getUser"))
		s.wake(time.Duration(10+i), none, 1, trace.NoStack)
	}
	s.reply()
	got := s.m.snapshot()
	testenv.Must(t, got.Validate())
	r := got.Slowest[0]
	testenv.MustEqual(t, len(r.Timeline), graphlimits.Timeline, "visits")
	sum, end := bgraph.Nanos(0), bgraph.Nanos(0)
	for _, v := range r.Timeline[:graphlimits.Timeline-1] {
		sum += v.Total()
		if v.From < end || v.Wait < calls+10-graphlimits.Timeline {
			t.Errorf("a visit from %d on that waits for %d", v.From, v.Wait)
		}
		end = v.From + v.Total()
	}
	rest := r.Timeline[graphlimits.Timeline-1]
	if sum += rest.Total(); sum != r.Times.Sum || rest.Node != bgraph.KeyOverflow || rest.Count != calls+1-(graphlimits.Timeline-1) {
		t.Errorf("the rest is %+v; all together take %d of %d", rest, sum, r.Times.Sum)
	}
}

// TestTimelineOfACrowd: a request that waits for more goroutines than a timeline has rows for gives a graph that is valid.
func TestTimelineOfACrowd(t *testing.T) {
	s := newRequestStream(t)
	s.wake(1, none, 1, trace.NoStack)
	lock := handlerStack("sync.(*Mutex).Lock", "main.getUser")
	for i := range graphlimits.Path + 10 {
		worker := trace.GoID(100 + i)
		s.change(s.now, none, worker, trace.GoUndetermined, trace.GoRunning, "", stackOf("main.work"))
		s.block(1, "sync", lock)
		s.block(worker, "sleep", stackOf("time.Sleep", "main.work"))
		s.wake(10, none, worker, trace.NoStack)
		s.wake(3, worker, 1, stackOf("sync.(*Mutex).Unlock", "main.work"))
	}
	s.reply()
	got := s.m.snapshot()
	testenv.Must(t, got.Validate())
	rows := map[int]bool{}
	for _, v := range got.Slowest[0].Timeline {
		rows[v.Depth] = true
	}
	testenv.AtLeast(t, len(rows), graphlimits.Path/2, "goroutines")
}

// TestProfilesAreNoRequests: what net/http/pprof serves takes as long as was asked for.
func TestProfilesAreNoRequests(t *testing.T) {
	s := newRequestStream(t)
	s.wake(1, none, 1, trace.NoStack)
	s.block(1, "sleep", handlerStack("time.Sleep", "net/http/pprof.sleep", "net/http/pprof.Profile"))
	s.wake(1000, none, 1, trace.NoStack)
	s.reply()
	if got := s.m.snapshot(); len(got.Slowest) != 0 || len(got.Spans) != 0 {
		t.Errorf("%+v, %+v", got.Slowest, got.Spans)
	}
}

// TestHandlers: a request is named by the function that handles it, whatever routers and adapters call that.
func TestHandlers(t *testing.T) {
	for _, c := range []struct {
		name  string
		stack []string // innermost first, down to the one that net/http calls
		want  string
	}{
		{"a function", []string{"time.Sleep", "main.load", "main.getUser"}, "main.getUser"},
		{"a method", []string{"time.Sleep", "main.load", "main.(*api).ServeHTTP"}, "main.(*api).ServeHTTP"},
		{"a literal", []string{"time.Sleep", "main.load", "main.main.func1"}, "main.main.func1"},
		{"middleware", []string{"time.Sleep", "main.getUser", "net/http.HandlerFunc.ServeHTTP", "main.logged.func1"}, "main.getUser"},
		{"an adapter for literals", []string{"time.Sleep", "main.routes.func2", "main.withErrors.func1"}, "main.routes.func2"},
		{"an adapter with a method", []string{"time.Sleep", "main.routes.func2", "main.handler.ServeHTTP"}, "main.routes.func2"},
		{"of the standard library", []string{"time.Sleep", "main.transport.RoundTrip", "net/http/httputil.(*ReverseProxy).ServeHTTP"}, "net/http/httputil.(*ReverseProxy).ServeHTTP"},
	} {
		n := bgraph.Node{Stack: framesOf(handlerStack(c.stack...))}
		if got := n.Stack[handlerIndex(n.Stack)].Function; got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	router := []bgraph.Frame{{Function: "main.getUser"}, {Function: "example.org/router.(*Mux).Serve", File: "/mod/example.org/router@v1.2.3/mux.go"}, {Function: "net/http.serverHandler.ServeHTTP"}, {Function: serveFunction}}
	if at := handlerIndex(router); at != 0 {
		t.Errorf("behind a router of a module: %s", router[at].Function)
	}
}

// TestHTTP2OfAllReleases: a request of HTTP/2 is as long as its goroutine, whichever copy of golang.org/x/net/http2 serves it.
func TestHTTP2OfAllReleases(t *testing.T) {
	for _, serves := range []string{"net/http.(*http2serverConn)", "net/http/internal/http2.(*serverConn)", "golang.org/x/net/http2.(*serverConn)"} {
		s := newRequestStream(t)
		s.change(20, 2, 3, trace.GoNotExist, trace.GoRunnable, "", stackOf(serves+".runHandler"))
		s.change(21, none, 3, trace.GoRunnable, trace.GoRunning, "", trace.NoStack)
		s.change(50, 3, 3, trace.GoRunning, trace.GoNotExist, "", trace.NoStack)
		if got := s.m.snapshot().Spans; len(got) != 1 || got[0].Kind != "request" || got[0].Times.Sum != 30 {
			t.Errorf("%s: %+v; want a request of 30 ns", serves, got)
		}
	}
}

// TestHTTP2WithoutTLS: a connection that a handler makes one of HTTP/2 (h2c) is no request. The requests on it are named by the functions
// that handle them, also if they wait last where the response is sent.
func TestHTTP2WithoutTLS(t *testing.T) {
	const http2, handler = "golang.org/x/net/http2", "main.(*app).ServeHTTP"
	request := http2 + ".(*serverConn).runHandler"
	s := newRequestStream(t)
	s.wake(1, none, 1, trace.NoStack)
	s.block(1, "select", stackOf(http2+".(*serverConn).serve", http2+".(*Server).ServeConn", http2+"/h2c.h2cHandler.ServeHTTP", "net/http.serverHandler.ServeHTTP", serveFunction))
	s.now++
	s.change(s.now, 2, 3, trace.GoNotExist, trace.GoRunnable, "", stackOf(request))
	s.change(s.now, none, 3, trace.GoRunnable, trace.GoRunning, "", trace.NoStack)
	s.block(3, "sleep", stackOf("time.Sleep", "main.load", handler, request))
	s.wake(100, none, 3, trace.NoStack)
	s.block(3, "select", stackOf(http2+".(*serverConn).writeDataFromHandler", http2+".(*responseWriterState).writeChunk", http2+".(*responseWriter).handlerDone", request))
	s.wake(10, none, 3, trace.NoStack)
	s.change(s.now, 3, 3, trace.GoRunning, trace.GoNotExist, "", trace.NoStack)
	got := s.m.snapshot()
	testenv.Must(t, got.Validate())
	if len(got.Spans) != 1 || got.Spans[0].Name != handler || got.Spans[0].Times.Count != 1 {
		t.Errorf("got %+v; want a request of %s", got.Spans, handler)
	}
	if len(got.Slowest) != 1 || got.Slowest[0].Name != handler {
		t.Errorf("the slowest are %+v; want only one of %s", got.Slowest, handler)
	}
}
