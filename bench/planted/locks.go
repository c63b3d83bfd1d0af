package main

import (
	"bufio"
	"fmt"
	"log"
	"net/http"
	"os"
	"sync"
	"time"
)

// Locks that are held for too long, and some that are not.

type rates struct {
	mu    sync.Mutex
	known map[string]float64
}

// lookup waits for a slow source while it has the lock of all rates.
func (t *rates) lookup(currency string) float64 {
	t.mu.Lock() // cause of lock-across-sleep
	defer t.mu.Unlock()
	if _, ok := t.known[currency]; !ok || len(t.known) > 0 {
		time.Sleep(2 * time.Millisecond) // cause of lock-across-sleep
		t.known[currency] = 1.5
	}
	return t.known[currency]
}

func lockAcrossSleep() http.Handler {
	t := &rates{known: map[string]float64{}}
	return handler(func(*http.Request) error {
		t.lookup("chf")
		return nil
	})
}

type sessionStore struct {
	mu      sync.RWMutex
	backend *remote
	users   map[string]int
}

// refresh asks the backend for a session with the lock of all sessions.
func (s *sessionStore) refresh(user string) error {
	s.mu.Lock() // cause of lock-across-rpc
	defer s.mu.Unlock()
	s.users[user]++
	return s.backend.get("3ms") // cause of lock-across-rpc
}

func lockAcrossRPC() http.Handler {
	s := &sessionStore{backend: startRemote(), users: map[string]int{}}
	return handler(func(*http.Request) error { return s.refresh("jo") })
}

var (
	priceMu sync.Mutex
	total   uint64
)

// price computes with the lock held, which only the sum at the end needs.
func price() uint64 {
	priceMu.Lock() // cause of lock-compute
	defer priceMu.Unlock()
	total += compute(400)
	return total
}

func lockCompute() http.Handler {
	return handler(func(*http.Request) error {
		price()
		return nil
	})
}

type journal struct {
	mu   sync.Mutex
	file *os.File
}

// commit writes to the disk with the lock held.
func (j *journal) commit(line string) error {
	j.mu.Lock() // cause of fsync-lock
	defer j.mu.Unlock()
	if _, err := j.file.WriteString(line); err != nil {
		return err
	}
	return j.file.Sync() // cause of fsync-lock
}

func fsyncLock() http.Handler {
	j := &journal{file: tempFile(0)}
	return handler(func(*http.Request) error { return j.commit("a line\n") })
}

// trail is written to a file that is as safe as it is slow.
func trail(l *log.Logger, path string) {
	l.Printf("GET %s", path) // cause of log-lock
}

func logLock() http.Handler {
	l := log.New(tempFile(os.O_SYNC), "", log.LstdFlags)
	return handler(func(r *http.Request) error {
		trail(l, r.URL.Path)
		return nil
	})
}

type stock struct {
	mu    sync.RWMutex
	items map[string]int
}

// report keeps the lock for reading while it waits for its own reader.
func (s *stock) report() {
	for {
		s.mu.RLock()                      // cause of long-reader
		time.Sleep(40 * time.Millisecond) // cause of long-reader
		s.mu.RUnlock()
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *stock) count(item string) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.items[item]
}

func (s *stock) sell(item string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items[item]--
}

func longReader() http.Handler {
	s := &stock{items: map[string]int{"pear": 1 << 30}}
	go s.report()
	return handler(func(*http.Request) error {
		if s.count("pear")%4 == 0 {
			s.sell("pear")
		}
		s.sell("pear")
		return nil
	})
}

// counter has a lock for all requests, which each keeps for some nanoseconds.
func counter() http.Handler {
	var mu sync.Mutex
	seen := map[string]int{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.URL.Path]++
		n := seen[r.URL.Path]
		mu.Unlock()
		fmt.Fprintln(w, n)
	})
}

// cache has readers, and one that writes now and then.
func cache() http.Handler {
	var mu sync.RWMutex
	pages := map[string]string{}
	go every(10*time.Millisecond, func() {
		mu.Lock()
		pages["/"] = time.Now().String()
		mu.Unlock()
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.RLock()
		page := pages[r.URL.Path]
		mu.RUnlock()
		w.Write([]byte(page))
	})
}

func bufferedLog() http.Handler {
	l := log.New(bufio.NewWriterSize(tempFile(0), 1<<16), "", log.LstdFlags)
	return handler(func(r *http.Request) error {
		l.Print(r.Method, r.URL.Path)
		return nil
	})
}
