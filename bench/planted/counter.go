package main

import (
	"fmt"
	"net/http"
	"sync"
)

// counter has a lock for all requests, which each keeps for some nanoseconds.
func counter() http.Handler {
	var mu sync.Mutex
	seen := map[string]int{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.URL.Path]++
		n := seen[r.URL.Path]
		mu.Unlock()
		fmt.Fprintln(w, n)
	})
}
