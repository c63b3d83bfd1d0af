package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Programs that compute, and timers.

type leaf struct{ left, right *leaf }

// grow allocates a tree, which is garbage at once.
func grow(depth int) *leaf {
	if depth == 0 {
		return new(leaf) // cause of assist
	}
	return &leaf{grow(depth - 1), grow(depth - 1)} // cause of assist
}

func assist() http.Handler {
	debug.SetGCPercent(10)
	kept := grow(20)
	return handler(func(*http.Request) error {
		grow(13) // cause of assist
		runtime.KeepAlive(kept)
		return nil
	})
}

// rank computes for half a second, again and again, deep in recursion.
func rank(depth int) uint64 {
	if depth == 0 {
		return compute(1) // cause of hog
	}
	return rank(depth-1) + rank(depth-1) // cause of hog
}

func rankAll() { // cause of hog
	for {
		rank(19) // cause of hog
		time.Sleep(10 * time.Millisecond)
	}
}

func hog() http.Handler {
	for range 3 {
		go rankAll()
	}
	return nothing
}

// scramble never ends and has no frame on the stack.
func scramble() { // cause of hog-leaf
	for x := uint64(1); x != 0; x = x*6364136223846793005 + 1442695040888963407 { // cause of hog-leaf
	}
}

func hogLeaf() http.Handler {
	for range 3 {
		go scramble()
	}
	return nothing
}

// poll looks for commands in a loop that never waits.
func poll(commands <-chan string) { // cause of select-default
	for looked := 0; ; { // cause of select-default
		select { // cause of select-default
		case <-commands: // cause of select-default
			time.Sleep(time.Millisecond)
		default: // cause of select-default
			looked++
		}
	}
}

func selectDefault() http.Handler {
	commands := make(chan string, 1)
	go poll(commands)
	return handler(func(r *http.Request) error {
		select {
		case commands <- r.URL.Path:
		default:
		}
		return nil
	})
}

var checks atomic.Int64

// watchSession looks at a session all the time, whether there is news or not.
func watchSession() {
	for range time.Tick(20 * time.Millisecond) { // cause of ticker-storm
		checks.Add(1)
	}
}

func tickerStorm() http.Handler {
	for range 4000 {
		go watchSession()
	}
	return nothing
}

// cpuQuota is a healthy program in a group of processes that may use a quarter of a processor.
func cpuQuota() http.Handler {
	return handler(func(*http.Request) error {
		compute(1000)
		return nil
	})
}

// batch has one goroutine that computes for a fifth of the time.
func batch() http.Handler {
	sum := sha256.Sum256(nil)
	go every(10*time.Millisecond, func() {
		for range 8000 {
			sum = sha256.Sum256(sum[:])
		}
	})
	return nothing
}

// cron has ten things to do now and then.
func cron() http.Handler {
	for i := range 10 {
		go every(time.Duration(50+10*i)*time.Millisecond, func() { compute(100) })
	}
	return nothing
}

// timeouts gives each request a second, which none needs.
func timeouts() http.Handler {
	return handler(func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		done := make(chan struct{})
		go func() {
			compute(50)
			close(done)
		}()
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// jsonAPI allocates as much as most do.
func jsonAPI() http.Handler {
	type item struct {
		Name  string
		Price float64
		Tags  []string
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		items := make([]item, 50)
		for i := range items {
			items[i] = item{"pear", 1.5, []string{"fruit", "green"}}
		}
		json.NewEncoder(w).Encode(items)
	})
}
