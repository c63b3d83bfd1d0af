package load

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// pieces is a server that sends each response in pieces, and the goroutine to wait for.
func pieces(t *testing.T, answer func(path string) []string) Target {
	addr := testenv.Serve(t, func(c net.Conn) {
		for in := bufio.NewReader(c); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if _, err := in.ReadString('\n'); err != nil {
				return
			}
			for _, piece := range answer(strings.Fields(line)[1]) {
				if _, err := c.Write([]byte(piece)); err != nil {
					return
				}
			}
		}
	})
	return Target{Addr: netip.MustParseAddrPort(addr), PIDs: []int{os.Getpid()}}
}

func filesFrom(target Target, body int64) (FilesResult, error) {
	n := 0
	return Files(FilesConfig{Target: target, Conns: 3, Warm: time.Millisecond, For: 20 * time.Millisecond,
		Next: func() ([]byte, int64) {
			n++
			return fmt.Appendf(nil, "GET /%d HTTP/1.1\r\n\r\n", n), body
		}})
}

func TestFilesComeInPieces(t *testing.T) {
	const body = 200_000 // longer than the buffer
	long := strings.Repeat("x", body)
	result, err := filesFrom(pieces(t, func(path string) []string {
		switch path[len(path)-1] % 3 {
		case 0:
			return []string{"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n" + long}
		case 1:
			return []string{"HTTP/1.1 20", "0 OK\r\nContent-Length: 200000\r", "\n\r", "\n" + long[:7], long[7:]}
		default:
			return []string{"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n", long[:body-1], long[body-1:]}
		}
	}), body)
	testenv.Must(t, err)
	exact := result.Longest + result.Longest/32 // quantiles are not
	if result.Requests < 1 || result.Bytes != result.Requests*body || result.P99 <= 0 || result.P50 > exact || result.Unserved > 3 {
		t.Errorf("got %+v", result)
	}
}

func TestClientsThatGetNothingAreCounted(t *testing.T) {
	first := make(chan struct{})
	result, err := filesFrom(pieces(t, func(path string) []string {
		if path == "/1" { // the first client's; the rest of its answer never comes
			close(first)
			return []string{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"}
		}
		<-first
		return []string{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"}
	}), 3)
	testenv.Must(t, err)
	if result.Unserved < 1 || result.Longest < 20*time.Millisecond {
		t.Errorf("got %+v", result)
	}
}

func TestSurprisesAreErrors(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n": "want a 200",
		"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour":    "the file has 3 bytes",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nfour":    "1 bytes more",
		"HTTP/1.1 200 OK\r\n\r\n":                             "no Content-Length",
		strings.Repeat("HTTP/1.1 200 OK\r\nX: y\r\n", 4<<10):  "head of more than",
	} {
		if _, err := filesFrom(pieces(t, func(string) []string { return []string{answer} }), 3); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %q", answer, err, want)
		}
	}
	testenv.Fails(t, testenv.Err(Files(FilesConfig{})), "nothing to do is no error")
}

// A server may close a connection that is idle; one that answers nothing on a new connection is an error.
func TestConnectionsThatWereIdleAreOpenedAgain(t *testing.T) {
	server := func(answers int) Target {
		addr := testenv.Serve(t, func(c net.Conn) {
			defer c.Close()
			in := bufio.NewReader(c)
			for range answers {
				if _, err := http.ReadRequest(in); err != nil {
					return
				}
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
			}
		})
		return Target{Addr: netip.MustParseAddrPort(addr), PIDs: []int{os.Getpid()}}
	}
	files := func(answers int) (result FilesResult, err error) {
		// On a machine with much else to do some spans end before a client has asked three times.
		for span := 20 * time.Millisecond; err == nil && result.Requests < 12; span *= 2 {
			result, err = Files(FilesConfig{Target: server(answers), Conns: 3, For: span, Pause: time.Millisecond, Next: func() ([]byte, int64) {
				return []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 1
			}})
		}
		return result, err
	}
	if result, err := files(2); err != nil || result.Reopened < 1 || result.Reopened >= result.Requests {
		t.Errorf("got %+v, %v; want every second or third request made again", result, err)
	}
	if _, err := files(0); err == nil || !strings.Contains(err.Error(), "closed by the server") && !strings.Contains(err.Error(), "reset") {
		t.Errorf("a server that answers nothing: %v", err)
	}
}

func TestSlowResponseIsWaitedFor(t *testing.T) {
	const pause = 60 * time.Millisecond // longer than is to be measured
	files := pieces(t, func(string) []string {
		<-time.After(pause)
		return []string{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"}
	})
	if result, err := filesFrom(files, 3); err != nil || result.Requests < 1 {
		t.Errorf("files: %+v, %v", result, err)
	}
	page := serve(t, func(w http.ResponseWriter, r *http.Request) {
		<-time.After(pause)
		hello(w, r)
	})
	result, err := Run(Config{Target: Target{Addr: page, PIDs: []int{os.Getpid()}}, Conns: 1, Depth: 1, For: time.Millisecond})
	if err != nil || result.Requests < 1 {
		t.Errorf("one page: %+v, %v", result, err)
	}
}

func TestClientsPauseAndComeBackOnAnotherConnection(t *testing.T) {
	conns := make(chan bool, 10_000)
	ln := testenv.Listen(t)
	go http.Serve(countingListener{ln, conns}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("abc"))
	}))
	result, err := Files(FilesConfig{Target: Target{Addr: netip.MustParseAddrPort(ln.Addr().String()), PIDs: []int{os.Getpid()}},
		Conns: 2, For: 100 * time.Millisecond, PerConn: 3, Pause: 2 * time.Millisecond,
		Next: func() ([]byte, int64) { return []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 3 }})
	testenv.Must(t, err)
	most := int64(2 * 100 / 2)
	if result.Requests < 1 || result.Requests > most+10 || int64(len(conns)) < result.Requests/3 || int64(len(conns)) > result.Requests/3+4 {
		t.Errorf("%d requests, at most %d were possible; %d connections", result.Requests, most, len(conns))
	}
}

func TestClientsThinkForTimesOfTheirOwn(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("abc")) })
	thought := make([]int, 3)
	result, err := Files(FilesConfig{Target: Target{Addr: addr, PIDs: []int{os.Getpid()}}, Conns: len(thought), For: 200 * time.Millisecond,
		Think: func(client int) time.Duration { // the first one 20 times as long as the others
			thought[client]++
			return map[bool]time.Duration{true: 40 * time.Millisecond, false: 2 * time.Millisecond}[client == 0]
		},
		Next: func() ([]byte, int64) { return []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 3 }})
	testenv.Must(t, err)
	if thought[0] < 1 || thought[0] > 6 || thought[1] > 101 || int64(thought[0]+thought[1]+thought[2]) < result.Requests {
		t.Errorf("thought %v times, %d requests", thought, result.Requests)
	}
	if result.Mean <= 0 || result.Mean > result.Longest {
		t.Errorf("mean %v, longest %v", result.Mean, result.Longest)
	}
}

type countingListener struct {
	net.Listener
	conns chan bool
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	l.conns <- true
	return c, err
}
