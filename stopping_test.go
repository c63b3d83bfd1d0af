package capriccio

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

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
		}, []string{`tasks=1 waits="\n  task main #`, "mutex Mutex"}},
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
