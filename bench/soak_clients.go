package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// soakPause is between two requests of a client: a soak is to be long, not heavy.
const soakPause = 300 * time.Millisecond

// soakShown is how many failures are shown as they come.
const soakShown = 20

// soakClient makes one visit; dice belongs to it.
type soakClient func(ctx context.Context, dice *rand.Rand) error

// clients are of HTTP/1, HTTP/2 and HTTP/3, with upgraded connections, through a proxy, slow, and such that leave.
func (s *sitesSoak) clients() (all []soakClient) {
	for i := range 12 {
		all = append(all, s.visitor(i))
	}
	for i := range 3 {
		all = append(all, s.visits(12+i, "https", s.http3()))
	}
	for range 3 {
		all = append(all, s.upgraded)
	}
	return append(all, s.slowReader, s.slowReader, s.slowWriter, s.behindProxy, s.behindProxy, s.leaver, s.leaver)
}

// repeat makes visits until ctx ends.
func (s *sitesSoak) repeat(ctx context.Context, i int, client soakClient) {
	dice := rand.New(rand.NewPCG(uint64(i), 2))
	tick := time.NewTicker(soakPause)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := client(ctx, dice); err != nil && ctx.Err() == nil {
			if errors.Is(err, errRefused) {
				s.refused.Add(1)
			} else {
				s.first.CompareAndSwap(nil, &err)
				if s.failed.Add(1) <= soakShown {
					fmt.Fprintln(s.progress, time.Now().Format(time.TimeOnly), err)
				}
			}
		}
		s.requests.Add(1)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// errRefused is what a visit ends with that the server has refused because of overload.
var errRefused = errors.New("refused")

// countsText is how many requests there were by case.
func (s *sitesSoak) countsText() string {
	var counts []string
	s.counts.Range(func(name, count any) bool {
		counts = append(counts, fmt.Sprintf("%s %d", name, count.(*atomic.Int64).Load()))
		return true
	})
	slices.Sort(counts)
	return strings.Join(counts, ", ")
}

func (s *sitesSoak) count(name string) {
	count, _ := s.counts.LoadOrStore(name, new(atomic.Int64))
	count.(*atomic.Int64).Add(1)
}

// visitor is a client of HTTP/1 with kept connections or new ones, or of HTTP/2.
func (s *sitesSoak) visitor(i int) soakClient {
	scheme, addr := "http", s.plain
	if i%2 == 0 {
		scheme, addr = "https", s.tls
	}
	transport := &http.Transport{
		DialContext:       s.dialer(addr),
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		ForceAttemptHTTP2: i%4 != 2, DisableKeepAlives: i%4 == 3,
	}
	return s.visits(i, scheme, transport)
}

// http3 is a transport of HTTP/3 which takes TCP where no handshake of QUIC comes about, as browsers do: during an upgrade
// Knot answers none.
func (s *sitesSoak) http3() http.RoundTripper {
	insecure := &tls.Config{InsecureSkipVerify: true}
	return &fallingBack{over: s,
		quic: &http3.Transport{TLSClientConfig: insecure, Dial: func(ctx context.Context, _ string, tls *tls.Config, config *quic.Config) (*quic.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, quicPatience)
			defer cancel()
			c, err := quic.DialAddr(ctx, s.tls, tls, config)
			if err != nil && (ctx.Err() != nil || isRefusal(err)) {
				err = errNoQUIC
			}
			return c, err
		}},
		tcp: &http.Transport{TLSClientConfig: insecure, ForceAttemptHTTP2: true, DialContext: s.dialer(s.tls)},
	}
}

var errNoQUIC = errors.New("no handshake of QUIC")

// quicPatience is longer than browsers wait before they try TCP too.
const quicPatience = 2 * time.Second

// fallingBack is a transport of HTTP/3, and of TCP where there is none.
type fallingBack struct {
	over      *sitesSoak
	quic, tcp http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f *fallingBack) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := f.quic.RoundTrip(req)
	if errors.Is(err, errNoQUIC) { // and nothing was read of the body
		f.over.count("http3-by-tcp")
		return f.tcp.RoundTrip(req)
	}
	f.over.count("http3")
	return resp, err
}

// dialer connects to addr, whatever it is asked for.
func (s *sitesSoak) dialer(addr string) func(ctx context.Context, network, _ string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, network, addr)
	}
}

// isRefusal reports whether Knot has refused a connection as it is overloaded or stops: a handshake of TLS ends with an alert then.
func isRefusal(err error) bool {
	var quicError *quic.TransportError
	return errors.As(err, &quicError) && quicError.ErrorCode == quic.ConnectionRefused || strings.Contains(err.Error(), "remote error: tls: internal error")
}

// visits makes requests of all cases.
func (s *sitesSoak) visits(i int, scheme string, transport http.RoundTripper) soakClient {
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Transport: transport, Timeout: serverStart, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	last := "" // backend that the client sticks to
	return func(ctx context.Context, dice *rand.Rand) error {
		c := soakCases[dice.IntN(len(soakCases))]
		if err := s.visit(ctx, client, scheme, &c, dice, &last); err != nil {
			return fmt.Errorf("%s (%s, client %d): %w", c.name, scheme, i, err)
		}
		return nil
	}
}

// soakCase is a request and what is right as its response. In path, query and body %d is a number of the request's own.
type soakCase struct {
	name, host, method, path string
	header                   []string // names and values
	body                     int      // its length is up to this
	statuses                 []int
	says                     []string // lines of the body; TOKEN is the request's
	want                     []string // names and values of header lines of the response
	sticks                   bool
	length                   int // of the body; 0: any
}

var soakCases = []soakCase{
	{name: "file", host: "files.test", path: "/small.txt", statuses: []int{200}, length: 1 << 10, want: []string{"X-Config", "", "Content-Security-Policy", "default-src 'self'", "Server", "-"}},
	{name: "large-file", host: "files.test", path: "/large.bin", statuses: []int{200}, length: 1 << 20},
	{name: "compressed-file", host: "files.test", path: "/style.css", statuses: []int{200}, length: 64 << 10},
	{name: "range", host: "files.test", path: "/large.bin", header: []string{"Range", "bytes=16-47"}, statuses: []int{206}, length: 32},
	{name: "try", host: "files.test", path: "/no/such/page", statuses: []int{200}, says: []string{"<p>the page</p>"}},
	{name: "redirect", host: "files.test", path: "/old/x?n=%d", statuses: []int{302}, want: []string{"Location", "/new/x?n=%d"}},
	{name: "rewrite", host: "files.test", path: "/item/%d", statuses: []int{200}, length: 1 << 10},
	{name: "denied", host: "files.test", path: "/secret/x", statuses: []int{403}, says: []string{"<p>sorry</p>"}},
	{name: "no-password", host: "files.test", path: "/intern/x.txt", statuses: []int{401}, want: []string{"Www-Authenticate", ""}},
	{name: "password", host: "files.test", path: "/intern/x.txt", header: []string{"Authorization", "Basic YWxpY2U6c29haw=="}, statuses: []int{200}, says: []string{"intern"}},
	{name: "limited", host: "files.test", path: "/limited/x", statuses: []int{200, 429}, want: []string{"Ratelimit", ""}},
	{name: "unknown-host", host: "none.test", path: "/", statuses: []int{421}},
	{name: "proxied", host: "app.test", path: "/api/x?n=%d&size=3000", statuses: []int{200}, says: []string{"target=/api/x?n=%d&size=3000", "token=TOKEN", "user="}, want: []string{"X-Config", ""}, sticks: true},
	{name: "proxied-large", host: "app.test", path: "/api/y?n=%d&size=300000", statuses: []int{200}, says: []string{"token=TOKEN"}, sticks: true},
	{name: "stream", host: "app.test", path: "/api/z?n=%d&stream", statuses: []int{200}, says: []string{"token=TOKEN", "data\ndata\ndata\ndata\ndata"}, sticks: true},
	{name: "upload", host: "app.test", method: "POST", path: "/api/upload?n=%d", body: 200_000, statuses: []int{200}, says: []string{"token=TOKEN", "BODY"}, sticks: true},
	{name: "spoofed", host: "app.test", path: "/api/s?n=%d", header: []string{"X-Forwarded-For", "6.6.6.6", "X-Tenant", "evil", "Remote-User", "root"}, statuses: []int{200}, says: []string{"for=127.0.0.1", "user="}},
	{name: "too-large", host: "app.test", method: "PUT", path: "/api/tiny", body: -2000, statuses: []int{413}},
	{name: "rewritten", host: "app.test", path: "/moved/%d", statuses: []int{200}, says: []string{"target=/api/moved/%d", "token=TOKEN"}},
	{name: "intercepted", host: "app.test", path: "/api/teapot", statuses: []int{418}, says: []string{"<p>sorry</p>"}},
	{name: "preflight", host: "app.test", method: "OPTIONS", path: "/api/x", header: []string{"Origin", "https://page.test", "Access-Control-Request-Method", "POST"}, statuses: []int{204}, want: []string{"Access-Control-Allow-Origin", "https://page.test"}},
	{name: "unauthorized", host: "app.test", path: "/auth/x", statuses: []int{401}},
	{name: "authorized", host: "app.test", path: "/auth/x?n=%d", header: []string{"Authorization", "Bearer soak", "Remote-User", "root"}, statuses: []int{200}, says: []string{"user=alice", "token=TOKEN"}},
	{name: "canary", host: "app.test", path: "/auth/y?n=%d", header: []string{"Authorization", "Bearer soak", "X-Canary", "1"}, statuses: []int{200}, says: []string{"backend=2", "token=TOKEN"}},
	{name: "kept", host: "kept.test", path: "/kept/a/%1d?size=2000", header: []string{"X-Lang", "de"}, statuses: []int{200}, says: []string{"target=/kept/a/%1d?size=2000", "lang=de"}, want: []string{"Cache-Status", ""}},
	{name: "kept-other-language", host: "kept.test", path: "/kept/a/%1d?size=2000", header: []string{"X-Lang", "fr"}, statuses: []int{200}, says: []string{"target=/kept/a/%1d?size=2000", "lang=fr"}},
	{name: "kept-changing-table", host: "kept.test", path: "/kept/b/%1d?utm_source=%d", statuses: []int{200}, says: []string{"target=/kept/b/%1d", "lang="}},
	{name: "kept-range", host: "kept.test", path: "/kept/r/%1d?size=100000", header: []string{"Range", "bytes=0-9"}, statuses: []int{200, 206}},
	{name: "private", host: "kept.test", path: "/own/%1d", statuses: []int{200}, says: []string{"target=/own/%1d", "token=TOKEN"}},
	{name: "maintenance", host: "off.test", path: "/small.txt", statuses: []int{200, 503}},
}

// visit makes the request of a case, and checks its response.
func (s *sitesSoak) visit(ctx context.Context, client *http.Client, scheme string, c *soakCase, dice *rand.Rand, last *string) error {
	s.count(c.name)
	filled := strings.NewReplacer("%1d", fmt.Sprint(dice.IntN(20)), "%d", fmt.Sprint(dice.Uint32()), "TOKEN", fmt.Sprintf("%x", dice.Uint64()))
	var body io.Reader
	sent := bytes.Repeat([]byte("b"), max(-c.body, dice.IntN(max(c.body, 1))))
	if c.body != 0 {
		body = bytes.NewReader(sent)
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(c.method, "GET"), scheme+"://"+c.host+filled.Replace(c.path), body)
	if err != nil {
		return err
	}
	req.Header.Set("X-Token", filled.Replace("TOKEN"))
	for i := 0; i < len(c.header); i += 2 {
		req.Header.Set(c.header[i], c.header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil && isRefusal(err) {
		return errRefused
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("body of status %d: %w", resp.StatusCode, err)
	}
	text := string(got)
	if !slices.Contains(c.statuses, resp.StatusCode) {
		if resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "" {
			return errRefused
		}
		return fmt.Errorf("status %d, want %v: %.200q", resp.StatusCode, c.statuses, text)
	}
	if c.length != 0 && len(got) != c.length {
		return fmt.Errorf("%d bytes, want %d", len(got), c.length)
	}
	for i := 0; i < len(c.want); i += 2 {
		have, want := resp.Header.Get(c.want[i]), filled.Replace(c.want[i+1])
		if want == "" && have == "" || want == "-" && have != "" || want != "" && want != "-" && have != want {
			return fmt.Errorf("%s: %q, want %q", c.want[i], have, want)
		}
	}
	for _, line := range c.says {
		line = filled.Replace(strings.Replace(line, "BODY", fmt.Sprintf("body=%d %x", len(sent), sha256.Sum256(sent)), 1))
		if !strings.Contains("\n"+text+"\n", "\n"+line+"\n") {
			return fmt.Errorf("the response does not say %q: %.300q", line, text)
		}
	}
	if c.sticks {
		backend, _, _ := strings.Cut(text, "\n")
		moved := slices.ContainsFunc(resp.Cookies(), func(c *http.Cookie) bool { return c.Name == "to" }) // as the other is not well
		if *last == "" || moved {
			*last = backend
		} else if *last != backend {
			return fmt.Errorf("%s, and before %s, though the client has the cookie", backend, *last)
		}
	}
	return nil
}

// dial connects for at most long.
func (s *sitesSoak) dial(addr string, long time.Duration) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", addr, serverStart)
	if err == nil {
		err = c.SetDeadline(time.Now().Add(long))
	}
	return c, err
}

// upgraded talks for some seconds on an upgraded connection.
func (s *sitesSoak) upgraded(ctx context.Context, dice *rand.Rand) error {
	s.count("websocket")
	c, err := s.dial(s.plain, serverStart)
	if err != nil {
		return err
	}
	defer c.Close()
	io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return fmt.Errorf("upgrade: %w", err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("upgrade: status %d", resp.StatusCode)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for range dice.IntN(25) {
		sent := bytes.Repeat([]byte{byte(dice.IntN(256))}, 1+dice.IntN(2000))
		if _, err := c.Write(sent); err != nil {
			return fmt.Errorf("websocket: %w", err)
		}
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(in, got); err != nil {
			return fmt.Errorf("websocket: %w", err)
		}
		if !bytes.Equal(got, sent) {
			return errors.New("websocket: another text has come back")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// slowReader takes a large file in small pieces.
func (s *sitesSoak) slowReader(ctx context.Context, _ *rand.Rand) error {
	s.count("slow-reader")
	c, err := s.dial(s.plain, 10*serverStart) // a busy machine makes it slower yet
	if err != nil {
		return err
	}
	defer c.Close()
	c.(*net.TCPConn).SetReadBuffer(4 << 10)
	io.WriteString(c, "GET /large.bin HTTP/1.1\r\nHost: files.test\r\nConnection: close\r\n\r\n")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	total, piece := 0, make([]byte, 8<<10)
	for {
		n, err := c.Read(piece)
		if total += n; err == io.EOF && total > 1<<20 {
			return nil
		} else if err != nil {
			return fmt.Errorf("slow reader: %d bytes: %w", total, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// slowWriter sends a body in small chunks.
func (s *sitesSoak) slowWriter(ctx context.Context, dice *rand.Rand) error {
	s.count("slow-writer")
	c, err := s.dial(s.plain, 10*serverStart)
	if err != nil {
		return err
	}
	defer c.Close()
	io.WriteString(c, "POST /api/slow HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n")
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	n := 10 + dice.IntN(20)
	for range n {
		if _, err := io.WriteString(c, "400\r\n"+strings.Repeat("b", 1<<10)+"\r\n"); err != nil {
			return fmt.Errorf("slow writer: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	io.WriteString(c, "0\r\n\r\n")
	return says(c, "slow writer", fmt.Sprintf("body=%d %x", n<<10, sha256.Sum256(bytes.Repeat([]byte("b"), n<<10))))
}

// behindProxy is a client of a balancer that speaks the PROXY protocol.
func (s *sitesSoak) behindProxy(_ context.Context, dice *rand.Rand) error {
	s.count("proxy-protocol")
	c, err := s.dial(s.proxied, serverStart)
	if err != nil {
		return err
	}
	defer c.Close()
	from := fmt.Sprintf("203.0.113.%d", dice.IntN(256))
	fmt.Fprintf(c, "PROXY TCP4 %s 192.0.2.1 1000 80\r\nGET /api/p HTTP/1.1\r\nHost: app.test\r\n\r\n", from)
	return says(c, "proxy protocol", "for="+from)
}

// says reads a response that must have this line.
func says(c net.Conn, who, line string) error {
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return fmt.Errorf("%s: %w", who, err)
	}
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", who, err)
	case resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "":
		return errRefused
	case resp.StatusCode != http.StatusOK || !strings.Contains(string(text), line+"\n"):
		return fmt.Errorf("%s: status %d without %q: %.300q", who, resp.StatusCode, line, text)
	}
	return nil
}

// leaver closes its connection in the middle of a request or a response.
func (s *sitesSoak) leaver(_ context.Context, dice *rand.Rand) error {
	s.count("leaver")
	c, err := s.dial(s.plain, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	at := soakCases[dice.IntN(len(soakCases))]
	text := "GET " + strings.NewReplacer("%1d", "1", "%d", "2").Replace(at.path) + " HTTP/1.1\r\nHost: " + at.host + "\r\n\r\n"
	io.WriteString(c, text[:1+dice.IntN(len(text))])
	if dice.IntN(2) == 0 {
		io.ReadFull(c, make([]byte, 1+dice.IntN(100)))
	}
	return nil
}
