package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/bgraph/gotrace"
)

// handlerPath is where admin servers have the handler of package bgraph.
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
	pause     time.Duration // at least so long between two traces
	last      *bgraph.Snapshot
	next      time.Time // not before then another one is taken
}

// A place is an address to ask.
type place struct {
	*url.URL
	trace bool // of package net/http/pprof
}

// Of a trace, what is downloaded at most, and how long it is taken unless -seconds says so.
const (
	mostTrace    = 512 << 20
	usualTracing = 5 * time.Second
	// A reader that looks all the time gets one second of every ten.
	liveTracing = time.Second
	livePause   = 9 * time.Second
)

// newURLSource makes a source of the handler at u; if u is but the address of a
// server, the handler is looked for in its usual place first, and then net/http/pprof.
func newURLSource(u *url.URL, sur *surroundings, set *settings) *urlSource {
	out := &urlSource{name: u.Redacted(), clock: sur.clock, timeout: set.timeout, stderr: sur.stderr, o: set.tracing(), cpu: set.cpu,
		tracing: usualTracing, transport: http.DefaultTransport.(*http.Transport).Clone()}
	out.client = &http.Client{Transport: out.transport}
	if set.mode == modeHTTP || set.mode == modeRecord {
		out.tracing, out.pause = liveTracing, livePause
	}
	if set.seconds > 0 {
		out.tracing = max(set.seconds.Round(time.Second), time.Second)
	}
	out.o.MaxBytes, out.o.Name = mostTrace, u.Host
	given := *u
	query := given.Query()
	query.Set("format", "dump")
	given.RawQuery = query.Encode()
	profiles := *u
	profiles.Path = profilePath
	switch at := strings.Index(u.Path, profilePath); {
	case u.Path == "" || u.Path == "/":
		usual := given
		usual.Path = handlerPath
		out.places = []place{{&usual, false}, {&given, false}, {&profiles, true}}
	case at >= 0 || strings.HasSuffix(u.Path, strings.TrimSuffix(profilePath, "/")):
		if at < 0 {
			at = len(u.Path) - len(profilePath) + 1
		}
		profiles.Path = u.Path[:at] + profilePath
		out.places = []place{{&profiles, true}}
	case strings.Contains(u.Path, "/debug/"):
		out.places = []place{{&given, false}}
	default: // the handler, or what its path and that of the profiles begin with
		profiles.Path = strings.TrimSuffix(u.Path, "/") + profilePath
		out.places = []place{{&given, false}, {&profiles, true}}
	}
	return out
}

func (u *urlSource) Name() string { return printable(u.name) }

func (u *urlSource) Snapshot(ctx context.Context) (*bgraph.Snapshot, error) {
	var failed []string
	last := ""
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
		var answer badAnswer
		if !errors.As(err, &answer) {
			return nil, fmt.Errorf("%s: %w", u.Name(), err)
		}
		if i == 0 || err.Error() != last {
			failed = append(failed, fmt.Sprintf("%s: %v", printable(place.Redacted()), err))
		}
		last = err.Error()
	}
	return nil, errors.New(strings.Join(failed, "\n"))
}

// A badAnswer is one that is not a dump.
type badAnswer struct{ error }

func (e badAnswer) Unwrap() error { return e.error }

// trace takes an execution trace. Whether there is something to take it from is asked first,
// as what a trace costs is said before it is taken.
func (u *urlSource) trace(ctx context.Context, profiles *url.URL) (*bgraph.Snapshot, error) {
	if u.last != nil && u.clock.Now().Before(u.next) {
		return u.last.Clone(), nil
	}
	if err := u.check(ctx, profiles); err != nil {
		return nil, err
	}
	seconds := fmt.Sprintf("%d", int(u.tracing.Seconds()))
	if u.last == nil {
		fmt.Fprintf(u.stderr, "bgdump: taking an execution trace of %s for %s s; meanwhile that costs it 1 to 15 %% of its throughput, and more if it does little but pass values over channels\n",
			u.Name(), seconds)
	}
	at := func(path string) *url.URL {
		out := profiles.JoinPath(path)
		query := out.Query()
		query.Set("seconds", seconds)
		out.RawQuery = query.Encode()
		return out
	}
	if u.cpu {
		profiled := make(chan struct{})
		ctx, cancel := context.WithCancel(ctx)
		defer func() { cancel(); <-profiled }()
		go func() { // its samples come with the trace
			defer close(profiled)
			if req, err := http.NewRequestWithContext(ctx, http.MethodGet, at("profile").String(), nil); err == nil {
				if resp, err := u.client.Do(req); err == nil {
					io.Copy(io.Discard, io.LimitReader(resp.Body, mostTrace))
					resp.Body.Close()
				}
			}
		}()
	}
	s, err := u.get(ctx, at("trace"), u.timeout+2*u.tracing)
	if err == nil && s.Taken.IsZero() {
		s.Taken = u.clock.Now()
	}
	if err == nil && u.pause == 0 {
		if err := u.ages(ctx, profiles, s); err != nil && len(s.Notes) < bgraph.MaxNotes {
			s.Notes = append(s.Notes, "how long goroutines have waited before the trace is not known: "+bgraph.CleanText(explain(err)))
		}
	}
	if err == nil && u.pause > 0 {
		u.last, u.next = s.Clone(), u.clock.Now().Add(u.pause)
	}
	return s, err
}

// mostAged is of how many goroutines the ages are asked: the program stands still while it lists them.
const mostAged = 20_000

// ages asks for a list of the goroutines, with those that have leaked if the Go runtime can tell.
func (u *urlSource) ages(ctx context.Context, profiles *url.URL, s *bgraph.Snapshot) error {
	var now int64
	for i := range s.Starts {
		now += s.Starts[i].Now
	}
	if now > mostAged {
		return fmt.Errorf("there are %d goroutines, and to list more than %d stops the program for long", now, mostAged)
	}
	ctx, cancel := withTimeout(ctx, u.clock, u.timeout)
	defer cancel()
	var failed error
	for _, list := range []string{"goroutineleak", "goroutine"} {
		at := profiles.JoinPath(list)
		query := at.Query()
		query.Set("debug", "2")
		at.RawQuery = query.Encode()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
		if err != nil {
			return err
		}
		resp, err := u.client.Do(req)
		if err != nil {
			return u.requestError(ctx, err)
		}
		if failed = fmt.Errorf("the answer is %s", printable(resp.Status)); resp.StatusCode == http.StatusOK {
			failed = gotrace.AddAges(s, io.LimitReader(resp.Body, mostTrace))
		}
		resp.Body.Close()
		if failed == nil {
			break
		}
	}
	return failed
}

// check asks whether net/http/pprof is there.
func (u *urlSource) check(ctx context.Context, profiles *url.URL) error {
	ctx, cancel := withTimeout(ctx, u.clock, u.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, profiles.JoinPath("cmdline").String(), nil)
	if err != nil {
		return err
	}
	resp, err := u.client.Do(req)
	if err != nil {
		return u.requestError(ctx, err)
	}
	defer resp.Body.Close()
	if refused := refusal(resp); refused != nil {
		return badAnswer{refused}
	}
	if resp.StatusCode != http.StatusOK {
		return badAnswer{fmt.Errorf("the answer is %s%s. If this is a Go program, let it import _ \"net/http/pprof\" and serve http.DefaultServeMux where only you can reach it: go http.ListenAndServe(\"localhost:6060\", nil)", printable(resp.Status), firstLine(resp))}
	}
	command, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if name, _, _ := strings.Cut(string(command), "\x00"); name != "" && mediaType(resp) == "text/plain" {
		u.o.Name = name[strings.LastIndexAny(name, "/\\")+1:]
	}
	return nil
}

func (u *urlSource) get(ctx context.Context, place *url.URL, timeout time.Duration) (*bgraph.Snapshot, error) {
	ctx, cancel := withTimeout(ctx, u.clock, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, place.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "bgdump")
	resp, err := u.client.Do(req)
	if err != nil {
		return nil, u.requestError(ctx, err)
	}
	defer resp.Body.Close()
	if refused := refusal(resp); refused != nil {
		return nil, badAnswer{refused} // profiles may be open to all
	}
	if resp.StatusCode != http.StatusOK {
		return nil, badAnswer{fmt.Errorf("the answer is %s%s", printable(resp.Status), firstLine(resp))}
	}
	body := &countingReader{r: resp.Body}
	s, err := readGraph(body, u.o)
	if err == nil {
		return s, nil
	}
	if body.err != nil && !errors.Is(body.err, io.EOF) {
		return nil, u.requestError(ctx, body.err)
	}
	if kind := mediaType(resp); kind != "" && strings.HasPrefix(kind, "text/html") {
		return nil, badAnswer{errors.New("the answer is a web page, neither a dump nor a trace; want the address of graphhttp's handler or of net/http/pprof")}
	}
	return nil, badAnswer{err}
}

// refusal says what to do about an answer that holds for all of a server; nil if it is none.
func refusal(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return fmt.Errorf("the answer is %s: it wants a name and a password, as in http://NAME:PASSWORD@HOST:PORT", printable(resp.Status))
	case http.StatusProxyAuthRequired:
		return fmt.Errorf("the answer is %s: the proxy wants a name and a password, as in HTTP_PROXY=http://NAME:PASSWORD@HOST:PORT", printable(resp.Status))
	case http.StatusBadRequest: // package net/http answers that in the clear
		if mediaType(resp) != "" {
			return nil
		}
		if head, _ := io.ReadAll(io.LimitReader(resp.Body, 512)); bytes.Contains(head, []byte("HTTP request to an HTTPS server")) {
			return errors.New("this server speaks TLS: write https:// in front of its address")
		}
	}
	return nil
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

func mediaType(resp *http.Response) string {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind
}

// firstLine is how a server explains a status, if it does so in plain text.
func firstLine(resp *http.Response) string {
	if mediaType(resp) != "text/plain" {
		return ""
	}
	head, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
	line, _, _ := bytes.Cut(bytes.TrimSpace(head), []byte("\n"))
	if len(line) == 0 {
		return ""
	}
	return ": " + clip(printable(string(line)), 200)
}

// requestError says in plain words why there was no answer.
func (u *urlSource) requestError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var request *url.Error
	proxy := ""
	if errors.As(err, &request) {
		err = request.Err // the source is named by the caller
		proxy = u.proxyOf(request.URL)
	}
	var name *net.DNSError
	var unverified *tls.CertificateVerificationError
	switch {
	case proxy != "" && (errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &name)):
		return fmt.Errorf("the proxy %s does not answer (%w); NO_PROXY lists the hosts to ask without it", proxy, err)
	case errors.As(err, &unverified):
		return fmt.Errorf("%w; on Linux SSL_CERT_FILE names a file with certificates to trust, elsewhere the system has a list", err)
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return errors.New("this server does not speak TLS: write http:// in front of its address")
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("nobody listens there (connection refused); does the program run, with its admin address on?")
	case errors.As(err, &name):
		return fmt.Errorf("the name %s is not known: %w", printable(name.Name), err)
	}
	return err
}

// proxyOf names the proxy that a URL is asked through, "" if there is none.
func (u *urlSource) proxyOf(address string) string {
	at, err := url.Parse(address)
	if err != nil {
		return ""
	}
	proxy, err := u.transport.Proxy(&http.Request{URL: at})
	if err != nil || proxy == nil {
		return ""
	}
	return printable(proxy.Redacted())
}
