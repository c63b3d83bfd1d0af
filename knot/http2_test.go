package knot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// eachHTTP2 runs a test with a client of net/http over TLS, and with one without that has prior knowledge, in each mode.
func eachHTTP2(t *testing.T, set func(*Server), fn func(t *testing.T, sv *served, client *http.Client, url string)) {
	ca := testenv.NewCA(t)
	for _, secure := range []bool{true, false} {
		t.Run(fmt.Sprint("TLS=", secure), func(t *testing.T) {
			everyMode(t, func(t *testing.T, start func(*Server) *served) {
				s, transport, scheme := &Server{H2C: true}, testenv.PlainHTTP2(t), "http"
				if secure {
					s, transport, scheme = &Server{TLS: ca.Server(t)}, &http.Transport{TLSClientConfig: ca.Client(), ForceAttemptHTTP2: true}, "https"
				}
				set(s)
				sv := start(s)
				client := &http.Client{Transport: transport, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
				defer client.CloseIdleConnections()
				fn(t, sv, client, scheme+"://"+sv.addr)
			})
		})
	}
}

// responseText tells all of a response but what may differ between versions.
func responseText(resp *http.Response, err error) string {
	if err != nil {
		return "no response"
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	var lines []string
	for name, values := range resp.Header {
		switch name {
		case "Date", "Connection", "Content-Length", "Trailer":
			continue
		}
		lines = append(lines, fmt.Sprintf("%s %q", name, values))
	}
	sort.Strings(lines)
	torn := err != nil
	return fmt.Sprintf("%d %v length %d, %d bytes %.40q %08x torn %v trailer %v", resp.StatusCode, lines, resp.ContentLength, len(body), body, crc32.ChecksumIEEE(body), torn, resp.Trailer)
}

// TestHTTP2AnswersLikeHTTP1: handlers of Knot, and of net/http, answer the same over both.
func TestHTTP2AnswersLikeHTTP1(t *testing.T) {
	files := openWith(t, layFiles(t, 2, func(i int) int { return 1000 + i*700_000 }), keepings[0].config)
	handlers := map[string]Handler{"knot": echoHandler, "net/http": AdaptHTTP(promiseMux()), "files": files.Handle}
	requests := map[string][]string{
		"knot": {"GET /a?b=c", "HEAD /a", "PUT /echo 0", "PUT /echo 1", "PUT /echo 100000", "PUT /echo -1", "PUT /echo -100000", "GET /stream",
			"GET /large", "HEAD /large", "GET /parts", "GET /nothing", "GET /404", "GET /panic", "GET /goexit", "GET /half", "PURGE /x", "PUT /large 100000", "GET /../x", "OPTIONS /x"},
		"net/http": {"GET /418", "GET /date", "GET /own-server", "GET /twice", "GET /abort", "GET /panic?flush", "GET /sniff", "HEAD /sniff", "GET /sniff?large",
			"GET /sniff?none", "GET /sniff?flush", "GET /odd", "GET /204", "POST /maxbytes 3", "POST /maxbytes 100000", "GET /file", "GET /error", "GET /missing"},
	}
	requests["files"] = []string{"GET /f0", "GET /f1", "GET /f0 bytes=10-99", "GET /f1 bytes=10-99", "GET /f0 bytes=-5", "GET /f1 bytes=-5", "HEAD /f1", "GET /none"}
	for name, handler := range handlers {
		reference := startServer(t, &Server{Handler: handler}, 0) // of which no goroutine stays
		plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
		want := make(map[string]string)
		for _, line := range requests[name] {
			want[line] = sameAnswer(t, plain, reference.url(), line, 1)
		}
		reference.stop()
		eachHTTP2(t, func(s *Server) { s.Handler = handler }, func(t *testing.T, sv *served, client *http.Client, url string) {
			for _, line := range requests[name] {
				testenv.Equal(t, sameAnswer(t, client, url, line, 2), want[line], "%s %s: HTTP/2 beside HTTP/1.1", name, line)
			}
		})
	}
}

// sameAnswer is the text of the response to a request, which is the same for both versions of HTTP. The request is given by its
// method, target, and the range that it asks for or the size of its body: below 0 it is of a length that nobody knows.
func sameAnswer(t *testing.T, client *http.Client, url, line string, version int) string {
	words := strings.Fields(line)
	var body io.Reader
	var ranges string
	if len(words) == 3 && strings.HasPrefix(words[2], "bytes=") {
		ranges = words[2]
	} else if len(words) == 3 {
		size := testenv.Need(strconv.Atoi(words[2]))(t)
		body = bytes.NewReader(bytes.Repeat([]byte("x"), max(size, -size)))
		if size < 0 {
			body = io.MultiReader(body)
		}
	}
	r := testenv.Need(http.NewRequest(words[0], url+words[1], body))(t)
	if ranges != "" {
		r.Header.Set("Range", ranges)
	}
	r.Host = "h"
	r.Header.Set("X-Own", "y")
	resp, err := client.Do(r)
	if err != nil {
		t.Log(line, err)
	} else {
		testenv.Equal(t, resp.ProtoMajor, version, "%s: version", line)
	}
	return strings.Replace(responseText(resp, err), "length -1,", "length ?,", 1)
}

// TestHTTP2StreamsBothWays: what has been flushed arrives before the rest is sent; requests of
// one connection do not wait for each other; what a client cancels ends.
func TestHTTP2StreamsBothWays(t *testing.T) {
	cancelled := make(chan error, 1)
	handlers := map[string]Handler{
		"knot": func(x *Ctx) error {
			one := make([]byte, 1)
			for {
				n, err := x.Body().Read(one)
				if err == io.EOF {
					return nil
				}
				if err != nil {
					return err
				}
				x.Write(one[:n])
				if err := x.Flush(); err != nil {
					return err
				}
			}
		},
		"net/http": adaptBlocking(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/cancel" {
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				cancelled <- r.Context().Err()
				return
			}
			one := make([]byte, 1)
			for {
				n, err := r.Body.Read(one)
				w.Write(one[:n])
				w.(http.Flusher).Flush()
				if err != nil {
					return
				}
			}
		})),
	}
	for name, handler := range handlers {
		eachHTTP2(t, func(s *Server) { s.Handler = handler }, func(t *testing.T, sv *served, client *http.Client, url string) {
			in, out := io.Pipe()
			r, _ := http.NewRequest("POST", url+"/", in)
			go out.Write([]byte("a"))
			resp := testenv.Need(client.Do(r))(t)
			one := make([]byte, 1)
			for _, next := range "bcde" {
				testenv.Need(io.ReadFull(resp.Body, one))(t)
				other := testenv.Need(client.Post(url+"/", "text/plain", strings.NewReader("other")))(t)
				if body, _ := io.ReadAll(other.Body); string(body) != "other" {
					t.Errorf("%q", body)
				}
				other.Body.Close()
				out.Write([]byte(string(next)))
			}
			out.Close()
			if rest, err := io.ReadAll(resp.Body); string(rest) != "e" || err != nil {
				t.Errorf("the rest is %q, %v", rest, err)
			}
			resp.Body.Close()
			testenv.Equal(t, sv.Stats().Conns, 1, "connections")
			if name == "net/http" {
				ctx, cancel := context.WithCancel(context.Background())
				r, _ := http.NewRequestWithContext(ctx, "GET", url+"/cancel", nil)
				resp := testenv.Need(client.Do(r))(t)
				cancel()
				resp.Body.Close()
				if err := <-cancelled; err != context.Canceled {
					t.Error(err)
				}
			}
		})
	}
}

// TestHTTP2TakesLeave: after a response with "Connection: close" a client goes on with another connection.
func TestHTTP2TakesLeave(t *testing.T) {
	for name, handler := range map[string]Handler{
		"knot": func(x *Ctx) error {
			if x.Path() == "/last" {
				x.CloseAfter()
			}
			return x.SendString(200, "text/plain", x.RemoteAddr().String())
		},
		"net/http": AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/last" {
				w.Header().Set("Connection", "close")
			}
			io.WriteString(w, r.RemoteAddr)
		})),
	} {
		t.Run(name, func(t *testing.T) {
			eachHTTP2(t, func(s *Server) { s.Handler = handler }, func(t *testing.T, sv *served, client *http.Client, url string) {
				_, first := testenv.Get(t, client, url)
				_, second := testenv.Get(t, client, url+"/last")
				_, third := testenv.Get(t, client, url)
				testenv.Equal(t, second, first, "the connection of the second request")
				testenv.Equal(t, third != first, true, "the third request came on another one")
			})
		})
	}
}

// TestHTTP2DeadlineOfWrites: when it has passed nothing is sent, though there is room.
func TestHTTP2DeadlineOfWrites(t *testing.T) {
	failures := make(chan [2]error, 1)
	eachHTTP2(t, func(s *Server) {
		s.Handler = AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c := http.NewResponseController(w)
			io.WriteString(w, "one")
			before := c.Flush()
			c.SetWriteDeadline(time.Now().Add(-10 * time.Second))
			io.WriteString(w, "two")
			failures <- [2]error{before, c.Flush()}
		}))
	}, func(t *testing.T, sv *served, client *http.Client, url string) {
		resp := testenv.Need(client.Get(url))(t)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if string(body) != "one" || err == nil {
			t.Errorf("the client got %q, %v", body, err)
		}
		if got := <-failures; got[0] != nil || !errors.Is(got[1], os.ErrDeadlineExceeded) {
			t.Errorf("flushed before: %v, and after: %v", got[0], got[1])
		}
	})
}

// TestHTTP2MalformedIsAnswered: clients of Go try again, each time with another connection, for as long as a request only fails.
func TestHTTP2MalformedIsAnswered(t *testing.T) {
	eachHTTP2(t, func(s *Server) { s.Handler = echoHandler }, func(t *testing.T, sv *served, client *http.Client, url string) {
		r := testenv.Need(http.NewRequest("REPORT", url, nil))(t)
		r.URL.Opaque = "*"
		resp := testenv.Need(client.Do(r))(t)
		resp.Body.Close()
		testenv.Equal(t, resp.StatusCode, 400, "the status")
		testenv.Equal(t, sv.Stats().Accepted, uint64(1), "connections that were made")
	})
}

// TestHTTP2Shutdown: requests under way are answered, and idle clients told to go.
func TestHTTP2Shutdown(t *testing.T) {
	var began, goOn chan bool
	eachHTTP2(t, func(s *Server) {
		began, goOn = make(chan bool, 1), make(chan bool)
		s.Handler = slowly(began, goOn)
	}, func(t *testing.T, sv *served, client *http.Client, url string) {
		answer := make(chan string, 1)
		go func() { answer <- responseText(client.Get(url + "/slow")) }()
		goesOn := sync.OnceFunc(func() { close(goOn) })
		defer goesOn()
		select {
		case <-began:
		case got := <-answer:
			t.Fatalf("before the server was stopped: %s", got)
		}
		ended := startDown(sv)
		goesOn()
		if got := <-answer; !strings.HasPrefix(got, "200 ") {
			t.Error(got)
		}
		testenv.Check(t, <-ended)
		testenv.Equal(t, sv.Stats().Conns, 0, "connections")
	})
}

// TestHTTP2AccessLog: a line for each request, with HTTP/2.0 as its protocol.
func TestHTTP2AccessLog(t *testing.T) {
	for _, c := range []struct {
		format LogFormat
		want   []string
	}{
		{LogCommon, []string{"127.0.0.1 - - ", `"GET /missing HTTP/2.0" 404 `}},
		{LogJSON, []string{`"target":"/missing","proto":"HTTP/2.0",`, `"status":404`}},
	} {
		var log testenv.Buffer
		eachHTTP2(t, func(s *Server) {
			s.Handler = AdaptHTTP(promiseMux())
			s.AccessLog = NewAccessLog(&log, c.format)
		}, func(t *testing.T, sv *served, client *http.Client, url string) {
			for _, path := range []string{"/date", "/missing"} {
				responseText(client.Get(url + path))
			}
			sv.AccessLog.Flush()
			for _, want := range c.want {
				testenv.Contains(t, log.String(), want)
			}
		})
	}
}

// TestHTTP2OnlyWhereItIsWanted: without H2C the preface is refused, and NextProtos is kept to.
func TestHTTP2OnlyWhereItIsWanted(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: echoHandler})
		testenv.Equal(t, statusOf(sv.exchange(preface+"\r\nSM\r\n\r\n")), "505", "status")
		ca := testenv.NewCA(t)
		config := ca.Server(t)
		config.NextProtos = []string{"http/1.1"}
		sv = start(&Server{Handler: echoHandler, TLS: config})
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: ca.Client(), ForceAttemptHTTP2: true}}
		defer client.CloseIdleConnections()
		resp, _ := testenv.Get(t, client, "https://"+sv.addr)
		testenv.Equal(t, resp.ProtoMajor, 1)
	})
}
