package h1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/httpcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// takeResponse parses b as a proxy does whose reads give it step bytes at a time. closed: the body is as long as the connection.
func takeResponse(b []byte, method string, step int) (h ResponseHead, body []byte, trailer string, closed bool, err error) {
	have := 0
	for {
		if have += step; have > len(b) {
			have = len(b)
		}
		whole, err := h.Parse(b[:have])
		if err != nil {
			return h, nil, "", false, err
		}
		if whole {
			break
		}
		if have == len(b) {
			return h, nil, "", false, io.ErrUnexpectedEOF
		}
	}
	r := h.Body(method)
	at := h.Size
	for {
		piece, used, err := r.Next(b[at:max(at, have)], func(name, value []byte) { trailer += fmt.Sprintf("%s: %s\n", name, value) })
		body = append(body, piece...)
		at += used
		switch {
		case err == io.EOF:
			return h, body, trailer, false, nil
		case err != nil:
			return h, body, trailer, false, err
		case used > 0:
		case have == len(b) && r.UntilClose:
			return h, body, trailer, true, nil
		case have == len(b):
			return h, body, trailer, false, io.ErrUnexpectedEOF
		default:
			have = min(have+step, len(b))
		}
	}
}

func TestResponseHeads(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, test := range []struct{ text, method, want string }{
		{ok + "Content-Length: 3\r\n\r\nabcdef", "GET", `200 "abc" keeps`},
		{ok + "Content-Length: 3\r\nConnection: close\r\n\r\nabc", "GET", `200 "abc"`},
		{ok + "Content-Length: 3\r\n\r\n", "HEAD", `200 "" keeps`},
		{"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\na", "GET", `200 "a" keeps`},
		{"HTTP/1.1 204 \r\n\r\n", "GET", `204 "" keeps`},
		{"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "GET", `304 "" keeps`},
		{"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "GET", `103 "" keeps`},
		{ok + "\r\nall of it", "GET", `200 "all of it" keeps until close`},
		{"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", "GET", `200 "a"`},
		{"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\na", "GET", `200 "a" keeps`},
		{ok + "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\nnext", "GET", `200 "abc" keeps A: b` + "\n"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "GET", "unexpected EOF"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", "GET", "malformed chunk"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n3  \t\r\nabc\r\n0  \r\n\r\n", "GET", `200 "abc" keeps`},
		{ok + "Transfer-Encoding: chunked\r\n\r\n3;a \r\nabc\r\n0\r\n\r\n", "GET", `200 "abc" keeps`},
		{ok + "Transfer-Encoding: chunked\r\n\r\n 3\r\nabc\r\n0\r\n\r\n", "GET", "malformed chunk"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n3 3\r\nabc\r\n0\r\n\r\n", "GET", "malformed chunk"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\nA: b\n\nnext", "GET", `200 "abc" keeps A: b` + "\n"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n3;a\nabc\n0\n\n", "GET", "malformed chunk"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n3;" + strings.Repeat("a", MaxChunkLine), "GET", "malformed chunk"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n0\r\nA: " + strings.Repeat("b", maxResponseHead), "GET", "malformed chunk"},
		{ok + "Transfer-Encoding: gzip, chunked\r\n\r\n", "GET", "unknown transfer coding"},
		{ok + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", "GET", "both"},
		{ok + "Content-Length: 3\r\nA: b\r\nContent-Length: 03\r\n\r\nabcd", "GET", `200 "abc" keeps`},
		{ok + "Content-Length: 3, 3\r\n\r\nabcd", "GET", `200 "abc" keeps`},
		{ok + "Content-Length: 3\r\nContent-Length: 4\r\n\r\n", "GET", "more than one"},
		{ok + "Content-Length: 3, 4\r\n\r\n", "GET", "more than one"},
		{ok + "Content-Length: 3,\r\n\r\n", "GET", "malformed Content-Length"},
		{ok + "Content-Length: +3\r\n\r\n", "GET", "malformed Content-Length"},
		{ok + "Content-Length : 3\r\n\r\nabcd", "GET", `200 "abc" keeps`},
		{ok + "Transfer-Encoding\t :chunked\r\nB \t: b\n\r\n1\r\na\r\n0\r\n\r\n", "GET", `200 "a" keeps`},
		{ok + "Transfer-Encoding : chunked\r\nContent-Length\t: 3\r\n\r\n", "GET", "both"},
		{ok + " : 3\r\n\r\n", "GET", "folded"},
		{ok + "A b: 3\r\n\r\n", "GET", "not a token"},
		{ok + "A \r\n\r\n", "GET", "not a token"},
		{ok + "A: b\r\n c\r\n\r\n", "GET", "folded"},
		{"HTTP/1.1 200 OK\nContent-Length: 1 \n\nab", "GET", `200 "a" keeps`},
		{ok + "A: b\nContent-Length: 1\r\n\r\na", "GET", `200 "a" keeps`},
		{ok + "A: b\rContent-Length: 1\r\n\r\na", "GET", "CR LF"},
		{ok + "A: b\r\r\n\r\n", "GET", "CR LF"},
		{ok + "A\n\n", "GET", "not a token"},
		{ok + "A: \x00\r\n\r\n", "GET", "control byte"},
		{"HTTP/1.1 200 OK\rA: b\r\n\r\n", "GET", "status line"},
		{"HTTP/1.1 2000 OK\r\n\r\n", "GET", "status line"},
		{"HTTP/1.1 999 OK\r\n\r\n", "GET", "not in 100 to 599"},
		{"HTTP/2.0 200 OK\r\n\r\n", "GET", "status line"},
		{"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "GET", "HTTP/1.0"},
		{"garbage", "GET", "status line"},
		{ok + strings.Repeat("A: b\r\n", 5000) + "Content-Length: 1\r\n\r\na", "GET", `200 "a" keeps`},
		{ok + "A: " + strings.Repeat("b", maxResponseHead) + "\r\n\r\n", "GET", "larger than"},
		{ok + "A: " + strings.Repeat("b", 2*maxResponseHead), "GET", "larger than"},
	} {
		for _, step := range []int{1 << 20, 7, 1} {
			if len(test.text) > 1000 { // each step parses from the beginning
				step *= 5000
			}
			h, body, trailer, closed, err := takeResponse([]byte(test.text), test.method, step)
			got := fmt.Sprintf("%d %q", h.Status, body)
			if h.Persistent() {
				got += " keeps"
			}
			if closed {
				got += " until close"
			}
			if trailer != "" {
				got += " " + trailer
			}
			if err != nil {
				got = err.Error()
			}
			if got != test.want && (err == nil || !strings.Contains(got, test.want)) {
				t.Errorf("%.100q in steps of %d: %s, want %s", test.text, step, got, test.want)
			}
		}
	}
}

func TestCGIHeads(t *testing.T) {
	for text, want := range map[string]string{
		"Content-Type: text/plain\n\nbody":                       "200 text/plain body",
		"Status: 404 Not Found\r\nContent-Type: a/b\r\n\r\nbody": "404 a/b body",
		"Location: /x\r\n\r\n":                                   "302  ",
		"Status: 100\r\n\r\n":                                    "status is not in 100 to 599",
		"Status: abc\r\n\r\n":                                    "status is not in 100 to 599",
		"Content-Type: a/b\r\n":                                  "more",
		"no header\n\n":                                          "header name is not a token",
		"Transfer-Encoding: chunked\n\n":                         "Transfer-Encoding",
		"A: " + strings.Repeat("x", maxResponseHead+1):           "larger than 64 KB",
	} {
		var h ResponseHead
		whole, err := h.ParseCGI([]byte(text))
		got := "more"
		if err != nil {
			got = err.Error()
		} else if whole {
			got = fmt.Sprintf("%d %s %s", h.Status, h.Find([]byte(text), "content-type"), text[h.Size:])
		}
		testenv.Contains(t, got, want, "%.60q", text)
	}
}

// FuzzResponse compares what is taken with net/http: that must take it too, and understand the same.
func FuzzResponse(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"), false, 3)
	f.Add([]byte("HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n3;a=\"b\"\r\nabc\r\n0\r\nA: b\r\n\r\n"), false, 1)
	f.Add([]byte("HTTP/1.0 304 Not Modified\r\nConnection: keep-alive\r\n\r\nabc"), true, 100)
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\nabc"), false, 5)
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length : 3\r\nContent-Length: 3\r\n\r\nabc"), false, 3)
	f.Add([]byte("HTTP/1.1 200 OK\r\nConnection: x, close\r\nContent-Length: 0\r\n\r\n"), false, 7)
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
	f.Add([]byte(chunked+"\r\n3 ;a\r\nabc\r\n0\r\n\r\n"), false, 2)
	f.Add([]byte(chunked+"\r\n0\r\n"+strings.Repeat("A: b\r\n", 1000)+"\r\n"), false, 1000)
	f.Add([]byte(chunked+"\n3  \nabc\n0\nA: b\n\n"), false, 9)
	f.Add([]byte(chunked+"Trailer: Content-Length\r\n\r\n0\r\n\r\n"), true, 50)
	f.Fuzz(func(t *testing.T, b []byte, isHead bool, step int) {
		b = bytes.Clone(b) // Parse mends it
		method := "GET"
		if isHead {
			method = "HEAD"
		}
		h, body, _, closed, err := takeResponse(b, method, max(1, step&0xfff))
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return
		}
		if h.Size == 0 || h.Status < 200 {
			return
		}
		// A trailer must fit into the buffer of net/http.
		resp, std := http.ReadResponse(bufio.NewReaderSize(bytes.NewReader(b), len(b)), &http.Request{Method: method})
		if std != nil && badTrailerKey(std) && h.head.Chunked {
			return
		}
		testenv.Must(t, std, "net/http refuses what is taken")
		if resp.StatusCode != h.Status || resp.ProtoMinor != h.Minor {
			t.Fatalf("status %d, minor %d; net/http has %d, %d", h.Status, h.Minor, resp.StatusCode, resp.ProtoMinor)
		}
		h.Each(b, func(name, value []byte) bool {
			key := http.CanonicalHeaderKey(string(name))
			if key == "Transfer-Encoding" || key == "Trailer" || key == "Connection" && resp.Close { // net/http takes them out
				return true
			}
			for _, v := range resp.Header.Values(key) {
				if v == string(value) {
					return true
				}
			}
			t.Fatalf("%s: %q; net/http has %q", name, value, resp.Header.Values(key))
			return true
		})
		testenv.MustEqual(t, !h.Persistent() || h.Body(method).UntilClose, resp.Close, "closes; net/http has %v", resp.Close)
		all, stdErr := io.ReadAll(resp.Body)
		if stdErr != nil && (httpcases.BlankBeforeExtension.Match(b) || bytes.Contains(bytes.ReplaceAll(b, []byte("\r\n"), nil), []byte("\n"))) {
			return // net/http wants CR LF behind a size
		}
		if !bytes.Equal(all, body) || (stdErr == nil) != (err == nil) {
			t.Fatalf("body %q (%v), until close %v; net/http has %q (%v)", body, err, closed, all, stdErr)
		}
	})
}
