package people

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

const (
	ms       = time.Millisecond
	patience = time.Minute
)

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return strings.TrimPrefix(s.URL, "http://")
}

func run(t *testing.T, cfg Config) Result {
	t.Helper()
	got := testenv.Need(Run(cfg))(t)
	return got
}

func fates(all []load.Outcome, class uint8) map[load.Fate]int {
	n := map[load.Fate]int{}
	for _, o := range all {
		if o.Class == class {
			n[o.Fate]++
		}
	}
	return n
}

func TestPeopleAskOnce(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
			io.WriteString(w, "hello")
		case "/full":
			w.WriteHeader(503)
		case "/wrong":
			w.WriteHeader(500)
		case "/broken":
			panic(http.ErrAbortHandler)
		case "/never":
			<-r.Context().Done()
		}
	})
	cfg := Config{Addr: addr, For: 50 * ms, Drain: patience}
	for _, path := range []string{"/ok", "/full", "/wrong", "/broken"} {
		cfg.Groups = append(cfg.Groups, Group{Count: 5, Path: path, Patience: patience})
	}
	cfg.Groups = append(cfg.Groups, Group{Count: 5, Path: "/never", Patience: 20 * ms})
	got := run(t, cfg)
	for i, want := range []load.Fate{load.Served, load.Refused, load.Failed, load.Lost, load.Abandoned} {
		if n := fates(got.Outcomes, uint8(2*i)); n[want] != 5 {
			t.Errorf("group %d: %v, want 5 of %v", i, n, want)
		}
	}
	testenv.Equal(t, got.Bytes, 25, "bytes")
}

func TestWhatIsUnansweredAtTheEndIsPending(t *testing.T) {
	addr := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	got := run(t, Config{Addr: addr, For: 10 * ms, Drain: 100 * ms, Groups: []Group{{Count: 3, Path: "/", Patience: patience}}})
	if n := fates(got.Outcomes, 0); n[load.Pending] != 3 {
		t.Errorf("fates %v", n)
	}
}

func TestStreamIsServedUnlessItEnds(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first")
		w.(http.Flusher).Flush()
		if r.URL.Path == "/held" {
			<-r.Context().Done()
		}
	})
	// A machine that is busy gets little done in a short time.
	for d := 100 * ms; ; d *= 4 {
		got := run(t, Config{Addr: addr, For: d, Groups: []Group{
			{Count: 3, Path: "/held", Stream: true, Patience: patience},
			{Count: 3, Path: "/ends", Stream: true, Patience: patience},
		}})
		held, ended := fates(got.Outcomes, 0), fates(got.Outcomes, 2)
		if held[load.Served] == 3 && ended[load.Lost] == 3 {
			return
		}
		if d > 10*time.Second || held[load.Lost] > 0 {
			t.Fatalf("in %v: held %v, ended %v", d, held, ended)
		}
	}
}

func TestBrowserFetchesThePageAndItsFiles(t *testing.T) {
	var conns, files atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/page" {
			files.Add(1)
		}
		if r.URL.Path == "/page.7" {
			w.WriteHeader(503)
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	got := run(t, Config{Addr: strings.TrimPrefix(s.URL, "http://"), For: 10 * ms, Drain: patience, Groups: []Group{
		{Count: 1, Path: "/page", Files: 20, Patience: patience},
	}})
	if n := fates(got.Outcomes, 0); n[load.Refused] != 1 {
		t.Errorf("page with a file that is refused: %v", n)
	}
	if n := fates(got.Outcomes, 1); n[load.Served] != 20 || n[load.Refused] != 1 {
		t.Errorf("document and files: %v", n)
	}
	if files.Load() != 20 || conns.Load() > browserConns {
		t.Errorf("%d files on %d connections, want 20 on at most %d", files.Load(), conns.Load(), browserConns)
	}
}

func TestUploadsAndSlowReaders(t *testing.T) {
	var uploaded atomic.Int64
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		uploaded.Add(n)
		w.Write(make([]byte, 20_000))
	})
	began := time.Now()
	got := run(t, Config{Addr: addr, For: 10 * ms, Drain: patience, Groups: []Group{
		{Count: 2, Method: "POST", Path: "/", Upload: 100_000, Patience: patience},
		{Count: 2, Method: "POST", Path: "/", Upload: 20_000, UploadRate: 100_000, Patience: patience},
		{Count: 2, Path: "/", ReadRate: 100_000, Patience: patience},
	}})
	for class := range 3 {
		if n := fates(got.Outcomes, uint8(2*class)); n[load.Served] != 2 {
			t.Errorf("group %d: %v", class, n)
		}
	}
	if uploaded.Load() != 240_000 || got.Bytes != 240_000+6*20_000 {
		t.Errorf("uploaded %d, %d bytes in all", uploaded.Load(), got.Bytes)
	}
	testenv.AtLeast(t, time.Since(began), 150*ms, "faster than the slow ones are: took")
}

// A server closes a connection that nothing is under way on, as one does that is replaced.
func TestRequestOnAConnectionThatWasClosedMeanwhileIsMadeAgain(t *testing.T) {
	addr := testenv.Serve(t, func(c net.Conn) {
		c.Read(make([]byte, 1024))
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	got := run(t, Config{Addr: addr, For: 200 * ms, Drain: patience, Groups: []Group{
		{Count: 1, Path: "/", Repeat: true, Pause: 20 * ms, Back: 20 * ms, Patience: patience},
	}})
	if n := fates(got.Outcomes, 0); n[load.Served] != len(got.Outcomes) {
		t.Errorf("fates %v", n)
	}
}

func TestNonsenseIsAnError(t *testing.T) {
	for _, g := range []Group{{Path: "/", Patience: 1}, {Count: 1, Patience: 1}, {Count: 1, Path: "/"}} {
		testenv.Fails(t, testenv.Err(Run(Config{Groups: []Group{g}})), "%+v is no error", g)
	}
}
