package main

import (
	"net/http"
	"time"
)

// record takes events one by one, each for a millisecond.
func record(events <-chan string) {
	for range events { // cause
		time.Sleep(time.Millisecond) // cause
	}
}

func oneConsumer() http.Handler {
	events := make(chan string)
	go record(events)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		publish(events, r.URL.Path)
		answer(w, nil)
	})
}

func publish(events chan<- string, what string) {
	events <- what // cause
}
