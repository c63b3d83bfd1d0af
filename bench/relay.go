package main

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
	"github.com/capriccio-go/capriccio/netpoll"
	"golang.org/x/sys/unix"
)

// Metrics of relay: io.Copy between two connections as it is, and so that neither end knows the other.
const (
	relayedMetric = "relayed"
	copiedMetric  = "copied"
)

// runRelay measures what it costs to pass bulk data on from connection to connection, as a TCP proxy does.
func runRelay(r *run) error {
	points := append(pointsAt(relayedMetric, 1, 16), pointsAt(copiedMetric, 1, 16)...)
	if err := r.measure(points, r.goContenders(), time.Second); err != nil {
		return err
	}
	r.note("x connections through which data are passed on at once by io.Copy, with senders and receivers on the same core %d", serverCore)
	r.note("cpu-%s: processor time of all but senders and receivers for 10^9 bytes; cpu-%s: the same where neither connection is known to be one, so that nothing but Read and Write is left", relayedMetric, copiedMetric)
	r.charts = []report.Chart{{Title: "CPU to pass on a gigabyte", Metric: "cpu-" + relayedMetric, XLabel: "connections"}}
	return nil
}

// relaying is what a system does differently.
type relaying struct {
	listen func() (net.Listener, error)
	dial   func(addr string) (net.Conn, error)
	spawn  func(func())
	sleep  func(time.Duration)
}

var (
	taskRelaying = relaying{taskLingering.listen, func(addr string) (net.Conn, error) { return netpoll.Dial("tcp", addr) }, taskSpawn, taskLingering.sleep}
	goRelaying   = relaying{goLingering.listen, func(addr string) (net.Conn, error) { return net.Dial("tcp", addr) }, goSpawn, time.Sleep}
)

// relayPiece is how many bytes a sender sends, and a receiver takes, in a system call.
const relayPiece = 256 << 10

// measureRelay passes data on through j.x pairs of connections.
func measureRelay(j job, s relaying) error {
	in, err := s.listen()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := s.listen()
	if err != nil {
		return err
	}
	defer out.Close()
	var bytes, others atomic.Int64 // received; processor time of senders and receivers
	var ends sync.WaitGroup
	// end runs fn on a thread of its own, and counts the time of that.
	end := func(fn func(fd int) int64, fd int) {
		ends.Add(1)
		go func() {
			defer ends.Done()
			runtime.LockOSThread() // and never unlocked: the thread ends
			bytes.Add(fn(fd))
			unix.Close(fd)
			others.Add(int64(processorTime(unix.RUSAGE_THREAD)))
		}()
	}
	before := processorTime(unix.RUSAGE_SELF)
	until := time.Now().Add(j.duration)
	var relays atomic.Int64
	for range j.x {
		sender, err := dialRaw(in.Addr(), nil)
		if err != nil {
			return err
		}
		from, err := in.Accept()
		if err != nil {
			return err
		}
		receiver, err := dialRaw(out.Addr(), nil)
		if err != nil {
			return err
		}
		to, err := out.Accept()
		if err != nil {
			return err
		}
		relays.Add(1)
		s.spawn(func() {
			defer relays.Add(-1)
			defer from.Close()
			defer to.Close()
			if j.metric == copiedMetric {
				io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 64<<10))
			} else {
				io.Copy(to, from)
			}
		})
		end(func(fd int) int64 { sendUntil(fd, until); return 0 }, sender)
		end(receiveAll, receiver)
	}
	for relays.Load() > 0 {
		s.sleep(time.Millisecond)
	}
	ends.Wait()
	used := processorTime(unix.RUSAGE_SELF) - before - time.Duration(others.Load())
	if bytes.Load() == 0 {
		return fmt.Errorf("nothing was received in %v", j.duration)
	}
	j.emit("cpu-"+j.metric, "s/GB", max(used, 0).Seconds()/(float64(bytes.Load())/1e9))
	return nil
}

// sendUntil sends one piece at least.
func sendUntil(fd int, until time.Time) {
	piece := make([]byte, relayPiece)
	for {
		if _, err := unix.Write(fd, piece); err != nil && err != unix.EINTR || !time.Now().Before(until) {
			return
		}
	}
}

// receiveAll drops what comes, without a copy (MSG_TRUNC, tcp(7)), and returns how many bytes that were.
func receiveAll(fd int) (total int64) {
	for {
		n, _, e := syscall.Syscall6(unix.SYS_RECVFROM, uintptr(fd), 0, relayPiece, unix.MSG_TRUNC, 0, 0)
		if e == unix.EINTR {
			continue
		}
		if e != 0 || n == 0 {
			return total
		}
		total += int64(n)
	}
}

// processorTime is what the process or the thread has used.
func processorTime(who int) time.Duration {
	var u unix.Rusage
	if unix.Getrusage(who, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
