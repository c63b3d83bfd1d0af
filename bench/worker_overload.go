package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
	"golang.org/x/sys/unix"
)

// overloadWorkers are the processes of the overload experiments: servers with the same
// handler, and their clients.
var overloadWorkers = map[string]func(args []string, out io.Writer) error{
	"calibrate": runCalibrate,
	"serve":     runServe,
	"load":      runOpenLoad,
	"step":      runOpenStep,
	"priority":  runOpenPriority,
	"closed":    runClosed,
	"crowd":     runCrowd,
}

func runOverload(args []string, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("overload: no kind given")
	}
	work, ok := overloadWorkers[args[0]]
	if !ok {
		return fmt.Errorf("overload: unknown kind %q", args[0])
	}
	return work(args[1:], out)
}

// runCalibrate prints how many steps of work take 1 ms of CPU time, undisturbed. Every
// server is then given the same number: work that is counted in steps, not by a clock,
// stays the same however often the thread is interrupted.
func runCalibrate(_ []string, out io.Writer) error {
	warm()
	fmt.Fprintln(out, "steps count 1", calibrateWork(int(time.Millisecond)))
	return nil
}

// serving is what a server of these experiments does and counts.
type serving struct {
	kind        string        // "capriccio" or "net-http"
	burn        int           // steps of work a request
	pause       time.Duration // how long it waits for something in the middle of them
	allocate    int           // bytes a request allocates and touches, and holds …
	hold        time.Duration // … for so long
	descriptors uint64        // limit of open descriptors; 0: as it is
	waits       bool          // requests wait rather than be refused
	prioritized bool          // look at the Priority header
	acceptFails atomic.Int64
}

// runServe is a server. It prints its address, and on SIGUSR1 what it has counted; it
// ends with its standard input.
func runServe(args []string, out io.Writer) error {
	var s serving
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.StringVar(&s.kind, "kind", "capriccio", "capriccio or net-http")
	flags.IntVar(&s.burn, "burn", 0, "steps of work a request")
	flags.DurationVar(&s.pause, "pause", 0, "how long it waits in the middle of them")
	flags.IntVar(&s.allocate, "allocate", 0, "bytes a request allocates, touches and holds")
	flags.DurationVar(&s.hold, "hold", 0, "how long it holds them")
	flags.Uint64Var(&s.descriptors, "descriptors", 0, "limit of open descriptors")
	flags.BoolVar(&s.waits, "waits", false, "requests wait rather than be refused")
	flags.BoolVar(&s.prioritized, "prioritized", false, "look at the Priority header")
	group := flags.String("group", "", "folder of a cgroup to go into first")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *group != "" {
		if err := proc.JoinGroup(*group); err != nil {
			return err
		}
	}
	if s.descriptors > 0 {
		limit := unix.Rlimit{Cur: s.descriptors, Max: s.descriptors}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			return fmt.Errorf("setrlimit: %w", err)
		}
	}
	s.reportCounts(out)
	failed := make(chan error, 2)
	var err error
	switch s.kind {
	case "capriccio":
		err = s.startKnot(out, failed)
	case "net-http":
		err = s.startNetHTTP(out, failed)
	default:
		err = fmt.Errorf("serve: unknown kind %q", s.kind)
	}
	if err != nil {
		return err
	}
	return untilInputEnds(failed)
}

const servedBody = "served\n"

// handle is what a request takes of the server.
func (s *serving) handle(sleep func(time.Duration)) {
	if s.allocate > 0 {
		held := make([]byte, s.allocate)
		for i := 0; i < len(held); i += 4096 {
			held[i] = 1
		}
		sleep(s.hold)
		runtime.KeepAlive(held)
	}
	if s.pause > 0 {
		work(s.burn / 2)
		sleep(s.pause)
		work(s.burn - s.burn/2)
	} else if s.burn > 0 {
		work(s.burn)
	}
}

// startKnot serves with Knot on one loop, as a program gets it otherwise.
func (s *serving) startKnot(out io.Writer, failed chan<- error) error {
	quiet := slog.New(slog.DiscardHandler)
	options := []capriccio.Option{capriccio.WithLoops(1), capriccio.WithLogger(quiet)}
	if s.waits {
		options = append(options, capriccio.WithoutRefusals())
	}
	rt, err := capriccio.New(options...)
	if err != nil {
		return err
	}
	server := &knot.Server{MaxConns: -1, ErrorLog: quiet, Handler: func(x *knot.Ctx) error {
		s.handle(func(d time.Duration) { _ = task.Sleep(d) }) // cut short only at the end
		return x.SendString(200, "text/plain", servedBody)
	}}
	if s.prioritized {
		server.Priority = func(x *knot.Ctx) int { return taskPriority(x.Header("Priority")) }
	}
	listen := netpoll.ListenConfig{Log: slog.New(&failCounter{count: &s.acceptFails})}
	rt.Go(func() {
		ln, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			failed <- err
			return
		}
		fmt.Fprintln(out, "listening", ln.Addr())
		failed <- server.Serve(ln)
	})
	return nil
}

// startNetHTTP serves with the standard library's server.
func (s *serving) startNetHTTP(out io.Writer, failed chan<- error) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{
		ErrorLog: log.New(&failLines{count: &s.acceptFails}, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.handle(time.Sleep)
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, servedBody)
		}),
	}
	fmt.Fprintln(out, "listening", ln.Addr())
	go func() { failed <- server.Serve(ln) }()
	return nil
}

// The priorities of RFC 9218 go from u=0, the most urgent, to u=7; tasks' from the
// least urgent up.
const (
	urgent    = "u=1"
	leisurely = "u=6"
)

func taskPriority(header string) int {
	switch header {
	case urgent:
		return 8
	case leisurely:
		return -8
	}
	return 0
}

// failCounter counts what netpoll logs of accepts that failed.
type failCounter struct{ count *atomic.Int64 }

func (f *failCounter) Enabled(context.Context, slog.Level) bool { return true }
func (f *failCounter) WithAttrs([]slog.Attr) slog.Handler       { return f }
func (f *failCounter) WithGroup(string) slog.Handler            { return f }
func (f *failCounter) Handle(_ context.Context, r slog.Record) error {
	f.count.Add(1)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "unreported" {
			f.count.Add(a.Value.Int64())
		}
		return true
	})
	return nil
}

// failLines counts what net/http logs of them.
type failLines struct{ count *atomic.Int64 }

func (f *failLines) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "Accept error") {
		f.count.Add(1)
	}
	return len(p), nil
}

// reportCounts prints, whenever the process gets SIGUSR1, what it has counted since its
// start: "counts", the collector's CPU seconds and all (without idle time that the
// collector used), and accepts that failed.
func (s *serving) reportCounts(out io.Writer) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		for range asked {
			gc, all := collectorTime()
			fmt.Fprintf(out, "counts %.6f %.6f %d\n", gc, all, s.acceptFails.Load())
		}
	}()
}

// collectorTime reads the CPU time of the collector and of all there is, in seconds; the
// runtime brings both up to date when a collection ends.
func collectorTime() (gc, all float64) {
	samples := []metrics.Sample{
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
		{Name: "/cpu/classes/gc/mark/idle:cpu-seconds"},
		{Name: "/cpu/classes/total:cpu-seconds"},
	}
	metrics.Read(samples)
	return samples[0].Value.Float64() - samples[1].Value.Float64(), samples[2].Value.Float64()
}
