package knot

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestAdaptedKeepsThePromises runs the same handlers on net/http's own server and on
// ours, and compares all that a client sees: informational responses, status, header,
// body and its end, trailers, and whether the connection stays.
func TestAdaptedKeepsThePromises(t *testing.T) {
	reference := httptest.NewUnstartedServer(promiseMux())
	reference.Config.ErrorLog = log.New(io.Discard, "", 0)
	reference.Start()
	defer reference.Close()
	all := slices.Clone(promises)
	for _, request := range simplePromises {
		all = append(all, promise{request: request})
	}
	theirs := make([]string, len(all))
	for i, probe := range all {
		theirs[i] = wholeAnswer(t, reference.Listener.Addr().String(), probe.request)
	}
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		for way, adapt := range adapters {
			comparePromises(t, way, all, theirs, start(&Server{Handler: adapt(promiseMux()), Connect: true}).addr)
		}
	})
}

func comparePromises(t *testing.T, way string, all []promise, theirs []string, ours string) {
	for i, probe := range all {
		want, got := theirs[i], wholeAnswer(t, ours, probe.request)
		if probe.theirs != "" {
			if !strings.Contains(want, probe.theirs) || !strings.Contains(got, probe.ours) {
				t.Errorf("%s: %s\n ours %s, should have %q\nnet/http %s, should have %q", way, probe.request, got, probe.ours, want, probe.theirs)
			}
			continue
		}
		testenv.Equal(t, got, want, "%s: %s\n ours\nnet/http %s", way, probe.request, want)
	}
}

type promise struct{ request, ours, theirs string }

// promises are the requests. What docs/net-http.md lists as different has texts that the
// two answers are to contain.
var promises = []promise{
	{request: req("GET /request", "Pragma: no-cache", "Expect: 100-continue")},
	{request: "GET /request HTTP/1.0\r\nPragma: no-cache\r\nCache-Control: max-age=1\r\n\r\n"},
	{request: req("GET http://u.v:8/request?a=%zz;b", "Te: trailers", "Connection: TE, close")},
	{request: "GET /request/a/b?x=1&y=%20 HTTP/1.1\r\nHost: h:80\r\nA: 1\r\na: 2\r\nCookie: x=y\r\n\r\n"},
	{request: req("GET /request/%2f%41", "Connection: close")},
	{request: "GET /request?q={job=\"x\"}&<a> HTTP/1.1\r\nHost: h\r\n\r\n"}, // as curl sends it
	{request: req("CONNECT a:1"), ours: "404", theirs: "404"},
	{request: "CONNECT a:1 HTTP/1.1\r\n\r\n", ours: "404", theirs: "404"},
	{request: req("CONNECT /request"), ours: "CONNECT /request HTTP/1.1 1 1 h /request", theirs: "CONNECT /request HTTP/1.1 1 1 h /request"},
	{request: "CONNECT /request HTTP/1.0\n\n"}, // as net/rpc's client sends it
	{request: req("GET /%00"), ours: "400", theirs: "404"},
	{request: req("POST /body", "Content-Length: 3") + "abc"},
	{request: req("POST /body", "Content-Length: 100000") + strings.Repeat("x", 100_000)},
	{request: req("POST /own-server", "Content-Length: 3") + "xyz"},
	{request: req("POST /body", "Expect: 100-continue", "Content-Length: 3") + "abc", ours: "200 OK", theirs: "100 Continue"},
	{request: "POST /body HTTP/1.1\r\nHost: h\r\nTrailer: A, b\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n"},
	{request: "POST /body HTTP/1.1\r\nHost: h\r\nTrailer: Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ours: "400", theirs: "400"},
	{request: req("POST /body", "Content-Length: 10") + "abc", ours: "unexpected EOF true unexpected EOF", theirs: "unexpected EOF true EOF"}, // and then the end
	{request: "POST /body HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab"},
	{request: req("POST /maxbytes", "Connection: close", "Content-Length: 10") + "0123456789"},
	{request: req("POST /closed", "Content-Length: 10") + "0123456789"},
	{request: req("POST /deadline", "Connection: close", "Content-Length: 10")},
	{request: req("POST /answers-first", "Content-Length: 10") + "0123456789"},
	{request: req("POST /418", "Transfer-Encoding: chunked") + chunksOf(100_000)},
	{request: req("POST /418", "Transfer-Encoding: chunked") + chunksOf(300_000)}, // more than is read to go on
	{request: req("POST /continue", "Expect: 100-continue", "Content-Length: 3") + "abc"},
	{request: "GET /trailer HTTP/1.0\r\n\r\n"},
	{request: req("GET /file", "Range: bytes=5-9")},
	{request: req("GET /file", "If-Modified-Since: Mon, 01 Jan 2024 00:00:00 GMT")},
	{request: "HEAD /sniff", ours: "length 32 ", theirs: "length 32 "},
	{request: "GET /sniff?large HTTP/1.0\r\n\r\n"},
	{request: "HEAD /sniff?large", ours: "length 100032 ", theirs: "200 OK; close false; "}, // net/http says no length
	{request: "GET /sniff?unsized HTTP/1.0\r\n\r\n"},
	{request: "GET /connection?close"},
	{request: "GET /connection?keep-alive"},
	{request: req("GET /connection?keep-alive", "Connection: close")},
	{request: "GET /short", ours: "unexpected EOF", theirs: "unexpected EOF"},
	{request: "GET /short?nothing", ours: "500", theirs: "unexpected EOF"},
	{request: "GET /long", ours: "fits", theirs: "unexpected EOF"},
	{request: "GET /panic", ours: "500", theirs: "EOF"},
	{request: "GET /panic?whole", ours: "500", theirs: "EOF"},
	{request: req("POST /hijack", "Content-Length: 3") + "abcdef"},
	{request: "GET /hijack?wrote", ours: "somemore", theirs: "unexpected EOF"},
	{request: "GET /../x", ours: "400", theirs: `Location=["/x"]`},
}

// simplePromises are requests without a header, and without a difference.
var simplePromises = []string{
	"GET /context", "PURGE /request", "OPTIONS /request", req("OPTIONS *"), "GET /types", "GET /controller", "GET /early",
	"GET /trailer", "GET /prefix", "GET /304", "GET /204", "GET /204?empty", "GET /204?body", "GET /205", "GET /418",
	"GET /413", "GET /416", "GET /422", "GET /599", "GET /odd", "GET /error", "GET /missing", "GET /299", "GET /999",
	"GET /sniff", "GET /sniff?large", "HEAD /sniff?flush", "HEAD /sniff?length", "HEAD /own-server", "GET /sniff?flush",
	"GET /sniff?none", "GET /sniff?empty", "GET /sniff?unsized", "HEAD /sniff?unsized", "GET /sniff?encoded",
	"GET /sniff?length", "GET /date", "GET /date?none", "GET /own-server", "GET /connection", "GET /bad-length",
	"GET /long?flush", "GET /twice", "GET /after", "GET /abort", "GET /abort?flush", "GET /abort?whole",
	"GET /abort?most", "GET /panic?flush", "GET /panic?most", "GET /hijack", "GET /hijack?flush", "GET /hijack?twice",
	"GET /101",
}

// chunksOf is a chunked body of n bytes.
func chunksOf(n int) string {
	return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", n, strings.Repeat("x", n))
}

// wholeAnswer sends a request and the end of the stream, and describes all that comes.
func wholeAnswer(t *testing.T, addr, request string) string {
	t.Helper()
	if !strings.Contains(request, "\n") {
		request = req(request)
	}
	nc := testenv.Dial(t, addr)
	defer nc.Close()
	io.WriteString(nc, request)
	if torn := strings.HasSuffix(request, "\r\nabc") || strings.HasSuffix(request, "\r\nab"); torn {
		nc.(*net.TCPConn).CloseWrite()
	}
	method, _, _ := strings.Cut(request, " ")
	in := bufio.NewReader(nc)
	var text strings.Builder
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			fmt.Fprint(&text, err)
			return text.String()
		}
		body, err := io.ReadAll(resp.Body)
		if got := resp.Header.Get("Date"); got != "" && got != "mine" {
			resp.Header.Set("Date", "now")
		}
		length := resp.ContentLength
		if length == int64(len(body)) || err == nil && length == -1 {
			length = -2 // both are right
		}
		resp.Header.Del("Content-Length")
		fmt.Fprintf(&text, "%s; close %v; length %d %v; %q %v; %v\n", resp.Status, resp.Close, length, fields(resp.Header), body, err, fields(resp.Trailer))
		if resp.StatusCode >= 200 || resp.StatusCode == 101 {
			return text.String()
		}
	}
}

func fields(h http.Header) []string {
	var lines []string
	for name, values := range h {
		lines = append(lines, fmt.Sprintf("%s=%q", name, values))
	}
	sort.Strings(lines)
	return lines
}

// promiseMux has handlers that use what net/http promises them.
func promiseMux() http.Handler {
	mux := http.NewServeMux()
	promiseRequests(mux)
	promiseResponses(mux)
	promiseEnds(mux)
	return mux
}

func promiseRequests(mux *http.ServeMux) {
	mux.HandleFunc("/context", func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		server, isServer := ctx.Value(http.ServerContextKey).(*http.Server)
		local, isAddr := ctx.Value(http.LocalAddrContextKey).(net.Addr)
		_, port, err := net.SplitHostPort(r.RemoteAddr)
		_, limited := ctx.Deadline()
		fmt.Fprintln(w, isServer && server.Handler != nil, isAddr && local.Network() == "tcp", port != "", err, limited, ctx.Err())
	})
	request := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, r.Method, r.URL, r.Proto, r.ProtoMajor, r.ProtoMinor, r.Host, r.RequestURI, r.Close, r.ContentLength,
			r.TransferEncoding, r.Body == http.NoBody, r.TLS, fields(r.Header), fields(r.Trailer), r.URL.Query(), r.URL.Path, r.URL.RawPath, r.Pattern)
	}
	mux.HandleFunc("/request", request)
	mux.HandleFunc("/request/", request)
	mux.HandleFunc("/body", func(w http.ResponseWriter, r *http.Request) {
		before := fields(r.Trailer)
		body, err := io.ReadAll(r.Body)
		_, again := r.Body.Read(make([]byte, 1))
		fmt.Fprintf(w, "%q %v %v %v %v %v %v", body, err, err == io.ErrUnexpectedEOF, again, before, fields(r.Trailer), fields(r.Header))
	})
	mux.HandleFunc("/maxbytes", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 5))
		var tooLarge *http.MaxBytesError
		fmt.Fprintf(w, "%q %v %v", body, err, errors.As(err, &tooLarge))
	})
	mux.HandleFunc("/closed", func(w http.ResponseWriter, r *http.Request) {
		one := make([]byte, 1)
		n, err := r.Body.Read(one)
		closed := r.Body.Close()
		_, after := r.Body.Read(one)
		fmt.Fprintln(w, n, err, closed, after == http.ErrBodyReadAfterClose)
	})
	mux.HandleFunc("/deadline", func(w http.ResponseWriter, r *http.Request) {
		err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(-time.Second))
		_, readErr := r.Body.Read(make([]byte, 1))
		timeout, ok := readErr.(net.Error)
		fmt.Fprintln(w, err, ok && timeout.Timeout(), errors.Is(readErr, os.ErrDeadlineExceeded))
	})
	mux.HandleFunc("/answers-first", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first")
		http.NewResponseController(w).Flush()
		r.Body.Read(make([]byte, 1))
	})
	mux.HandleFunc("/types", func(w http.ResponseWriter, r *http.Request) {
		_, flusher := w.(http.Flusher)
		_, hijacker := w.(http.Hijacker)
		//lint:ignore SA1019 programs use it
		_, notifier := w.(http.CloseNotifier)
		_, writer := w.(io.StringWriter)
		_, pusher := w.(http.Pusher)
		_, from := w.(io.ReaderFrom)
		fmt.Fprintln(w, flusher, hijacker, notifier, writer, pusher, "ReaderFrom", from)
	})
	mux.HandleFunc("/controller", func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(struct{ wrapped }{wrapped{w}})
		far := time.Now().Add(time.Hour)
		fmt.Fprintln(w, c.SetReadDeadline(far), c.SetWriteDeadline(far), c.EnableFullDuplex(), c.Flush(),
			c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{}))
	})
}

// wrapped is a ResponseWriter as middleware has it.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func promiseResponses(mux *http.ServeMux) {
	mux.HandleFunc("/early", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>")
		w.Header().Set("Content-Length", "3")
		w.WriteHeader(103)
		w.Header().Add("Link", "</b.css>")
		w.WriteHeader(103)
		w.Header().Del("Link")
		io.WriteString(w, "abc")
	})
	mux.HandleFunc("/continue", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(100)
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%q %v", body, err)
	})
	mux.HandleFunc("/trailer", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Trailer", "A, B")
		w.Header().Add("Trailer", "Content-Length, C")
		w.Header().Set("A", "0")
		io.WriteString(w, "body")
		w.Header().Set("A", "1")
		w.Header().Add("B", "2")
		w.Header().Add("B", "3")
		w.Header().Add("D", "not announced")
	})
	mux.HandleFunc("/prefix", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "body")
		w.(http.Flusher).Flush()
		w.Header().Set(http.TrailerPrefix+"A", "1")
	})
	for _, code := range []int{204, 205, 299, 304, 413, 416, 418, 422, 599, 999, 101} {
		mux.HandleFunc(fmt.Sprintf("/%d", code), func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("ETag", `"a"`)
			if code == 204 || code == 304 {
				w.Header().Set("Content-Length", "10")
			}
			w.WriteHeader(code)
			switch r.URL.RawQuery {
			case "empty":
				w.Write(nil)
			case "body":
				if _, err := w.Write([]byte("x")); err != http.ErrBodyNotAllowed {
					panic(err)
				}
			}
		})
	}
	mux.HandleFunc("/sniff", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.RawQuery {
		case "none":
			w.Header()["Content-Type"] = nil
		case "empty":
			w.Header()["Content-Type"] = []string{""}
		case "unsized":
			w.Header()["Content-Length"] = nil
		case "encoded":
			w.Header().Set("Content-Encoding", "x")
		case "length":
			w.Header().Set("Content-Length", "32")
		}
		for _, part := range []string{"<", "!doct", "ype html>", "<title>x</title>!"} {
			io.WriteString(w, part)
		}
		switch r.URL.RawQuery {
		case "flush":
			w.(http.Flusher).Flush()
		case "large":
			io.WriteString(w, strings.Repeat("x", 100_000))
		}
	})
	mux.HandleFunc("/date", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", "mine")
		if r.URL.RawQuery == "none" {
			w.Header()["Date"] = nil
		}
	})
	mux.HandleFunc("/own-server", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Server", "mine") })
	mux.HandleFunc("/odd", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["x-odd"] = []string{"a", "b"}
		w.Header().Set("Bad name", "x")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(201)
		io.WriteString(w, "{}")
	})
	mux.HandleFunc("/error", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "a.txt", time.Unix(1e9, 0), strings.NewReader(strings.Repeat("0123456789", 1000)))
	})
	mux.HandleFunc("/connection", func(w http.ResponseWriter, r *http.Request) {
		if option := r.URL.RawQuery; option != "" {
			w.Header().Set("Connection", option)
			io.WriteString(w, "body")
			return
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "h2c")
		w.WriteHeader(426)
	})
	mux.HandleFunc("/bad-length", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "many")
		io.WriteString(w, "body")
	})
}

// writeSome writes a part of the response, or what its Content-Length says, as the query wants.
func writeSome(w http.ResponseWriter, r *http.Request) {
	const large = 40_000 // leaves at once
	switch r.URL.RawQuery {
	case "flush":
		io.WriteString(w, "some")
		w.(http.Flusher).Flush()
	case "whole":
		w.Header().Set("Content-Length", "4")
		io.WriteString(w, "some")
	case "most":
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", fmt.Sprint(large+4))
		w.Write([]byte(strings.Repeat("x", large)))
		io.WriteString(w, "some")
	}
}

func promiseEnds(mux *http.ServeMux) {
	mux.HandleFunc("/short", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		if r.URL.RawQuery == "" {
			io.WriteString(w, "short")
		}
	})
	mux.HandleFunc("/long", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "4")
		writeSome(w, r)
		_, err := io.WriteString(w, "too long")
		if err == http.ErrContentLength && r.URL.RawQuery == "" {
			io.WriteString(w, "fits")
		}
	})
	mux.HandleFunc("/twice", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(201)
		w.WriteHeader(500)
		w.WriteHeader(103)
	})
	mux.HandleFunc("/after", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.Header().Set("Late", "1")
		w.Header().Set("Content-Type", "text/late")
		io.WriteString(w, "body")
	})
	mux.HandleFunc("/abort", func(w http.ResponseWriter, r *http.Request) {
		writeSome(w, r)
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("/panic", func(w http.ResponseWriter, r *http.Request) {
		writeSome(w, r)
		panic("a handler's panic")
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, r *http.Request) {
		writeSome(w, r)
		if r.URL.RawQuery == "wrote" {
			w.Header().Set("Content-Length", "8")
			io.WriteString(w, "some")
		}
		nc, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer nc.Close()
		if r.URL.RawQuery == "wrote" {
			io.WriteString(nc, "more")
			return
		}
		_, again := w.Write(nil)
		_, _, twice := w.(http.Hijacker).Hijack()
		buffered, _ := rw.Peek(rw.Reader.Buffered())
		text := fmt.Sprintf("%v %v %v %q", again == http.ErrHijacked, twice == http.ErrHijacked, r.Context().Err(), buffered)
		fmt.Fprintf(rw, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		rw.Flush()
	})
	mux.HandleFunc("/form", func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(0); err != nil {
			panic(err)
		}
		file := r.MultipartForm.File["f"][0]
		fmt.Fprint(w, fileName(file))
	})
}

// fileName is where the content of a form has been put.
func fileName(h *multipart.FileHeader) string {
	f, err := h.Open()
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if file, ok := f.(*os.File); ok {
		return file.Name()
	}
	return ""
}
