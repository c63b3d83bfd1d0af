package main

import (
	"net/http"
	"time"
)

// rank computes for half a second, again and again, deep in recursion.
func rank(depth int) uint64 {
	if depth == 0 {
		return compute(1) // cause
	}
	return rank(depth-1) + rank(depth-1) // cause
}

func rankAll() { // cause
	for {
		rank(19) // cause
		time.Sleep(10 * time.Millisecond)
	}
}

func hog() http.Handler {
	for range 3 {
		go rankAll()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, nil) })
}
