package main

import "net/http"

// cpuQuota is a healthy program in a group of processes that may use a quarter of a processor.
func cpuQuota() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		compute(1000)
		answer(w, nil)
	})
}
