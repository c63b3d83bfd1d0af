package main

import (
	"net/http"
	"time"
)

// poll looks for commands in a loop that never waits.
func poll(commands <-chan string) { // cause
	for looked := 0; ; { // cause
		select { // cause
		case <-commands: // cause
			time.Sleep(time.Millisecond)
		default: // cause
			looked++
		}
	}
}

func selectDefault() http.Handler {
	commands := make(chan string, 1)
	go poll(commands)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case commands <- r.URL.Path:
		default:
		}
		answer(w, nil)
	})
}
