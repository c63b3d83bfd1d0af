package main

import "net/http"

// sleeper has nothing to do but for its own clients, who come seldom, and 500 goroutines that have waited from the start.
func sleeper() http.Handler {
	never := make(chan struct{})
	for range 500 {
		go func() { <-never }()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, nil) })
}
