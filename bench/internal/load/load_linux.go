package load

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Config says what load to put on which server.
type Config struct {
	Target
	Conns int           // connections
	Depth int           // requests under way on each
	Pause time.Duration // between responses and the next requests, with one connection; 0: none
	Rate  int           // requests a second in all, each connection pauses by chance; 0: as many as are answered
	Warm  time.Duration // before measuring
	For   time.Duration // measured
}

// Result is what was measured.
type Result struct {
	Requests int64
	Elapsed  time.Duration
	P50, P99 time.Duration // from sending Depth requests to their last response
	Usage    Usage
}

// Limits of a Config.
const (
	MaxConns = 19_500
	MaxDepth = 64
)

// silenceLimit is how long a server may send nothing at all, emptyWait how long to wait
// for something at a time. Silence is counted in waits, not timed: this process may be
// stopped together with the server.
const (
	silenceLimit = time.Minute
	emptyWait    = 100 * time.Millisecond
)

// conn is one connection with its requests under way.
type conn struct {
	fd       socket
	sent     time.Duration // when, on the run's clock
	awaiting int           // bytes of responses still to come; 0: it pauses
}

// driver is one run of the load. Everything in it is private to its goroutine.
type driver struct {
	watcher
	cfg      Config
	conns    []conn
	batch    []byte // Depth requests
	expected int    // bytes of responses to a batch
	buffer   [64 << 10]byte
	counting bool
	requests int64
	latency  histogram
	resting  rests
	chance   *rand.Rand
}

// watcher waits for what comes on numbered connections, and has the run's clock. Its goroutine keeps its thread
// until it is closed.
type watcher struct {
	base   time.Time
	epoll  int
	events [256]unix.EpollEvent
}

func (w *watcher) begin() (err error) {
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll_create1: %w", err)
	}
	runtime.LockOSThread()
	w.base = time.Now()
	return nil
}

func (w *watcher) end() {
	unix.Close(w.epoll)
	runtime.UnlockOSThread()
}

// now reads the run's clock, which is cheaper than the time of day.
func (w *watcher) now() time.Duration { return time.Since(w.base) }

// add watches connection number i, which does not wait in its system calls any more. What has come is reported once
// (edge triggered).
func (w *watcher) add(s socket, i int) error {
	if err := unix.SetNonblock(int(s), true); err != nil {
		return err
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(i)}
	if err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, int(s), &event); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// drive hands over what comes in until done reports true. due does what is due by the clock, and says how long it
// is until there is more. Waiting is epoll_wait without the scheduler's part of a system call: nothing
// else in this process has anything to do.
func (w *watcher) drive(done func(now time.Duration) bool, due func(now time.Duration) (time.Duration, error), receive func(i int) error) error {
	silent := time.Duration(0)
	for now := w.now(); !done(now); now = w.now() {
		wait, err := due(now)
		if err != nil {
			return err
		}
		timeout := unix.NsecToTimespec(int64(wait))
		n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(w.epoll),
			uintptr(unsafe.Pointer(&w.events[0])), uintptr(len(w.events)), uintptr(unsafe.Pointer(&timeout)), 0, 0)
		switch {
		case errno != 0 && errno != unix.EINTR:
			return fmt.Errorf("epoll_wait: %w", errno)
		case errno == 0 && n > 0:
			silent = 0
		default:
			n = 0
			if silent += wait; silent > silenceLimit {
				return fmt.Errorf("load: no response for %v", silenceLimit)
			}
		}
		for i := range int(n) {
			if err := receive(int(w.events[i].Fd)); err != nil {
				return fmt.Errorf("connection %d: %w", w.events[i].Fd+1, err)
			}
		}
	}
	return nil
}

// Run opens the connections, keeps Depth requests under way on each, and
// measures after warming up. Any surprise from the server is an error.
func Run(cfg Config) (Result, error) {
	if cfg.Conns < 1 || cfg.Conns > MaxConns || cfg.Depth < 1 || cfg.Depth > MaxDepth {
		return Result{}, fmt.Errorf("load: %d connections (1 to %d) of depth %d (1 to %d)",
			cfg.Conns, MaxConns, cfg.Depth, MaxDepth)
	}
	if cfg.Pause < 0 || cfg.Pause > 0 && cfg.Conns > 1 {
		return Result{}, fmt.Errorf("load: pauses of %v on %d connections; only one connection can pause so", cfg.Pause, cfg.Conns)
	}
	if cfg.Rate < 0 || cfg.Rate > 0 && cfg.Pause > 0 {
		return Result{}, fmt.Errorf("load: %d requests a second with pauses of %v; want 0 or more, or a pause", cfg.Rate, cfg.Pause)
	}
	d := &driver{cfg: cfg, batch: []byte(strings.Repeat(Request, cfg.Depth)), chance: rand.New(rand.NewPCG(1, 2))}
	if err := d.begin(); err != nil {
		return Result{}, err
	}
	defer d.close()
	if err := d.open(); err != nil {
		return Result{}, err
	}
	if err := d.run(cfg.Warm); err != nil {
		return Result{}, fmt.Errorf("warm up: %w", err)
	}
	return d.measure()
}

func (d *driver) measure() (Result, error) {
	before, err := d.cfg.usage()
	if err != nil {
		return Result{}, err
	}
	start := d.now()
	d.counting = true
	if err := d.run(d.cfg.For); err != nil {
		return Result{}, err
	}
	elapsed := d.now() - start
	after, err := d.cfg.usage()
	return Result{
		Requests: d.requests, Elapsed: elapsed,
		P50: d.latency.quantile(0.50), P99: d.latency.quantile(0.99), Usage: after.since(before),
	}, err
}

// open connects, has one exchange on each connection, and starts them all.
func (d *driver) open() error {
	for i := range d.cfg.Conns {
		s, err := connect(d.cfg.Addr, i)
		if err != nil {
			return fmt.Errorf("connection %d: %w", i+1, err)
		}
		d.conns = append(d.conns, conn{fd: s})
		length, err := s.exchange()
		if err != nil {
			return fmt.Errorf("connection %d: %w", i+1, err)
		}
		if expected := length * d.cfg.Depth; d.expected == 0 {
			d.expected = expected
		} else if d.expected != expected {
			return fmt.Errorf("connection %d: response of %d bytes, before %d", i+1, length, d.expected/d.cfg.Depth)
		}
		if err := d.add(s, i); err != nil {
			return fmt.Errorf("connection %d: %w", i+1, err)
		}
	}
	for i := range d.conns {
		heap.Push(&d.resting, rest{i, d.now() + d.pause()})
	}
	return nil
}

func (d *driver) close() {
	for i := range d.conns {
		d.conns[i].fd.close()
	}
	d.end()
}

// run answers what comes in for the given time; what is measured lasts until there is a
// response at least, as a machine that has stalled may let a short time pass without.
func (d *driver) run(span time.Duration) error {
	end := d.now() + span
	return d.drive(func(now time.Duration) bool { return now >= end && (!d.counting || d.requests > 0) },
		d.resume, d.receive)
}

// resume sends the requests of connections whose pauses are over.
func (d *driver) resume(now time.Duration) (time.Duration, error) {
	for len(d.resting) > 0 {
		if wait := d.resting[0].until - now; wait > 0 {
			return min(wait, emptyWait), nil
		}
		one := heap.Pop(&d.resting).(rest)
		if err := d.send(&d.conns[one.client], now); err != nil {
			return 0, err
		}
	}
	return emptyWait, nil
}

// pause is how long a connection rests after a response.
func (d *driver) pause() time.Duration {
	if d.cfg.Rate == 0 {
		return d.cfg.Pause
	}
	mean := float64(time.Second) * float64(d.cfg.Conns*d.cfg.Depth) / float64(d.cfg.Rate)
	return time.Duration(d.chance.ExpFloat64() * mean)
}

// receive reads what has come on a connection and sends the next requests when
// all responses are there. Reported once per arrival (edge triggered), so a
// part of the responses needs no second read: the rest is reported again.
func (d *driver) receive(i int) error {
	c := &d.conns[i]
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(c.fd),
		uintptr(unsafe.Pointer(&d.buffer[0])), uintptr(len(d.buffer)))
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return nil
	case errno != 0:
		return fmt.Errorf("read: %w", errno)
	case n == 0:
		return errors.New("read: closed by the server")
	}
	c.awaiting -= int(n)
	if c.awaiting > 0 {
		return nil
	}
	if c.awaiting < 0 {
		return fmt.Errorf("read: %d bytes more than the responses have", -c.awaiting)
	}
	if string(d.buffer[:4]) != "HTTP" && int(n) == d.expected {
		return fmt.Errorf("read: responses begin with %q", d.buffer[:4])
	}
	now := d.now()
	if d.counting {
		d.requests += int64(d.cfg.Depth)
		d.latency.add(now - c.sent)
	}
	if pause := d.pause(); pause > 0 {
		heap.Push(&d.resting, rest{i, now + pause})
		return nil
	}
	return d.send(c, now)
}

func (d *driver) send(c *conn, now time.Duration) error {
	c.sent, c.awaiting = now, d.expected
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(c.fd),
		uintptr(unsafe.Pointer(&d.batch[0])), uintptr(len(d.batch)))
	if errno != 0 {
		return fmt.Errorf("write: %w", errno)
	}
	if int(n) != len(d.batch) {
		return fmt.Errorf("write: %d bytes of %d", n, len(d.batch))
	}
	return nil
}
