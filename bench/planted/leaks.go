package main

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// Goroutines that never end.

// search gives up after 5 ms; the goroutine that it has started then blocks for ever, as its channel has no receiver.
func search() string {
	found := make(chan string)
	go func() { // cause of leak-send
		time.Sleep(15 * time.Millisecond)
		found <- "late" // cause of leak-send
	}()
	select {
	case s := <-found:
		return s
	case <-time.After(5 * time.Millisecond):
		return ""
	}
}

func leakSend() http.Handler {
	return handler(func(*http.Request) error {
		search()
		return nil
	})
}

// audit ends when its channel is closed, which no handler does.
func audit(lines <-chan string) { // cause of leak-receive
	for range lines { // cause of leak-receive
	}
}

func leakReceive() http.Handler {
	return handler(func(r *http.Request) error {
		lines := make(chan string, 1)
		go audit(lines) // cause of leak-receive
		lines <- r.URL.Path
		return nil
	})
}

// expire waits for the end of a context that has none: its cancel function is lost.
func expire(ctx context.Context) { // cause of leak-context
	<-ctx.Done() // cause of leak-context
}

var lost atomic.Pointer[context.CancelFunc]

func leakContext() http.Handler {
	return handler(func(*http.Request) error {
		ctx, cancel := context.WithCancel(context.Background())
		lost.Store(&cancel)
		go expire(ctx) // cause of leak-context
		return nil
	})
}

type heartbeat struct{ beats, stop chan struct{} }

// run is to end by stop, which only the handlers of some requests close.
func (h *heartbeat) run() { // cause of leak-select
	for {
		select { // cause of leak-select
		case <-h.beats:
		case <-h.stop:
			return
		}
	}
}

func leakSelect() http.Handler {
	var n atomic.Int64
	return handler(func(*http.Request) error {
		h := &heartbeat{make(chan struct{}), make(chan struct{})}
		go h.run() // cause of leak-select
		time.Sleep(time.Millisecond)
		if n.Add(1)%4 != 0 { // an early return in one of four
			close(h.stop)
		}
		return nil
	})
}
