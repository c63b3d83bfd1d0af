package main

import (
	"net/http"
	"sync"
	"time"
)

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
		t.free.Wait() // cause
	}
	t.left--
}

func (t *tickets) sell() {
	for range time.Tick(time.Millisecond) {
		t.mu.Lock()
		t.left++
		t.mu.Unlock()
		t.free.Broadcast() // cause
	}
}

func broadcastStorm() http.Handler {
	t := &tickets{}
	t.free.L = &t.mu
	go t.sell()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.take()
		answer(w, nil)
	})
}
