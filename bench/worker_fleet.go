package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/internal/orca"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/proxy"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// The processes of the experiment fleet: servers, balancers, and the users.

// runFleetServer is a server with a few workers, for which requests wait. A request keeps a worker for some time, without
// processor: so a fleet fits on two cores.
func runFleetServer(args []string, out io.Writer) {
	flags := flag.NewFlagSet("fleet-server", flag.ExitOnError)
	service := flags.Duration("service", 0, "that a request takes on average, exponentially distributed")
	workers := flags.Int64("workers", 4, "requests that are served at a time")
	slow := flags.Float64("slow", 1, "times as long as -service")
	burn := flags.Float64("burn", 0, "steps of work that a request takes on average, exponentially distributed")
	noisy := flags.Bool("noisy", false, fmt.Sprintf("half of the time, for %v to %v, a request takes %d times as long", noiseLeast, noiseMost, noiseSlows))
	seed := flags.Uint64("seed", 1, "of chance")
	flags.Parse(args)
	chance := rand.New(rand.NewPCG(*seed, 2)) // of the only loop
	free := task.NewSemaphore(*workers)
	loud, until := false, time.Now()
	load := loadKnown{workers: *workers}
	serve := func(x *knot.Ctx) error {
		if err := free.Acquire(1); err != nil {
			return err
		}
		defer free.Release(1)
		takes := *slow * chance.ExpFloat64() * float64(*service)
		for now := time.Now(); *noisy && now.After(until); loud = !loud {
			until = until.Add(noiseLeast + time.Duration(chance.Int64N(int64(noiseMost-noiseLeast))))
		}
		if loud {
			takes *= noiseSlows
		}
		load.worked += time.Duration(takes)
		if *burn > 0 {
			work(int(chance.ExpFloat64() * *burn))
			return nil
		}
		return task.Sleep(time.Duration(takes))
	}
	serveKnot(must(oneLoop()), &knot.Server{H2C: true, Handler: func(x *knot.Ctx) error {
		if string(x.PathBytes()) == "*" { // a probe of a balancer
			load.tell(x)
			return x.Send(204, "", nil)
		}
		ended := load.began()
		err := serve(x)
		ended()
		if err != nil {
			return err
		}
		if bytes.HasPrefix(x.HeaderBytes("Content-Type"), []byte(grpcType)) {
			return load.answerGRPC(x)
		}
		load.tell(x)
		return x.SendString(200, "text/plain", "Hello, World!")
	}}, out)
}

// A loadKnown is what a server knows of its load, as the load report of cmd/knot has it: the requests that it has, and how
// long one took when there were about as many, by powers of two. It belongs to one loop.
type loadKnown struct {
	workers  int64
	inFlight int
	took     [16]time.Duration

	// For gRPC: requests that have ended, and time of workers; and how many of both in the last second.
	ended, endedBefore   int
	worked, workedBefore time.Duration
	at                   time.Time // when that was last counted
	rate, utilisation    float64
}

// began records that a request has come. The function that it returns records that it has ended.
func (l *loadKnown) began() (ended func()) {
	l.inFlight++
	mean, since := &l.took[min(bits.Len(uint(l.inFlight))-1, len(l.took)-1)], time.Now()
	return func() {
		l.ended++
		l.inFlight--
		took := time.Since(since)
		if *mean == 0 {
			*mean = took
		}
		*mean += (took - *mean) / 20
	}
}

// tell puts the report into the response, if the request asks for one.
func (l *loadKnown) tell(x *knot.Ctx) {
	if x.HeaderBytes(orca.FormatHeader) == nil {
		return
	}
	latency := time.Duration(0)
	for i := min(bits.Len(uint(l.inFlight+1))-1, len(l.took)-1); i >= 0 && latency == 0; i-- {
		latency = l.took[i]
	}
	of := orca.Report{Named: []orca.Value{{Name: orca.InFlight, Value: float64(l.inFlight)}, {Name: orca.Latency, Value: latency.Seconds()}}}
	x.AddHeader(orca.Header, string(of.AppendText(nil)))
}

const grpcType = "application/grpc"

// answerGRPC sends an empty message, and the report as gRPC's balancer wants it: requests in a second, and how busy the workers are.
func (l *loadKnown) answerGRPC(x *knot.Ctx) error {
	if took := time.Since(l.at).Seconds(); took >= 1 {
		l.rate = float64(l.ended-l.endedBefore) / took
		l.utilisation = min((l.worked-l.workedBefore).Seconds()/took/float64(l.workers), 1)
		l.at, l.endedBefore, l.workedBefore = time.Now(), l.ended, l.worked
	}
	of := orca.Report{RPS: l.rate, Application: l.utilisation}
	x.SetContentType(grpcType)
	x.Write(make([]byte, 5))
	return errors.Join(x.AddTrailer(orca.BinaryHeader, string(of.AppendBase64(nil))), x.AddTrailer("grpc-status", "0"))
}

// The noisy neighbour of a server.
const (
	noiseLeast = 100 * time.Millisecond
	noiseMost  = 900 * time.Millisecond
	noiseSlows = 3
)

// runFleetBalancers runs a number of Knot proxies to the same servers. Each proxy knows only its own requests.
func runFleetBalancers(args []string, out io.Writer) {
	flags := flag.NewFlagSet("fleet-balancers", flag.ExitOnError)
	n := flags.Int("n", 1, "how many")
	balance := flags.String("balance", "", "how they choose, as in proxy.Config")
	servers := flags.String("servers", "", "addresses, with commas between")
	flags.Parse(args)
	var backends []string
	for addr := range strings.SplitSeq(*servers, ",") {
		backends = append(backends, "http://"+addr)
	}
	must(oneLoop()).Go(func() {
		var addrs []string
		for range *n {
			ln := must(netpoll.Listen("tcp", "127.0.0.1:0"))
			addrs = append(addrs, ln.Addr().String())
			p := must(proxy.New(proxy.Config{Backends: backends, Balance: *balance}))
			p.Start()
			server := &knot.Server{Handler: p.Handle}
			task.Go(func() { check(server.Serve(ln)) })
		}
		fmt.Fprintln(out, "listening", strings.Join(addrs, ","))
	})
	untilInputEnds()
}

// Users of the fleet wait for fleetPatience, then ask again, three times at most, after a pause that doubles.
const (
	fleetPatience = 2 * time.Second
	fleetRetries  = 3
	fleetPause    = 100 * time.Millisecond
)

// A fleetUsers is an open loop of users: one comes when it comes, whatever becomes of those before.
type fleetUsers struct {
	addrs []string
	idle  []connPool // by address
	from  time.Time  // answers that come from then on are counted
	to    time.Time  // and until then

	mu                        sync.Mutex
	attempts, refused, failed int             // the last: users who gave up; guarded by mu
	answered                  []time.Duration // since the user came; guarded by mu
	late                      []time.Duration // from when a user came until the first attempt; guarded by mu
}

// A connPool keeps connections to an address that rest.
type connPool struct {
	mu   sync.Mutex
	free []*fleetConn
}

type fleetConn struct {
	net.Conn
	r *bufio.Reader
}

func runFleetUsers(args []string, out io.Writer) {
	flags := flag.NewFlagSet("fleet-users", flag.ExitOnError)
	addrs := flags.String("addrs", "", "of balancers, with commas between; each attempt takes one by chance")
	rate := flags.Float64("rate", 0, "users a second, at random")
	warm := flags.Duration("warm", 0, "until answers are counted")
	span := flags.Duration("for", 0, "while they are")
	x := flags.Float64("x", 0, "of the samples")
	seed := flags.Uint64("seed", 1, "of chance")
	flags.Parse(args)
	u := &fleetUsers{addrs: strings.Split(*addrs, ",")}
	u.idle = make([]connPool, len(u.addrs))
	chance := rand.New(rand.NewPCG(*seed, 3))
	began := time.Now()
	u.from = began.Add(*warm)
	var all sync.WaitGroup
	u.to = u.from.Add(*span)
	for due := began; due.Before(u.to); {
		due = due.Add(time.Duration(chance.ExpFloat64() / *rate * float64(time.Second)))
		time.Sleep(time.Until(due))
		all.Go(func() { u.ask(due) })
	}
	all.Wait()
	emit := emitAt(out, *x)
	n := len(u.answered)
	emit("goodput", "req/s", float64(n)/span.Seconds())
	emit("failed", "%", share(u.failed, n+u.failed))
	emit("p50", "ms", milliseconds(load.Quantile(u.answered, 0.5)))
	emit("p99", "ms", milliseconds(load.Quantile(u.answered, 0.99)))
	emit("attempts", "1", float64(u.attempts)/float64(max(n+u.failed, 1)))
	emit("client-late", "ms", milliseconds(load.Quantile(u.late, 0.99)))
	emit("refused", "req/s", float64(u.refused)/span.Seconds())
}

// ask sends the requests of one user: the first one, and those after a failure.
func (u *fleetUsers) ask(due time.Time) {
	late := time.Since(due)
	for try := 0; ; try++ {
		status, err := u.attempt(rand.IntN(len(u.addrs)))
		ok := err == nil && status == http.StatusOK
		over := ok || try == fleetRetries
		if now := time.Now(); now.After(u.from) && now.Before(u.to) {
			u.count(status, over, ok, now.Sub(due), late)
		}
		if over {
			return
		}
		time.Sleep(time.Duration(float64(fleetPause<<try) * (0.5 + rand.Float64())))
	}
}

// count counts an attempt that has ended, the user's last one if over.
func (u *fleetUsers) count(status int, over, ok bool, took, late time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.attempts++
	if status == http.StatusServiceUnavailable {
		u.refused++
	}
	switch {
	case ok:
		u.answered = append(u.answered, took)
	case over:
		u.failed++
	}
	if over {
		u.late = append(u.late, late)
	}
}

// attempt sends a request to the address of that index. A connection that had been closed while it was at rest is replaced.
func (u *fleetUsers) attempt(at int) (status int, err error) {
	until := time.Now().Add(fleetPatience)
	for {
		c, rested, err := u.conn(at, until)
		if err != nil {
			return 0, err
		}
		status, err = c.exchange(until)
		if err == nil {
			u.idle[at].put(c)
			return status, nil
		}
		c.Close()
		if !rested || time.Now().After(until) {
			return 0, err
		}
	}
}

func (u *fleetUsers) conn(at int, until time.Time) (c *fleetConn, rested bool, err error) {
	if c := u.idle[at].take(); c != nil {
		return c, true, nil
	}
	nc, err := net.DialTimeout("tcp", u.addrs[at], time.Until(until))
	if err != nil {
		return nil, false, err
	}
	return &fleetConn{nc, bufio.NewReaderSize(nc, 1<<10)}, false, nil
}

func (p *connPool) take() (c *fleetConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free) - 1; n >= 0 {
		c = p.free[n]
		p.free = p.free[:n]
	}
	return c
}

func (p *connPool) put(c *fleetConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, c)
}

// fleetRequest says for how long its user waits, for servers that know that header.
var fleetRequest = fmt.Sprintf("GET / HTTP/1.1\r\nHost: fleet\r\nX-Request-Timeout: %d\r\n\r\n", fleetPatience.Milliseconds())

func (c *fleetConn) exchange(until time.Time) (status int, err error) {
	if err := c.SetDeadline(until); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(c, fleetRequest); err != nil {
		return 0, err
	}
	answer, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	if answer.Close && err == nil {
		return answer.StatusCode, errors.Join(c.Close())
	}
	return answer.StatusCode, err
}
