package main

import (
	"net/http"
	"time"
)

// thumbnails are made two at a time.
var thumbnails = make(chan struct{}, 2)

func thumbnail() {
	thumbnails <- struct{}{} // cause
	defer func() { <-thumbnails }()
	time.Sleep(8 * time.Millisecond) // cause
}

func limiter() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		thumbnail()
		answer(w, nil)
	})
}
