package main

import (
	"context"
	"net/http"
	"sync/atomic"
)

// expire waits for the end of a context that has none: its cancel function is lost.
func expire(ctx context.Context) { // cause
	<-ctx.Done() // cause
}

var lost atomic.Pointer[context.CancelFunc]

func leakContext() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(context.Background())
		lost.Store(&cancel)
		go expire(ctx) // cause
		answer(w, nil)
	})
}
