package knot

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// A requestServer hands requests to the server as that of HTTP/3 does.
type requestServer struct {
	net.Listener
	answer     chan http.Handler
	overloaded func() bool
	ended      chan bool
	requests   sync.WaitGroup // those that the end is to wait for
}

func (l *requestServer) ServeRequests(answer http.Handler, overloaded func() bool) error {
	l.overloaded = overloaded
	l.answer <- answer
	<-l.ended
	l.requests.Wait()
	return net.ErrClosed
}

func (l *requestServer) Drain(context.Context) error {
	select {
	case <-l.ended:
	default:
		close(l.ended)
	}
	return nil
}

func (l *requestServer) Close() error { return l.Drain(context.Background()) }

// ask is a request of HTTP/3.
func (l *requestServer) ask(h http.Handler, method, target string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.Proto, r.ProtoMajor, r.ProtoMinor, r.ContentLength = "HTTP/3.0", 3, 0, -1
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestHTTP3Requests: they are tasks that enter as all others do, and are refused where those are.
func TestHTTP3Requests(t *testing.T) {
	l := &requestServer{Listener: testenv.Listen(t), answer: make(chan http.Handler, 1), ended: make(chan bool)}
	var log testenv.Buffer
	d := &doorman{room: 1}
	std := AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto, " ", r.ProtoMajor) }))
	sv := guarded(t, d, &Server{
		AccessLog: NewAccessLog(&log, LogCommon),
		Listeners: func() ([]net.Listener, error) { return []net.Listener{testenv.Listen(t), l}, nil },
		Handler: func(x *Ctx) error {
			if x.Path() == "/std" {
				return std(x)
			}
			return x.Send(200, "", []byte(x.Proto()+" "+x.RemoteAddr().String()))
		},
	})
	h := <-l.answer
	w := l.ask(h, "GET", "/a?b")
	testenv.Equal(t, w.Code, 200)
	testenv.Equal(t, w.Body.String(), "HTTP/3.0 192.0.2.1:1234")
	testenv.Equal(t, l.ask(h, "CONNECT", "h:1").Code, 501)
	testenv.Equal(t, l.ask(h, "GET", "/std").Body.String(), "HTTP/3.0 3")
	d.closed.Store(true)
	w = l.ask(h, "GET", "/refused")
	testenv.Equal(t, w.Code, 503)
	testenv.True(t, w.Header().Get("Retry-After") != "", "says when to come again")
	testenv.True(t, l.overloaded(), "no handshakes while requests are refused")
	d.closed.Store(false)
	testenv.Equal(t, sv.Stats().Responses[5], 2, "counted")
	testenv.Until(t, "it is in the log", func() bool { return log.String() != "" })
	testenv.Contains(t, log.String(), `"GET /a?b HTTP/3.0" 200`)
}

// TestHTTP3ShutdownGivesUp: a request that is still under way at the end of the time is an error, as in other versions.
func TestHTTP3ShutdownGivesUp(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		entered := make(chan bool)
		sv := start(&Server{Handler: func(x *Ctx) error {
			ctx := x.Context()
			close(entered)
			task.Offload(func() { <-ctx.Done() })
			return ctx.Err()
		}})
		l := &requestServer{Listener: testenv.Listen(t), answer: make(chan http.Handler, 1), ended: make(chan bool)}
		ended := make(chan error, 1)
		go func() { ended <- sv.Serve(l) }()
		h := <-l.answer
		l.requests.Go(func() { l.ask(h, "GET", "/") })
		<-entered
		testenv.ErrorIs(t, sv.Shutdown(testenv.Cancelled()), context.Canceled)
		testenv.ErrorIs(t, <-ended, ErrServerClosed)
	})
}
