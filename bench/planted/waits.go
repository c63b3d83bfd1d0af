package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Healthy servers that wait or send.

func hello() http.Handler {
	return nothing
}

func echo() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
}

func files() http.Handler {
	dir := must(os.MkdirTemp("", "planted"))
	os.WriteFile(filepath.Join(dir, "page"), bytes.Repeat([]byte("a page of a site\n"), 500), 0o600)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, filepath.Join(dir, "page")) })
}

// sleeper is idle but for rare requests, with 500 goroutines that wait from the start.
func sleeper() http.Handler {
	never := make(chan struct{})
	for range 500 {
		go func() { <-never }()
	}
	return nothing
}

// longPoll answers all waiting requests when there is news, every 200 ms.
func longPoll() http.Handler {
	var mu sync.Mutex
	news := make(chan struct{})
	go every(200*time.Millisecond, func() {
		mu.Lock()
		close(news)
		news = make(chan struct{})
		mu.Unlock()
	})
	return handler(func(r *http.Request) error {
		mu.Lock()
		next := news
		mu.Unlock()
		select {
		case <-next:
		case <-r.Context().Done():
		}
		return nil
	})
}

// subscribers have a goroutine each that writes what comes, as long as they are there.
func subscribers() http.Handler {
	return handler(func(r *http.Request) error {
		news, done := make(chan string), make(chan struct{})
		go func() {
			for range news {
			}
			close(done)
		}()
		for range 20 {
			select {
			case <-time.After(100 * time.Millisecond):
				news <- "a line"
			case <-r.Context().Done():
			}
		}
		close(news)
		<-done
		return nil
	})
}

// flush syncs what requests have written, off their way.
func flush() http.Handler {
	f := tempFile(0)
	go every(100*time.Millisecond, func() { f.Sync() })
	return handler(func(r *http.Request) error {
		_, err := f.WriteString(r.URL.Path + "\n")
		return err
	})
}
