package main

import (
	"net/http"
	"sync"
)

var (
	priceMu sync.Mutex
	total   uint64
)

// price computes with the lock held, which only the sum at the end needs.
func price() uint64 {
	priceMu.Lock() // cause
	defer priceMu.Unlock()
	total += compute(400)
	return total
}

func lockCompute() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		price()
		answer(w, nil)
	})
}
