package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
)

// memoryWatch looks at a child's resident memory and kills it when it takes too much: a
// stand-in for a machine, or a memory cgroup, that has no more.
type memoryWatch struct {
	most   atomic.Int64 // bytes, since it was last set to 0
	killed atomic.Bool
	stop   chan struct{}
	ended  chan struct{}
}

// watchEvery is short beside the time it takes to touch much memory: 4 ms are some 10 MiB.
const watchEvery = 4 * time.Millisecond

func watchMemory(child *proc.Child, limit int64) (*memoryWatch, error) {
	w := &memoryWatch{stop: make(chan struct{}), ended: make(chan struct{})}
	file, err := os.Open(fmt.Sprintf("/proc/%d/statm", child.PID()))
	if errors.Is(err, fs.ErrNotExist) { // it has ended already, and its waiter learns why
		close(w.ended)
		return w, nil
	}
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(w.ended)
		defer file.Close()
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-w.stop:
				return
			}
			resident, err := residentBytes(file)
			if err != nil {
				return // it has ended
			}
			w.most.Store(max(w.most.Load(), resident))
			if resident > limit {
				w.killed.Store(true)
				child.Signal(syscall.SIGKILL)
				return
			}
		}
	}()
	return w, nil
}

func (w *memoryWatch) end() {
	close(w.stop)
	<-w.ended
}

// belowCap runs a worker, which takes about span, and kills it if it takes more memory than allowed. It returns what the
// worker has printed and the most MiB that it had.
func belowCap(ctx context.Context, span time.Duration, command proc.Command, limit int64) (printed []sample, most float64, killed bool, err error) {
	ctx, cancel := within(ctx, span+sampleTimeout)
	defer cancel()
	child, err := proc.Start(command)
	if err != nil {
		return nil, 0, false, err
	}
	defer child.Close()
	watch, err := watchMemory(child, limit)
	if err != nil {
		return nil, 0, false, err
	}
	var lines []string
	for line, err := child.Line(ctx); err == nil; line, err = child.Line(ctx) {
		lines = append(lines, line)
	}
	err = child.Wait(ctx)
	watch.end()
	if killed = watch.killed.Load(); killed {
		err = nil
	}
	if err == nil && len(lines) > 0 {
		printed, err = parseSamples(lines)
	}
	return printed, float64(watch.most.Load()) / (1 << 20), killed, err
}

// residentBytes reads the second number of statm, in pages (proc_pid_statm(5)).
func residentBytes(statm *os.File) (int64, error) {
	var buffer [128]byte
	n, err := statm.ReadAt(buffer[:], 0)
	if n == 0 {
		return 0, fmt.Errorf("read %s: %w", statm.Name(), err)
	}
	fields := bytes.Fields(buffer[:n])
	if len(fields) < 2 {
		return 0, fmt.Errorf("%s holds %q", statm.Name(), buffer[:n])
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize()), err
}
