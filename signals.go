package capriccio

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphview/tables"
	"github.com/capriccio-go/capriccio/internal/logwriter"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/task"
)

// SIGUSR2 makes every runtime of the process write what it knows: a summary to the
// standard error, and all of its graph to a file. That is done by one goroutine, which
// runs as long as there are runtimes, and never by a loop, so that it works when all
// loops are stuck. Signals that come while it writes are answered once, after that.
//
// For bgdump, each runtime announces that it answers, by an open memfd. That is safer
// than any other sign, as SIGUSR2 ends a process that does not expect it. If bgdump has
// a lock on the memfd, the signal is bgdump's, and the summary is left out.

// logPatience is how long the end of a runtime waits for the reader of the standard error.
const logPatience = time.Second

// A member is a runtime that was made by New or Run and is not closed.
type member struct {
	rt       *task.Runtime
	graph    *recorder.Graph // nil: it is switched off
	path     string          // of the dump
	stacks   string          // see EnvStacks
	answers  bool            // SIGUSR2
	announce *os.File        // the memfd; nil: none. Guarded by membership.dumping
}

func (m *member) writes() bool { return m.answers && m.graph != nil }

// running are the runtimes of the process, for signals, which are the process's.
var running = membership{stderr: logwriter.Stderr}

type membership struct {
	mu      sync.Mutex
	all     []*member      // guarded by mu: in the order in which they were made
	signals chan os.Signal // guarded by mu: nil until the first runtime that answers
	stop    chan struct{}  // guarded by mu: ends the goroutine; nil if none runs
	stopped chan struct{}  // guarded by mu: closed by the goroutine at its end

	dumping sync.Mutex // held while a signal is answered
	stderr  io.Writer
}

// join takes a runtime up. The function that it returns must be called when the
// runtime is closed.
func (ms *membership) join(m *member, log *slog.Logger) (leave func()) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if m.answers {
		ms.listen()
	}
	if m.writes() {
		taken := func(other *member) bool { return other.writes() && other.path == m.path }
		for n, path := 2, m.path; slices.ContainsFunc(ms.all, taken); n++ {
			m.path = numbered(path, n)
		}
		var err error
		if m.announce, err = announce(m.path); err != nil {
			log.Debug("capriccio: bgdump can't find this process by its number", "because", err)
		}
	}
	ms.all = append(ms.all, m)
	return sync.OnceFunc(func() {
		if m.stacks != "" {
			if err := writeStacks(m.stacks); err != nil {
				log.Error("capriccio: the statistics of stack chunks can't be written", "error", logwriter.OneLine(err.Error()))
			}
		}
		ms.leave(m)
		logwriter.Stderr.Drain(logPatience)
		logwriter.DrainDefault(logPatience)
	})
}

// listen needs mu. It is never undone, because bgdump may be about to send the signal
// when the last runtime is closed, and the process may live on.
func (ms *membership) listen() {
	if ms.signals == nil {
		ms.signals = make(chan os.Signal, 1)
		signal.Notify(ms.signals, syscall.SIGUSR2)
	}
	if ms.stop == nil {
		select {
		case <-ms.signals: // came when there was no runtime
		default:
		}
		ms.stop, ms.stopped = make(chan struct{}), make(chan struct{})
		go ms.answer(ms.signals, ms.stop, ms.stopped)
	}
}

func (ms *membership) leave(m *member) {
	ms.dumping.Lock()
	if m.announce != nil {
		m.announce.Close()
		m.announce = nil
	}
	ms.dumping.Unlock()
	ms.mu.Lock()
	ms.all = slices.DeleteFunc(ms.all, func(other *member) bool { return other == m })
	var wait chan struct{}
	if ms.stop != nil && !slices.ContainsFunc(ms.all, func(other *member) bool { return other.answers }) {
		close(ms.stop)
		ms.stop, wait = nil, ms.stopped
	}
	ms.mu.Unlock()
	if wait != nil {
		<-wait
	}
}

func (ms *membership) answer(signals <-chan os.Signal, stop <-chan struct{}, stopped chan<- struct{}) {
	defer close(stopped)
	for {
		select {
		case <-stop:
			return
		case <-signals:
			ms.dumpAll()
		}
	}
}

// dumpAll answers one signal.
func (ms *membership) dumpAll() {
	ms.dumping.Lock()
	defer ms.dumping.Unlock()
	ms.mu.Lock()
	all := slices.Clone(ms.all)
	ms.mu.Unlock()
	for _, m := range all {
		if m.answers {
			// In one write, so that what others print does not come in between.
			var out bytes.Buffer
			m.dump(&out)
			if m.stacks != "" {
				if err := writeStacks(m.stacks); err != nil {
					fmt.Fprintln(&out, "capriccio: statistics of stack chunks:", err)
				}
			}
			ms.stderr.Write(out.Bytes())
		}
	}
}

// dump writes the graph to the file, and to out what people should know. A fault in
// here is no reason to end a program that works.
func (m *member) dump(out *bytes.Buffer) {
	defer func() {
		if v := recover(); v != nil {
			fmt.Fprintf(out, "capriccio: SIGUSR2: panic: %v\n%s\n", v, debug.Stack())
		}
	}()
	if m.graph == nil {
		fmt.Fprintf(out, "capriccio: SIGUSR2: there is nothing to show: the blocking graph is switched off; %s=on switches it on\n", EnvGraph)
		return
	}
	quiet := m.asked()
	s := m.graph.Snapshot()
	failed := bgraph.WriteFile(m.path, s)
	if !quiet {
		if err := tables.WriteSummary(out, s); err != nil {
			fmt.Fprintf(out, "capriccio: SIGUSR2: no summary: %v\n", err)
		}
	}
	if failed != nil {
		fmt.Fprintf(out, "capriccio: SIGUSR2: %v\n", failed)
	} else if !quiet {
		fmt.Fprintf(out, "\nThe whole graph is in %s; to look at it: bgdump %[1]s\n", m.path)
	}
}

// asked reports whether a bgdump waits for the file.
func (m *member) asked() bool {
	if m.announce == nil {
		return false
	}
	fd := int(m.announce.Fd())
	err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		unix.Flock(fd, unix.LOCK_UN)
	}
	return err == unix.EWOULDBLOCK
}

// announce makes the memfd.
func announce(path string) (*os.File, error) {
	const name = "capriccio-bgraph"
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if err == unix.EINVAL { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := fmt.Fprintf(f, "capriccio-bgraph 1\npid %d\npath %q\n", os.Getpid(), path); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
