package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/models"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/netpoll"
)

// runModelServer is the server of models. It ends with its standard input.
func runModelServer(args []string, out io.Writer) {
	flags := flag.NewFlagSet("models", flag.ExitOnError)
	model := flags.String("model", "sped", "arrangement of threads; or capriccio, goroutine")
	socket := flags.String("socket", "", "path of the unix socket")
	flags.Parse(args)
	os.Remove(*socket)
	store := models.NewStore()
	store.Fill()
	switch *model {
	case "capriccio":
		serveInTaskAt("unix", *socket, must(capriccio.New()), out, func(ln *netpoll.Listener) error {
			return netpoll.Serve(ln, func(c *netpoll.Conn) {
				defer c.Close()
				models.ServeStream(c, store)
			})
		})
		return
	case "goroutine":
		serveOnGoroutinesAt("unix", *socket, out, func(ln net.Listener) error {
			return acceptAll(ln, func(c net.Conn) {
				go func() {
					defer c.Close()
					models.ServeStream(c, store)
				}()
			})
		})
		return
	}
	m, ok := models.Models[*model]
	if !ok {
		check(fmt.Errorf("-model=%q, want capriccio, goroutine or one of %v", *model, slices.Sorted(maps.Keys(models.Models))))
	}
	// Threads that block in the kernel must not wait for the Go scheduler's leave to go on.
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), m.Threads()))
	serveOnGoroutinesAt("unix", *socket, out, func(ln net.Listener) error {
		file, err := ln.(*net.UnixListener).File() // which blocks, unlike that of ln
		if err != nil {
			return err
		}
		defer runtime.KeepAlive(file)
		return models.Serve(int(file.Fd()), m, store)
	})
}

// runModelLoad is the client process of models. Its samples' parameter is the number of
// connections.
func runModelLoad(args []string, out io.Writer) {
	flags := flag.NewFlagSet("models-load", flag.ExitOnError)
	socket := flags.String("socket", "", "path of the unix socket")
	pid := flags.Int("pid", 0, "process of the server")
	conns := flags.Int("conns", 1, "connections")
	warm := flags.Duration("warm", 0, "load before measuring")
	length := flags.Duration("for", time.Second, "load measured")
	protocol := flags.String("protocol", "own", "that the server speaks: own, memcached, redis")
	flags.Parse(args)
	p, ok := models.Protocols[*protocol]
	if !ok {
		check(fmt.Errorf("-protocol=%q, want own, memcached or redis", *protocol))
	}
	if *protocol != "own" { // whose servers have the records
		check(models.Fill(*socket, p))
	}
	var began time.Time
	var used func() (time.Duration, error)
	var switches int64
	n := must(models.Load(*socket, p, *conns, *warm, *length, 1, func() {
		began, used, switches = time.Now(), cpuSince(*pid), must(proc.Switches(*pid))
	}))
	seconds, cpu, transactions := time.Since(began).Seconds(), must(used()), float64(max(n, 1))
	switches = must(proc.Switches(*pid)) - switches
	emit := emitAt(out, *conns)
	emit("transactions", "1/s", float64(n)/seconds)
	emit("cpu-per-transaction", "ns", float64(cpu)/transactions)
	emit("switches-per-transaction", "1", float64(switches)/transactions)
	emit("server-busy", "%", 100*cpu.Seconds()/seconds)
}
