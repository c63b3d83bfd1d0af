package load

import (
	"container/heap"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
)

// Request is what clients ask for that are not told otherwise.
const Request = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"

// Config describes clients with a connection each, which ask again when they have their response. The server
// has to serve every request.
type Config struct {
	Target
	Conns int // clients
	// Next draws a request and says how long the body of its response has to be. The request is kept until
	// the response is there. nil: all are Request, and all responses as long as the first one of a client.
	Next func() (request []byte, bodyBytes int64)
	// Depth is how many requests a client sends together; 0: 1. More go without Next only.
	Depth int
	// PerConn is how many requests a client makes on a connection before it opens another; 0:
	// all on one. The first then counts from before it connects.
	PerConn int
	// Think, if not nil, is how long a client waits before a request, the first one included.
	Think func(client int) time.Duration
	Warm  time.Duration // before measuring; with Next, the clients begin one after another in half of it
	For   time.Duration // measured
}

// Result is what was measured. Latencies are from sending Depth requests to the end of the last response;
// those of requests still under way at the end, until then, count too. Reopened are the requests for which a client had
// to connect again, as the server had closed a connection that was kept alive (RFC 9112, 9.3.1); their latency has both.
type Result struct {
	Requests int64
	Bytes    int64 // of the bodies that Next has named
	Elapsed  time.Duration
	P50, P99 time.Duration
	Mean     time.Duration // of the responses counted
	Longest  time.Duration
	Unserved int // clients that got no response while it was measured
	Reopened int64
	Usage    Usage
	Fetched  int64 // bytes that the kernel has read from disks for the first process
}

// silenceLimit is how long a server may answer nothing at all. Silence is counted in waits, not timed: this process may
// be stopped together with the server.
const silenceLimit = time.Minute

// asker is one client of a runner.
type asker struct {
	link    int32
	serial  uint32        // of the link: another one is another client's
	made    int           // requests on this connection
	busy    bool          // a request is under way
	sent    time.Duration // when
	request []byte
	body    int64 // bytes that its response has to have, with Next
	length  int64 // of a response, once known; without Next
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

// runner is the traffic of a run.
type runner struct {
	cfg       Config
	c         *client
	clients   []asker
	batch     []byte // Depth requests
	resting   rests
	unlearned int // clients that do not know yet how long a response is
	counting  bool
	result    Result
	latencies []time.Duration
	waited    time.Duration // by all counted together
	heard     bool          // there was an answer since due was called last, at
	last      time.Duration
	silent    time.Duration
}

// mostPerSecond is more than a server of one core answers; what is counted without growing.
const mostPerSecond = 500_000

// Run runs the clients. Any surprise from the server is an error.
func Run(cfg Config) (Result, error) {
	cfg.Depth = max(cfg.Depth, 1)
	if cfg.Depth > MaxDepth || cfg.Depth > 1 && cfg.Next != nil || cfg.For <= 0 || len(cfg.PIDs) == 0 {
		return Result{}, fmt.Errorf("load: depth %d (1 to %d, 1 with Next), %v (more than 0), %d processes (at least 1)",
			cfg.Depth, MaxDepth, cfg.For, len(cfg.PIDs))
	}
	o := &runner{cfg: cfg, batch: []byte(strings.Repeat(Request, cfg.Depth)), latencies: make([]time.Duration, 0, int(cfg.For.Seconds()*mostPerSecond)+1<<10)}
	var err error
	if o.c, err = newClient(cfg.Addr, cfg.Conns, o); err != nil {
		return Result{}, err
	}
	defer o.c.close()
	o.clients = make([]asker, cfg.Conns)
	if cfg.Next == nil {
		if err := o.learn(); err != nil {
			return Result{}, err
		}
	}
	for i := range o.clients {
		begins := o.c.now()
		if cfg.Next != nil {
			begins += cfg.Warm / 2 * time.Duration(i) / time.Duration(cfg.Conns)
		}
		o.rest(i, begins)
	}
	if err := o.c.drive(o.c.now() + cfg.Warm); err != nil {
		return Result{}, fmt.Errorf("warm up: %w", err)
	}
	return o.measure()
}

// learn has one exchange on each connection, to know how long a response is.
func (o *runner) learn() error {
	o.unlearned = o.cfg.Conns
	for i := range o.clients {
		if err := o.ask(int32(i), o.c.now()); err != nil {
			return err
		}
	}
	err := o.c.drive(never)
	o.c.ended = false
	return err
}

// measure lasts until there is a response at least, as a machine that has stalled may let a short time pass
// without.
func (o *runner) measure() (Result, error) {
	fetched, err := proc.FetchedBytes(o.cfg.PIDs[0])
	if err != nil {
		return Result{}, err
	}
	before, err := o.cfg.usage()
	if err != nil {
		return Result{}, err
	}
	o.counting = true
	from, end := o.c.now(), time.Duration(0)
	for end < from+o.cfg.For || o.result.Requests == 0 {
		if err := o.c.drive(max(end+longestWait, from+o.cfg.For)); err != nil {
			return Result{}, err
		}
		end = o.c.now()
	}
	after, err := o.cfg.usage()
	if err != nil {
		return Result{}, err
	}
	now, err := proc.FetchedBytes(o.cfg.PIDs[0])
	r := &o.result
	r.Elapsed, r.Usage, r.Fetched = end-from, after.since(before), now-fetched
	r.Mean = o.waited / time.Duration(r.Requests)
	for i := range o.clients {
		p := &o.clients[i]
		if !p.busy {
			continue
		}
		o.latencies = append(o.latencies, end-p.sent)
		if p.sent < from {
			r.Unserved++
		}
	}
	r.P50, r.P99, r.Longest = Quantile(o.latencies, 0.50), Quantile(o.latencies, 0.99), Quantile(o.latencies, 1)
	return *r, err
}

func (o *runner) due(now time.Duration) (time.Duration, error) {
	if o.silent += min(now-o.last, longestWait); o.heard || len(o.resting) == len(o.clients) {
		o.silent = 0
	}
	if o.heard, o.last = false, now; o.silent > silenceLimit {
		return 0, fmt.Errorf("load: no response for %v", silenceLimit)
	}
	for range issueBatch {
		if len(o.resting) == 0 {
			return never, nil
		}
		next := o.resting[0]
		if next.until > now {
			return next.until, nil
		}
		heap.Pop(&o.resting)
		if err := o.ask(int32(next.client), now); err != nil {
			return 0, err
		}
		now = o.c.now()
	}
	return now, nil
}

// rest has a client ask at a time, or after it has thought from then on.
func (o *runner) rest(i int, at time.Duration) {
	if o.cfg.Think != nil {
		at += o.cfg.Think(i)
	}
	heap.Push(&o.resting, rest{i, at})
}

func (o *runner) ask(i int32, now time.Duration) error {
	p := &o.clients[i]
	p.sent, p.busy = now, true
	switch {
	case o.cfg.Next != nil:
		p.request, p.body = o.cfg.Next()
	case p.length == 0:
		p.request = []byte(Request)
	default:
		p.request = o.batch
	}
	return o.send(i)
}

// send sends the request of client i, on another connection if it is time for that or the server has closed its own.
func (o *runner) send(i int32) error {
	p := &o.clients[i]
	known := p.length * int64(o.cfg.Depth)
	open := p.made > 0 && o.c.links[p.link].serial == p.serial
	switch {
	case p.made == 0:
	case p.made == o.cfg.PerConn:
		if open {
			o.c.hangUp(p.link)
		}
	case open:
		p.made++
		return o.c.request(p.link, p.request, i, known)
	case o.counting:
		o.result.Reopened++
	}
	link, err := o.c.dial(p.request, i, 0, known)
	if err != nil {
		return fmt.Errorf("connection %d: %w", i+1, err)
	}
	p.link, p.serial, p.made = link, o.c.links[link].serial, 1
	return nil
}

func (o *runner) answered(i int32, r response, now time.Duration) error {
	p := &o.clients[i]
	p.busy, o.heard = false, true
	switch {
	case p.length > 0: // it was not looked at
	case r.status != 200:
		return fmt.Errorf("connection %d: status %d, want 200", i+1, r.status)
	case o.cfg.Next == nil:
		p.length = r.length
		o.unlearned--
		o.c.ended = o.unlearned == 0
		return nil
	case r.body != p.body:
		return fmt.Errorf("connection %d: Content-Length is %d, the file has %d bytes", i+1, r.body, p.body)
	}
	if o.counting {
		o.result.Requests += int64(o.cfg.Depth)
		o.result.Bytes += p.body
		o.latencies = append(o.latencies, now-p.sent)
		o.waited += now - p.sent
	}
	if o.cfg.Think != nil {
		o.rest(int(i), now)
		return nil
	}
	return o.ask(i, now)
}

// lost has a client connect again whose server has closed its connection as it was idle; the first request on a
// connection has to be answered.
func (o *runner) lost(i int32, cause error, _ time.Duration) error {
	var idle unanswered
	if p := &o.clients[i]; p.made > 1 && errors.As(cause, &idle) {
		return o.send(i)
	}
	return fmt.Errorf("connection %d: %w", i+1, cause)
}
