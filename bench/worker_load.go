package main

import (
	"bufio"
	"crypto/tls"
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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"golang.org/x/sys/unix"
)

// loadFlags are the flags of a worker that loads a server by load.Run. They are parsed into cfg.
func loadFlags(name string, cfg *load.Config) (flags *flag.FlagSet, parse func(args []string)) {
	flags = flag.NewFlagSet(name, flag.ExitOnError)
	addr := flags.String("addr", "", "address of the server")
	pid := flags.Int("pid", 0, "process of the server")
	pause := flags.Duration("pause", 0, "between responses and the next requests")
	flags.IntVar(&cfg.Conns, "conns", 1, "connections")
	flags.DurationVar(&cfg.Warm, "warm", 0, "load before measuring")
	flags.DurationVar(&cfg.For, "for", time.Second, "load measured")
	return flags, func(args []string) {
		flags.Parse(args)
		cfg.Target = (&server{addr: *addr}).target(*pid)
		if *pause > 0 {
			cfg.Think = func(int) time.Duration { return *pause }
		}
		debug.SetGCPercent(-1) // the raw system calls of load leave a collector no chance
	}
}

// runLoad is the client process of hello: it loads a server and prints samples
// whose parameter is the pipelining depth.
func runLoad(args []string, out io.Writer) {
	var cfg load.Config
	flags, parse := loadFlags("load", &cfg)
	flags.IntVar(&cfg.Depth, "depth", 1, "requests under way on each connection")
	rate := flags.Int("rate", 0, "requests a second in all, each connection pauses by chance; 0: as many as are answered")
	parse(args)
	if *rate > 0 {
		mean, chance := float64(time.Second)*float64(cfg.Conns*cfg.Depth)/float64(*rate), rand.New(rand.NewPCG(1, 2))
		cfg.Think = func(int) time.Duration { return time.Duration(chance.ExpFloat64() * mean) }
	}
	result := must(load.Run(cfg))
	emit := emitAt(out, cfg.Depth)
	seconds := result.Elapsed.Seconds()
	emit("rps", "req/s", float64(result.Requests)/seconds)
	emit("p50", "µs", float64(result.P50)/1e3)
	emit("p99", "µs", float64(result.P99)/1e3)
	emit("cpu-per-request", "ns", float64(result.Usage.Server)/float64(result.Requests))
	emit("server-busy", "%", 100*result.Usage.Server.Seconds()/seconds)
	emit("client-busy", "%", 100*result.Usage.Client.Seconds()/seconds)
	emit("requests", "1", float64(result.Requests))
}

// cpuSince returns a function that says how much CPU time a process has used since then.
func cpuSince(pid int) func() (time.Duration, error) {
	before, err := proc.CPUTime(pid)
	return func() (time.Duration, error) {
		now, later := proc.CPUTime(pid)
		return now - before, errors.Join(err, later)
	}
}

// runHold is the client process of idle-conns and tls: it opens connections, has one request on each, says "holding", and
// keeps them until its standard input ends.
func runHold(args []string, out io.Writer) {
	flags := flag.NewFlagSet("hold", flag.ExitOnError)
	addr := flags.String("addr", "", "address of the server")
	conns := flags.Int("conns", 1, "connections")
	byTLS := flags.Bool("tls", false, "connections of TLS")
	flags.Parse(args)
	hold(out, *conns, func(i int) any {
		if *byTLS {
			return must(askTLS(*addr, nil))
		}
		c := dialFor(*addr, i)
		must(ask(c, bufio.NewReader(c), load.Request))
		return c
	})
}

// ask makes a request, whose response has to be a 200, and returns how long the body is.
func ask(c io.Writer, in *bufio.Reader, request string) (int64, error) {
	if _, err := io.WriteString(c, request); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", resp.Status)
	}
	return n, err
}

// hold opens n connections, some at a time, says "holding", and keeps them until its standard input ends.
func hold[Conn any](out io.Writer, n int, open func(i int) Conn) {
	const atATime = 16
	held := make([]Conn, n)
	var clients sync.WaitGroup
	for first := range atATime {
		clients.Go(func() {
			for i := first; i < n; i += atATime {
				held[i] = open(i)
			}
		})
	}
	clients.Wait()
	fmt.Fprintln(out, "holding")
	must(io.Copy(io.Discard, os.Stdin))
	runtime.KeepAlive(held)
}

// dialFor makes connection number i of many.
func dialFor(addr string, i int) net.Conn {
	// The kernel searches the longer for a port the fewer are left, if it does not know both
	// ends when it picks one (IP_BIND_ADDRESS_NO_PORT, ip(7)).
	dialer := net.Dialer{
		LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i/5000))},
		Control: func(_, _ string, c syscall.RawConn) error {
			return onFD(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1) })
		},
	}
	c := must(dialer.Dial("tcp", addr))
	check(c.(*net.TCPConn).SetLinger(0)) // closing resets: a run leaves no port waiting behind
	return c
}

const tlsClients = 16

// askTLS makes a request on c, or, if it is nil, on a new connection, which it returns.
func askTLS(addr string, c *tlsConn) (*tlsConn, error) {
	if c == nil {
		nc, err := tls.Dial("tcp", addr, &tls.Config{
			InsecureSkipVerify: true, MinVersion: tls.VersionTLS13,
			// One key exchange for all: Go's servers prefer X25519MLKEM768, which OpenSSL has from 3.5 on and which costs
			// them a tenth more.
			CurvePreferences: []tls.CurveID{tls.X25519},
		})
		if err != nil {
			return nil, err
		}
		c = &tlsConn{nc, bufio.NewReaderSize(nc, 2048)}
	}
	n, err := ask(c, c.in, "GET /1k.txt HTTP/1.1\r\nHost: bench\r\n\r\n")
	if err == nil && n != 1024 {
		err = fmt.Errorf("%d bytes of 1024", n)
	}
	return c, err
}

type tlsConn struct {
	*tls.Conn
	in *bufio.Reader
}

// runTLSLoad makes requests over TLS for some time, and prints samples.
func runTLSLoad(args []string, out io.Writer) {
	flags := flag.NewFlagSet("tls-load", flag.ExitOnError)
	addr := flags.String("addr", "", "address of the server")
	pid := flags.Int("pid", 0, "process of the server")
	span := flags.Duration("for", time.Second, "how long; the first fifth is not measured")
	fresh := flags.Bool("fresh", false, "each on a connection of its own")
	flags.Parse(args)
	var count atomic.Int64
	var stop atomic.Bool
	var clients sync.WaitGroup
	for range tlsClients {
		clients.Go(func() {
			var c *tlsConn
			for !stop.Load() {
				if c = must(askTLS(*addr, c)); *fresh {
					c.Close()
					c = nil
				}
				count.Add(1)
			}
		})
	}
	time.Sleep(*span / 5)
	began, done, used := time.Now(), count.Load(), cpuSince(*pid)
	time.Sleep(*span - *span/5)
	cpu := must(used())
	took, requests := time.Since(began), float64(count.Load()-done)
	stop.Store(true)
	clients.Wait()
	emit := emitAt(out, 0)
	emit("rps", "req/s", requests/took.Seconds())
	emit("cpu-per-request", "µs", float64(cpu.Nanoseconds())/1e3/max(requests, 1))
}
