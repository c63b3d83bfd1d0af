package main

import (
	"net/http"
	"sync"
)

func askPrices(b *remote) error { return b.get("2ms") }
func askStock(b *remote) error  { return b.get("3ms") }
func askAds(b *remote) error    { return b.get("60ms") } // cause

// gather asks three backends at once and waits for all.
func gather(b *remote) {
	var all sync.WaitGroup
	for _, ask := range []func(*remote) error{askPrices, askStock, askAds} {
		all.Go(func() { ask(b) })
	}
	all.Wait()
}

func slowBackend() http.Handler {
	b := startRemote()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		gather(b)
		answer(w, nil)
	})
}
