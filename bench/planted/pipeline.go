package main

import (
	"net/http"
	"strings"
)

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
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parsed <- r.URL.Path
		answer(w, nil)
	})
}
