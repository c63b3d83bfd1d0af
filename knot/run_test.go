package knot

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"errors"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// TestRunStopsWithItsContext runs a server the way programs do; the end of the
// context must not cut off the request under way.
func TestRunStopsWithItsContext(t *testing.T) {
	checkLeaks(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	addr := make(chan string, 1)
	s := &Server{
		Addr:      "127.0.0.1:0",
		Listening: func(a net.Addr) { addr <- a.String() },
		Handler: func(x *Ctx) error {
			cancel()
			// The server is stopping while this request is under way.
			if err := task.Sleep(20 * time.Millisecond); err != nil {
				return err
			}
			return x.SendString(200, "text/plain", "in time")
		},
	}
	ended := make(chan error, 1)
	go func() {
		ended <- capriccio.Run(ctx, s.Run, capriccio.WithoutSignals(), capriccio.WithoutRefusals(), capriccio.WithLoops(2))
	}()
	resp, err := http.Get("http://" + <-addr)
	testenv.Must(t, err)
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(body) != "in time" {
		t.Errorf("body %q", body)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run returned %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestRunReportsAddressInUse(t *testing.T) {
	checkLeaks(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	defer ln.Close()
	s := &Server{Addr: ln.Addr().String()}
	err = capriccio.Run(context.Background(), s.Run, capriccio.WithoutSignals(), capriccio.WithoutRefusals(), capriccio.WithLoops(1))
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), ln.Addr().String()) {
		t.Errorf("Run returned %v", err)
	}
}
