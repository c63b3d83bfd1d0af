package main

import (
	"net/http"
	"sync/atomic"
	"time"
)

var checks atomic.Int64

// watchSession looks at a session all the time, whether there is news or not.
func watchSession() {
	for range time.Tick(20 * time.Millisecond) { // cause
		checks.Add(1)
	}
}

func tickerStorm() http.Handler {
	for range 4000 {
		go watchSession()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, nil) })
}
