package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/chores"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// admissionWorkers are the processes of the experiment admission.
var admissionWorkers = map[string]func(args []string, out io.Writer) error{
	"knot": runChoresKnot,
	"net-http": func(args []string, out io.Writer) error {
		return chores.RunHTTP(args, out, chores.Limits{})
	},
	"open":   runAdmissionOpen,
	"closed": runAdmissionClosed,
	"people": runAdmissionPeople,
}

func runAdmissionWorker(args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("admission: no kind given")
	}
	work, ok := admissionWorkers[args[0]]
	if !ok {
		return fmt.Errorf("admission: unknown kind %q", args[0])
	}
	return work(args[1:], out)
}

// taskWorkers are those of a backend for tasks.
type taskWorkers struct{ *task.Semaphore }

func (w taskWorkers) Acquire() { _ = w.Semaphore.Acquire(1) } // cut short only at the end
func (w taskWorkers) Release() { w.Semaphore.Release(1) }

// runChoresKnot serves with Knot on one loop, as a program gets it otherwise.
func runChoresKnot(args []string, out io.Writer) error {
	f := chores.NewFlags("knot")
	if err := f.Parse(args); err != nil {
		return err
	}
	rt, err := capriccio.New(capriccio.WithLoops(1))
	if err != nil {
		return err
	}
	host := taskHost(f)
	server := &knot.Server{}
	if server.Handler, err = knotChores(f, host); err != nil {
		return err
	}
	if f.Prioritized {
		server.Priority = func(x *knot.Ctx) int { return taskPriority(x.Header("Priority")) }
	}
	failed := make(chan error, 3)
	rt.Go(func() {
		ln, err := netpoll.ListenConfig{ReusePort: true}.Listen(context.Background(), "tcp", f.Addr)
		if err != nil {
			failed <- err
			return
		}
		fmt.Fprintln(out, "listening", ln.Addr())
		if err := server.Serve(ln); !errors.Is(err, knot.ErrServerClosed) {
			failed <- err
		}
	})
	chores.OnTerm(func(ctx context.Context) {
		failed <- server.Shutdown(ctx)
	})
	go func() { failed <- host.Obey() }()
	return <-failed
}

// taskHost is the host of tasks.
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
func knotChores(f *chores.Flags, host *chores.Host) (knot.Handler, error) {
	upgraded := knot.AdaptHTTP(http.HandlerFunc(chores.Upgrade))
	adapted := knot.AdaptHTTP(knot.OffloadHTTP(chores.Handler(chores.NewHost(f), f.Root)))
	var files *knot.Files
	if f.Root != "" {
		// Files has the paths of the request, not those below FilesPath: so has the folder.
		var err error
		if files, err = knot.OpenFiles(f.Root); err != nil {
			return nil, err
		}
	}
	return func(x *knot.Ctx) error {
		path := x.Path()
		switch {
		case files != nil && strings.HasPrefix(path, chores.FilesPath):
			return files.Serve(x)
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
	}, nil
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
