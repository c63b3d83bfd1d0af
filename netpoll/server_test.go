//go:build linux

package netpoll

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/internal/uring"
)

// childVariable names what a re-executed test process does instead of testing.
const childVariable = "NETPOLL_TEST_CHILD"

// A childReport is what a child says before it ends.
type childReport struct {
	CPU  time.Duration // used while descriptors were short
	Logs int           // lines
}

// runChild is a server with a handful of descriptors: "serve" with Serve, "http" with
// http.Server. It answers lines on its standard input: "cpu" starts the measurement of
// CPU time, "end" ends it and the process.
func runChild(what string) int {
	switch what {
	case sendfileChild:
		return runSendfileChild()
	case aloneChild:
		p, err := newResting()
		check(err)
		fmt.Print(p.(restingEpoll).Alone(0, &ticks{}))
		check(p.Close())
		return 0
	}
	var logs testenv.Buffer
	what, on, _ := strings.Cut(what, " ")
	open := newEpoll
	for _, x := range pollers {
		if x.name == on {
			open = x.open
		}
	}
	rt, err := engine.New(engine.Config{Loops: 2, NewPoller: func(int) (engine.Poller, error) { return open() }})
	check(err)
	lc := ListenConfig{Log: slog.New(slog.NewTextHandler(&logs, nil))}
	ln, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	check(limitDescriptors(len(testenv.OpenFiles()) + 20))
	go func() {
		if what == "serve" {
			served <- Serve(ln, func(c *Conn) { io.Copy(c, c); c.Close() })
		} else {
			served <- http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("ok")) }))
		}
	}()
	fmt.Println(ln.Addr())
	in := bufio.NewScanner(os.Stdin)
	in.Scan()
	before := cpuTime()
	in.Scan()
	report := childReport{CPU: cpuTime() - before, Logs: strings.Count(logs.String(), "\n")}
	json.NewEncoder(os.Stdout).Encode(report)
	check(ln.Close())
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		fmt.Println("served:", err)
		return 1
	}
	check(rt.Close())
	return 0
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func limitDescriptors(n int) error {
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(n), Max: uint64(n)})
}

func cpuTime() time.Duration {
	var u unix.Rusage
	check(unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A server with 20 descriptors and 60 clients serves those that fit, does not spin, and
// serves the others as soon as the first ones have gone.
func TestOutOfDescriptors(t *testing.T) {
	for _, what := range []string{"serve", "http", "serve uring", "http uring"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel() // a process of its own, which waits most of the time
			if strings.HasSuffix(what, "uring") {
				_, err := uring.MultishotReceive()
				skipRefused(t, err)
			}
			starve(t, what)
		})
	}
}

func starve(t *testing.T, what string) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+what)
	in := need(child.StdinPipe())(t)
	out := need(child.StdoutPipe())(t)
	var stderr bytes.Buffer
	child.Stderr = &stderr
	must(t, child.Start())
	defer func() {
		in.Close()
		err := child.Wait()
		testenv.True(t, err == nil, "child: %v\n%s", err, stderr.String())
	}()
	lines := bufio.NewReader(out)
	address := strings.TrimSpace(need(lines.ReadString('\n'))(t))
	began := time.Now()
	const n = 60
	request := "x\n"
	if strings.HasPrefix(what, "http") {
		request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	}
	answered := make(chan net.Conn, n)
	for range n {
		c := need(net.Dial("tcp", address))(t)
		defer c.Close()
		need(io.WriteString(c, request))(t)
		go func() {
			if _, err := c.Read(make([]byte, 200)); err == nil {
				answered <- c
			}
		}()
	}
	var open []net.Conn
	for len(open) < 10 {
		open = append(open, <-answered)
	}
	io.WriteString(in, "cpu\n")
	breathe(700 * time.Millisecond) // what is measured is what happens meanwhile
	if len(open)+len(answered) >= n {
		t.Fatalf("all %d clients were answered, the limit had no effect", n)
	}
	// Each one that goes makes room for the next.
	for served := len(open); served < n; {
		if len(open) > 0 {
			open[0].Close()
			open = open[1:]
		}
		select {
		case c := <-answered:
			served++
			open = append(open, c)
		case <-time.After(time.Minute):
			t.Fatalf("%d of %d clients were answered, and nobody for a minute", served, n)
		}
	}
	io.WriteString(in, "end\n")
	var report childReport
	must(t, json.NewDecoder(lines).Decode(&report))
	testenv.AtMost(t, report.CPU, 500*time.Millisecond, "the server used of CPU time while descriptors were short: it spins")
	took := time.Since(began)
	t.Logf("%v of CPU time, %d lines logged in %v", report.CPU, report.Logs, took)
	testenv.True(t, !strings.HasPrefix(what, "serve") || report.Logs != 0 && report.Logs <= 20+2*int(took.Seconds()),
		"the server logged %d lines in %v, want at least one and not a flood", report.Logs, took)
}

// An httpServed is an http.Server under test, and what has been seen of it.
type httpServed struct {
	*http.Server
	addr    string
	reached chan struct{} // for a handler or a hook: closed when it has got so far
	mu      sync.Mutex
	seen    bytes.Buffer // guarded by mu
}

func (s *httpServed) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.seen, format+";", args...)
}

func (s *httpServed) Write(p []byte) (int, error) {
	text := string(p)
	if at := strings.Index(text, "127.0.0.1:"); at >= 0 {
		text = text[:at]
	}
	s.note("log %s", strings.TrimSpace(text))
	return len(p), nil
}

func (s *httpServed) handle(f http.HandlerFunc) { s.Handler = f }

// talk sends text on a connection of its own and returns what comes back, without what differs each time. With "" it sends a
// request and reads nothing until the handler is done.
func (s *httpServed) talk(text string) string {
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	if text == "" {
		io.WriteString(c, plainRequest)
		<-s.reached
		return ""
	}
	io.WriteString(c, text)
	all, err := io.ReadAll(c)
	lines := strings.Split(string(all), "\r\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "Date: ") {
			lines[i] = "Date"
		}
	}
	if err != nil {
		err = errors.New("cut off")
	}
	return fmt.Sprint(strings.Join(lines, "|"), err)
}

const plainRequest = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"

// httpServerOptions are the options of http.Server that depend on its connections, each with what a client sends to show that
// it works; "": the client reads nothing.
var httpServerOptions = map[string]struct {
	set  func(*httpServed)
	sent string
}{
	"ReadHeaderTimeout": {func(s *httpServed) { s.ReadHeaderTimeout = 500 * time.Millisecond }, "GET /a HTTP/1.1\r\nHo"},
	"ReadTimeout": {func(s *httpServed) {
		s.ReadTimeout = time.Second // long enough for the head
		s.handle(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, isTimeout(testenv.Err(io.ReadAll(r.Body))))
		})
	}, "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf"},
	"WriteTimeout": {func(s *httpServed) {
		s.WriteTimeout = 200 * time.Millisecond
		s.handle(func(w http.ResponseWriter, r *http.Request) {
			defer close(s.reached)
			var err error
			for block := make([]byte, 1<<20); err == nil; {
				_, err = w.Write(block)
			}
			s.note("write: timeout %v", isTimeout(err))
		})
	}, ""},
	"IdleTimeout": {func(s *httpServed) { s.IdleTimeout = 50 * time.Millisecond }, plainRequest},
	"RegisterOnShutdown and Shutdown": {func(s *httpServed) {
		s.RegisterOnShutdown(sync.OnceFunc(func() { close(s.reached) }))
		s.handle(func(w http.ResponseWriter, r *http.Request) {
			go s.Shutdown(context.Background())
			<-s.reached
			fmt.Fprintln(w, "answered all the same")
		})
	}, plainRequest},
	"Close": {func(s *httpServed) {
		s.handle(func(w http.ResponseWriter, r *http.Request) {
			s.Close()
			<-r.Context().Done()
		})
	}, plainRequest},
	"Hijack": {func(s *httpServed) {
		s.handle(func(w http.ResponseWriter, r *http.Request) {
			c, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				s.note("%v", err)
				return
			}
			line, _ := rw.ReadString('\n')
			fmt.Fprintf(c, "hijacked %s", line)
			c.Close()
		})
	}, plainRequest + "hello\n"},
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// runHTTPServer serves on ln, lets a client try the option, and returns what both have seen.
func runHTTPServer(ln net.Listener, set func(*httpServed), sent string) string {
	s := &httpServed{Server: &http.Server{}, addr: ln.Addr().String(), reached: make(chan struct{})}
	s.handle(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, r.Method, r.URL, r.Proto) })
	s.ErrorLog = log.New(s, "", 0)
	set(s)
	done := make(chan error)
	go func() { done <- s.Serve(ln) }()
	got := s.talk(sent)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	result := fmt.Sprint(got, " shutdown ", s.Shutdown(ctx), " serve ", <-done)
	s.mu.Lock()
	defer s.mu.Unlock()
	return result + " server: " + s.seen.String()
}

// TestHTTPServerOptions: an http.Server does the same on a listener of this package as on one of package net,
// whatever it is told.
func TestHTTPServerOptions(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		for name, o := range httpServerOptions {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				theirs := need(net.Listen("tcp", "127.0.0.1:0"))(t)
				ours := listen(t, "tcp")
				want := runHTTPServer(theirs, o.set, o.sent)
				testenv.Equal(t, runHTTPServer(ours, o.set, o.sent), want)
			})
		}
	})
}
