package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Faults that the other files have too, made in another way.

// parse decodes a document of a megabyte that nothing keeps.
func parse(text string) error {
	var all map[string][]float64
	return json.Unmarshal([]byte(text), &all) // cause of assist-json
}

func assistJSON() http.Handler {
	debug.SetGCPercent(4)
	var text strings.Builder
	text.WriteString("{")
	for i := range 4000 {
		fmt.Fprintf(&text, `"key%d": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],`, i)
	}
	text.WriteString(`"end": []}`)
	kept := make([]*[64]int, 200_000)
	for i := range kept {
		kept[i] = new([64]int)
	}
	doc := text.String()
	return handler(func(*http.Request) error {
		defer runtime.KeepAlive(kept)
		return parse(doc)
	})
}

type accounts struct {
	sync.RWMutex
	file *os.File
	sums map[string]int
}

func (l *accounts) flush() error { return l.file.Sync() }

// book makes an entry safe while all readers wait.
func (l *accounts) book(account string) error {
	l.Lock() // cause of sync-rwlock
	defer l.Unlock()
	l.sums[account]++
	fmt.Fprintln(l.file, account, l.sums[account])
	return l.flush() // cause of sync-rwlock
}

func (l *accounts) sum(account string) int {
	l.RLock()
	defer l.RUnlock()
	return l.sums[account]
}

func syncRWLock() http.Handler {
	l := &accounts{file: tempFile(0), sums: map[string]int{}}
	return handler(func(r *http.Request) error {
		if l.sum(r.URL.Path)%3 == 0 {
			return l.book(r.URL.Path)
		}
		return l.book("other")
	})
}

// expireEntry waits for the end of an entry that is extended all the time.
func expireEntry(closed <-chan struct{}) {
	timer := time.NewTimer(15 * time.Millisecond)
	for {
		select { // cause of timer-each
		case <-timer.C: // cause of timer-each
			timer.Reset(15 * time.Millisecond)
		case <-closed:
			return
		}
	}
}

func timerEach() http.Handler {
	closed := make(chan struct{})
	for range 3000 {
		go expireEntry(closed)
	}
	return nothing
}

// awaitReady asks again and again whether a flag is set.
func awaitReady(ready *atomic.Bool) { // cause of spin-flag
	for { // cause of spin-flag
		for !ready.Load() { // cause of spin-flag
			runtime.Gosched() // cause of spin-flag
		}
		ready.Store(false)
	}
}

func spinFlag() http.Handler {
	var ready atomic.Bool
	for range 2 {
		go awaitReady(&ready)
	}
	return handler(func(*http.Request) error {
		ready.Store(true)
		return nil
	})
}

type taskList struct {
	mu   sync.Mutex
	more *sync.Cond
	all  []string
}

// drain takes tasks; each task wakes all drains.
func (l *taskList) drain() {
	for {
		l.mu.Lock()
		for len(l.all) == 0 {
			l.more.Wait() // cause of broadcast-workers
		}
		l.all = l.all[1:]
		l.mu.Unlock()
		compute(50)
	}
}

func (l *taskList) submit(what string) {
	l.mu.Lock()
	l.all = append(l.all, what)
	l.mu.Unlock()
	l.more.Broadcast() // cause of broadcast-workers
}

func broadcastWorkers() http.Handler {
	l := &taskList{}
	l.more = sync.NewCond(&l.mu)
	for range 250 {
		go l.drain()
	}
	return handler(func(r *http.Request) error {
		l.submit(r.URL.Path)
		return nil
	})
}

type settings struct {
	sync.RWMutex
	backend *remote
	values  map[string]string
}

// check asks a backend with the lock for reading, so that whoever changes a setting waits, and all readers behind it.
func (s *settings) check() error {
	s.RLock() // cause of reader-rpc
	defer s.RUnlock()
	return s.backend.get("30ms") // cause of reader-rpc
}

func (s *settings) change(name string) {
	s.Lock()
	defer s.Unlock()
	s.values[name] = "changed"
}

func readerRPC() http.Handler {
	s := &settings{backend: startRemote(), values: map[string]string{}}
	go func() {
		for {
			s.check()
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return handler(func(r *http.Request) error {
		s.change(r.URL.Path)
		return nil
	})
}

// notify opens a connection for each call, and so looks up the name of its target each time.
func notify(client *http.Client, url string) error {
	resp, err := client.Get(url) // cause of dns-dial
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func dnsDial() http.Handler {
	backend := startRemote()
	names := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", backend.dns)
	}}
	dialer := &net.Dialer{Resolver: names}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	_, port, _ := strings.Cut(strings.TrimPrefix(backend.url, "http://"), ":")
	url := "http://hooks.example.org:" + port + "/"
	return handler(func(*http.Request) error { return notify(client, url) })
}

// claim waits in the kernel for a lock on a file.
func claim(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil { // cause of file-lock
		return err
	}
	time.Sleep(5 * time.Millisecond)
	return nil
}

func fileLock() http.Handler {
	f := must(os.CreateTemp("", "planted"))
	return handler(func(*http.Request) error { return claim(f.Name()) })
}

// quote has two connections for all requests.
func quote(b *remote) error {
	return b.get("8ms") // cause of conns-per-host
}

func connsPerHost() http.Handler {
	b := startRemote()
	b.client = &http.Client{Transport: &http.Transport{MaxConnsPerHost: 2, MaxIdleConnsPerHost: 2}}
	return handler(func(*http.Request) error { return quote(b) })
}

// note logs to a file that is as safe as it is slow.
func note(l *slog.Logger, path string) {
	l.Info("request", "path", path) // cause of slog-lock
}

func slogLock() http.Handler {
	l := slog.New(slog.NewJSONHandler(tempFile(os.O_SYNC), nil))
	return handler(func(r *http.Request) error {
		note(l, r.URL.Path)
		return nil
	})
}
