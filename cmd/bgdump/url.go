package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/gotrace"
)

// handlerPath is where admin servers have the handler of package graphhttp.
const handlerPath = "/debug/bgraph/"

// profilePath is where net/http/pprof puts itself.
const profilePath = "/debug/pprof/"

// A urlSource is a program that answers HTTP requests with its graph, or with an execution
// trace to make one of.
type urlSource struct {
	name      string
	places    []place // where to ask, the likeliest first; the one that answered alone, later
	client    *http.Client
	transport *http.Transport // of client; its Proxy is set
	clock     clock
	timeout   time.Duration
	stderr    io.Writer
	o         gotrace.Options
	tracing   time.Duration // how long a trace is taken
	cpu       bool          // with a CPU profile beside it
	pause     time.Duration // at least so long between the beginnings of two traces
	traces    bool          // it is known that it gives traces
	connected atomic.Bool   // a program listens there
	answered  atomic.Bool   // it speaks HTTP
	pid       int           // of the process that answers; 0: not known
	kernel    *kernel       // of that process
	last      *bgraph.Snapshot
	next      time.Time // no other trace is taken before this time
}

// A place is an address to ask.
type place struct {
	*url.URL
	trace bool // of package net/http/pprof
}

// Of a trace, what is downloaded at most, and how long it is taken unless -seconds or the URL says so.
const (
	mostTrace    = 512 << 20
	usualTracing = 5 * time.Second
	// A reader that looks all the time gets one second of every nine, and a reader that looks every ten seconds a new trace each time.
	liveTracing = time.Second
	livePause   = 9 * time.Second
)

// newURLSource makes a source of the handler at u; if u is but the address of a
// server, the handler is looked for in its usual place first, and then net/http/pprof.
func newURLSource(u *url.URL, sur *surroundings, set *settings) *urlSource {
	out := &urlSource{name: u.Redacted(), clock: sur.clock, timeout: set.timeout, stderr: sur.stderr, o: set.tracing(), cpu: set.cpu,
		tracing: usualTracing, transport: http.DefaultTransport.(*http.Transport).Clone()}
	out.client = &http.Client{Transport: out.transport}
	out.o.MaxBytes, out.o.Name = mostTrace, u.Host
	seconds := set.seconds
	if set.mode == modeHTTP || set.mode == modeRecord || set.mode == modeServe {
		out.tracing, out.pause = liveTracing, livePause
	} else if seconds == 0 {
		seconds, _ = time.ParseDuration(u.Query().Get("seconds") + "s")
	}
	if seconds > 0 {
		out.tracing = max(seconds.Round(time.Second), time.Second)
	}
	given, profiles := withQuery(u, "format", "dump"), *u
	profiles.Path = profilePath
	switch at := strings.Index(u.Path+"/", profilePath); {
	case u.Path == "" || u.Path == "/":
		usual := *given
		usual.Path = handlerPath
		out.places = []place{{&usual, false}, {given, false}, {&profiles, true}}
	case at >= 0:
		profiles.Path = u.Path[:at] + profilePath
		out.places = []place{{&profiles, true}}
	case path.Base(u.Path) == "trace": // pprof.Trace, somewhere else
		profiles.Path = strings.TrimSuffix(u.Path, "trace")
		out.places = []place{{&profiles, true}}
	case strings.Contains(u.Path, "/debug/"):
		out.places = []place{{given, false}}
	default: // the handler, or what its path and that of the profiles begin with
		profiles.Path = strings.TrimSuffix(u.Path, "/") + profilePath
		out.places = []place{{given, false}, {&profiles, true}}
	}
	return out
}

// newProcessURL makes a source of a process that answers at u.
func newProcessURL(u *url.URL, pid int, sur *surroundings, set *settings) *urlSource {
	out := newURLSource(u, sur, set)
	out.pid, out.kernel = pid, sur.kernel
	return out
}

// newSocketSource makes a source of a program that listens at a Unix socket.
func newSocketSource(file string, sur *surroundings, set *settings) *urlSource {
	out := newURLSource(&url.URL{Scheme: "http", Host: "localhost"}, sur, set)
	out.name, out.o.Name, out.transport.Proxy = file, path.Base(file), nil
	out.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", file)
	}
	return out
}

// mostPlaces is how many places a urlSource asks at most.
const mostPlaces = 3

// withQuery is u with one part of its query set.
func withQuery(u *url.URL, key, value string) *url.URL {
	out, query := *u, u.Query()
	query.Set(key, value)
	out.RawQuery = query.Encode()
	return &out
}

func (u *urlSource) Name() string { return printable(u.name) }

func (u *urlSource) Snapshot(ctx context.Context) (*bgraph.Snapshot, error) {
	var failed []badAnswer
	for i, place := range u.places {
		var s *bgraph.Snapshot
		var err error
		if place.trace {
			s, err = u.trace(ctx, place.URL)
		} else {
			s, err = u.get(ctx, place.URL, u.timeout)
		}
		if err == nil {
			u.places = u.places[i : i+1]
			return s, nil
		}
		answer := badAnswer{false, err} // a handler for all paths may hang or break off where net/http/pprof answers
		if ctx.Err() != nil {
			u.places = slices.Concat(u.places[i+1:], u.places[:i+1]) // the next look begins where time ran out
			return nil, fmt.Errorf("%s: %w", u.Name(), err)
		}
		if !errors.As(err, &answer) && !u.connected.Load() {
			return nil, fmt.Errorf("%s: %w", u.Name(), err)
		}
		failed = append(failed, answer)
	}
	return nil, fmt.Errorf("%s: %w", u.Name(), allBad(failed))
}

// ask sends a request. An answer with another status than 200 is a badAnswer, and so is one that sends bgdump to where there is no
// answer. The body of the response must be closed.
func (u *urlSource) ask(ctx context.Context, at *url.URL) (*http.Response, error) {
	first := *at
	first.User = nil
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { u.connected.Store(true) }})
	req, err := http.NewRequestWithContext(traced, http.MethodGet, first.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "bgdump")
	if at.User != nil { // set here, it is kept by redirects within the host
		password, _ := at.User.Password()
		req.SetBasicAuth(at.User.Username(), password)
	}
	resp, err := u.client.Do(req)
	var last *url.Error
	if errors.As(err, &last) && (resp != nil || last.URL != first.String()) { // a redirect failed
		return nil, moved(ctx, last)
	}
	if err != nil {
		return nil, u.requestError(ctx, err)
	}
	u.answered.Store(true)
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, refusal(resp)
	}
	return resp, nil
}

// get reads a graph or a trace.
func (u *urlSource) get(ctx context.Context, at *url.URL, timeout time.Duration) (*bgraph.Snapshot, error) {
	ctx, cancel := withTimeout(ctx, u.clock, timeout)
	defer cancel()
	resp, err := u.ask(ctx, at)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body := &countingReader{r: resp.Body}
	s, err := readGraph(body, u.o)
	switch {
	case err == nil:
		return s, nil
	case body.err != nil && !errors.Is(body.err, io.EOF):
		return nil, fmt.Errorf("the answer broke off: %w", u.requestError(ctx, body.err))
	case mediaType(resp) == "text/html":
		return nil, webPage(resp)
	}
	return nil, badAnswer{false, err}
}

// A countingReader remembers the error of the reader that it reads from.
type countingReader struct {
	r   io.Reader
	err error
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err != nil {
		c.err = err
	}
	return n, err
}
