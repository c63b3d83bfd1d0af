package load

import (
	"bytes"
	"container/heap"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unsafe"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"golang.org/x/sys/unix"
)

// FilesConfig describes clients that ask for files, each for its next one when it has the
// one before.
type FilesConfig struct {
	Target
	Conns int           // clients
	Warm  time.Duration // before measuring
	For   time.Duration // measured
	// Next draws a file. The request is sent as it is; the response has to have a body of
	// that many bytes. It is kept until the response is there.
	Next func() (request []byte, bodyBytes int64)
	// PerConn is how many requests a client makes on a connection before it opens another; 0:
	// all on one. The first then counts from before it connects.
	PerConn int
	Pause   time.Duration // between a response and the next request of a client
	// Think, if not nil, is called instead of Pause when a client has its response, and before its first request:
	// how long it waits until the next one.
	Think func(client int) time.Duration
}

// FilesResult is what was measured. Latencies are from a request to the end of its response;
// those of requests still under way at the end, until then, count too. Reopened are the requests that a client made
// again on a new connection, as the server had closed one that was kept alive (RFC 9112, 9.3.1); their latency has both.
type FilesResult struct {
	Requests int64
	Bytes    int64 // of bodies, of the responses counted
	Elapsed  time.Duration
	P50, P99 time.Duration
	Mean     time.Duration // of the responses counted
	Longest  time.Duration
	Unserved int // clients that got no response while it was measured
	Reopened int64
	Usage    Usage
	Fetched  int64 // bytes that the kernel has read from disks for the first process
}

// fetch is a client: one connection, one file under way.
type fetch struct {
	fd   socket
	sent time.Duration // on the run's clock
	body int64         // bytes that the response has to have
	left int64         // of the body still to come, once the head is there
	head []byte        // of the response, while it is incomplete
	busy bool          // the head is there
	made int           // requests on this connection
	asks []byte        // the request under way
}

// A rest is a client that asks again at a time.
type rest struct {
	client int
	until  time.Duration
}

// rests are a heap: the first one ends first.
type rests []rest

func (r rests) Len() int           { return len(r) }
func (r rests) Less(i, j int) bool { return r[i].until < r[j].until }
func (r rests) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *rests) Push(x any)        { *r = append(*r, x.(rest)) }
func (r *rests) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}

// fetcher is one run of such clients. Everything in it is private to its goroutine.
type fetcher struct {
	watcher
	cfg      FilesConfig
	conns    []fetch
	buffer   [64 << 10]byte
	counting bool
	result   FilesResult
	latency  histogram
	waited   time.Duration // by all counted together
	resting  rests
}

// Files runs the clients. Any surprise from the server is an error.
func Files(cfg FilesConfig) (FilesResult, error) {
	if cfg.Conns < 1 || cfg.Conns > MaxConns || cfg.For <= 0 || cfg.Next == nil || len(cfg.PIDs) == 0 {
		return FilesResult{}, fmt.Errorf("load: %d connections (1 to %d), %v (more than 0), %d processes (at least 1)", cfg.Conns, MaxConns, cfg.For, len(cfg.PIDs))
	}
	f := &fetcher{cfg: cfg, conns: make([]fetch, 0, cfg.Conns)}
	if err := f.begin(); err != nil {
		return FilesResult{}, err
	}
	defer f.close()
	if err := f.open(); err != nil {
		return FilesResult{}, err
	}
	if err := f.run(cfg.Warm); err != nil {
		return FilesResult{}, fmt.Errorf("warm up: %w", err)
	}
	return f.measure()
}

func (f *fetcher) open() error {
	for i := range f.cfg.Conns {
		f.conns = append(f.conns, fetch{fd: -1})
		if f.cfg.PerConn > 0 { // they come while others are served, as they do later
			f.rest(i, f.now(), f.cfg.Warm/2*time.Duration(i)/time.Duration(f.cfg.Conns))
			continue
		}
		if err := f.connect(i); err != nil {
			return err
		}
		if f.cfg.Think != nil {
			f.rest(i, f.now(), f.cfg.Think(i))
			continue
		}
		if err := f.ask(&f.conns[i], f.now()); err != nil {
			return fmt.Errorf("connection %d: %w", i+1, err)
		}
	}
	return nil
}

// connect gives client i a connection, in the place of the one that it may have.
func (f *fetcher) connect(i int) error {
	c := &f.conns[i]
	if c.fd >= 0 {
		c.fd.close()
		c.fd = -1
	}
	s, err := connect(f.cfg.Addr, i)
	if err != nil {
		return fmt.Errorf("connection %d: %w", i+1, err)
	}
	c.fd, c.made = s, 0
	if err := f.add(s, i); err != nil {
		return fmt.Errorf("connection %d: %w", i+1, err)
	}
	return nil
}

// again has a client that has its response make the next request, now or after its pause.
func (f *fetcher) again(i int, now time.Duration) error {
	pause := f.cfg.Pause
	if f.cfg.Think != nil {
		pause = f.cfg.Think(i)
	}
	if pause > 0 {
		f.rest(i, now, pause)
		return nil
	}
	return f.askOn(i, now)
}

func (f *fetcher) rest(i int, now, pause time.Duration) {
	f.conns[i].sent = now + pause // it waits for nothing until then
	heap.Push(&f.resting, rest{i, now + pause})
}

// askOn makes the next request of client i, on another connection if it is time for that.
func (f *fetcher) askOn(i int, now time.Duration) error {
	c := &f.conns[i]
	if c.fd < 0 || f.cfg.PerConn > 0 && c.made == f.cfg.PerConn {
		if err := f.connect(i); err != nil {
			return err
		}
	}
	return f.ask(c, now)
}

// wake has those ask whose pause is over, and returns how long the next one's still is, at most
// emptyWait.
func (f *fetcher) wake(now time.Duration) (time.Duration, error) {
	for len(f.resting) > 0 {
		r := f.resting[0]
		if left := r.until - now; left > 0 {
			return min(left, emptyWait), nil
		}
		heap.Pop(&f.resting)
		if err := f.askOn(r.client, now); err != nil {
			return 0, fmt.Errorf("connection %d: %w", r.client+1, err)
		}
	}
	return emptyWait, nil
}

func (f *fetcher) close() {
	for i := range f.conns {
		if f.conns[i].fd >= 0 {
			f.conns[i].fd.close()
		}
	}
	f.end()
}

func (f *fetcher) measure() (FilesResult, error) {
	fetched, err := proc.FetchedBytes(f.cfg.PIDs[0])
	if err != nil {
		return FilesResult{}, err
	}
	before, err := f.cfg.usage()
	if err != nil {
		return FilesResult{}, err
	}
	start := f.now()
	f.counting = true
	if err := f.run(f.cfg.For); err != nil {
		return FilesResult{}, err
	}
	end := f.now()
	f.result.Elapsed = end - start
	after, err := f.cfg.usage()
	if err != nil {
		return FilesResult{}, err
	}
	now, err := proc.FetchedBytes(f.cfg.PIDs[0])
	if err != nil {
		return FilesResult{}, err
	}
	f.result.Usage, f.result.Fetched = after.since(before), now-fetched
	for i := range f.conns {
		c := &f.conns[i]
		if c.sent > end { // it rests
			continue
		}
		f.latency.add(end - c.sent)
		f.result.Longest = max(f.result.Longest, end-c.sent)
		if c.sent < start {
			f.result.Unserved++
		}
	}
	f.result.Mean = f.waited / time.Duration(max(f.result.Requests, 1))
	f.result.P50, f.result.P99 = f.latency.quantile(0.50), f.latency.quantile(0.99)
	return f.result, nil
}

// run answers what comes in for the given time, and while measuring until there is a
// response at least.
func (f *fetcher) run(span time.Duration) error {
	end := f.now() + span
	return f.drive(func(now time.Duration) bool { return now >= end && (!f.counting || f.result.Requests > 0) }, f.wake,
		func(i int) error { return f.receive(&f.conns[i], i) })
}

// receive reads until there is no more. Of a body only the length matters: what is longer
// than the buffer is dropped by the kernel uncopied (MSG_TRUNC, tcp(7)).
func (f *fetcher) receive(c *fetch, i int) error {
	for {
		if c.busy && c.left == 0 { // the client rests: a read of nothing would look like the end
			return nil
		}
		room, flags := uintptr(len(f.buffer)), uintptr(0)
		if c.busy {
			room, flags = uintptr(c.left), unix.MSG_TRUNC
		}
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(c.fd),
			uintptr(unsafe.Pointer(&f.buffer[0])), room, flags, 0, 0)
		switch {
		case errno == unix.EAGAIN:
			return nil
		case errno == unix.EINTR:
			continue
		case (n == 0 || errno == unix.ECONNRESET) && c.mayReopen():
			return f.reopen(i)
		case errno != 0:
			return fmt.Errorf("read: %w", errno)
		case n == 0:
			return errors.New("read: closed by the server")
		}
		got := int64(n)
		if !c.busy {
			more, err := f.head(c, f.buffer[:n])
			if err != nil {
				return err
			}
			if !c.busy {
				continue
			}
			got = more
		}
		c.left -= got
		if c.left < 0 {
			return fmt.Errorf("%d bytes more than the response has", -c.left)
		}
		if c.left > 0 {
			continue
		}
		now := f.now()
		f.count(c, now)
		return f.again(i, now) // what was read was all there was to come
	}
}

// head takes up the first bytes of a response, and returns how many of them are body.
func (f *fetcher) head(c *fetch, data []byte) (int64, error) {
	if len(c.head) > 0 {
		c.head = append(c.head, data...)
		data = c.head
	}
	end := bytes.Index(data, blankLine)
	if end < 0 {
		if len(data) > maxResponse {
			return 0, fmt.Errorf("response head of more than %d bytes", maxResponse)
		}
		if len(c.head) == 0 {
			c.head = append(c.head, data...)
		}
		return 0, nil
	}
	if err := rightHead(data[:end+len(lineBreak)], c.body); err != nil {
		return 0, err
	}
	c.head, c.busy, c.left = c.head[:0], true, c.body
	return int64(len(data) - end - len(blankLine)), nil
}

// rightHead reports whether a head promises the body that is expected.
func rightHead(head []byte, body int64) error {
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
		return fmt.Errorf("response begins with %q, want a 200", head[:min(len(head), 16)])
	}
	for line := range bytes.Lines(head) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if !bytes.EqualFold(name, lengthName) {
			continue
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
		if err != nil || n != body {
			return fmt.Errorf("Content-Length is %q, the file has %d bytes", bytes.TrimSpace(value), body)
		}
		return nil
	}
	return errors.New("response has no Content-Length")
}

func (f *fetcher) count(c *fetch, now time.Duration) {
	if !f.counting {
		return
	}
	f.result.Requests++
	f.result.Bytes += c.body
	f.result.Longest = max(f.result.Longest, now-c.sent)
	f.latency.add(now - c.sent)
	f.waited += now - c.sent
}

func (f *fetcher) ask(c *fetch, now time.Duration) error {
	request, body := f.cfg.Next()
	c.sent, c.body, c.asks = now, body, request
	return f.send(c)
}

func (f *fetcher) send(c *fetch) error {
	c.left, c.busy = 0, false
	c.made++
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(c.fd), uintptr(unsafe.Pointer(&c.asks[0])), uintptr(len(c.asks)))
	if (errno == unix.EPIPE || errno == unix.ECONNRESET) && c.mayReopen() {
		return nil // the end of the connection is there to be read
	}
	if errno != 0 {
		return fmt.Errorf("write: %w", errno)
	}
	if int(n) != len(c.asks) {
		return fmt.Errorf("write: %d bytes of %d", n, len(c.asks))
	}
	return nil
}

// mayReopen reports whether a server may have closed the connection because it was idle: nothing of a response has
// come, and it is not the first on the connection.
func (c *fetch) mayReopen() bool { return c.made > 1 && !c.busy && len(c.head) == 0 }

// reopen makes the request of client i again.
func (f *fetcher) reopen(i int) error {
	if err := f.connect(i); err != nil {
		return err
	}
	if f.counting {
		f.result.Reopened++
	}
	return f.send(&f.conns[i])
}
