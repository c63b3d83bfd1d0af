// Package people is clients that take their time: each is a goroutine with a connection of
// its own, which may ask again and again, read or write slowly, listen to a stream of
// events, or visit a page with all that belongs to it. For many requests a second there is
// package load, which is much cheaper.
//
// A Run may be called once at a time in a process; it wants a processor of its own.
package people

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/load"
)

// Group is a number of simulated clients that do the same.
type Group struct {
	Count  int
	At     time.Duration // when the first of them asks
	Spread time.Duration // from then on, evenly, until the last of them does
	Method string        // GET if empty
	Path   string

	Upload     int     // bytes of the request body
	UploadRate float64 // bytes/s; 0: as fast as it goes
	ReadRate   float64 // bytes/s of the response; 0: as fast as it goes

	// Stream: the response has no end. It is served when its first bytes have come, and
	// lost if it ends before the run does.
	Stream bool
	// Upgrade: the connection becomes one on which each byte comes back. It is served when
	// the first has, and lost if one does not come back; Pause is between two bytes.
	Upgrade bool
	// Files: the path is a page with this many files, which are then fetched from PATH.0,
	// PATH.1 … over six connections. Each person has new ones for each visit.
	Files int

	Repeat   bool          // ask again, on the same connection
	Fresh    bool          // … on a new one
	Pause    time.Duration // before asking again when served
	Back     time.Duration // … when not
	Patience time.Duration // after which they give up; slow ones have it anew for each part
}

// Config is what Run does. The outcomes of group i have class 2i, those of the files of
// its pages class 2i+1.
type Config struct {
	Addr   string
	Groups []Group
	For    time.Duration // clients send requests for this long, …
	Drain  time.Duration // … and wait for the answers for this long afterwards
}

// Result is what became of the requests.
type Result struct {
	Outcomes []load.Outcome
	Bytes    int64 // of bodies, both ways
}

// browserConns is how many connections to one host a browser has.
const browserConns = 6

// crowd is one Run.
type crowd struct {
	cfg   Config
	base  time.Time
	ctx   context.Context // ends with the drain
	bytes atomic.Int64

	mu       sync.Mutex
	outcomes []load.Outcome // guarded by mu
}

// Run lets the groups do what they do.
func Run(cfg Config) (Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), cfg.For+cfg.Drain)
	defer cancel()
	c := &crowd{cfg: cfg, base: time.Now(), ctx: ctx}
	var all sync.WaitGroup
	for class, g := range cfg.Groups {
		if g.Count < 1 || g.Patience <= 0 || g.Path == "" {
			return Result{}, fmt.Errorf("people: group %d: count %d (at least 1), patience %v (more than 0), path %q", class, g.Count, g.Patience, g.Path)
		}
		for i := range g.Count {
			at := g.At + g.Spread*time.Duration(i)/time.Duration(g.Count)
			all.Go(func() { (&person{crowd: c, Group: g, class: uint8(2 * class)}).live(at) })
		}
	}
	all.Wait()
	return Result{Outcomes: c.outcomes, Bytes: c.bytes.Load()}, nil
}

func (c *crowd) now() time.Duration { return time.Since(c.base) }

// begin notes a request that is due; its fate is set by end.
func (c *crowd) begin(class uint8, due time.Duration) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outcomes = append(c.outcomes, load.Outcome{Scheduled: due, Sent: c.now(), Class: class})
	return len(c.outcomes) - 1
}

func (c *crowd) end(i int, fate load.Fate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := &c.outcomes[i]
	if fate != load.Served && fate != load.Refused && c.ctx.Err() != nil {
		return // the run has ended, not the request
	}
	if o.Fate == load.Pending || fate == load.Lost {
		o.Fate, o.Done = fate, c.now()
	}
}

// sleep reports whether the run still goes on after d.
func (c *crowd) sleep(d time.Duration) bool {
	if d <= 0 {
		return c.ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// person is one of a group. It belongs to its goroutine.
type person struct {
	*crowd
	Group
	class uint8
	conn  *connection // nil if there is none
}

// connection is one to the server.
type connection struct {
	net.Conn
	r     *bufio.Reader
	used  bool
	leave func() bool // ends what closes it with the run
}

func (p *person) live(at time.Duration) {
	defer p.hangUp()
	for p.sleep(at-p.now()) && (at < p.cfg.For || at == p.At) {
		var fate load.Fate
		if p.Files > 0 {
			fate = p.visit(at)
		} else {
			fate = p.ask(p.begin(p.class, at), p.Path)
		}
		if !p.Repeat {
			return
		}
		if p.Fresh {
			p.hangUp()
		}
		at = p.now() + p.Pause
		if fate != load.Served {
			at = p.now() + p.Back
		}
	}
}

func (p *person) hangUp() {
	if p.conn != nil {
		p.conn.leave()
		p.conn.Close()
		p.conn = nil
	}
}

// visit fetches a page and its files, and returns the worst fate.
func (p *person) visit(at time.Duration) load.Fate {
	page := p.begin(p.class, at)
	document := p.begin(p.class+1, at)
	fate := p.ask(document, p.Path)
	var next atomic.Int64
	var worst atomic.Int32
	worst.Store(int32(fate))
	var all sync.WaitGroup
	for i := range browserConns {
		q := &person{crowd: p.crowd, Group: p.Group, class: p.class}
		if i == 0 {
			q = p
		}
		all.Go(func() {
			if q != p {
				defer q.hangUp()
			}
			for fate == load.Served {
				n := next.Add(1) - 1
				if n >= int64(p.Files) {
					return
				}
				if fate := q.ask(p.begin(p.class+1, p.now()), fmt.Sprintf("%s.%d", p.Path, n)); fate != load.Served {
					worst.Store(int32(fate))
				}
			}
		})
	}
	all.Wait()
	p.hangUp()
	fate = load.Fate(worst.Load())
	p.end(page, fate)
	return fate
}

// ask makes one request. One that finds its connection closed by the server while nothing
// was under way is made again on a new one, as browsers do.
func (p *person) ask(tag int, path string) load.Fate {
	fate, err := p.try(tag, path)
	if err != nil && p.conn != nil && p.conn.used && !timedOut(err) && p.ctx.Err() == nil {
		p.hangUp()
		fate, err = p.try(tag, path)
	}
	if err != nil {
		p.hangUp()
		if timedOut(err) {
			fate = load.Abandoned
		}
	}
	p.end(tag, fate)
	return fate
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// errEnded is a stream that ended.
var errEnded = errors.New("people: the stream has ended")

// try makes a request on the person's connection, or on a new one.
func (p *person) try(tag int, path string) (load.Fate, error) {
	deadline := time.Now().Add(p.Patience)
	if p.UploadRate > 0 {
		deadline = deadline.Add(time.Duration(float64(p.Upload) / p.UploadRate * 1e9))
	}
	if p.conn == nil {
		if err := p.dial(deadline); err != nil {
			return load.Lost, err
		}
	}
	c := p.conn
	if err := c.SetDeadline(deadline); err != nil {
		return load.Lost, err
	}
	// A server may answer before it has read all, and not read on.
	sent := make(chan error, 1)
	if p.Upload > 0 {
		go func() { sent <- p.send(c, path) }()
	} else if err := p.send(c, path); err != nil {
		return load.Lost, err
	}
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return load.Lost, err
	}
	c.used = true
	if p.Upgrade && response.StatusCode == http.StatusSwitchingProtocols {
		return p.echo(c, tag)
	}
	fate := load.StatusFate(response.StatusCode)
	if fate == load.Served && p.Stream {
		return p.listen(c, response.Body, tag)
	}
	if err := p.read(c, response.Body, fate); err != nil {
		return load.Lost, err
	}
	if p.Upload > 0 && (fate != load.Served || <-sent != nil) || response.Close {
		p.hangUp()
	}
	return fate, nil
}

func (p *person) dial(deadline time.Time) error {
	d := net.Dialer{Deadline: deadline, Control: func(_, _ string, raw syscall.RawConn) error {
		if p.ReadRate == 0 {
			return nil
		}
		// Else the kernel takes megabytes for a client that does not read.
		var err error
		outer := raw.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, slowBuffer)
		})
		return errors.Join(outer, err)
	}}
	conn, err := d.DialContext(p.ctx, "tcp", p.cfg.Addr)
	if err != nil {
		return err
	}
	// Closing resets: a run leaves no port waiting behind.
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		return err
	}
	p.conn = &connection{Conn: conn, r: bufio.NewReaderSize(conn, 4<<10)}
	p.conn.leave = context.AfterFunc(p.ctx, func() { conn.Close() })
	return nil
}

const (
	slowBuffer = 16 << 10
	slowChunk  = 4 << 10
)

// send sends the request, and its body as slowly as it should be.
func (p *person) send(c *connection, path string) error {
	method := p.Method
	if method == "" {
		method = http.MethodGet
	}
	head := method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
	if p.Upgrade {
		head += "Connection: Upgrade\r\nUpgrade: echo\r\n"
	}
	if p.Upload > 0 {
		head += fmt.Sprintf("Content-Length: %d\r\n", p.Upload)
	}
	if _, err := io.WriteString(c, head+"\r\n"); err != nil {
		return err
	}
	body := make([]byte, min(p.Upload, 64<<10))
	if p.UploadRate > 0 {
		body = body[:min(len(body), slowChunk)]
	}
	began := time.Now()
	for done := 0; done < p.Upload; {
		n, err := c.Write(body[:min(len(body), p.Upload-done)])
		if err != nil {
			return err
		}
		done += n
		p.bytes.Add(int64(n))
		if p.UploadRate > 0 && !p.sleep(time.Until(began.Add(time.Duration(float64(done)/p.UploadRate*1e9)))) {
			return p.ctx.Err()
		}
	}
	return nil
}

// listen waits for the first event, notes that the request is served, and goes on
// listening: it returns when the run or the stream has ended.
func (p *person) listen(c *connection, body io.Reader, tag int) (load.Fate, error) {
	var first [1]byte
	if _, err := io.ReadFull(body, first[:]); err != nil {
		return load.Lost, err
	}
	p.end(tag, load.Served)
	_ = c.SetDeadline(time.Time{})
	n, err := io.Copy(io.Discard, body)
	p.bytes.Add(n + 1)
	if p.ctx.Err() != nil {
		return load.Served, nil
	}
	return load.Lost, errors.Join(errEnded, err)
}

// echo sends a byte now and then and waits for it to come back, until the run ends.
func (p *person) echo(c *connection, tag int) (load.Fate, error) {
	b := []byte{'x'}
	for first := true; ; first = false {
		_ = c.SetDeadline(time.Now().Add(p.Patience))
		if _, err := c.Write(b); err != nil {
			return load.Lost, err
		}
		if _, err := io.ReadFull(c.r, b); err != nil {
			return load.Lost, err
		}
		p.bytes.Add(2)
		if first {
			p.end(tag, load.Served)
		}
		if !p.sleep(p.Pause) {
			return load.Served, nil
		}
	}
}

// buffers are for reading response bodies that are dropped.
var buffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// read reads a response body, a served one as slowly as it should be.
func (p *person) read(c *connection, body io.Reader, fate load.Fate) error {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	chunk := *buffer
	slow := p.ReadRate > 0 && fate == load.Served
	if slow {
		chunk = chunk[:slowChunk]
	}
	began, done := time.Now(), 0
	for {
		if slow { // patience is for each part
			_ = c.SetDeadline(time.Now().Add(p.Patience))
		}
		n, err := body.Read(chunk)
		done += n
		if fate == load.Served {
			p.bytes.Add(int64(n))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if slow && !p.sleep(time.Until(began.Add(time.Duration(float64(done)/p.ReadRate*1e9)))) {
			return p.ctx.Err()
		}
	}
}
