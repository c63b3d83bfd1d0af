package knot

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

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
	if _, body := testenv.Get(t, http.DefaultClient, "http://"+<-addr); body != "in time" {
		t.Errorf("body %q", body)
	}
	testenv.Check(t, <-ended, "Run")
	http.DefaultClient.CloseIdleConnections()
}

func TestRunReportsAddressInUse(t *testing.T) {
	checkLeaks(t)
	ln := testenv.Listen(t)
	s := &Server{Addr: ln.Addr().String()}
	err := capriccio.Run(context.Background(), s.Run, capriccio.WithoutSignals(), capriccio.WithoutRefusals(), capriccio.WithLoops(1))
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), ln.Addr().String()) {
		t.Errorf("Run returned %v", err)
	}
}
