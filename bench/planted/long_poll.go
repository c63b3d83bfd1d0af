package main

import (
	"net/http"
	"sync"
	"time"
)

// longPoll answers all that wait when there is news, every 200 ms.
func longPoll() http.Handler {
	var mu sync.Mutex
	news := make(chan struct{})
	go func() {
		for range time.Tick(200 * time.Millisecond) {
			mu.Lock()
			close(news)
			news = make(chan struct{})
			mu.Unlock()
		}
	}()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		next := news
		mu.Unlock()
		select {
		case <-next:
		case <-r.Context().Done():
		}
		answer(w, nil)
	})
}
