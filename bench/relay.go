package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"golang.org/x/sys/unix"
)

// Metrics of relay: io.Copy between two connections as it is, and so that neither end knows the other.
const (
	relayedMetric = "relayed"
	copiedMetric  = "copied"
)

// relayEnds is the worker that sends and receives.
const relayEnds = "relay-ends"

// relayPiece is how many bytes a sender sends, and a receiver takes, in a system call.
const relayPiece = 256 << 10

// relay passes data on through j.x pairs of connections. What sends and receives is a process of its own, on
// the other core: its threads would wait for the one processor of this one's Go runtime.
func (s *threads) relay(j job) {
	in, out := must(s.listen()), must(s.listen())
	ends := proc.Command{Path: must(os.Executable()), Core: clientCore, Args: []string{workerCommand, relayEnds, in.Addr().String(), out.Addr().String(),
		strconv.Itoa(j.x), strconv.FormatInt(j.duration.Milliseconds(), 10)}}
	var lines []string
	var over atomic.Bool // lines are there
	go func() {
		lines = must(proc.Output(context.Background(), ends))
		over.Store(true)
	}()
	var before time.Duration
	for i := range j.x {
		from, to := must(in.Accept()), must(out.Accept())
		if i == 0 {
			before = processTime()
		}
		s.spawn(func() {
			defer from.Close()
			defer to.Close()
			if j.metric == copiedMetric {
				io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 64<<10))
			} else {
				io.Copy(to, from)
			}
		})
	}
	for !over.Load() {
		s.sleep(time.Millisecond)
	}
	used := processTime() - before
	bytes, err := strconv.ParseInt(strings.Join(lines, ""), 10, 64)
	if err != nil || bytes == 0 {
		check(fmt.Errorf("received were %q bytes in %v, want a number", lines, j.duration))
	}
	j.emit("cpu-"+j.metric, "s/GB", used.Seconds()/(float64(bytes)/1e9))
	j.emit("rate-"+j.metric, "MB/s", float64(bytes)/1e6/j.duration.Seconds())
}

// runRelayEnds sends to the first address and receives from the second for a time, through a number of connections of
// each kind, and prints how many bytes have come. Its arguments are the addresses, that number, and milliseconds.
func runRelayEnds(args []string, out io.Writer) {
	if len(args) != 4 {
		check(fmt.Errorf("arguments are %q, want TO FROM CONNECTIONS MILLISECONDS", args))
	}
	to, from := must(net.ResolveTCPAddr("tcp", args[0])), must(net.ResolveTCPAddr("tcp", args[1]))
	until := time.Now().Add(time.Duration(must(strconv.Atoi(args[3]))) * time.Millisecond)
	var bytes atomic.Int64
	var ends sync.WaitGroup
	for range must(strconv.Atoi(args[2])) {
		sender, receiver := dialRaw(to, nil), dialRaw(from, nil)
		ends.Go(func() {
			sendUntil(sender, until)
			unix.Close(sender)
		})
		ends.Go(func() {
			bytes.Add(receiveAll(receiver))
			unix.Close(receiver)
		})
	}
	ends.Wait()
	fmt.Fprintln(out, bytes.Load())
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
