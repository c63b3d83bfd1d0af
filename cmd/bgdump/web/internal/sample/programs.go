package sample

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
)

const (
	web = "example.com/shop/web."
	own = "github.com/capriccio-go/capriccio/"
)

// Shop is a web shop of two loops: sessions queue for a lock, pages are rendered in
// steps that are long now and then, and an access log is written by a task of its own.
func Shop() *Program {
	conn := func(calls ...string) []string {
		return append(calls, web+"(*conn).serve", web+"(*Server).Run.func1")
	}
	const (
		accept = iota
		read
		lock
		render
		query
		throttle
		write
		logRecv
		logDisk
		body
		refresh
		tick
	)
	places := []Place{
		accept:   {Reason: "accept", Stack: []string{own + "netpoll.(*Listener).Accept", web + "(*Server).Run"}, Wait: 2 * time.Millisecond, Ready: 9 * time.Microsecond, Held: 2},
		read:     {Reason: "read", Stack: conn(own+"netpoll.(*Conn).Read", "bufio.(*Reader).fill", "bufio.(*Reader).ReadSlice", web+"(*conn).readHead"), Wait: 160 * time.Millisecond, Ready: 55 * time.Microsecond, Held: 1400},
		lock:     {Reason: "mutex", Stack: conn(own+"task.(*Mutex).Lock", web+"(*sessions).find", web+"(*conn).handle"), Wait: 60 * time.Millisecond, Ready: 48 * time.Microsecond, Held: 40},
		render:   {Reason: "yield", Label: "render page", Stack: conn(own+"ressched.YieldAt", web+"(*page).render", web+"(*conn).handle"), Wait: 20 * time.Microsecond, Ready: 180 * time.Microsecond, Held: 3},
		query:    {Reason: "offload", Stack: conn(own+"task.Offload", web+"(*catalog).query", web+"(*page).render", web+"(*conn).handle"), Wait: 11 * time.Millisecond, Ready: 60 * time.Microsecond, Held: 4},
		throttle: {Reason: "sleep", Stack: conn(own+"task.Sleep", web+"(*limiter).wait", web+"(*conn).handle"), Wait: 50 * time.Millisecond, Ready: 75 * time.Microsecond},
		write:    {Reason: "write", Stack: conn(own+"netpoll.(*Conn).Writev", web+"(*conn).reply", web+"(*conn).handle"), Wait: 2600 * time.Microsecond, Ready: 52 * time.Microsecond, Held: 1},
		logRecv:  {Reason: "channel receive", Stack: []string{own + "task.(*Chan[...]).Recv", web + "(*accessLog).drain"}, Wait: 19 * time.Millisecond, Ready: 30 * time.Microsecond, Held: 1},
		logDisk:  {Reason: "disk", Stack: []string{own + "aio.(*File).Write", web + "(*accessLog).flush", web + "(*accessLog).drain"}, Wait: 140 * time.Microsecond, Ready: 28 * time.Microsecond},
		body:     {Reason: "read", Stack: conn(own+"netpoll.(*Conn).Read", "io.ReadFull", web+"(*conn).readBody", web+"(*conn).handle"), Wait: 4 * time.Millisecond, Ready: 40 * time.Microsecond, Grows: true},
		refresh:  {Reason: "sleep", Stack: []string{own + "task.Sleep", web + "(*catalog).refresh"}, Wait: 250 * time.Millisecond, Ready: 20 * time.Microsecond, Held: 1},
		tick:     {Reason: "semaphore", Stack: []string{own + "task.(*Semaphore).Acquire", web + "(*catalog).load", web + "(*catalog).refresh"}, Wait: 8 * time.Millisecond, Ready: 20 * time.Microsecond},
	}
	µs := time.Microsecond
	steps := []Step{
		{From: Start, To: read, Rate: 900, CPU: 9 * µs, Heap: 2048, Changes: []int64{1, 4096}},
		{From: Start, To: accept, Rate: 0.2, CPU: 20 * µs},
		{From: Start, To: logRecv, Rate: 0.05, CPU: 4 * µs},
		{From: Start, To: refresh, Rate: 0.05, CPU: 4 * µs},
		{From: accept, To: accept, Rate: 900, CPU: 6 * µs, Heap: 512},
		{From: read, To: lock, Rate: 7000, CPU: 3 * µs, Heap: 640},
		{From: read, To: write, Rate: 1900, CPU: 5 * µs, Heap: 320},
		{From: read, To: body, Rate: 420, CPU: 4 * µs, Heap: 320},
		{From: read, To: End, Rate: 850, CPU: 7 * µs, Changes: []int64{-1, -4096}},
		{From: body, To: lock, Rate: 411, CPU: 5 * µs, Heap: 4096},
		{From: lock, To: render, Rate: 7300, CPU: 14 * µs, Heap: 96},
		{From: lock, To: throttle, Rate: 110, CPU: 2 * µs},
		{From: throttle, To: render, Rate: 110, CPU: 2 * µs},
		{From: render, To: query, Rate: 2600, CPU: 24 * µs, Heap: 1024},
		{From: render, To: write, Rate: 7410, CPU: 62 * µs, Heap: 18_000},
		{From: query, To: render, Rate: 2600, CPU: 31 * µs, Heap: 9000},
		{From: write, To: read, Rate: 9270, CPU: 6 * µs},
		{From: write, To: End, Rate: 40, CPU: 9 * µs, Changes: []int64{-1, -4096}},
		{From: logRecv, To: logRecv, Rate: 5600, CPU: 1 * µs},
		{From: logRecv, To: logDisk, Rate: 45, CPU: 12 * µs},
		{From: logDisk, To: logRecv, Rate: 45, CPU: 2 * µs},
		{From: refresh, To: tick, Rate: 4, CPU: 8 * µs},
		{From: tick, To: refresh, Rate: 4, CPU: 3200 * µs, Heap: 240_000},
	}
	p := NewProgram("shop", 2, []bgraph.Resource{
		{Name: "file descriptors", Limit: 4096, Acquired: 3700, InUse: 3700},
		{Name: "connection buffers", Unit: "bytes", Acquired: 3700 << 12, InUse: 3700 << 12},
	}, places, steps)
	p.report(keyOf(accept), keyOf(read), keyOf(render), keyOf(write), keyOf(tick), keyOf(refresh))
	return p
}

// report makes up what the watchdog and the scheduler of the shop say.
func (p *Program) report(accept, read, render, write, tick, refresh bgraph.Key) {
	s := p.snap
	s.Overruns = []bgraph.Overrun{
		{From: render, To: write, Task: "conn", Loop: 1, At: Began.Add(400 * time.Millisecond), Held: 18_400_000, Stack: trace},
		{From: tick, To: refresh, Task: "refresh", Loop: 0, At: Began.Add(700 * time.Millisecond), Held: 31_700_000, Stack: trace},
	}
	s.Sched = &bgraph.Sched{Policy: "resource", Admitted: 44_211, Deferred: 1_204, Refused: 17,
		Resources: []bgraph.SchedResource{
			{Name: "cpu", Utilisation: 0.93, Trend: 0.01, State: "rising"},
			{Name: "heap", Utilisation: 0.41, Trend: -0.002, State: "low"},
			{Name: "file descriptors", Utilisation: 0.98, Trend: 0.02, State: "at limit"},
		},
		Nodes: []bgraph.SchedNode{
			{Key: accept, Loop: 0, Priority: 0.02, Tickets: 2, Pass: 9_100_221, Held: "takes file descriptors, which are at their limit"},
			{Key: read, Loop: 0, Priority: 1.4, Tickets: 140, Pass: 9_100_190, Ready: 3},
			{Key: render, Loop: 0, Priority: 0.9, Tickets: 90, Pass: 9_100_187, Ready: 1},
			{Key: write, Loop: 0, Priority: 2.2, Tickets: 220, Pass: 9_100_183, Ready: 2},
		},
	}
}

const trace = `goroutine 57 [running]:
example.com/shop/web.(*page).sortOffers(0xc0001a4000)
	/src/shop/web/page.go:212 +0x1a4
example.com/shop/web.(*page).render(0xc0001a4000, {0x7f21c0, 0xc0000b2000})
	/src/shop/web/page.go:91 +0x2f0
`

// Wide is a program of n places and about three times as many steps.
func Wide(n int) *Program {
	random := rand.New(rand.NewPCG(uint64(n), 7))
	reasons := []string{"read", "write", "mutex", "sleep", "channel receive", "offload"}
	places := make([]Place, n)
	var steps []Step
	seen := make(map[[2]int]bool)
	step := func(from, to int, rate float64) {
		if !seen[[2]int{from, to}] {
			seen[[2]int{from, to}] = true
			steps = append(steps, Step{From: from, To: to, Rate: rate, CPU: time.Duration(1+random.ExpFloat64()*40) * time.Microsecond, Heap: int64(random.IntN(4096))})
		}
	}
	for i := range places {
		family := i % 40
		places[i] = Place{
			Reason: reasons[i%len(reasons)],
			Stack: []string{
				fmt.Sprintf("example.com/wide/part%d.(*service%d).wait%d", family, i%7, i),
				fmt.Sprintf("example.com/wide/part%d.(*service%d).handle", family, i%7),
				fmt.Sprintf("example.com/wide/part%d.Serve", family), "example.com/wide/server.(*Server).Run.func1",
			},
			Wait:  time.Duration(random.ExpFloat64() * 20 * float64(time.Millisecond)),
			Ready: time.Duration(random.ExpFloat64() * 50 * float64(time.Microsecond)),
			Held:  int64(random.ExpFloat64() * 3),
		}
		rate := 400 * random.ExpFloat64()
		if i < 10 {
			step(Start, i, rate)
		}
		step(i, (i+1)%n, rate)
		step(i, (i*7+3)%n, rate/3)
		step(i, random.IntN(n), rate/9)
		if i%50 == 0 {
			step(i, End, rate/4)
		}
	}
	return NewProgram("wide", 4, nil, places, steps)
}

// Hostile is a program whose names try to be more than names.
func Hostile() *Program {
	names := []string{
		`<img src=x onerror="window.stolen=1">`,
		`"><script>window.stolen=2</script>`,
		`javascript:window.stolen=3//`,
		"</title></style></textarea><svg onload=window.stolen=4>",
		"`${window.stolen=5}`{{constructor.constructor('window.stolen=6')()}}",
		"__proto__",
	}
	places := make([]Place, len(names))
	var steps []Step
	for i, name := range names {
		places[i] = Place{Reason: "read " + name, Label: name, Stack: []string{name, "a/b." + name}, Wait: time.Millisecond, Ready: time.Microsecond, Held: 3}
		steps = append(steps, Step{From: Start, To: i, Rate: 50, CPU: time.Microsecond}, Step{From: i, To: (i + 1) % len(names), Rate: 90, CPU: 5 * time.Millisecond}, Step{From: i, To: End, Rate: 40, CPU: time.Microsecond})
	}
	p := NewProgram(names[0], 1, []bgraph.Resource{{Name: names[1], Unit: names[2]}}, places, steps)
	s := p.snap
	s.Program.Host, s.Program.Go = names[3], names[4]
	s.Overruns = []bgraph.Overrun{{From: keyOf(0), To: keyOf(1), Task: names[0], At: Began, Held: 1, Stack: names[1] + "\n" + names[3]}}
	s.Sched = &bgraph.Sched{Policy: names[0],
		Resources: []bgraph.SchedResource{{Name: names[1], State: names[3]}},
		Nodes:     []bgraph.SchedNode{{Key: keyOf(0), Held: names[0]}},
	}
	return p
}
