package main

import (
	"net/http"
	"sync"
	"time"
)

type rates struct {
	mu    sync.Mutex
	known map[string]float64
}

// lookup waits for a slow source while it has the lock of all rates.
func (t *rates) lookup(currency string) float64 {
	t.mu.Lock() // cause
	defer t.mu.Unlock()
	if _, ok := t.known[currency]; !ok || len(t.known) > 0 {
		time.Sleep(2 * time.Millisecond) // cause
		t.known[currency] = 1.5
	}
	return t.known[currency]
}

func lockAcrossSleep() http.Handler {
	t := &rates{known: map[string]float64{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.lookup("chf")
		answer(w, nil)
	})
}
