package main

import (
	"net/http"
	"time"
)

// subscribers have a goroutine each that writes what comes, as long as they are there.
func subscribers() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		news, done := make(chan string), make(chan struct{})
		go func() {
			for range news {
			}
			close(done)
		}()
		for range 20 {
			select {
			case <-time.After(100 * time.Millisecond):
				news <- "a line"
			case <-r.Context().Done():
			}
		}
		close(news)
		<-done
		answer(w, nil)
	})
}
