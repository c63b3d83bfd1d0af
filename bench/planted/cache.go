package main

import (
	"net/http"
	"sync"
	"time"
)

// cache has readers, and one that writes now and then.
func cache() http.Handler {
	var mu sync.RWMutex
	pages := map[string]string{}
	go func() {
		for range time.Tick(10 * time.Millisecond) {
			mu.Lock()
			pages["/"] = time.Now().String()
			mu.Unlock()
		}
	}()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.RLock()
		page := pages[r.URL.Path]
		mu.RUnlock()
		w.Write([]byte(page))
	})
}
