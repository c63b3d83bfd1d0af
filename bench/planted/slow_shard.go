package main

import "net/http"

type shard struct {
	backend *remote
	takes   string
}

func (s *shard) ask(answers chan<- error) { answers <- s.backend.get(s.takes) }

// history is the slow one of two that each request asks, one after the other.
func (s *shard) history() error { return s.backend.get(s.takes) } // cause

func slowShard() http.Handler {
	b := startRemote()
	user, history := &shard{b, "1ms"}, &shard{b, "45ms"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers := make(chan error, 1)
		go user.ask(answers)
		if err := <-answers; err != nil {
			answer(w, err)
			return
		}
		answer(w, history.history())
	})
}
