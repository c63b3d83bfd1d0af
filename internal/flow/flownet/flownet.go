// Package flownet has the modules that connect a graph of package flow with the network:
// AddInput accepts connections and reads from them, AddOutput writes to them (Aspen, PPoPP
// 2007, NetworkInput and NetworkOutput).
//
// A connection is a flow. It is closed when none of its elements is left in the graph and no
// module has asked for more of its data, or when a chunk could not be written: so no module
// closes it, and none can forget to. After each piece of data the connection is not read until a
// module sends More, so that a client can't send faster than the program works. A module that
// does not send More lets the connection end.
//
// A connection that waits for data holds neither a task nor a buffer.
package flownet

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/internal/flow"
	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/netpoll"
)

// Data is what has been read from a connection.
type Data struct {
	Bytes []byte // the receiver may keep them
	// Err means that nothing more will come: io.EOF, os.ErrDeadlineExceeded after
	// InputOptions.Idle without data, an error of the connection. Bytes is then empty.
	Err error
}

// More asks for the next piece of data of a connection.
type More struct{}

// ReadSize is how many bytes a Data has at most.
const ReadSize = 16 << 10

// InputOptions say how connections are read from. The zero value has the defaults named.
type InputOptions struct {
	Idle time.Duration // how long to wait for data; 0: 60 s; negative: for ever
}

// Input is a module that accepts connections and reads from them.
type Input struct {
	Out flow.Out[Data]

	g       *flow.Graph
	ln      *netpoll.Listener
	idle    time.Duration
	closing atomic.Bool
	mu      sync.Mutex
	open    map[*stream]struct{} // guarded by mu
}

// A stream is a connection, the value of its flow.
type stream struct {
	in   *Input
	f    *flow.Flow
	conn *netpoll.Conn
	read func() // the method, made once
}

// AddInput adds an Input to g for the connections of ln, which is closed when g is shut
// down. The instance takes More.
func AddInput(g *flow.Graph, name string, ln *netpoll.Listener, o InputOptions) (*Input, *flow.Instance[More]) {
	in := &Input{g: g, ln: ln, idle: o.Idle, open: make(map[*stream]struct{})}
	if o.Idle == 0 {
		in.idle = time.Minute
	}
	g.OnClose(in.stop)
	return in, flow.Add(g, name, flow.ByFlow, in)
}

// Serve accepts connections until the graph is shut down, and then returns net.ErrClosed; or
// until the calling task's context ends. The graph must have been started. It parks.
func (in *Input) Serve() error {
	return netpoll.ServeInline(in.ln, func(c *netpoll.Conn) {
		s := &stream{in: in, conn: c}
		s.read = s.readOne
		s.f = in.g.NewFlow(s, s.end) // held until it has been read from
		in.mu.Lock()
		in.open[s] = struct{}{}
		in.mu.Unlock()
		s.watch()
	})
}

// stop ends reading, and waits for data that may never come.
func (in *Input) stop() {
	in.closing.Store(true)
	in.ln.Close()
	in.mu.Lock()
	var all []*stream
	for s := range in.open {
		all = append(all, s)
	}
	in.mu.Unlock()
	for _, s := range all {
		s.conn.SetReadDeadline(ownconn.Past) // reading ends; what is being written goes on
	}
}

func (s *stream) end() {
	s.in.mu.Lock()
	delete(s.in.open, s)
	s.in.mu.Unlock()
	s.conn.Close()
}

// watch arranges for the next read. The flow is held for that by the caller.
func (s *stream) watch() {
	switch {
	case s.in.closing.Load():
		s.f.Release()
		return
	case s.in.idle > 0:
		s.conn.SetReadDeadline(time.Now().Add(s.in.idle))
	}
	if s.conn.OnReadable(s.read) != nil { // it has been closed
		s.f.Release()
		return
	}
	if s.in.closing.Load() { // since we looked
		s.conn.SetReadDeadline(ownconn.Past)
	}
}

// buffers for reads; what has been read is copied, as it is mostly much less.
var buffers = sync.Pool{New: func() any { return new([ReadSize]byte) }}

// readOne is a task of its own.
func (s *stream) readOne() {
	defer s.f.Release()
	buf := buffers.Get().(*[ReadSize]byte)
	n, err := s.conn.Read(buf[:])
	d := Data{Err: err}
	if n > 0 {
		d.Bytes, d.Err = append([]byte(nil), buf[:n]...), nil
	}
	buffers.Put(buf)
	s.in.Out.Send(s.f, d) // fails only when everything ends
}

// Run implements flow.Module.
func (in *Input) Run(c *flow.Call[More]) {
	for _, ok := c.Next(); ok; _, ok = c.Next() {
		s := c.Flow().Value().(*stream)
		s.f.Hold()
		s.watch()
	}
}

// Conn is the connection that f stands for; nil if f was not made by an Input. Reading and
// closing it are up to the Input.
func Conn(f *flow.Flow) *netpoll.Conn {
	if s, ok := f.Value().(*stream); ok {
		return s.conn
	}
	return nil
}

// Chunk is something to write: Bytes, and then a part of a file.
type Chunk struct {
	Bytes    []byte
	File     *aio.File // may be nil
	Off, Len int64     // of the file
	// Done, if not nil, is called when the chunk has been written, has failed or was dropped: to close
	// the file, say.
	Done func()
}

// Dropped implements flow.Dropper.
func (c Chunk) Dropped() {
	if c.Done != nil {
		c.Done()
	}
}

// Sent records that a Chunk has been written, or why not.
type Sent struct{ Err error }

// OutputOptions say how connections are written to. The zero value has the defaults named.
type OutputOptions struct {
	// Stall is how long the Bytes of a chunk may take, and then each 256 KiB of its file; 0: 60 s; negative: for ever.
	Stall time.Duration
	// Servlets is how many chunks are written at a time at most, as slow clients each take one;
	// 0: 16,384.
	Servlets int
}

// Output is a module that writes to the connections of the chunks' flows.
type Output struct {
	Feed flow.Out[Sent] // after each chunk; Discard it if no module needs that

	stall time.Duration
}

// errNoConnection is for a chunk of a flow that no Input has made.
var errNoConnection = errors.New("flownet: a chunk of a flow that is no connection")

// AddOutput adds an Output to g.
func AddOutput(g *flow.Graph, name string, o OutputOptions) (*Output, *flow.Instance[Chunk]) {
	out := &Output{stall: o.Stall}
	if o.Stall == 0 {
		out.stall = time.Minute
	}
	if o.Servlets == 0 {
		o.Servlets = 16 << 10
	}
	return out, flow.AddWith(g, name, flow.ByFlow, flow.Options{Max: o.Servlets}, out)
}

// Run implements flow.Module.
func (o *Output) Run(c *flow.Call[Chunk]) {
	for chunk, ok := c.Next(); ok; chunk, ok = c.Next() {
		err := errNoConnection
		if f := c.Flow(); f != nil {
			if conn := Conn(f); conn != nil {
				if err = o.write(conn, &chunk); err != nil {
					conn.Close() // a part may have been sent, and nothing may follow that
				}
			}
		}
		if chunk.Done != nil {
			chunk.Done()
		}
		o.Feed.Send(c.Flow(), Sent{err})
	}
}

func (o *Output) write(conn *netpoll.Conn, chunk *Chunk) error {
	p := pages{File: chunk.File, o: o, conn: conn}
	p.Moved()
	if chunk.File == nil {
		_, err := conn.Write(chunk.Bytes)
		return err
	}
	raw, err := chunk.File.SyscallConn()
	if err != nil {
		return err
	}
	var fd int
	if err := raw.Control(func(p uintptr) { fd = int(p) }); err != nil {
		return err
	}
	_, err = ownconn.Of(conn).(interface {
		SendFile(head []byte, fd int, off, n int64, pages ownconn.Pages) (int64, error)
	}).SendFile(chunk.Bytes, fd, chunk.Off, chunk.Len, p)
	return err
}

// pages are a file that is sent.
type pages struct {
	*aio.File
	o    *Output
	conn *netpoll.Conn
}

// Moved gives the client time for another part; SendFile calls it after each.
func (p pages) Moved() {
	if p.o.stall > 0 {
		p.conn.SetWriteDeadline(now().Add(p.o.stall))
	}
}

var now = time.Now // but in tests

// Ended reports whether an error of Serve is the regular end.
func Ended(err error) bool { return errors.Is(err, net.ErrClosed) }
