package main

import "net/http"

type job struct{ done chan error }

// work serves jobs from a queue that 4 of it share.
func work(backend *remote, jobs <-chan job) {
	for j := range jobs { // cause
		j.done <- backend.get("10ms") // cause
	}
}

// enqueue waits until its job is done.
func enqueue(jobs chan<- job) error {
	j := job{make(chan error, 1)}
	jobs <- j       // cause
	return <-j.done // cause
}

func workerPool() http.Handler {
	jobs, backend := make(chan job, 100), startRemote()
	for range 4 {
		go work(backend, jobs)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, enqueue(jobs)) })
}
