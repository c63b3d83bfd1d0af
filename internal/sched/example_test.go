package sched_test

import (
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio/internal/sched"
)

// Two nodes with 100 and 300 tickets share 400 steps of 1,000 cycles.
func ExampleStride() {
	var s sched.Stride
	s.SetTickets(1, 100)
	s.SetTickets(2, 300)
	s.Join(1)
	s.Join(2)
	steps := map[sched.Node]int{}
	for range 400 {
		n, _ := s.Min()
		s.Charge(n, 1000)
		steps[n]++
	}
	fmt.Println(steps[1], steps[2])
	// Output: 100 300
}

// What a loop does with a policy: it says what becomes ready, asks what to run, and says
// what that has cost.
func ExampleNewCohort() {
	p := sched.NewCohort(sched.CohortConfig{})
	for _, n := range []sched.Node{1, 2, 1, 2, 1} {
		p.Ready(n)
	}
	for {
		n, ok := p.Next()
		if !ok {
			break
		}
		fmt.Print(n, " ")
		p.Charge(n, 5000)
	}
	// Output: 1 1 1 2 2
}

// Memory is at its limit: tasks at node 1 take it and keep it, those at node 2 give some
// back.
func ExampleNewResource() {
	ledger := sched.NewLedger()
	memory, err := ledger.Add(sched.Spec{Name: "memory", Limit: 512 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	nodes := []sched.Prediction{
		{},
		{Steps: 1000, CPU: sched.Moments{Mean: 20_000}, Changes: []sched.Moments{{Mean: 1 << 20}}, Net: []float64{1 << 20}},
		{Steps: 1000, CPU: sched.Moments{Mean: 20_000}, Changes: []sched.Moments{{Mean: -1 << 20}}, Net: []float64{-1 << 20}},
	}
	p := sched.NewResource(sched.ResourceConfig{
		Ledger:      ledger,
		Predictions: func() []sched.Prediction { return nodes },
	})
	p.Ready(1)
	p.Ready(2)
	ledger.Observe(time.Second, memory, 500<<20)
	p.Tick(time.Second)

	n, ok := p.Next()
	fmt.Println(n, ok)
	n, ok = p.Next()
	fmt.Println(n, ok)
	var r sched.Report
	p.Report(&r)
	fmt.Println(r.Nodes[0].Held)
	// Output:
	// 2 true
	// 0 false
	// held: takes memory and does not give it back; 98 % are in use
}

// Tasks that come in at node 1 hold a tenth of a resource each.
func ExampleAdmission() {
	ledger := sched.NewLedger()
	buffers, err := ledger.Add(sched.Spec{Name: "buffers", Limit: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	requests := ledger.NewGate("requests")
	requests.SetDemand([]sched.Moments{{Mean: 40}})
	admission := sched.NewAdmission(0, true, func(int) *sched.Gate { return requests })

	ledger.Observe(0, buffers, 0)
	for range 3 {
		fmt.Println(admission.Next(time.Second, 1, sched.Queue{Waiting: 1}))
	}
	admission.Left(time.Second, 1)
	fmt.Println(admission.Next(time.Second, 1, sched.Queue{Waiting: 1}))
	// Output:
	// admit
	// admit
	// defer
	// admit
}

// Connections are accepted, which leads to the first read, and so on.
func ExampleWavefront() {
	fmt.Println(sched.Wavefront(func(yield func(from, to sched.Node) bool) {
		_ = yield(0, 2) && yield(2, 3) && yield(3, 2) && yield(3, 1)
	}))
	// Output: [0 2 3 1]
}
