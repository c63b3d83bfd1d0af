// Command memcache is a cache in memory that speaks memcached's text protocol, so that its usual
// clients work with it.
//
//	go run ./examples/memcache -addr 127.0.0.1:11211 -m 64
//	printf 'set greeting 0 0 5\r\nhello\r\nget greeting\r\nquit\r\n' | nc 127.0.0.1 11211
//
// A connection that waits for its next command holds neither a task nor a buffer, so that very
// many may be open. It knows get, gets, gat, gats, set, add, replace, append, prepend, cas,
// delete, incr, decr, touch, flush_all, stats, version, verbosity and quit; not the binary and
// the meta protocol, nor UDP.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/netpoll"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:11211", "address to listen on; a path with a slash is a unix socket")
	megabytes := flag.Int64("m", 64, "memory for items, in MB; what was used least recently goes when there is no more")
	item := flag.Int("I", 1<<20, "largest value, in bytes")
	idle := flag.Duration("idle", 0, "close connections without a command for so long; 0: never")
	flag.Parse()
	if *megabytes < 1 || *item < 1 || int64(*item) > *megabytes<<20/2 {
		log.Fatal("memcache: -m must be at least 1, and -I between 1 and half of it")
	}
	s := &server{store: newStore(*megabytes<<20, *item, time.Now), idle: *idle}
	err := capriccio.Run(context.Background(), func(context.Context) error {
		network := "tcp"
		if strings.Contains(*addr, "/") {
			network = "unix"
		}
		ln, err := netpoll.Listen(network, *addr)
		if err != nil {
			return err
		}
		defer ln.Close()
		fmt.Println("listening", ln.Addr())
		return s.serve(ln)
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "memcache:", err)
		os.Exit(1)
	}
}

type server struct {
	store *store
	idle  time.Duration
}

// serve accepts connections until ln is closed. It parks.
func (s *server) serve(ln *netpoll.Listener) error {
	return netpoll.ServeInline(ln, func(c *netpoll.Conn) {
		sc := &conn{server: s, c: c}
		sc.run = sc.commands
		s.store.connected(1)
		sc.wait()
	})
}

// A conn is a client's connection.
type conn struct {
	server *server
	c      *netpoll.Conn
	run    func() // the method, made once
}

// wait has commands called when there is something to read.
func (c *conn) wait() {
	c.server.await(c.c)
	if err := c.c.OnReadable(c.run); err != nil {
		c.close()
	}
}

func (c *conn) close() {
	c.c.Close()
	c.server.store.connected(-1)
}

// buffers are what a connection needs while it has commands.
type buffers struct {
	r *bufio.Reader
	w *bufio.Writer
	p protocol
}

// maxLine is how long a command may be without its data, in bytes; see maxGet.
const maxLine = 16 << 10

var pool = sync.Pool{New: func() any {
	return &buffers{r: bufio.NewReaderSize(nil, maxLine), w: bufio.NewWriterSize(nil, 16<<10)}
}}

// commands is a task: it carries out what has been sent, and gives the buffers back.
func (c *conn) commands() {
	b := pool.Get().(*buffers)
	err := c.server.converse(c.c, b)
	b.r.Reset(nil)
	b.w.Reset(nil)
	pool.Put(b)
	if err != nil {
		c.close()
		return
	}
	c.wait()
}

// A stream is what a conversation takes of a connection.
type stream interface {
	io.ReadWriter
	SetReadDeadline(time.Time) error
}

// await lets the client be idle from now on.
func (s *server) await(c stream) {
	if s.idle > 0 {
		c.SetReadDeadline(time.Now().Add(s.idle))
	}
}

// converse carries out commands until there is none in the buffer. An error ends the connection.
func (s *server) converse(c stream, b *buffers) (err error) {
	b.r.Reset(c)
	b.w.Reset(c)
	for first := true; err == nil && (first || b.r.Buffered() > 0); first = false {
		if !first {
			s.await(c) // a client that sends without a pause is not idle
		}
		err = b.p.command(s.store, b.r, b.w)
	}
	if flushed := b.w.Flush(); err == nil {
		err = flushed
	}
	return err
}
