// Package discovery finds the backends of a proxy while it runs: by DNS, by the EndpointSlices of Kubernetes, and in files. What it
// does happens on goroutines, which wait natively; nothing of it is on an event loop.
//
//	source: ask ─→ list or error ─→ wait (TTL, change, refresh) ─→ ask …
//	              ↓
//	Run: the lists of all sources together ─→ set, if they have changed
//
// A source that fails keeps its last list.
package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/kube"
	"github.com/miekg/dns"
)

const (
	// DefaultRefresh is how long a list is good for at least.
	DefaultRefresh = 5 * time.Second
	// maxRefresh is how long it is at most: a TTL of a week may be a mistake, which is mended by then.
	maxRefresh = time.Hour
	// FirstTime is how long the start, and a reload, wait for the first lists.
	FirstTime = 2 * time.Second
	// answerTime is how long the API server of Kubernetes may take.
	answerTime = 10 * time.Second
)

// kinds are what sources begin with.
const (
	kindDNS  = "dns+"
	kindSRV  = "srv+"
	kindKube = "k8s+"
	kindFile = "file:"
)

// IsSource reports whether an address of a list names a source of backends, and no backend.
func IsSource(to string) bool {
	return slices.ContainsFunc([]string{kindDNS, kindSRV, kindKube, kindFile}, func(kind string) bool { return strings.HasPrefix(to, kind) })
}

// Surroundings are what sources ask.
type Surroundings struct {
	Clock   kube.Clock
	Resolv  func() (*dns.ClientConfig, error) // servers and search list
	Account kube.Account
}

// System are the Surroundings of the process.
func System() Surroundings {
	return Surroundings{
		Clock:   clock{},
		Resolv:  func() (*dns.ClientConfig, error) { return dns.ClientConfigFromFile("/etc/resolv.conf") },
		Account: kube.Account{Host: os.Getenv("KUBERNETES_SERVICE_HOST"), Port: os.Getenv("KUBERNETES_SERVICE_PORT"), Dir: kube.AccountDir},
	}
}

type clock struct{}

func (clock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// A backend is what a source finds.
type backend struct {
	to     string // as in the list of a proxy
	weight int
}

// A source finds backends until ctx ends. It calls tell with each list, or with what is wrong.
type source interface {
	follow(ctx context.Context, tell func([]backend, error))
}

// A Finder finds the backends of a proxy. Made by New.
type Finder struct {
	sur     Surroundings
	log     *slog.Logger
	fixed   []string
	names   []string // of sources, as they were given
	sources []source
	most    int // backends that are taken
	seed    maphash.Seed
	server  string        // host that the certificates of backends are for; "": it is not known
	ready   chan struct{} // closed once each source has a list or has failed

	mu    sync.Mutex
	lists map[string][]backend // the last ones of sources, by name; guarded by mu
}

// New takes a list of backends apart: fixed are its backends, and f finds those of its sources, most in all; nil: there are none.
// refresh is how long a list of a source is good for at least; 0: DefaultRefresh.
func New(to []string, most int, refresh time.Duration, sur Surroundings, log *slog.Logger) (fixed []string, f *Finder, err error) {
	f = &Finder{sur: sur, log: log, most: most, seed: maphash.MakeSeed(), ready: make(chan struct{}), lists: make(map[string][]backend)}
	hosts := make(map[string]bool) // that certificates are for; "": it is not known
	var errs []error
	for _, text := range to {
		if !IsSource(text) {
			fixed = append(fixed, text)
			if host, secure := strings.CutPrefix(text, "https://"); secure {
				hosts[hostOf(host)] = true
			}
			continue
		}
		s, host, err := f.source(text, cmp.Or(refresh, DefaultRefresh))
		if err != nil {
			errs = append(errs, fmt.Errorf("%q: %w", text, err))
			continue
		}
		if strings.Contains(text, "+https://") || strings.HasPrefix(text, kindFile) {
			hosts[host] = true
		}
		f.names, f.sources = append(f.names, text), append(f.sources, s)
	}
	if err := errors.Join(errs...); err != nil || len(f.sources) == 0 {
		return fixed, nil, err
	}
	if len(hosts) == 1 {
		for host := range hosts {
			f.server = host
		}
	}
	f.fixed = fixed
	return fixed, f, nil
}

// ServerName is the name that certificates of backends have; "": it does not follow from the list.
func (f *Finder) ServerName() string { return f.server }

// Adopt takes over what old, of the configuration before, has found in the same sources. It must be called before Run.
func (f *Finder) Adopt(old *Finder) {
	old.mu.Lock()
	defer old.mu.Unlock()
	for _, name := range f.names {
		if list, has := old.lists[name]; has {
			f.lists[name] = list
		}
	}
}

// Wait waits until Run has called set with what can be found, for FirstTime at most.
func (f *Finder) Wait() {
	select {
	case <-f.ready:
	case <-f.sur.Clock.After(FirstTime):
	}
}

func hostOf(hostport string) string {
	host, _, _ := net.SplitHostPort(hostport)
	return host
}

// source makes a source. host is what its certificates are for; "": it is not known.
func (f *Finder) source(text string, refresh time.Duration) (s source, host string, err error) {
	if path, ok := strings.CutPrefix(text, kindFile); ok {
		if path == "" {
			return nil, "", errors.New("want file: and the path of a list of targets as Prometheus has them for file_sd")
		}
		return &file{path: path, every: refresh, clock: f.sur.Clock}, "", nil
	}
	kind, address, _ := strings.Cut(text, "+")
	scheme := ""
	if i := strings.Index(address, "://"); i >= 0 {
		scheme, address = address[:i+3], address[i+3:]
	}
	u, err := url.Parse("x://" + address)
	wrong := err != nil || u.Host != address || u.Hostname() == "" || scheme != "" && scheme != "http://" && scheme != "https://"
	switch kind {
	case "dns":
		host, port, err := net.SplitHostPort(address)
		if wrong || err != nil || port == "" || net.ParseIP(host) != nil {
			return nil, "", errors.New("want dns+http://NAME:PORT, like dns+http://api.internal:8080")
		}
		return &names{sur: f.sur, scheme: scheme, name: host, port: port, least: refresh}, host, nil
	case "srv":
		if wrong || u.Port() != "" {
			return nil, "", errors.New("want srv+http://NAME without a port, like srv+http://_http._tcp.api.internal")
		}
		return &names{sur: f.sur, scheme: scheme, name: address, least: refresh}, "", nil
	}
	return f.endpoints(scheme, address, refresh)
}

// An update is a list of a source, or what is wrong.
type update struct {
	of   int
	list []backend
	err  error
}

// Run finds backends until ctx ends, and calls set with all of them when they change. It is a proxy.Config.Discover.
func (f *Finder) Run(ctx context.Context, set func(backends []string, weights []int) error) {
	updates := make(chan update)
	var all sync.WaitGroup
	defer all.Wait()
	for i, s := range f.sources {
		all.Go(func() {
			s.follow(ctx, func(list []backend, err error) {
				select {
				case updates <- update{i, list, err}:
				case <-ctx.Done():
				}
			})
		})
	}
	var before []backend
	var refused string // what set said last
	apply := func(source string) {
		now := f.together()
		if slices.Equal(now, before) {
			return
		}
		var backends []string
		var weights []int
		for _, b := range now {
			backends, weights = append(backends, b.to), append(weights, b.weight)
		}
		if err := set(backends, weights); err != nil {
			if text := err.Error(); ctx.Err() == nil && text != refused {
				refused = text
				f.log.Warn("knot: a list of backends can't be used; the one before stays", "source", source, "error", text)
			}
			return
		}
		if before, refused = now, ""; source != "" {
			f.log.Info("knot: the backends have changed", "source", source, "backends", len(now))
		}
	}
	apply("") // fixed ones, and those of before a reload
	unknown, failing := make(map[int]bool), make([]bool, len(f.sources))
	for i, name := range f.names {
		if _, has := f.lists[name]; !has {
			unknown[i] = true
		}
	}
	for told := false; ; {
		if len(unknown) == 0 && !told {
			told = true
			close(f.ready)
		}
		select {
		case u := <-updates:
			if f.note(u, &failing[u.of]); u.err == nil {
				apply(f.names[u.of])
			}
			delete(unknown, u.of)
		case <-ctx.Done():
			return
		}
	}
}

// note takes a list over, and logs that a source fails, or no longer does.
func (f *Finder) note(u update, failing *bool) {
	switch {
	case u.err != nil && !*failing:
		f.log.Warn("knot: backends can't be found; those found before stay", "source", f.names[u.of], "error", u.err)
	case u.err == nil && *failing:
		f.log.Info("knot: backends can be found again", "source", f.names[u.of])
	}
	if *failing = u.err != nil; !*failing {
		f.mu.Lock()
		f.lists[f.names[u.of]] = u.list
		f.mu.Unlock()
	}
}

// together are the backends of all lists, each once, in an order of their own. Of more than most it takes some, by
// chance, so that several servers do not all choose the same; what comes or goes changes the choice by as much.
func (f *Finder) together() (all []backend) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := make(map[string]bool)
	add := func(b backend) {
		if !seen[b.to] {
			seen[b.to] = true
			all = append(all, b)
		}
	}
	for _, to := range f.fixed {
		add(backend{to, 1})
	}
	for _, name := range f.names {
		for _, b := range f.lists[name] {
			add(b)
		}
	}
	if len(all) > f.most {
		slices.SortFunc(all, func(a, b backend) int { return cmp.Compare(maphash.String(f.seed, a.to), maphash.String(f.seed, b.to)) })
		all = all[:f.most]
	}
	slices.SortFunc(all, func(a, b backend) int { return strings.Compare(a.to, b.to) })
	return all
}

// wait reports whether the source goes on after d.
func wait(ctx context.Context, clock kube.Clock, d time.Duration) bool {
	select {
	case <-clock.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
