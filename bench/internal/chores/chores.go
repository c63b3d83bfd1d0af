// Package chores is what the servers of the experiment admission do for a request: the
// same for Knot's handlers and for those of net/http, whatever limits them. The path and
// the query of a request say what it takes, so that one server will do for every row.
//
// It knows no server: what a chore waits with is in Host, how it answers in Exchange. The
// standard library's side of both is in http.go; Knot's is the driver's own.
package chores

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Paths of chores. Files below FilesPath are not among them: every server has its own way
// with those.
const (
	HelloPath   = "/hello"   // a short text
	DoPath      = "/do"      // ?cpu=1ms&sleep=1ms&first=50&alloc=65536: memory, percent of the work (half if not given), the sleep, the rest
	LockPath    = "/lock"    // ?n=0 and as DoPath, all of it under lock n
	BackendPath = "/backend" // one of a few workers, for as long as they take at the moment
	WaitPath    = "/wait"    // ?alloc=65536: waits for the next request for ReleasePath
	ReleasePath = "/release"
	UploadPath  = "/upload"  // reads the body
	EventsPath  = "/events"  // ?every=100ms: a stream of events until the client is gone
	UpgradePath = "/upgrade" // from then on each byte comes back, see Upgrade
	BytesPath   = "/bytes"   // ?n=1000: a response made in memory
	FilesPath   = "/files/"
)

// AdaptPrefix before a path has Knot do the chore through AdaptHTTP. To servers of net/http it
// means nothing.
const AdaptPrefix = "/adapt"

// HelloText is what HelloPath answers, DoneText what most others do.
const (
	HelloText = "Hello, World!"
	DoneText  = "done\n"
)

// ErrNoChore is returned for a path that is none of the above.
var ErrNoChore = errors.New("chores: no such path")

// Exchange is one request and its response.
type Exchange interface {
	Path() string
	Query() string
	Body() io.Reader
	// Text is the whole response.
	Text(status int, text string) error
	// Stream begins a response of n bytes, or of unknown length with n < 0.
	Stream(contentType string, n int64) io.Writer
	Flush() error
}

// Cond is what task.Cond and sync.Cond have in common.
type Cond interface {
	Wait()
	Broadcast()
}

// Workers are a number of workers that serve one caller at a time each.
type Workers interface {
	Acquire()
	Release()
}

// Host is what the chores of one server wait with.
type Host struct {
	Steps   int // of work that take 1 ms of CPU
	Sleep   func(time.Duration)
	Locks   [2]sync.Locker
	Workers Workers     // the backend's
	Mu      sync.Locker // of releases
	Changed Cond        // with Mu

	// Limit, if more than 0, is how many requests may be inside; others are refused. A
	// request that is admitted calls Yield once, so that requests that arrived meanwhile
	// are counted before it computes.
	Limit int64
	Yield func()

	Out         io.Writer    // where the order "counts" is answered
	AcceptFails atomic.Int64 // accepts that failed

	backend  atomic.Int64 // nanoseconds that a worker takes
	inside   atomic.Int64
	releases uint64 // guarded by Mu
}

// BackendWorkers is how many workers the backend has, BackendTime how long each takes unless told otherwise.
const (
	BackendWorkers = 12
	BackendTime    = 5 * time.Millisecond
)

// Order takes a line that the driver writes to a server's standard input. "backend DURATION" is
// how long a worker takes from now on. "counts" makes the server print what it has counted since
// its start: the collector's CPU seconds and all, and accepts that failed.
func (h *Host) Order(line string) error {
	what, value, _ := strings.Cut(line, " ")
	switch what {
	case "counts":
		t := ReadCollectorTime()
		_, err := fmt.Fprintf(h.Out, "counts %.6f %.6f %d\n", t.Collector, t.All, h.AcceptFails.Load())
		return err
	case "backend":
		d, err := time.ParseDuration(value)
		if err == nil {
			h.backend.Store(int64(d))
		}
		return err
	}
	return fmt.Errorf("chores: order %q, want \"backend DURATION\" or \"counts\"", line)
}

// CollectorTime is processor time in seconds: of the garbage collector without its idle-time marking, of the
// program with the collector, and of all processors including idle time. The Go runtime updates the
// metrics when a collection ends.
type CollectorTime struct{ Collector, Program, All float64 }

// ReadCollectorTime returns the times since the start of the program.
func ReadCollectorTime() CollectorTime {
	samples := []metrics.Sample{
		{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/idle:cpu-seconds"},
		{Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"},
	}
	metrics.Read(samples)
	idle, all := samples[1].Value.Float64(), samples[2].Value.Float64()
	return CollectorTime{samples[0].Value.Float64() - idle, all - samples[3].Value.Float64() - idle, all}
}

// Serve does the chore that a request asks for.
func (h *Host) Serve(x Exchange) error {
	if h.Limit > 0 {
		if h.inside.Add(1) > h.Limit {
			h.inside.Add(-1)
			return x.Text(503, "full\n")
		}
		defer h.inside.Add(-1)
		h.Yield()
	}
	path := x.Path()
	if path == HelloPath {
		return x.Text(200, HelloText)
	}
	take, err := parse(x.Query())
	if err != nil {
		return x.Text(400, err.Error())
	}
	switch path {
	case DoPath:
		h.do(take)
	case LockPath:
		lock := h.Locks[take.n%len(h.Locks)]
		lock.Lock()
		h.do(take)
		lock.Unlock()
	case BackendPath:
		h.callBackend()
	case WaitPath:
		h.wait(take)
	case ReleasePath:
		h.Mu.Lock()
		h.releases++
		h.Changed.Broadcast()
		h.Mu.Unlock()
	case UploadPath:
		n, err := io.Copy(io.Discard, x.Body())
		if err != nil {
			return err
		}
		return x.Text(200, strconv.FormatInt(n, 10))
	case EventsPath:
		return h.events(x, take)
	case BytesPath:
		return sendBytes(x, take.n)
	default:
		return ErrNoChore
	}
	return x.Text(200, DoneText)
}

// order is what a query asks for.
type order struct {
	cpu, sleep, every time.Duration
	alloc, n, first   int
}

func parse(query string) (o order, err error) {
	o.first = 50
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		name, value, _ := strings.Cut(pair, "=")
		switch name {
		case "cpu":
			o.cpu, err = time.ParseDuration(value)
		case "sleep":
			o.sleep, err = time.ParseDuration(value)
		case "every":
			o.every, err = time.ParseDuration(value)
		case "alloc":
			o.alloc, err = strconv.Atoi(value)
		case "n":
			o.n, err = strconv.Atoi(value)
		case "first":
			o.first, err = strconv.Atoi(value)
		default:
			err = fmt.Errorf("chores: query %q", url.QueryEscape(name))
		}
		if err != nil {
			return o, err
		}
	}
	if o.alloc < 0 || o.n < 0 || o.alloc > 1<<30 || o.n > 1<<30 || o.first < 0 || o.first > 100 {
		return o, fmt.Errorf("chores: alloc=%d, n=%d, first=%d", o.alloc, o.n, o.first)
	}
	return o, nil
}

func (h *Host) do(o order) {
	var held []byte
	if o.alloc > 0 {
		held = touched(o.alloc)
	}
	steps := int(int64(h.Steps) * int64(o.cpu) / int64(time.Millisecond))
	if o.sleep > 0 {
		first := steps * o.first / 100
		Work(first)
		h.Sleep(o.sleep)
		steps -= first
	}
	Work(steps)
	runtime.KeepAlive(held)
}

func touched(n int) []byte {
	held := make([]byte, n)
	for i := 0; i < len(held); i += 4096 {
		held[i] = 1
	}
	return held
}

func (h *Host) callBackend() {
	h.Workers.Acquire()
	d := time.Duration(h.backend.Load())
	if d == 0 {
		d = BackendTime
	}
	h.Sleep(d)
	h.Workers.Release()
}

func (h *Host) wait(o order) {
	held := touched(o.alloc)
	h.Mu.Lock()
	for before := h.releases; h.releases == before; {
		h.Changed.Wait()
	}
	h.Mu.Unlock()
	runtime.KeepAlive(held)
}

// events ends with the write that fails.
func (h *Host) events(x Exchange, o order) error {
	w := x.Stream("text/event-stream", -1)
	for {
		if _, err := io.WriteString(w, "data: tick\n\n"); err != nil {
			return err
		}
		if err := x.Flush(); err != nil {
			return err
		}
		h.Sleep(max(o.every, time.Millisecond))
	}
}

func sendBytes(x Exchange, n int) error {
	_, err := x.Stream("application/octet-stream", int64(n)).Write(touched(n))
	return err
}

var sink atomic.Uint64

// Work computes for some steps. Each step needs the result of the step before, so that the
// compiler can't drop any.
//
//go:noinline
func Work(steps int) {
	v := sink.Load()
	for range steps {
		v = v*6364136223846793005 + 1442695040888963407
	}
	sink.Store(v)
}
