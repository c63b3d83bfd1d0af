package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime/debug"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
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
	flags.DurationVar(&cfg.Pause, "pause", 0, "between responses and the next requests, with one connection")
	flags.IntVar(&cfg.Rate, "rate", 0, "requests a second in all, each connection pauses by chance; 0: as many as are answered")
	flags.DurationVar(&cfg.Warm, "warm", 0, "load before measuring")
	flags.DurationVar(&cfg.For, "for", time.Second, "load measured")
	flags.Parse(args)
	cfg.Target = (&server{addr: *addr}).target(*pid)
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

// runHold is the client process of idle-conns: it opens connections, says
// "holding", and keeps them until its standard input ends.
func runHold(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("hold", flag.ExitOnError)
	addr := flags.String("addr", "", "address of the server")
	conns := flags.Int("conns", 1, "connections")
	flags.Parse(args)
	to, err := netip.ParseAddrPort(*addr)
	if err != nil {
		return err
	}
	held, err := load.Hold(to, *conns)
	if err != nil {
		return err
	}
	defer held.Close()
	fmt.Fprintln(out, "holding")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
