package main

import (
	"net/http"
	"runtime"
	"runtime/debug"
)

type leaf struct{ left, right *leaf }

// grow allocates a tree, which is garbage at once.
func grow(depth int) *leaf {
	if depth == 0 {
		return new(leaf) // cause
	}
	return &leaf{grow(depth - 1), grow(depth - 1)} // cause
}

func assist() http.Handler {
	debug.SetGCPercent(10)
	kept := grow(20)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		grow(13) // cause
		answer(w, nil)
		runtime.KeepAlive(kept)
	})
}
