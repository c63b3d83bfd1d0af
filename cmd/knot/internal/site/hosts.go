package site

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/capriccio-go/capriccio/knot"
)

// maxHost is the longest name of a host that is looked up, in bytes (RFC 1035, 2.3.4).
const maxHost = 255

// Hosts finds the site of a request by its host. Add sites before it serves.
type Hosts struct {
	exact    map[string]*Site
	wild     map[string]*Site // by what follows the star: ".example.org"
	fallback *Site            // of hosts that no site has; nil: they get 421
	// Gone: the address is not listened on any more. Clients that are there get 421, and have to come anew.
	Gone bool

	users    atomic.Int64 // requests that a Switch has given to it; atomic
	retired  atomic.Bool  // a Switch has others now; atomic
	retire   sync.Once
	onRetire func() // fixed
}

// Add gives a site the names of hosts, in any case: "example.org", "*.example.org" for every name
// that ends so, or "*" for all that no site has. A name counts for every port. A name goes before
// a star, and a longer star before a shorter one.
func (h *Hosts) Add(s *Site, names ...string) error {
	if h.exact == nil {
		h.exact, h.wild = make(map[string]*Site), make(map[string]*Site)
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, h.add(s, name))
	}
	return errors.Join(errs...)
}

func (h *Hosts) add(s *Site, given string) error {
	name := strings.TrimSuffix(strings.ToLower(given), ".")
	to, key := h.exact, name
	switch {
	case name == "*":
		if h.fallback != nil {
			return errors.New("two sites are for all hosts that no site has")
		}
		h.fallback = s
		return nil
	case strings.HasPrefix(name, "*."):
		to, key = h.wild, name[1:]
	}
	if bare := strings.TrimPrefix(name, "*."); bare == "" || len(name) > maxHost || strings.ContainsAny(bare, "*/ \t@") || strings.Contains(bare, ":") && bare[0] != '[' {
		return fmt.Errorf("%q is not the name of a host; want one like example.org or *.example.org, without a port", given)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return fmt.Errorf("no client asks for the host %q; want its form in ASCII, as xn--mnchen-3ya.de for münchen.de", given)
	}
	if to[key] != nil {
		return fmt.Errorf("two sites have the host %s", given)
	}
	to[key] = s
	return nil
}

// Site is the site of a host, which may have a port; nil if there is none.
func (h *Hosts) Site(host []byte) *Site {
	if len(h.exact)+len(h.wild) == 0 || len(host) == 0 {
		return h.fallback
	}
	var buf [maxHost]byte
	name := BareHost(host)
	if len(name) > len(buf) {
		return h.fallback
	}
	for i, ch := range name {
		if 'A' <= ch && ch <= 'Z' {
			ch |= 0x20
		}
		buf[i] = ch
	}
	name = buf[:len(name)]
	if s := h.exact[string(name)]; s != nil {
		return s
	}
	for len(h.wild) > 0 {
		dot := bytes.IndexByte(name, '.')
		if dot < 0 {
			break
		}
		if s := h.wild[string(name[dot:])]; s != nil && dot > 0 {
			return s
		}
		name = name[dot+1:]
	}
	return h.fallback
}

// BareHost is host without its port and the dot of the root.
func BareHost(host []byte) []byte {
	if len(host) > 0 && host[0] == '[' {
		if end := bytes.IndexByte(host, ']'); end > 0 {
			return host[:end+1]
		}
	}
	if colon := bytes.LastIndexByte(host, ':'); colon >= 0 {
		host = host[:colon]
	}
	return bytes.TrimSuffix(host, []byte("."))
}

// Handle is the handler. It may park.
func (h *Hosts) Handle(x *knot.Ctx) error {
	s := h.Site(x.HostBytes())
	if s == nil {
		if h.Gone {
			x.CloseAfter()
		}
		return knot.Status(421)
	}
	if s.Handshake != nil && h.shaken(x) != s {
		return knot.Status(421)
	}
	return s.Handle(x)
}

// shaken is the site that the client has asked for in the handshake; nil: there was none.
func (h *Hosts) shaken(x *knot.Ctx) *Site {
	if state := x.TLS(); state != nil {
		return h.Site([]byte(state.ServerName))
	}
	return nil
}

// ErrorPage is Server.ErrorPage for all sites.
func (h *Hosts) ErrorPage(x *knot.Ctx, status int) (ctype string, page []byte) {
	if s := h.Site(x.HostBytes()); s != nil {
		return s.ErrorPage(x, status)
	}
	return "", nil
}

// A Switch serves by the Hosts that were set last. A request that has begun goes on with the Hosts that
// it began with. Safe from anywhere.
type Switch struct{ hosts atomic.Pointer[Hosts] }

// Set makes h what is served from now on. The Hosts before retire: after their last request, what
// was given to OnRetire is called.
func (s *Switch) Set(h *Hosts) {
	if old := s.hosts.Swap(h); old != nil && old != h {
		old.retired.Store(true)
		old.retireIfUnused()
	}
}

// enter returns the Hosts for a request. The caller leaves them.
func (s *Switch) enter() *Hosts {
	for {
		h := s.hosts.Load()
		h.users.Add(1)
		if s.hosts.Load() == h {
			return h
		}
		h.leave() // they may have retired in between
	}
}

func (h *Hosts) leave() {
	if h.users.Add(-1) == 0 {
		h.retireIfUnused()
	}
}

func (h *Hosts) retireIfUnused() {
	if h.retired.Load() && h.users.Load() == 0 {
		h.retire.Do(func() {
			if h.onRetire != nil {
				h.onRetire()
			}
		})
	}
}

// OnRetire says what to do, once, when h was replaced in a Switch and serves no request any
// more: close the Files of its sites, say. It may be called on a loop, and must not block for long.
func (h *Hosts) OnRetire(fn func()) { h.onRetire = fn }

// protoACME is the protocol by which an authority checks a name by TLS (RFC 8737). The authority sends no request, and has no
// certificate.
const protoACME = "acme-tls/1"

// Handshakes is given with what Site.Handshake sets for the site that a client asks for.
func (s *Switch) Handshakes(given *tls.Config) *tls.Config {
	c := given.Clone()
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (config *tls.Config, err error) {
		if given.GetConfigForClient != nil {
			if config, err = given.GetConfigForClient(hello); err != nil {
				return nil, err
			}
		}
		h := s.enter()
		defer h.leave()
		if one := h.Site([]byte(hello.ServerName)); one != nil && one.Handshake != nil && !slices.Equal(hello.SupportedProtos, []string{protoACME}) {
			if config == nil {
				config = given
			}
			config = config.Clone()
			config.GetConfigForClient = nil
			one.Handshake(config)
		}
		return config, nil
	}
	return c
}

// Handle is the handler. It may park.
func (s *Switch) Handle(x *knot.Ctx) error {
	h := s.enter()
	defer h.leave()
	return h.Handle(x)
}

// ErrorPage is Server.ErrorPage.
func (s *Switch) ErrorPage(x *knot.Ctx, status int) (ctype string, page []byte) {
	h := s.enter()
	defer h.leave()
	return h.ErrorPage(x, status)
}
