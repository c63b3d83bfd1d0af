// Command libs runs libraries that were written for goroutines inside tasks, as they are and with
// all defaults, against real servers, and beside the same program on goroutines. It starts the
// servers itself, on ports of the loopback interface with their data in a temporary folder, and ends
// them. A cell that does not end in time is reported with the stacks of all its goroutines.
//
// It is a module of its own, so that programs that import Capriccio do not get the libraries.
//
//	go run . [-lib 'redis|pgx'] [-pollers epoll,uring] [-loops 1,2] [-dial ours,net]
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// A cell is one run: a library, the way it runs, and how much it has to do.
type cell struct {
	Lib    string
	Poller string // "": on goroutines
	Loops  int
	Dial   string // ours: through netpoll; net: as the library does it
	Scale  float64
	Dir    string            // for its files
	Addr   map[string]string // of the servers, by name
}

func (c cell) String() string {
	if c.Poller == "" {
		return c.Lib + " on goroutines, dial " + c.Dial
	}
	return fmt.Sprintf("%s, %s, %d loops, dial %s", c.Lib, c.Poller, c.Loops, c.Dial)
}

// An outcome is what a worker prints for its cell.
type outcome struct {
	Ops      int
	Took     time.Duration
	CPU      time.Duration // of the worker's process
	Detached uint64
	Switches int64 // context switches of the worker's threads
	Errors   int
	Error    string `json:",omitempty"` // the first one, or how the worker failed
}

func (o outcome) perSecond() float64 { return float64(o.Ops) / o.Took.Seconds() }

func main() {
	// Children get SIGKILL when the thread that started them ends.
	runtime.LockOSThread()
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "worker":
			work()
			return
		case "peers":
			peers()
			return
		}
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "libs:", err)
		os.Exit(1)
	}
}

var (
	which   = flag.String("lib", "", "only libraries whose name matches this regular expression")
	pollers = flag.String("pollers", "epoll,uring", "pollers to try")
	loops   = flag.String("loops", "1,2", "numbers of loops to try")
	dials   = flag.String("dial", "ours,net", "ours: connections of netpoll; net: what the library dials itself")
	scale   = flag.Float64("scale", 1, "multiple of the operations of each task")
	limit   = flag.Duration("limit", 60*time.Second, "how long a cell may take")
	stacks  = flag.String("stacks", "", "folder for the stacks of cells that hang; empty: the temporary folder")
	list    = flag.Bool("list", false, "only name the libraries")
)

func run() error {
	flag.Parse()
	pattern, err := regexp.Compile(*which)
	if err != nil {
		return err
	}
	var todo []library
	for _, l := range libraries {
		if pattern.MatchString(l.name) {
			todo = append(todo, l)
		}
	}
	if *list {
		for _, l := range todo {
			fmt.Printf("%-18s %5d tasks × %d  %s\n", l.name, l.tasks, l.ops, l.about)
		}
		return nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "libs")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // servers that run as another user pass through
		return err
	}
	if *stacks == "" {
		*stacks = os.TempDir()
	}
	if err := os.MkdirAll(*stacks, 0o755); err != nil {
		return err
	}
	servers := &servers{ctx: ctx, dir: dir, addr: map[string]string{}}
	defer servers.stop()

	failed := 0
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "library\truns on\tloops\tdial\tops/s\tof goroutines\tCPU µs/op\tdetached/op\tswitches/op\tverdict")
	for _, l := range todo {
		if err := servers.start(l.server); err != nil {
			fmt.Fprintf(out, "%s\t\t\t\t\t\t\t\t\tnot tried: %v\n", l.name, err)
			out.Flush()
			failed++
			continue
		}
		for _, c := range cells(l) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			c.Dir, c.Addr, c.Scale = dir, servers.addr, *scale
			failed += report(ctx, out, l, c)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d cells failed", failed)
	}
	return nil
}

// cells are what is to be tried of l, goroutines before the tasks that are compared with them.
func cells(l library) (all []cell) {
	for _, dial := range strings.Split(*dials, ",") {
		if dial != "ours" && l.local {
			continue
		}
		if len(all) == 0 {
			all = append(all, cell{Lib: l.name, Dial: dial})
		}
		for _, p := range strings.Split(*pollers, ",") {
			for _, n := range strings.Split(*loops, ",") {
				var loops int
				fmt.Sscan(n, &loops)
				all = append(all, cell{Lib: l.name, Poller: p, Loops: loops, Dial: dial})
			}
		}
	}
	return all
}

var onGoroutines outcome // of the library that is being tried

// report tries c and prints a row. It returns 1 if the cell has failed.
func report(ctx context.Context, out *tabwriter.Writer, l library, c cell) int {
	o := try(ctx, c)
	runsOn, ratio := "goroutines", ""
	if c.Poller == "" {
		onGoroutines = o
	} else {
		runsOn = c.Poller
		ratio = fmt.Sprintf("%.2f", o.perSecond()/onGoroutines.perSecond())
	}
	verdict := judge(c, o)
	ops := float64(max(o.Ops, 1))
	fmt.Fprintf(out, "%s\t%s\t%d\t%s\t%.0f\t%s\t%.0f\t%.4f\t%.2f\t%s\n", l.name, runsOn, c.Loops, c.Dial,
		o.perSecond(), ratio, float64(o.CPU.Microseconds())/ops, float64(o.Detached)/ops, float64(o.Switches)/ops, verdict)
	out.Flush()
	if o.Error != "" {
		return 1
	}
	return 0
}

// judge is the last column: what docs/libraries.md says of the library.
func judge(c cell, o outcome) string {
	switch share := o.perSecond() / onGoroutines.perSecond(); {
	case o.Error != "":
		return fmt.Sprintf("FAILED (%d errors): %s", o.Errors, o.Error)
	case c.Poller == "":
		return ""
	case share < notAdvised:
		return "not advised"
	case float64(o.Detached) > 0.001*float64(o.Ops):
		return "works with detaching"
	case share < fullSpeed:
		return "works, slower"
	default:
		return "full speed"
	}
}

// Shares of the operations that goroutines do in a second.
const (
	fullSpeed  = 0.8
	notAdvised = 0.4
)

// try runs a worker for c, which ends itself when the limit is over.
func try(ctx context.Context, c cell) outcome {
	ctx, cancel := context.WithTimeout(ctx, *limit+10*time.Second)
	defer cancel()
	in, err := json.Marshal(c)
	if err != nil {
		return outcome{Error: err.Error()}
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "worker", limit.String())
	cmd.Stdin = bytes.NewReader(in)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	cmd.Env = append(os.Environ(), "CAPRICCIO_POLLER="+c.Poller, fmt.Sprint("CAPRICCIO_LOOPS=", max(c.Loops, 1)))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var o outcome
	runErr := cmd.Run()
	if err := json.Unmarshal(out.Bytes(), &o); err == nil && runErr == nil {
		return o
	}
	name := filepath.Join(*stacks, "libs-"+strings.NewReplacer(" ", "-", "/", "-", ",", "-").Replace(c.String())+".log")
	if err := os.WriteFile(name, log.Bytes(), 0o644); err != nil {
		name = err.Error()
	}
	o.Error = fmt.Sprintf("%v; what it printed is in %s", errors.Join(runErr, ctx.Err()), name)
	return o
}
