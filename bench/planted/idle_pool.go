package main

import "net/http"

// idlePool has far more workers than jobs.
func idlePool() http.Handler {
	jobs := make(chan job, 16)
	backend := startRemote()
	for range 64 {
		go work(backend, jobs)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, enqueue(jobs)) })
}
