package main

import (
	"context"
	"net/http"
	"time"
)

// timeouts gives each request a second, which none needs.
func timeouts() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		done := make(chan struct{})
		go func() {
			compute(50)
			close(done)
		}()
		select {
		case <-done:
			answer(w, nil)
		case <-ctx.Done():
			answer(w, ctx.Err())
		}
	})
}
