package netpoll

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// An httpServed is an http.Server under test, and what has been seen of it.
type httpServed struct {
	*http.Server
	addr    string
	reached chan struct{} // for a handler or a hook: closed when it has got so far
	mu      sync.Mutex
	seen    bytes.Buffer // guarded by mu
}

func (s *httpServed) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.seen, format+";", args...)
}

func (s *httpServed) Write(p []byte) (int, error) {
	text := string(p)
	if at := strings.Index(text, "127.0.0.1:"); at >= 0 {
		text = text[:at]
	}
	s.note("log %s", strings.TrimSpace(text))
	return len(p), nil
}

// talk sends text on a connection of its own and returns what comes back, without what differs each time.
func (s *httpServed) talk(text string) string {
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(c, text)
	return whatComes(c)
}

// whatComes is all that is read from c, and how it ends.
func whatComes(c io.Reader) string {
	all, err := io.ReadAll(c)
	lines := strings.Split(string(all), "\r\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "Date: ") {
			lines[i] = "Date"
		}
	}
	if err != nil {
		err = errors.New("cut off")
	}
	return fmt.Sprint(strings.Join(lines, "|"), err)
}

const plainRequest = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"

// httpServerOptions are the options of http.Server that depend on its connections, and clients that show that they work.
var httpServerOptions = map[string]struct {
	set  func(*httpServed)
	seen func(*httpServed) string
}{
	"ReadHeaderTimeout": {
		func(s *httpServed) { s.ReadHeaderTimeout = 50 * time.Millisecond },
		func(s *httpServed) string { return s.talk("GET /a HTTP/1.1\r\nHo") },
	},
	"ReadTimeout": {
		func(s *httpServed) {
			s.ReadTimeout = 200 * time.Millisecond // long enough for the head
			s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := io.ReadAll(r.Body)
				var timeout net.Error
				fmt.Fprintln(w, errors.As(err, &timeout) && timeout.Timeout())
			})
		},
		func(s *httpServed) string {
			return s.talk("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf")
		},
	},
	"WriteTimeout": {
		func(s *httpServed) {
			s.WriteTimeout = 200 * time.Millisecond
			s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(s.reached)
				block := make([]byte, 1<<20)
				for range 1000 {
					if _, err := w.Write(block); err != nil {
						var timeout net.Error
						s.note("write: timeout %v", errors.As(err, &timeout) && timeout.Timeout())
						return
					}
				}
			})
		},
		func(s *httpServed) string {
			c, err := net.Dial("tcp", s.addr)
			if err != nil {
				return err.Error()
			}
			defer c.Close()
			io.WriteString(c, plainRequest)
			<-s.reached
			return ""
		},
	},
	"IdleTimeout": {
		func(s *httpServed) { s.IdleTimeout = 50 * time.Millisecond },
		func(s *httpServed) string { return s.talk(plainRequest) },
	},
	"RegisterOnShutdown and Shutdown": {
		func(s *httpServed) {
			s.RegisterOnShutdown(sync.OnceFunc(func() { close(s.reached) }))
			s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				go s.Shutdown(context.Background())
				<-s.reached
				fmt.Fprintln(w, "answered all the same")
			})
		},
		func(s *httpServed) string {
			return s.talk(plainRequest)
		},
	},
	"Close": {
		func(s *httpServed) {
			s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s.Close()
				<-r.Context().Done()
			})
		},
		func(s *httpServed) string { return s.talk(plainRequest) },
	},
	"Hijack": {
		func(s *httpServed) {
			s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c, rw, err := w.(http.Hijacker).Hijack()
				if err != nil {
					s.note("%v", err)
					return
				}
				line, _ := rw.ReadString('\n')
				fmt.Fprintf(c, "hijacked %s", line)
				c.Close()
			})
		},
		func(s *httpServed) string { return s.talk(plainRequest + "hello\n") },
	},
}

// runHTTPServer serves on ln, lets clients try the option, and returns what they and the server have seen.
func runHTTPServer(ln net.Listener, set func(*httpServed), seen func(*httpServed) string) string {
	s := &httpServed{Server: &http.Server{}, addr: ln.Addr().String(), reached: make(chan struct{})}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, r.Method, r.URL, r.Proto) })
	s.ErrorLog = log.New(s, "", 0)
	set(s)
	done := make(chan error)
	go func() { done <- s.Serve(ln) }()
	got := seen(s)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	result := fmt.Sprint(got, " shutdown ", s.Shutdown(ctx), " serve ", <-done)
	s.mu.Lock()
	defer s.mu.Unlock()
	return result + " server: " + s.seen.String()
}

// TestHTTPServerOptions: an http.Server does the same on a listener of this package as on one of package net,
// whatever it is told.
func TestHTTPServerOptions(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		for name, o := range httpServerOptions {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				theirs := need(net.Listen("tcp", "127.0.0.1:0"))(t)
				ours := listen(t, "tcp")
				want := runHTTPServer(theirs, o.set, o.seen)
				testenv.Equal(t, runHTTPServer(ours, o.set, o.seen), want)
			})
		}
	})
}
