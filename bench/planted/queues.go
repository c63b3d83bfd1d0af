package main

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// Queues, workers and limits.

// record takes events one by one, each for a millisecond.
func record(events <-chan string) {
	for range events { // cause of one-consumer
		time.Sleep(time.Millisecond) // cause of one-consumer
	}
}

func oneConsumer() http.Handler {
	events := make(chan string)
	go record(events)
	return handler(func(r *http.Request) error {
		publish(events, r.URL.Path)
		return nil
	})
}

func publish(events chan<- string, what string) {
	events <- what // cause of one-consumer
}

type order struct {
	lines string
	done  chan int
}

// settle computes for all orders, one after the other.
func settle(orders <-chan order) {
	for o := range orders { // cause of one-writer
		o.done <- int(compute(700)) + len(strings.Fields(o.lines)) // cause of one-writer
	}
}

// place waits until its order is settled.
func place(orders chan<- order) {
	o := order{"a b c", make(chan int)}
	orders <- o // cause of one-writer
	<-o.done    // cause of one-writer
}

func oneWriter() http.Handler {
	orders := make(chan order)
	go settle(orders)
	return handler(func(*http.Request) error {
		place(orders)
		return nil
	})
}

type job struct{ done chan error }

// work serves jobs from a queue that 4 of it share.
func work(backend *remote, jobs <-chan job) {
	for j := range jobs { // cause of worker-pool
		j.done <- backend.get("10ms") // cause of worker-pool
	}
}

// enqueue waits until its job is done.
func enqueue(jobs chan<- job) error {
	j := job{make(chan error, 1)}
	jobs <- j       // cause of worker-pool
	return <-j.done // cause of worker-pool
}

func workerPool() http.Handler {
	jobs, backend := make(chan job, 100), startRemote()
	for range 4 {
		go work(backend, jobs)
	}
	return handler(func(*http.Request) error { return enqueue(jobs) })
}

// thumbnails are made two at a time.
var thumbnails = make(chan struct{}, 2)

func thumbnail() {
	thumbnails <- struct{}{} // cause of limiter
	defer func() { <-thumbnails }()
	time.Sleep(8 * time.Millisecond) // cause of limiter
}

func limiter() http.Handler {
	return handler(func(*http.Request) error {
		thumbnail()
		return nil
	})
}

type tickets struct {
	mu   sync.Mutex
	free sync.Cond
	left int
}

// take waits for a ticket. Each ticket wakes hundreds of goroutines, and one gets it.
func (t *tickets) take() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.left == 0 {
		t.free.Wait() // cause of broadcast-storm
	}
	t.left--
}

func (t *tickets) sell() {
	for range time.Tick(time.Millisecond) {
		t.mu.Lock()
		t.left++
		t.mu.Unlock()
		t.free.Broadcast() // cause of broadcast-storm
	}
}

func broadcastStorm() http.Handler {
	t := &tickets{}
	t.free.L = &t.mu
	go t.sell()
	return handler(func(*http.Request) error {
		t.take()
		return nil
	})
}

// idlePool has far more workers than jobs.
func idlePool() http.Handler {
	jobs := make(chan job, 16)
	backend := startRemote()
	for range 64 {
		go work(backend, jobs)
	}
	return handler(func(*http.Request) error { return enqueue(jobs) })
}

// pipeline has three stages, with room between them.
func pipeline() http.Handler {
	parsed, shouted, stored := make(chan string, 64), make(chan string, 64), make(chan string, 64)
	go func() {
		for s := range parsed {
			shouted <- strings.ToUpper(s)
		}
	}()
	go func() {
		for s := range shouted {
			stored <- strings.Repeat(s, 2)
		}
	}()
	go func() {
		for range stored {
		}
	}()
	return handler(func(r *http.Request) error {
		parsed <- r.URL.Path
		return nil
	})
}

type outbox struct {
	mu    sync.Mutex
	news  sync.Cond
	lines []string
}

// send takes all that has come since the last time.
func (o *outbox) send() {
	for {
		o.mu.Lock()
		for len(o.lines) == 0 {
			o.news.Wait()
		}
		o.lines = nil
		o.mu.Unlock()
	}
}

func (o *outbox) put(line string) {
	o.mu.Lock()
	o.lines = append(o.lines, line)
	o.mu.Unlock()
	o.news.Signal()
}

// condQueue has a condition variable for each of 32 consumers.
func condQueue() http.Handler {
	all := make([]*outbox, 32)
	for i := range all {
		all[i] = &outbox{}
		all[i].news.L = &all[i].mu
		go all[i].send()
	}
	return handler(func(r *http.Request) error {
		for _, o := range all {
			o.put(r.URL.Path)
		}
		return nil
	})
}
