package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"golang.org/x/sys/unix"
)

// runLoad is the client process of hello: it loads a server and prints samples
// whose parameter is the pipelining depth.
func runLoad(args []string, out io.Writer) error {
	var cfg load.Config
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	addr := flags.String("addr", "", "address of the server")
	pid := flags.Int("pid", 0, "process of the server")
	flags.IntVar(&cfg.Conns, "conns", 1, "connections")
	flags.IntVar(&cfg.Depth, "depth", 1, "requests under way on each")
	pause := flags.Duration("pause", 0, "between responses and the next requests")
	rate := flags.Int("rate", 0, "requests a second in all, each connection pauses by chance; 0: as many as are answered")
	flags.DurationVar(&cfg.Warm, "warm", 0, "load before measuring")
	flags.DurationVar(&cfg.For, "for", time.Second, "load measured")
	flags.Parse(args)
	cfg.Target = (&server{addr: *addr}).target(*pid)
	switch {
	case *rate > 0:
		mean, chance := float64(time.Second)*float64(cfg.Conns*cfg.Depth)/float64(*rate), rand.New(rand.NewPCG(1, 2))
		cfg.Think = func(int) time.Duration { return time.Duration(chance.ExpFloat64() * mean) }
	case *pause > 0:
		cfg.Think = func(int) time.Duration { return *pause }
	}
	debug.SetGCPercent(-1) // the raw system calls of load leave a collector no chance
	result, err := load.Run(cfg)
	if err != nil {
		return err
	}
	emit := emitAt(out, cfg.Depth)
	seconds := result.Elapsed.Seconds()
	emit("rps", "req/s", float64(result.Requests)/seconds)
	emit("p50", "µs", float64(result.P50)/1e3)
	emit("p99", "µs", float64(result.P99)/1e3)
	emit("cpu-per-request", "ns", float64(result.Usage.Server)/float64(result.Requests))
	emit("server-busy", "%", 100*result.Usage.Server.Seconds()/seconds)
	emit("client-busy", "%", 100*result.Usage.Client.Seconds()/seconds)
	emit("requests", "1", float64(result.Requests))
	return nil
}

// cpuSince returns a function that says how much CPU time a process has used since then.
func cpuSince(pid int) func() (time.Duration, error) {
	before, err := proc.CPUTime(pid)
	return func() (time.Duration, error) {
		now, later := proc.CPUTime(pid)
		return now - before, errors.Join(err, later)
	}
}

// runHold is the client process of idle-conns: it opens connections, has one request on each, says
// "holding", and keeps them until its standard input ends.
func runHold(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("hold", flag.ExitOnError)
	addr := flags.String("addr", "", "address of the server")
	conns := flags.Int("conns", 1, "connections")
	flags.Parse(args)
	return hold(out, *conns, func(i int) (net.Conn, error) {
		c, err := dialFor(*addr, i)
		if err != nil {
			return nil, err
		}
		if _, err := io.WriteString(c, load.Request); err != nil {
			return nil, err
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("status %d, %w", resp.StatusCode, err)
		}
		return c, nil
	})
}

// hold opens n connections, some at a time, says "holding", and keeps them until its standard input ends.
func hold[Conn any](out io.Writer, n int, open func(i int) (Conn, error)) error {
	const atATime = 16
	held, errs := make([]Conn, n), make([]error, atATime)
	var clients sync.WaitGroup
	for first := range errs {
		clients.Go(func() {
			for i := first; i < n && errs[first] == nil; i += atATime {
				held[i], errs[first] = open(i)
			}
		})
	}
	clients.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintln(out, "holding")
	_, err := io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(held)
	return err
}

// dialFor makes connection number i of many.
func dialFor(addr string, i int) (net.Conn, error) {
	// The kernel searches the longer for a port the fewer are left, if it does not know both
	// ends when it picks one (IP_BIND_ADDRESS_NO_PORT, ip(7)).
	dialer := net.Dialer{
		LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i/5000))},
		Control: func(_, _ string, c syscall.RawConn) error {
			return onFD(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1) })
		},
	}
	c, err := dialer.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	// Closing resets: a run leaves no port waiting behind.
	return c, c.(*net.TCPConn).SetLinger(0)
}
