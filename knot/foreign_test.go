package knot

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// TestServesListenersOfPackageNet in a task, without holding the loop: a client that says nothing is
// there, and requests are answered all the same, until the context ends.
func TestServesListenersOfPackageNet(t *testing.T) {
	wraps := map[string]func(net.Listener) net.Listener{"tcp": func(ln net.Listener) net.Listener { return ln }}
	if !testenv.Race { // no loop is taken from a task then
		wraps["wrapped"] = func(ln net.Listener) net.Listener { return struct{ net.Listener }{ln} }
	}
	for name, wrap := range wraps {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			ln := testenv.Listen(t)
			ctx, stop := context.WithCancel(context.Background())
			for way, serve := range map[string]func() error{
				"Serve":        func() error { return Serve(wrap(ln), http.NotFoundHandler()) },
				"Server.Serve": func() error { return (&Server{ErrorLog: quietLog()}).Serve(wrap(ln)) },
			} {
				ended := make(chan error, 1)
				go func() {
					ended <- capriccio.Run(ctx, func(context.Context) error { return serve() },
						capriccio.WithoutSignals(), capriccio.WithLoops(1), capriccio.WithLogger(quietLog()))
				}()
				silent, asks := dialPeer(t, ln.Addr().String()), dialPeer(t, ln.Addr().String())
				resp, _ := asks.ask(req("GET /"))
				testenv.Equal(t, resp.StatusCode, 404, way)
				asks.nc.Close()
				silent.nc.Close()
				stop()
				testenv.ErrorIs(t, <-ended, context.Canceled, way)
				ctx, stop = context.WithCancel(context.Background())
				ln = testenv.Listen(t)
			}
			stop()
			ln.Close()
		})
	}
}

// TestFlushedHead: Flush sends the answer to HEAD, whenever the handler ends, and the connection stays.
func TestFlushedHead(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		for way, handler := range map[string]func(more *task.Chan[bool]) Handler{
			"task":      func(more *task.Chan[bool]) Handler { return AdaptHTTP(flushing(more)) },
			"goroutine": func(more *task.Chan[bool]) Handler { return adaptBlocking(flushing(more)) },
		} {
			more := task.NewChan[bool](0)
			p := start(&Server{Handler: handler(more)}).dial()
			for range 2 {
				if resp, _ := p.ask(req("HEAD /")); resp.StatusCode != 200 || resp.ContentLength != -1 || resp.Close {
					t.Errorf("%s: %v", way, resp)
				}
				more.Send(true)
			}
			p.nc.Close()
		}
	})
}

func flushing(more *task.Chan[bool]) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "a")
		w.(http.Flusher).Flush()
		more.Recv()
		io.WriteString(w, "b")
		w.(http.Flusher).Flush()
	})
}
