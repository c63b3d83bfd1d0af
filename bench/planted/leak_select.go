package main

import (
	"net/http"
	"sync/atomic"
	"time"
)

type heartbeat struct{ beats, stop chan struct{} }

// run is to end by stop, which only the handlers of some requests close.
func (h *heartbeat) run() { // cause
	for {
		select { // cause
		case <-h.beats:
		case <-h.stop:
			return
		}
	}
}

func leakSelect() http.Handler {
	var n atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := &heartbeat{make(chan struct{}), make(chan struct{})}
		go h.run() // cause
		time.Sleep(time.Millisecond)
		if n.Add(1)%4 != 0 { // an early return in one of four
			close(h.stop)
		}
		answer(w, nil)
	})
}
