package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// A library is one row: what is tried of it, and with how many tasks.
type library struct {
	name, about string
	server      string // that it needs, see servers.start; "": none
	tasks, ops  int
	local       bool // it has no connections
	// open makes what all tasks share: a client, a pool. It panics if it can't.
	open func(e *env) *opened
}

// An opened library has a session for each task, or one for all.
type opened struct {
	session func(task int) (session, error)
	stop    func()
}

type session struct {
	do    func(i int) error
	close func()
}

// shared is a library whose tasks all use the same.
func shared(do func(i int) error, stop func()) *opened {
	return &opened{session: func(int) (session, error) { return session{do: do}, nil }, stop: stop}
}

// and does more when o stops.
func (o *opened) and(stop func()) *opened {
	first := o.stop
	o.stop = func() { first(); stop() }
	return o
}

// ownConn is a library with a connection for each task, on which use does an operation.
func ownConn[C any](open func() (C, error), use func(c C, i int) error, closed func(C)) *opened {
	return &opened{session: func(int) (session, error) {
		c, err := open()
		return session{do: func(i int) error { return use(c, i) }, close: func() { closed(c) }}, err
	}}
}

// An env is what a library finds in a worker.
type env struct {
	cell
	dialer func(ctx context.Context, network, address string) (net.Conn, error)
}

func (e *env) dial(network, address string) (net.Conn, error) {
	return e.dialer(context.Background(), network, address)
}

// serve starts a server in the worker's own process, and returns its address.
func (e *env) serve(serve func(net.Listener) error) string {
	var ln net.Listener
	if e.Poller == "" || e.Dial == "net" {
		ln = must(net.Listen("tcp", "127.0.0.1:0"))
	} else {
		ln = must(netpoll.Listen("tcp", "127.0.0.1:0"))
	}
	e.spawn(func() { serve(ln) })
	return ln.Addr().String()
}

// waits is a sync.WaitGroup, or a task.WaitGroup.
type waits interface {
	Add(int)
	Done()
	Wait()
	Go(func())
}

func (e *env) waits() waits {
	if e.Poller == "" {
		return new(sync.WaitGroup)
	}
	return new(task.WaitGroup)
}

// spawn starts a task, or a goroutine.
func (e *env) spawn(fn func()) {
	if e.Poller == "" {
		go fn()
		return
	}
	task.Go(fn)
}

// work is a worker: it reads its cell, runs it and prints the outcome.
func work() {
	limit := must(time.ParseDuration(os.Args[2]))
	time.AfterFunc(limit, func() {
		buf := make([]byte, 64<<20)
		fmt.Fprintf(os.Stderr, "not done after %v\n%s\n", limit, buf[:runtime.Stack(buf, true)])
		os.Exit(3)
	})
	var e env
	check(json.NewDecoder(os.Stdin).Decode(&e.cell))
	e.dialer = new(net.Dialer).DialContext
	if e.Dial == "ours" && e.Poller != "" {
		e.dialer = netpoll.DialContext
	}
	var o outcome
	if e.Poller == "" {
		o = e.run()
	} else {
		check(capriccio.Run(context.Background(), func(context.Context) error {
			rt := task.Default()
			before := rt.Detached()
			o = e.run()
			o.Detached = rt.Detached() - before
			return nil
		}))
	}
	check(json.NewEncoder(os.Stdout).Encode(o))
}

func (e *env) run() (o outcome) {
	lib := libraries[slices.IndexFunc(libraries, func(l library) bool { return l.name == e.Lib })]
	opened := lib.open(e)
	if opened.stop != nil {
		defer opened.stop()
	}
	ops := max(1, int(float64(lib.ops)*e.Scale))
	var (
		done, failed atomic.Int64
		first        atomic.Pointer[error]
		began        time.Time
		before       syscall.Rusage
	)
	fail := func(err error) {
		failed.Add(1)
		first.CompareAndSwap(nil, &err)
	}
	ready, start, all := e.waits(), e.waits(), e.waits()
	start.Add(1)
	for n := range lib.tasks {
		ready.Add(1)
		all.Go(func() {
			s, err := opened.session(n)
			ready.Done()
			start.Wait()
			if err != nil {
				fail(fmt.Errorf("opening: %w", err))
				return
			}
			if s.close != nil {
				defer s.close()
			}
			for i := range ops {
				if err := s.do(n*ops + i); err != nil {
					fail(err)
					return
				}
				done.Add(1)
			}
		})
	}
	ready.Wait()
	syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	began = time.Now()
	start.Done()
	all.Wait()
	o.Took = time.Since(began)
	var after syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	o.CPU = cpu(after) - cpu(before)
	o.Switches = after.Nvcsw + after.Nivcsw - before.Nvcsw - before.Nivcsw
	o.Ops, o.Errors = int(done.Load()), int(failed.Load())
	if err := first.Load(); err != nil {
		o.Error = (*err).Error()
	}
	return o
}

func cpu(r syscall.Rusage) time.Duration {
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// answers compares what a call returns with what it has to.
func answers[T comparable](wanted T) func(got T, err error) error {
	return func(got T, err error) error {
		if err != nil {
			return err
		}
		return want(got, wanted)
	}
}

// want compares an answer with what it has to be.
func want[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("the answer is %v; want %v", got, want)
	}
	return nil
}
