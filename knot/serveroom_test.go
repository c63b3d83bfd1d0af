package knot

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// TestServeLeavesDescriptorsToHandlers: where descriptors are few, no more requests are served at a time than can
// have a connection of their own each.
func TestServeLeavesDescriptorsToHandlers(t *testing.T) {
	rt := testenv.Need(capriccio.New(capriccio.WithLoops(1), capriccio.WithoutRefusals()))(t)
	defer func() { testenv.Check(t, rt.Close()) }()
	ln := testenv.Need(netpoll.Listen("tcp", "127.0.0.1:0"))(t)
	inside := make(chan bool, 1)
	until, goOn := context.WithCancel(context.Background())
	defer goOn()
	var limit unix.Rlimit
	testenv.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	open := testenv.Need(os.ReadDir("/proc/self/fd"))(t)
	const room = 100
	few := limit
	few.Cur = uint64(len(open) + room)
	testenv.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few)) // when Serve begins it looks
	ended := make(chan error, 1)
	rt.Go(func() {
		ended <- Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inside <- true
			task.Await(until)
		}))
	})
	answers := make(chan int, 2*room)
	one := func() bool { // reports whether the request has come in
		nc := testenv.Need(net.Dial("tcp", ln.Addr().String()))(t)
		go func() {
			defer nc.Close()
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
			if err != nil {
				t.Error(err)
				answers <- 0
				return
			}
			answers <- resp.StatusCode
		}()
		select {
		case <-inside:
			return true
		case status := <-answers:
			testenv.Equal(t, status, 503, "a client that did not come in")
			return false
		}
	}
	first := one()
	testenv.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) // the clients are in this process too
	n := 0
	for in := first; in; in = one() {
		n++
	}
	if n < 1 || n > room/2 {
		t.Errorf("with %d descriptors there are %d requests at a time, want at most %d", room, n, room/2)
	}
	goOn()
	for range n {
		testenv.Equal(t, <-answers, 200)
	}
	ln.Close()
	<-ended
}
