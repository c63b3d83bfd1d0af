package main

import "net/http"

// audit ends when its channel is closed, which no handler does.
func audit(lines <-chan string) { // cause
	for range lines { // cause
	}
}

func leakReceive() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines := make(chan string, 1)
		go audit(lines) // cause
		lines <- r.URL.Path
		answer(w, nil)
	})
}
