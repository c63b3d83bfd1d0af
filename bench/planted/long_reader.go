package main

import (
	"net/http"
	"sync"
	"time"
)

type stock struct {
	mu    sync.RWMutex
	items map[string]int
}

// report keeps the lock for reading while it waits for its own reader.
func (s *stock) report() {
	for {
		s.mu.RLock()                      // cause
		time.Sleep(40 * time.Millisecond) // cause
		s.mu.RUnlock()
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *stock) count(item string) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.items[item]
}

func (s *stock) sell(item string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items[item]--
}

func longReader() http.Handler {
	s := &stock{items: map[string]int{"pear": 1 << 30}}
	go s.report()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.count("pear")%4 == 0 {
			s.sell("pear")
		}
		s.sell("pear")
		answer(w, nil)
	})
}
