package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/balance"
	"github.com/capriccio-go/capriccio/internal/logwriter"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/netpoll"
)

// Defaults of Config.
const (
	DefaultConnectTimeout  = 5 * time.Second
	DefaultResponseTimeout = 60 * time.Second
	DefaultIdleTimeout     = 60 * time.Second
	DefaultTunnelTimeout   = time.Hour
	DefaultQueueTimeout    = 10 * time.Second
	DefaultKeepTimeout     = 30 * time.Second
	DefaultMaxConns        = 1000
	DefaultQueue           = 1000
	DefaultKeepConns       = 64
	DefaultTries           = 3
	DefaultMaxFails        = 3
	DefaultFailTime        = 10 * time.Second
	DefaultRetryShare      = 0.1
	// MaxBackends is how many backends a Proxy has at most.
	MaxBackends = 64
	// MaxWeight is the largest weight of a backend.
	MaxWeight = 1000
)

// Config says where requests go, and how. The zero value of each field but Backends is its default; a negative time
// or number means none, or no limit.
type Config struct {
	// Backends are "http://host:port", "https://host:port" or "unix:/path"; for FastCGI "host:port" too. All of them
	// must answer alike: requests are spread over them, the next to the one with the fewest under way for its weight. A request
	// that is answered by an error (a status of 500 or more) counts as under way until another backend would have begun its answer, for a
	// second at most.
	Backends []string
	// Discover, if not nil, is called by Start on a goroutine. It says with set which backends take the place of Backends, which
	// may be empty then: without any, requests get 503. A backend that set has named before stays as it is, but for its weight; one
	// that it does not name gets no further requests. If set returns an error, the backends stay as they were. Discover must
	// return when ctx ends, which Close does.
	Discover func(ctx context.Context, set func(backends []string, weights []int) error)
	// Weights are those of Backends, in their order, from 0 to MaxWeight; nil: all are 1. A backend of weight 0 gets only
	// the requests of clients that stick to it.
	Weights []int
	// Balance is "least", or has requests led by what they have in common: "hash client" (the address, of IPv6 64 bits of it),
	// "hash path", "hash header NAME" or "hash cookie NAME". Requests without that are spread as with "least", which "" is too.
	// "prequal" goes by what the backends say of their load (a load report, ORCA), in responses and to probes, which Start begins:
	// where several servers send requests to the same backends, each sees only its own. Backends that say nothing count by what was
	// sent there.
	Balance string
	// Bound, with a hash, is how many times its part of the requests under way a backend may have, 1 or more; what is beyond
	// goes to the next backend of its key. 0: no limit.
	Bound float64
	// Sticky, if not nil, has clients come back to their backend by a cookie.
	Sticky *Sticky
	// Canary, if not nil, is a second group of backends.
	Canary *Canary
	// Mirror, if not nil, is a group of backends that get copies of requests.
	Mirror *Mirror
	// TLS is for backends with https; nil: the system's roots, and the host in the address is the name that a
	// certificate must have.
	TLS *tls.Config
	// HTTP2 has backends spoken to in HTTP/2 (RFC 9113): those with https if they offer it (ALPN), else in HTTP/1.1, the
	// others in any case (prior knowledge). Requests share connections, so MaxConns is about requests alone; Upgrade and
	// informational responses are not passed on.
	HTTP2 bool
	// FastCGI, if not nil, means that they speak that, and not HTTP.
	FastCGI *FastCGI
	// Strip is taken off the beginning of the path: with "/api", "/api/users" becomes "/users".
	Strip string
	// Host is the Host of requests to backends: "" as the client has it, "backend" the address of the backend,
	// anything else as it stands.
	Host string
	// Forwarded says how a backend is told of the client: ForwardedX (the default), ForwardedRFC, both, or none.
	Forwarded Forwarded
	// Header, if not nil, returns lines that a request has for backends, in place of all lines with those names that the
	// client has sent; a line without a value only removes those. It is called once for a request, in its task, must not
	// park, and must return no lines that CheckHeader refuses.
	Header func(x *knot.Ctx) []knot.Header
	// Trust names proxies before this server, besides those of Server.Trust: see knot.Ctx.ClientAddr. Lines of other peers
	// about the clients that they forward for are dropped.
	Trust knot.Trust

	ConnectTimeout  time.Duration // until a connection stands, TLS and all; 0: DefaultConnectTimeout
	ResponseTimeout time.Duration // from the end of the request to the head of the response; 0: DefaultResponseTimeout
	IdleTimeout     time.Duration // between two pieces of a body, either way; 0: DefaultIdleTimeout
	TotalTimeout    time.Duration // for all of a request; 0: none
	TunnelTimeout   time.Duration // without a byte in a tunnel, either way; 0: DefaultTunnelTimeout
	QueueTimeout    time.Duration // of a request that waits for one of MaxConns, or for a descriptor; 0: DefaultQueueTimeout

	MaxConns int // requests and tunnels of a backend at a time; 0: DefaultMaxConns
	Queue    int // requests that may wait for that; more get 503; 0: DefaultQueue
	// KeepConns is how many connections may rest, of each backend and loop. 0: DefaultKeepConns; with FastCGI none, as
	// each occupies a process of the program, and requests on others wait.
	KeepConns   int
	KeepTimeout time.Duration // at rest; 0: DefaultKeepTimeout; below 0: none are kept
	// Tries is how many backends a request may be sent to: when one can't be reached, or, with methods that may be
	// repeated (RFC 9110, 9.2.2), when its connection breaks before anything has come back.
	// 0: DefaultTries.
	Tries int

	// RetryShare bounds the further tries: to this part of the requests, from 0 to 1, and ten a second. They are made at once,
	// and a try that takes the place of a connection at rest that the backend had closed does not count. 0: a tenth; below 0: no bound.
	RetryShare float64

	// Hedge, from 0 to 1, has a request without a body, of a method that may be repeated, sent to a second backend while the first has
	// not answered, once that takes longer than this part of the last requests: 0.95 is for the slowest twentieth. The first answer
	// counts, but for a 502, 503 or 504 of the second, and the other connection is closed. It is one of the further tries that RetryShare
	// bounds. Not with Sticky, and not for backends with HTTP2 or FastCGI. 0: off.
	Hedge float64

	// MaxFails failures in a row (it can't be reached, breaks off or is late) take a backend out for FailTime, as
	// long as others are left. 0: DefaultMaxFails and DefaultFailTime. If either is below 0, none is taken out.
	MaxFails int
	FailTime time.Duration
	// SlowStart is how long the weight of a backend that was out takes to grow from a tenth to all of it. 0: no time.
	SlowStart time.Duration
	// PanicThreshold is the part of the backends of a group, from 0 to 1, that must be healthy for failures and checks to
	// count. If fewer are, requests go to all backends, as they would overload the healthy few. 0: all are used only if
	// each is out, by failures.
	PanicThreshold float64
	// Zone is where this server is, and Zones where each of Backends is. Backends of the own zone are preferred as long as the
	// part of them that PanicThreshold requires is healthy, and at least one. A backend that only Discover has named is in no
	// zone. "" and nil: there are no zones.
	Zone  string
	Zones []string
	// Check, if not nil, asks each backend now and then.
	Check *Check

	// Log gets changes of health, and what FastCGI programs write to stderr; nil: slog.Default.
	Log *slog.Logger
	// Dial makes connections; nil: netpoll.DialTimeout, with HTTP2 net.DialTimeout. It is called with what is
	// left of ConnectTimeout and TotalTimeout; 0: no limit. A wait of a task in it ends when the client leaves, a native
	// wait does not.
	Dial func(network, address string, timeout time.Duration) (net.Conn, error)
	// now is the clock of FailTime; nil: time.Now. Tests set it.
	now func() time.Time
	// first is with whose turn the choice among backends begins; nil: rand.Uint32. Tests set it.
	first func() uint32
}

// Forwarded says which lines tell a backend of the client.
type Forwarded uint8

const (
	ForwardedX    Forwarded = iota // X-Forwarded-For, -Proto and -Host, and X-Real-IP
	ForwardedRFC                   // Forwarded (RFC 7239)
	ForwardedBoth                  // all of these
	ForwardedNone                  // and what came with the request is dropped all the same
)

// A Check tells whether a backend is healthy: GET Path must be answered with a status of 200 to 399. With FastCGI it must
// take a connection.
type Check struct {
	Path    string        // "" is "/"
	Host    string        // "": the address of the backend
	Every   time.Duration // 0: 5 s
	Timeout time.Duration // 0: 2 s
	Fall    int           // failures in a row after which it gets no requests any more; of the first check one is enough; 0: 2
	Rise    int           // successes in a row after which it does again; 0: 1
}

// FastCGI says what a program is told (RFC 3875, 4.1).
type FastCGI struct {
	Root  string            // folder of the scripts, as the backend has it
	Index string            // script of paths that name none; "": index.php
	Split string            // what the name of a script ends in; the rest of the path is PATH_INFO; "": .php
	Set   map[string]string // further parameters
	// AnyScript has requests passed on whose script Root has no file of. Without it they get 404, but if Root is not on this
	// machine, or an empty folder: then the program alone knows.
	AnyScript bool
}

// A FieldError says what is wrong with a field of a Config.
type FieldError struct {
	Field string // its name, below Config: "Weights", "Canary.Share"
	Err   error  // what is wrong with the value
}

// Error returns the name of the field and the text of Err.
func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *FieldError) Unwrap() error { return e.Err }

// setDefault fills in the standard value of a setting that is 0. A negative setting becomes 0: none.
func setDefault[T int | time.Duration](v *T, standard T) {
	switch {
	case *v == 0:
		*v = standard
	case *v < 0:
		*v = 0
	}
}

// New makes a Proxy. The error lists all faults of the Config, some of them as joined errors of the type FieldError. No
// connection is made before the first request, and no backend is checked before Start.
func New(c Config) (*Proxy, error) { return newProxy(c, false) }

// newProxy is New, for copies that a Mirror makes too.
func newProxy(given Config, copies bool) (*Proxy, error) {
	c := given
	c.setDefaults(copies)
	var errs []error
	if !copies { // it has been told already
		errs = c.faults()
	}
	p := &Proxy{Config: c, wire: http1{}, began: c.now(), copies: copies}
	if c.FastCGI != nil {
		f, err := newFastCGI(*c.FastCGI)
		if err != nil {
			errs = append(errs, err)
		}
		p.wire = f
	}
	p.stable.from, p.canary.from = c.first(), c.first()
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.budget = balance.NewBudget(c.RetryShare)
	p.byReports = c.Balance == "prequal" && c.FastCGI == nil
	errs = append(errs, c.zoneFaults()...)
	errs = append(errs, p.addGroup(&p.stable, "", c.Backends, c.Weights, c.Discover != nil)...)
	errs = append(errs, p.addBalance(given)...)
	errs = append(errs, assignBits(p.all(), nil))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return p, nil
}

// keeps reports whether connections may rest, once setDefaults has been called.
func (c *Config) keeps() bool { return c.KeepTimeout > 0 && c.KeepConns > 0 }

func (c *Config) setDefaults(copies bool) {
	setDefault(&c.ConnectTimeout, DefaultConnectTimeout)
	setDefault(&c.ResponseTimeout, DefaultResponseTimeout)
	setDefault(&c.IdleTimeout, DefaultIdleTimeout)
	setDefault(&c.TotalTimeout, 0)
	setDefault(&c.TunnelTimeout, DefaultTunnelTimeout)
	setDefault(&c.QueueTimeout, DefaultQueueTimeout)
	setDefault(&c.KeepTimeout, DefaultKeepTimeout)
	setDefault(&c.FailTime, DefaultFailTime)
	setDefault(&c.MaxConns, DefaultMaxConns)
	setDefault(&c.Queue, DefaultQueue)
	if c.KeepConns == 0 && c.FastCGI != nil {
		c.KeepConns = -1
	}
	setDefault(&c.KeepConns, DefaultKeepConns)
	setDefault(&c.Tries, DefaultTries)
	setDefault(&c.MaxFails, DefaultMaxFails)
	setDefault(&c.SlowStart, 0)
	if c.RetryShare == 0 {
		c.RetryShare = DefaultRetryShare
	}
	c.Tries = max(1, c.Tries)
	if c.Log == nil {
		c.Log = logwriter.Default()
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.first == nil {
		c.first = rand.Uint32
	}
	if c.Dial == nil {
		c.Dial = netpoll.DialTimeout
		if c.HTTP2 || copies {
			c.Dial = net.DialTimeout // goroutines wait for these
		}
	}
	if c.Check != nil {
		own := *c.Check
		own.defaults()
		c.Check = &own
	}
}

// faults are what is wrong with c, but for the backends and FastCGI themselves.
func (c *Config) faults() (errs []error) {
	if c.Strip != "" && (c.Strip[0] != '/' || c.Strip == "/" || strings.HasSuffix(c.Strip, "/")) {
		errs = append(errs, fmt.Errorf("%q can't be stripped; want a path like /api, without a slash at its end", c.Strip))
	}
	if c.Host != "" && c.Host != "backend" && knot.CheckHeader("X-Host", c.Host) != nil {
		errs = append(errs, fmt.Errorf("%q is not a host", c.Host))
	}
	if c.Check != nil && (c.Check.Path[0] != '/' || strings.ContainsAny(c.Check.Path, " \r\n")) {
		errs = append(errs, fmt.Errorf("%q is not a path to check", c.Check.Path))
	}
	if c.FastCGI != nil && c.HTTP2 {
		errs = append(errs, errors.New("backends speak FastCGI or HTTP/2; want one of them"))
	}
	if !(c.Hedge >= 0 && c.Hedge <= 1) {
		errs = append(errs, &FieldError{"Hedge", fmt.Errorf("%v is not from 0 to 1", c.Hedge)})
	}
	if c.Hedge > 0 && (c.Sticky != nil || c.HTTP2 || c.FastCGI != nil) {
		errs = append(errs, &FieldError{"Hedge", errors.New("it is for backends that speak HTTP/1.1, without sticky")})
	}
	return errs
}

// address takes a backend apart.
func address(text string, fastCGI bool) (network, addr string, secure bool, err error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		if path == "" || len(path) > 107 {
			return "", "", false, fmt.Errorf("backend %q: want the path of a socket behind unix:, of 107 bytes at most", text)
		}
		return "unix", path, false, nil
	}
	rest, ok := strings.CutPrefix(text, "http://")
	if !ok {
		rest, secure = strings.CutPrefix(text, "https://")
		ok = secure
	}
	if fastCGI {
		if ok {
			return "", "", false, fmt.Errorf("backend %q: want host:port or unix:/path of a FastCGI server", text)
		}
		rest, ok = text, true
	}
	host, port, err := net.SplitHostPort(rest)
	if !ok || err != nil || host == "" || port == "" || strings.ContainsAny(rest, "/?#@ ") {
		want := "http://host:port, https://host:port or unix:/path"
		if fastCGI {
			want = "host:port or unix:/path"
		}
		return "", "", false, fmt.Errorf("backend %q: want %s; a path is not part of it (see strip)", text, want)
	}
	return "tcp", rest, secure, nil
}
