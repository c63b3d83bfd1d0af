package main

import (
	"net/http"
	"time"
)

// search gives up after a time; the goroutine that it has started then has nobody to send to.
func search() string {
	found := make(chan string)
	go func() { // cause
		time.Sleep(15 * time.Millisecond)
		found <- "late" // cause
	}()
	select {
	case s := <-found:
		return s
	case <-time.After(5 * time.Millisecond):
		return ""
	}
}

func leakSend() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		search()
		answer(w, nil)
	})
}
