package capriccio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

func TestBadEnvironmentIsAnError(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{EnvLoops, "0", "1 to"},
		{EnvLoops, "many", "1 to"},
		{EnvLoops, "100000", "1 to"},
		{EnvPoller, "kqueue", "want epoll or uring"},
		{EnvPoller, "poll", "want epoll or uring"},
		{EnvAIO, "posix", "uring or threads"},
		{EnvSched, "lottery", "fifo"},
		{EnvOverload, "panic", "refuse or wait"},
		{EnvGraph, "yes", "on, off, or N"},
		{EnvGraph, "0", "on, off, or N"},
		{EnvGraph, "-1", "on, off, or N"},
		{EnvGraph, "1000001", "to 1000000"},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			t.Setenv(c.name, c.value)
			rt, err := New()
			if err == nil {
				rt.Close()
				t.Fatal("no error")
			}
			if msg := err.Error(); !strings.Contains(msg, c.name) || !strings.Contains(msg, c.want) || !strings.Contains(msg, c.value) {
				t.Errorf("error %q does not name the variable, the value and what is right (%s)", msg, c.want)
			}
		})
	}
}

func TestEnvironmentIsUsedAndOptionsGoBefore(t *testing.T) {
	t.Setenv(EnvLoops, "3")
	t.Setenv(EnvPoller, "uring")
	t.Setenv(EnvSched, "fifo")
	for want, opts := range map[int][]Option{3: nil, 2: {WithLoops(2)}} {
		rt := testenv.Need(New(opts...))(t)
		testenv.Equal(t, rt.Loops(), want, "loops")
		testenv.Check(t, rt.Close())
	}
}

// TestSpareLoops: there are more loops than processors only where those may become more.
func TestSpareLoops(t *testing.T) {
	for _, c := range []struct{ procs, all, want int }{{2, 2, 0}, {2, 64, 6}, {2, 4, 2}, {16, 64, 48}, {1, 1, 0}, {8, 4, 0}} {
		testenv.Equal(t, spareLoops(c.procs, c.all), c.want, "%d of %d processors: N loops to spare", c.procs, c.all)
	}
	for value, want := range map[string]int{"": spareLoops(runtime.GOMAXPROCS(0), runtime.NumCPU()), "1": 0} {
		var o options
		testenv.Must(t, o.readEnv(func(key string) string { return map[string]string{"GOMAXPROCS": value}[key] }))
		testenv.Equal(t, o.cfg.Spare, want, "GOMAXPROCS=%q: N loops to spare", value)
	}
}

func TestDefaultScheduler(t *testing.T) {
	policy := func(opts ...Option) string {
		rt := testenv.Need(New(append(opts, WithLoops(1))...))(t)
		defer rt.Close()
		s := (*engine.Runtime)(rt).Graph().Snapshot()
		if s == nil {
			return "no graph"
		}
		if s.Sched != nil {
			return s.Sched.Policy
		}
		return "none"
	}
	t.Setenv(EnvSched, "")
	testenv.Equal(t, policy(), "resource", "by default")
	if got := policy(WithoutGraph()); got != "no graph" { // and the scheduler does without
		t.Errorf("without graph: %s", got)
	}
	t.Setenv(EnvSched, "cohort")
	testenv.Equal(t, policy(), "cohort", "from the environment")
	testenv.Equal(t, policy(WithScheduler(FIFO)), "none", "fifo")
}

// Whether work is refused under overload is the program's or the operator's choice.
func TestOverloadFromTheEnvironment(t *testing.T) {
	for value, wait := range map[string]bool{"": false, "refuse": false, "wait": true} {
		t.Setenv(EnvOverload, value)
		if o, err := gather(nil); err != nil || o.sched.NoRefusals != wait {
			t.Errorf("%s=%q: %v, %v", EnvOverload, value, o, err)
		}
	}
}

func TestBadOptionsAreErrors(t *testing.T) {
	for name, opt := range map[string]Option{
		"loops":   WithLoops(-1),
		"poller":  WithPoller("select"),
		"sched":   WithScheduler("lifo"),
		"offload": WithOffloadLimit(0),
		"detach":  WithDetaching(0, -1),
		"dump":    WithDumpPath(""),
		"graph":   WithGraphLimits(0, -1),
	} {
		if rt, err := New(opt); err == nil {
			rt.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

func TestRunReturnsTheErrorOfMain(t *testing.T) {
	want := errors.New("no")
	before := runtime.NumGoroutine()
	err := Run(context.Background(), func(context.Context) error { return want }, WithLoops(1), WithoutSignals())
	testenv.ErrorIs(t, err, want, "Run")
	testenv.WaitGoroutines(t, before)
}

func TestRunInATaskIsAnErrorAtOnce(t *testing.T) {
	err := Run(t.Context(), func(context.Context) error {
		return Run(t.Context(), func(context.Context) error {
			t.Error("a second runtime was made, which nothing can end")
			return nil
		})
	})
	testenv.ErrorSays(t, err, "Run was called by a task", "Run in a task")
}

// A signal ends the waits of main. That it says so is no error of Run; another error is.
func TestSignalEndsTheWaitsOfMain(t *testing.T) {
	broken := errors.New("broken")
	for _, poller := range []Poller{Epoll, IOUring} {
		for _, also := range []error{nil, broken} {
			var waited error
			err := Run(context.Background(), func(ctx context.Context) error {
				if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
					return err
				}
				if waited = task.Sleep(time.Hour); also != nil {
					return also
				}
				return fmt.Errorf("stopped: %w", waited)
			}, WithLoops(2), WithPoller(poller))
			if !errors.Is(waited, context.Canceled) || err != nil && also == nil || !errors.Is(err, also) {
				t.Errorf("%s: main was told %v, and Run returned %v, want %v", poller, waited, err, also)
			}
		}
	}
}

// The end of the caller's own context is not a signal.
func TestRunTellsOfTheEndOfItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	err := Run(ctx, func(context.Context) error {
		cancel()
		return task.Sleep(time.Hour)
	}, WithLoops(1))
	testenv.ErrorIs(t, err, context.Canceled, "Run")
}

// A stop that takes long is explained, whether main waits or what it has left behind.
func TestAStopThatWaitsIsExplained(t *testing.T) {
	defer func(d time.Duration) { stopPatience = d }(stopPatience)
	stopPatience = time.Millisecond
	stop := func() { testenv.Must(t, syscall.Kill(os.Getpid(), syscall.SIGINT)) }
	for _, c := range []struct {
		main func(ctx context.Context, told chan struct{}) error
		want []string
	}{
		{func(ctx context.Context, told chan struct{}) error {
			var held task.Mutex
			held.Lock()
			go func() { <-told; held.Unlock() }()
			stop()
			held.Lock() // no context ends that
			defer held.Unlock()
			return ctx.Err()
		}, []string{`tasks=1 waits="task main #`, "mutex Mutex"}},
		{func(ctx context.Context, told chan struct{}) error {
			begun, left := make(chan struct{}), make(chan struct{})
			defer close(left)
			task.Go(func() { task.Offload(func() { close(begun); <-left; stop(); <-told }) })
			task.Offload(func() { <-begun })
			return nil
		}, []string{"offload"}},
	} {
		log, told := make(testenv.Records, 100), make(chan struct{})
		var said string
		go func() {
			for said = range log {
				if strings.Contains(said, "still stopping") {
					close(told)
					return
				}
			}
		}()
		err := Run(context.Background(), func(ctx context.Context) error { return c.main(ctx, told) }, WithLogger(slog.New(slog.NewTextHandler(log, nil))), WithHoldLimit(-1))
		testenv.Check(t, err)
		for _, want := range c.want {
			testenv.Contains(t, said, want, "the log")
		}
	}
}

// A main task that no signal can reach, as it waits in a deadlock, is ended, and Run fails with what it waits for.
func TestADeadlockedMainStops(t *testing.T) {
	defer func(d time.Duration) { stopPatience = d }(stopPatience)
	stopPatience = time.Millisecond
	signal := func(context.CancelFunc) { testenv.Must(t, syscall.Kill(os.Getpid(), syscall.SIGINT)) }
	for _, c := range []struct {
		name string
		main func()
		stop func(cancel context.CancelFunc)
		opt  Option
		want string
	}{
		{"a lock that main has", func() { var mu task.Mutex; mu.Lock(); mu.Lock() }, signal, WithLoops(1), "mutex Mutex"},
		{"nothing is left that could help", func() { var wg task.WaitGroup; wg.Add(1); wg.Wait() }, signal, WithLoops(2), "1 not done"},
		{"its own context", func() { var wg task.WaitGroup; wg.Add(1); wg.Wait() }, func(cancel context.CancelFunc) { cancel() }, WithoutStopSignals(), "1 not done"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			unwound := false
			err := Run(ctx, func(ctx context.Context) error {
				defer func() { unwound = true }()
				c.stop(cancel)
				c.main()
				return nil
			}, WithGrace(10*time.Millisecond), c.opt)
			testenv.ErrorSays(t, err, "main task was in a deadlock")
			testenv.ErrorSays(t, err, c.want)
			testenv.Equal(t, unwound, true, "deferred functions ran")
		})
	}
}

// Runs reports whether rt is among the runtimes that signals are for.
func Runs(rt *task.Runtime) bool {
	running.mu.Lock()
	defer running.mu.Unlock()
	return slices.ContainsFunc(running.all, func(m *member) bool { return m.rt == rt })
}
