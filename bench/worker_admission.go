package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/chores"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

type taskWorkers struct{ *task.Semaphore }

func (w taskWorkers) Acquire() { _ = w.Semaphore.Acquire(1) } // cut short only at the end
func (w taskWorkers) Release() { w.Semaphore.Release(1) }

// runChoresKnot serves with Knot on one loop, as a program gets it otherwise.
func runChoresKnot(args []string, out io.Writer) {
	f := chores.NewFlags("knot")
	check(f.Parse(args))
	host := taskHost(f)
	host.Out = out
	server := &knot.Server{}
	listen := netpoll.ListenConfig{ReusePort: true}
	options := []capriccio.Option{capriccio.WithLoops(1)}
	if f.Counted {
		quiet := slog.New(slog.DiscardHandler)
		options = append(options, capriccio.WithLogger(quiet))
		server.MaxConns, server.ErrorLog = -1, quiet
		listen.Log = slog.New(failCounter{&host.AcceptFails})
	}
	rt := must(capriccio.New(options...))
	server.Handler = knotChores(f, host)
	if f.Prioritized {
		server.Priority = func(x *knot.Ctx) int { return taskPriority(x.Header("Priority")) }
	}
	ended := make(chan error, 2)
	rt.Go(func() {
		ln := must(listen.Listen(context.Background(), "tcp", f.Addr))
		fmt.Fprintln(out, "listening", ln.Addr())
		if err := server.Serve(ln); !errors.Is(err, knot.ErrServerClosed) {
			check(err)
		}
	})
	chores.OnTerm(func(ctx context.Context) { ended <- server.Shutdown(ctx) })
	go func() { ended <- host.Obey() }()
	check(<-ended)
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

type failCounter struct{ count *atomic.Int64 }

func (f failCounter) Enabled(context.Context, slog.Level) bool { return true }
func (f failCounter) WithAttrs([]slog.Attr) slog.Handler       { return f }
func (f failCounter) WithGroup(string) slog.Handler            { return f }
func (f failCounter) Handle(_ context.Context, r slog.Record) error {
	f.count.Add(1)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "unreported" {
			f.count.Add(a.Value.Int64())
		}
		return true
	})
	return nil
}

// runCalibrate prints how many steps of work take 1 ms of CPU time, undisturbed. Every
// server is then given the same number: work that is counted in steps, not by a clock,
// stays the same however often the thread is interrupted.
func runCalibrate(_ []string, out io.Writer) {
	warm()
	fmt.Fprintln(out, "steps count 1", calibrateWork(int(time.Millisecond)))
}

func taskHost(f *chores.Flags) *chores.Host {
	mu := new(task.Mutex)
	host := &chores.Host{
		Steps: f.Steps, Mu: mu, Changed: task.NewCond(mu), Limit: f.Limit, Yield: task.Yield,
		Workers: taskWorkers{task.NewSemaphore(chores.BackendWorkers)},
	}
	host.Sleep = func(d time.Duration) { _ = task.Sleep(d) } // cut short only at the end
	for i := range host.Locks {
		host.Locks[i] = new(task.Mutex)
	}
	return host
}

// knotChores does the chores of a host, or those of goroutines through AdaptHTTP, and serves
// files.
func knotChores(f *chores.Flags, host *chores.Host) knot.Handler {
	upgraded := knot.AdaptHTTP(http.HandlerFunc(chores.Upgrade))
	adapted := knot.AdaptHTTP(knot.OffloadHTTP(chores.Handler(chores.NewHost(f), f.Root)))
	var files *knot.Files
	if f.Root != "" {
		// Files has the paths of the request, not those below FilesPath: so has the folder.
		files = must(knot.OpenFiles(f.Root, knot.FilesConfig{}))
	}
	return func(x *knot.Ctx) error {
		path := x.Path()
		switch {
		case files != nil && strings.HasPrefix(path, chores.FilesPath):
			return files.Handle(x)
		case path == chores.UpgradePath:
			return upgraded(x)
		case strings.HasPrefix(path, chores.AdaptPrefix):
			return adapted(x)
		}
		err := host.Serve(&knotExchange{Ctx: x, path: path})
		if errors.Is(err, chores.ErrNoChore) {
			return knot.Status(http.StatusNotFound)
		}
		return err
	}
}

// knotExchange is the part of a chores.Exchange that a Ctx has under other names.
type knotExchange struct {
	*knot.Ctx
	path string
}

func (x *knotExchange) Path() string { return x.path }

func (x *knotExchange) Text(status int, text string) error {
	return x.SendString(status, "text/plain", text)
}

func (x *knotExchange) Stream(contentType string, n int64) io.Writer {
	x.SetContentType(contentType)
	if n >= 0 {
		x.SetContentLength(n)
	}
	return x.Ctx
}
