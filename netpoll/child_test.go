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
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
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
	if what == sendfileChild {
		return runSendfileChild()
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
	switch what {
	case "serve":
		go func() { served <- Serve(ln, func(c *Conn) { io.Copy(c, c); c.Close() }) }()
	case "http":
		go func() {
			served <- http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("ok")) }))
		}()
	default:
		fmt.Println("unknown child", what)
		return 2
	}
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
	address := need(lines.ReadString('\n'))(t)
	address = strings.TrimSpace(address)
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
