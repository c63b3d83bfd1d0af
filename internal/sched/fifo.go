package sched

import "time"

// FIFO runs tasks in the order in which they became ready, whatever their node. The
// zero value is ready to use.
type FIFO struct {
	queue []Node // a ring: n nodes from head on; its length is a power of two
	head  int
	n     int
	gone  []int32 // by node: how many of its tasks in queue, from the front, were taken
	aside []Node  // by Defer, and all of the same nodes that came after; in order
	held  []bool  // by node: is in aside
}

// Ready is part of Policy.
func (f *FIFO) Ready(n Node) {
	if f.n == len(f.queue) {
		f.grow()
	}
	f.queue[(f.head+f.n)&(len(f.queue)-1)] = n
	f.n++
}

func (f *FIFO) grow() {
	queue := make([]Node, max(2*len(f.queue), 64))
	for i := range f.n {
		queue[i] = f.queue[(f.head+i)&(len(f.queue)-1)]
	}
	f.queue, f.head = queue, 0
}

// Gone is part of Policy.
func (f *FIFO) Gone(n Node, k int) {
	for int(n) >= len(f.gone) {
		f.gone = append(f.gone, 0)
	}
	f.gone[n] += int32(k)
}

// Next is part of Policy.
func (f *FIFO) Next() (Node, bool) {
	for f.n > 0 {
		n := f.queue[f.head]
		f.head = (f.head + 1) & (len(f.queue) - 1)
		f.n--
		if int(n) < len(f.held) && f.held[n] {
			f.aside = append(f.aside, n)
			continue
		}
		if int(n) < len(f.gone) && f.gone[n] > 0 {
			f.gone[n]--
			continue
		}
		return n, true
	}
	return 0, false
}

// Charge is part of Policy.
func (f *FIFO) Charge(Node, uint64) {}

// Defer is part of Policy.
func (f *FIFO) Defer(n Node) {
	for int(n) >= len(f.held) {
		f.held = append(f.held, false)
	}
	f.held[n] = true
	f.aside = append(f.aside, n)
}

// Tick is part of Policy.
func (f *FIFO) Tick(time.Duration) {
	for i := len(f.aside) - 1; i >= 0; i-- { // they came before all that is in the queue
		if f.n == len(f.queue) {
			f.grow()
		}
		f.head = (f.head - 1) & (len(f.queue) - 1)
		f.queue[f.head] = f.aside[i]
		f.n++
		f.held[f.aside[i]] = false
	}
	f.aside = f.aside[:0]
}

// Report is part of Policy.
func (f *FIFO) Report(r *Report) {
	r.Policy = "fifo"
	ready := map[Node]int64{}
	for i := range f.n {
		ready[f.queue[(f.head+i)&(len(f.queue)-1)]]++
	}
	for _, n := range f.aside {
		ready[n]++
	}
	for n, k := range ready {
		if int(n) < len(f.gone) {
			k -= int64(f.gone[n])
		}
		if k > 0 {
			held := ""
			if int(n) < len(f.held) && f.held[n] {
				held = reasonAtGate
			}
			r.Nodes = append(r.Nodes, NodeReport{Node: n, Ready: k, Held: held})
		}
	}
	r.sort()
}
