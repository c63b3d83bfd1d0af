package main

import (
	"net/http"
	"sync"
)

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
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, o := range all {
			o.put(r.URL.Path)
		}
		answer(w, nil)
	})
}
