package knot

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// What the lines say of requests and responses; package accesslog has their form.
func TestAccessLogLines(t *testing.T) {
	for _, test := range []struct {
		request, line string
		format        LogFormat
	}{
		{"GET /a?b HTTP/1.1\r\nHost: h\r\nReferer: http://r/\r\nUser-Agent: u 1\r\n\r\n", `^192\.0\.2\.1 - u \[.*\] "GET /a\?b HTTP/1.1" 200 10 "http://r/" "u 1"\n$`, LogCombined},
		{"HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n", `"HEAD /a HTTP/1.1" 200 0\n$`, LogCommon},
		{"\x16\x03\x01\"\r\n", `^192\.0\.2\.1 - - .*"\\x16\\x03\\x01\\"" 400 95\n$`, LogCommon},
		{"GET /panic HTTP/1.1\r\nHost: h\r\n\r\n", `"GET /panic HTTP/1.1" 500 ` + strconv.Itoa(len(appendErrorPage(nil, 500))), LogCommon},
		{"GET /half HTTP/1.1\r\nHost: h\r\n\r\n", `"GET /half HTTP/1.1" 200 10\n$`, LogCommon},
		{"GET /a HTTP/1.1\r\nHost: h\r\n\r\n", `"target":"/a","proto":"HTTP/1.1","host":"h","status":200,"bytes":9,"duration_ms":`, LogJSON},
		{"\x16\x03\x01\"\r\n", `"status":400,"bytes":95}\n$`, LogJSON},
	} {
		var out testenv.Buffer
		s := &Server{AccessLog: NewAccessLog(&out, test.format), ErrorLog: quietLog(), Handler: func(x *Ctx) error {
			x.SetUser("u")
			return echoHandler(x)
		}}
		s.ServeConn(newScriptConn([]byte(test.request), nil, 1))
		s.Close()
		testenv.Must(t, s.AccessLog.Close())
		if line := out.String(); !regexp.MustCompile(test.line).MatchString(line) {
			t.Errorf("\n got %swant %s", line, test.line)
		}
	}
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
