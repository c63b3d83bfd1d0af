package knot

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestAccessLogLines(t *testing.T) {
	for _, test := range []struct {
		name, request, line string
		format              LogFormat
	}{
		{"combined", "GET /a?b HTTP/1.1\r\nHost: h\r\nReferer: http://r/\r\nUser-Agent: u 1\r\n\r\n", `"GET /a?b HTTP/1.1" 200 10 "http://r/" "u 1"`, LogCombined},
		{"common", "GET /a HTTP/1.0\r\n\r\n", `"GET /a HTTP/1.0" 200 8`, LogCommon},
		{"nothing to tell", "HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n", `"HEAD /a HTTP/1.1" 200 0 "-" "-"`, LogCombined},
		{"escapes", "GET /\"\\\x80 HTTP/1.1\r\nHost: h\r\nUser-Agent: \x1b\"\t\xff\r\n\r\n", `"GET /\"\\\x80 HTTP/1.1" 400 95 "-" "-"`, LogCombined},
		{"more escapes", "GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: \"\t\\\xff\r\n\r\n", `"GET / HTTP/1.1" 200 8 "-" "\"\x09\\\xff"`, LogCombined},
		{"garbage", "\x16\x03\x01\"\r\n", `"\x16\x03\x01\"" 400 95 "-" "-"`, LogCombined},
		{"a handler that panics", "GET /panic HTTP/1.1\r\nHost: h\r\n\r\n", `"GET /panic HTTP/1.1" 500 ` + strconv.Itoa(len(appendErrorPage(nil, 500))), LogCommon},
		{"in the middle", "GET /half HTTP/1.1\r\nHost: h\r\n\r\n", `"GET /half HTTP/1.1" 200 10`, LogCommon},
		{"status page", "GET /404 HTTP/1.1\r\nHost: h\r\n\r\n", `"GET /404 HTTP/1.1" 404 91 "-" "-"`, LogCombined},
		{"long line", "GET /" + strings.Repeat("a", 3000) + " HTTP/1.1\r\nHost: h\r\n\r\n", `"GET /` + strings.Repeat("a", 1019) + `" 200 3008 "-" "-"`, LogCombined},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out testenv.Buffer
			log := NewAccessLog(&out, test.format)
			s := &Server{AccessLog: log, Handler: echoHandler, ErrorLog: slog.New(slog.DiscardHandler)}
			s.ServeConn(newScriptConn([]byte(test.request), nil, 1))
			s.Close()
			testenv.Must(t, log.Close())
			time := regexp.MustCompile(`^192\.0\.2\.1 - - \[\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] `)
			line := out.String()
			prefix := time.FindString(line)
			if got := strings.TrimPrefix(line, prefix); prefix == "" || got != test.line+"\n" {
				t.Errorf("\n got %swant %s", line, test.line)
			}
		})
	}
}

// TestAccessLogIsWrittenInTheBackground: without Close or Flush.
func TestAccessLogIsWrittenInTheBackground(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		r, w := io.Pipe()
		log := NewAccessLog(w, LogCommon)
		sv := start(&Server{AccessLog: log, Handler: echoHandler})
		sv.exchange("GET /a HTTP/1.0\r\n\r\n")
		line := make([]byte, 200)
		n, err := r.Read(line)
		if got := string(line[:n]); err != nil || !strings.HasPrefix(got, "127.0.0.1 - - [") || !strings.HasSuffix(got, "\" 200 8\n") {
			t.Errorf("got %q, %v", got, err)
		}
		log.Close()
		r.Close()
	})
}

// stuckWriter blocks until it is told to go on, and then fails.
type stuckWriter struct{ entered, leave chan bool }

func (w *stuckWriter) Write(p []byte) (int, error) {
	w.entered <- true
	<-w.leave
	return 0, errors.New("disk full")
}

// TestAccessLogDropsWhenTheDiskIsStuck: bounded memory, no waiting.
func TestAccessLogDropsWhenTheDiskIsStuck(t *testing.T) {
	w := &stuckWriter{make(chan bool, 10), make(chan bool)}
	log := NewAccessLog(w, LogCommon)
	s := &Server{AccessLog: log, Handler: echoHandler, MaxRequestLine: 4000}
	defer s.Close()
	request := []byte("GET /" + strings.Repeat("a", 1000) + " HTTP/1.1\r\nHost: h\r\n\r\n")
	for log.Dropped() == 0 {
		s.ServeConn(newScriptConn(request, nil, 1))
	}
	<-w.entered
	close(w.leave)
	testenv.ErrorSays(t, log.Close(), "disk full", "Close")
}

func TestAccessLogFromManyConnections(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		var out testenv.Buffer
		log := NewAccessLog(&out, LogCommon)
		sv := start(&Server{AccessLog: log, Handler: echoHandler})
		const clients, requests = 8, 50
		var wg sync.WaitGroup
		for range clients {
			wg.Add(1)
			go func() {
				defer wg.Done()
				nc, err := net.Dial("tcp", sv.addr)
				if err != nil {
					t.Error(err)
					return
				}
				defer nc.Close()
				io.WriteString(nc, strings.Repeat("GET /a HTTP/1.1\r\nHost: h\r\n\r\n", requests-1)+"GET /a HTTP/1.0\r\n\r\n")
				io.Copy(io.Discard, nc)
			}()
		}
		wg.Wait()
		sv.stop()
		log.Close()
		testenv.Equal(t, strings.Count(out.String(), "\" 200 "), clients*requests, "lines")
	})
}
