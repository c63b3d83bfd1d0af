package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// tlsClients is how many ask at a time.
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
	if _, err := io.WriteString(c, "GET /1k.txt HTTP/1.1\r\nHost: bench\r\n\r\n"); err != nil {
		return c, err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return c, err
	}
	if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != 1024 || resp.StatusCode != http.StatusOK {
		return c, fmt.Errorf("%d bytes of status %d: %w", n, resp.StatusCode, err)
	}
	return c, nil
}

type tlsConn struct {
	*tls.Conn
	in *bufio.Reader
}

// runTLSLoad makes requests over TLS for some time, and prints samples.
func runTLSLoad(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("tls-load", flag.ExitOnError)
	addr := flags.String("addr", "", "address of the server")
	pid := flags.Int("pid", 0, "process of the server")
	span := flags.Duration("for", time.Second, "how long; the first fifth is not measured")
	fresh := flags.Bool("fresh", false, "each on a connection of its own")
	flags.Parse(args)
	var count atomic.Int64
	var stop atomic.Bool
	errs := make([]error, tlsClients)
	var clients sync.WaitGroup
	for i := range errs {
		clients.Go(func() {
			var c *tlsConn
			for !stop.Load() && errs[i] == nil {
				if c, errs[i] = askTLS(*addr, c); *fresh && c != nil {
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
	cpu, err := used()
	took, requests := time.Since(began), float64(count.Load()-done)
	stop.Store(true)
	clients.Wait()
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	emit := emitAt(out, 0)
	emit("rps", "req/s", requests/took.Seconds())
	emit("cpu-per-request", "µs", float64(cpu.Nanoseconds())/1e3/max(requests, 1))
	return nil
}

// runTLSHold opens connections, has one request on each, says "holding", and keeps them until its standard
// input ends.
func runTLSHold(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("tls-hold", flag.ExitOnError)
	addr := flags.String("addr", "", "address of the server")
	conns := flags.Int("conns", 1, "connections")
	flags.Parse(args)
	return hold(out, *conns, func(int) (*tlsConn, error) { return askTLS(*addr, nil) })
}
