package accesslog

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/clock"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// entryOf is that of a request, which may be malformed.
func entryOf(request string) *Entry {
	e := &Entry{Client: "192.0.2.1", Head: new(h1.Head), Text: []byte(request), Status: 200, Bytes: 8, Took: -1}
	if e.Head.Parse(e.Text, &h1.HeadLimits{Line: 8 << 10, Size: 32 << 10, Fields: 100}) != nil {
		e.Head.Reset()
		e.Status = 400
	}
	line, _, _ := strings.Cut(request, "\r\n")
	e.Line = []byte(line)
	return e
}

func TestCombinedLines(t *testing.T) {
	begins := regexp.MustCompile(`^192\.0\.2\.1 - (\S+) \[\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] `)
	for _, test := range []struct {
		name, request, line string
		user, want          string
		common              bool
		framed              int
	}{
		{"combined", "GET /a?b HTTP/1.1\r\nHost: h\r\nReferer: http://r/\r\nUser-Agent: u 1\r\n\r\n", `"GET /a?b HTTP/1.1" 200 8 "http://r/" "u 1"`, "", "-", false, 0},
		{"common, a user", "GET /a HTTP/1.0\r\n\r\n", `"GET /a HTTP/1.0" 200 8`, "al\"i ce\n", `al\"i_ce\x0a`, true, 0},
		{"HTTP/2", "GET /a HTTP/1.1\r\nHost: h\r\n\r\n", `"GET /a HTTP/2.0" 200 8`, "", "-", true, 2},
		{"HTTP/3", "GET /a HTTP/1.1\r\nHost: h\r\n\r\n", `"GET /a HTTP/3.0" 200 8`, "", "-", true, 3},
		{"nothing came", "", `"-" 400 8`, "", "-", true, 0},
		{"escapes", "GET /\"\\\x80 HTTP/1.1\r\nHost: h\r\nUser-Agent: \x1b\"\t\xff\r\n\r\n", `"GET /\"\\\x80 HTTP/1.1" 400 8 "-" "-"`, "", "-", false, 0},
		{"more escapes", "GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: \"\t\\\xff\r\n\r\n", `"GET / HTTP/1.1" 200 8 "-" "\"\x09\\\xff"`, "", "-", false, 0},
		{"garbage", "\x16\x03\x01\"\r\n", `"\x16\x03\x01\"" 400 8`, "", "-", true, 0},
		{"long line", "GET /" + strings.Repeat("a", 3000) + " HTTP/1.1\r\nHost: h\r\n\r\n", `"GET /` + strings.Repeat("a", 1019) + `" 200 8`, "", "-", true, 0},
	} {
		var k clock.Clock
		e := entryOf(test.request)
		e.User, e.Framed = test.user, test.framed
		line := string(e.AppendCombined(nil, k.Stamp(), test.common))
		begin := begins.FindStringSubmatch(line)
		if begin == nil || begin[1] != test.want || line[len(begin[0]):] != test.line+"\n" {
			t.Errorf("%s:\n got %swant %s", test.name, line, test.line)
		}
	}
}

// Whatever clients send, each line is an object that a parser takes.
func TestJSONLines(t *testing.T) {
	for _, test := range []struct {
		request string
		want    map[string]any
	}{
		{"GET /a?b HTTP/1.0\r\nReferer: r\r\nUser-Agent: \"x\\\t\xff\xc3\xa9\r\n\r\n", map[string]any{
			"client": "192.0.2.1", "user": "al \"ice", "method": "GET", "target": "/a?b", "proto": "HTTP/1.0", "host": "", "status": 200.0, "bytes": 8.0,
			"referer": "r", "user_agent": "\"x\\\t\ufffdé", "duration_ms": 1.5}},
		{"\x00bad\"\r\n\r\n", map[string]any{"client": "192.0.2.1", "line": "\x00bad\"", "status": 400.0}},
		{"GET /" + strings.Repeat("\xc3\xa9", 1000) + " HTTP/1.1\r\nHost: h\r\n\r\n", map[string]any{"target": "/" + strings.Repeat("é", 511), "host": "h"}},
		{"GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: \xe2\x80\xa8\xc2\x80\x7f\r\n\r\n", map[string]any{"status": 400.0}},
		{"BREW / HTTP/1.1\r\nHost: h\r\nUser-Agent: \xe2\x80\xa8\xc2\x80\r\n\r\n", map[string]any{"method": "BREW", "user_agent": "\u2028\u0080"}},
	} {
		var k clock.Clock
		e := entryOf(test.request)
		e.User, e.Took = "al \"ice", 1500*time.Microsecond
		line := string(e.AppendJSON(nil, k.Stamp()))
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil || strings.Count(line, "\n") != 1 || strings.ContainsAny(line, "\u2028\u0080") {
			t.Fatalf("%v: %q", err, line)
		}
		for key, want := range test.want {
			testenv.Equal(t, got[key], want, "%.40q: %s", test.request, key)
		}
		if at, err := time.Parse(time.RFC3339, got["time"].(string)); err != nil || time.Since(at) > time.Hour {
			t.Errorf("%v, %v", at, err)
		}
	}
	var k clock.Clock
	e := Entry{Client: "-", Head: new(h1.Head), Took: -1}
	line := string(e.AppendJSON(nil, k.Stamp()))
	for _, name := range []string{"client", "user", "duration_ms"} {
		testenv.Equal(t, strings.Contains(line, name), false, "%s is said to be %s", name, line)
	}
}

// TestID: the id of a request is the last field of a line, and a member of an object.
func TestID(t *testing.T) {
	var k clock.Clock
	e := entryOf("GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
	e.ID = "0af7"
	for want, line := range map[string][]byte{
		`"GET /a HTTP/1.1" 200 8 "0af7"` + "\n":         e.AppendCombined(nil, k.Stamp(), true),
		`"GET /a HTTP/1.1" 200 8 "-" "-" "0af7"` + "\n": e.AppendCombined(nil, k.Stamp(), false),
		`"bytes":8,"request_id":"0af7"}` + "\n":         e.AppendJSON(nil, k.Stamp()),
	} {
		testenv.True(t, strings.HasSuffix(string(line), want), "%s does not end in %s", line, want)
	}
}
