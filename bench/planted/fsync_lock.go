package main

import (
	"net/http"
	"os"
	"sync"
)

type journal struct {
	mu   sync.Mutex
	file *os.File
}

// commit writes to the disk with the lock held.
func (j *journal) commit(line string) error {
	j.mu.Lock() // cause
	defer j.mu.Unlock()
	if _, err := j.file.WriteString(line); err != nil {
		return err
	}
	return j.file.Sync() // cause
}

func fsyncLock() http.Handler {
	j := &journal{file: must(os.CreateTemp("", "planted"))}
	os.Remove(j.file.Name())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, j.commit("a line\n")) })
}
