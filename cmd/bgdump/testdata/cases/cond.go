//go:build ignore

// Healthy queues with a condition variable each, as in nats.go: every wake-up has a message to handle.
package main

import (
	"os"
	"runtime/trace"
	"sync"
	"time"
)

type queue struct {
	mu   sync.Mutex
	cond *sync.Cond
	q    []int
}

func (q *queue) push(v int) {
	q.mu.Lock()
	q.q = append(q.q, v)
	q.mu.Unlock()
	q.cond.Signal()
}

var handled [20]int

func (q *queue) consume(n int) {
	for {
		q.mu.Lock()
		for len(q.q) == 0 {
			q.cond.Wait()
		}
		q.q = q.q[1:]
		q.mu.Unlock()
		handled[n]++
	}
}

func main() {
	for i := range 20 {
		q := &queue{}
		q.cond = sync.NewCond(&q.mu)
		go q.consume(i)
		go func() {
			for {
				q.push(1)
				time.Sleep(time.Millisecond)
			}
		}()
	}
	time.Sleep(100 * time.Millisecond)
	f, _ := os.Create(os.Args[1])
	trace.Start(f)
	time.Sleep(600 * time.Millisecond)
	trace.Stop()
}
