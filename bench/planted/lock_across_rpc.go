package main

import (
	"net/http"
	"sync"
)

type sessionStore struct {
	mu      sync.RWMutex
	backend *remote
	users   map[string]int
}

// refresh asks the backend for a session with the lock of all sessions.
func (s *sessionStore) refresh(user string) error {
	s.mu.Lock() // cause
	defer s.mu.Unlock()
	s.users[user]++
	return s.backend.get("3ms") // cause
}

func lockAcrossRPC() http.Handler {
	s := &sessionStore{backend: startRemote(), users: map[string]int{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, s.refresh("jo")) })
}
