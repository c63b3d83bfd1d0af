package main

import (
	"net/http"
	"sync"
)

// fanOut asks four backends that are equally fast.
func fanOut() http.Handler {
	b := startRemote()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { b.get("1ms") })
		}
		all.Wait()
		answer(w, nil)
	})
}
