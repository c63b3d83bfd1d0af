package knot_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/internal/nethttp"
)

// TestHandlersWhereLoopsAreHeld: where no loop is taken from a task that waits natively, handlers of net/http that wait for
// each other are all served, however many, and the log says once why they run on goroutines.
func TestHandlersWhereLoopsAreHeld(t *testing.T) {
	for _, test := range []struct {
		why     string
		option  capriccio.Option
		clients int
	}{
		{"WithDetaching", capriccio.WithDetaching(-1, 0), 2000},
		{"WithHoldLimit", capriccio.WithHoldLimit(-1), 20},
		{"WithThreadLock", capriccio.WithThreadLock(), 20},
	} {
		t.Run(test.why, func(t *testing.T) {
			nethttp.SaidWhyHeld.Store(false)
			var inside atomic.Int32
			release, up, ended := make(chan bool), make(chan string, 1), make(chan error, 1)
			log := new(testenv.Buffer)
			server := testenv.Need(knot.FromHTTP(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				inside.Add(1)
				select {
				case <-release:
				case <-r.Context().Done():
				}
				io.WriteString(w, "ok")
			})}))(t)
			server.Addr, server.ErrorLog = "127.0.0.1:0", slog.New(slog.NewTextHandler(log, nil))
			server.Listening = func(a net.Addr) { up <- a.String() }
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				ended <- capriccio.Run(ctx, server.Run, capriccio.WithLoops(2), capriccio.WithoutSignals(), test.option)
			}()
			addr := <-up
			clients := make([]net.Conn, test.clients)
			for i := range clients {
				clients[i] = testenv.Dial(t, addr)
				fmt.Fprint(clients[i], "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
			}
			testenv.Until(t, "all handlers run at once", func() bool { return inside.Load() == int32(test.clients) })
			close(release)
			for _, c := range clients {
				resp := testenv.Need(http.ReadResponse(bufio.NewReader(c), nil))(t)
				testenv.Equal(t, resp.StatusCode, 200, "status")
				c.Close()
			}
			cancel()
			testenv.Check(t, <-ended)
			why := test.why
			if testenv.Race {
				why = "the race detector"
			}
			if text := log.String(); strings.Count(text, "level=INFO") != 1 || !strings.Contains(text, why) {
				t.Errorf("the log says %s; want one line with %q", text, why)
			}
		})
	}
}
