package site

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/knot"
)

// maxHost is the longest name of a host that is looked up, in bytes (RFC 1035, 2.3.4).
const maxHost = 255

// Hosts finds the site of a request by its host. Add sites before it serves.
type Hosts struct {
	exact    map[string]*Site
	wild     map[string]*Site // by what follows the star: ".example.org"
	fallback *Site            // of hosts that nobody has; nil: they get 421
}

// Add gives a site the names of hosts, in any case: "example.org", "*.example.org" for every name
// that ends so, or "*" for all that no site has. A name counts for every port. A name goes before
// a star, and a longer star before a shorter one.
func (h *Hosts) Add(s *Site, names ...string) error {
	if h.exact == nil {
		h.exact, h.wild = make(map[string]*Site), make(map[string]*Site)
	}
	for _, given := range names {
		name := strings.TrimSuffix(strings.ToLower(given), ".")
		to, key := h.exact, name
		switch {
		case name == "*":
			if h.fallback != nil {
				return fmt.Errorf("two sites are for all hosts that no site has")
			}
			h.fallback = s
			continue
		case strings.HasPrefix(name, "*."):
			to, key = h.wild, name[1:]
		}
		if bare := strings.TrimPrefix(name, "*."); bare == "" || len(name) > maxHost || strings.ContainsAny(bare, "*/ \t@") || strings.Contains(bare, ":") && bare[0] != '[' {
			return fmt.Errorf("%q is not the name of a host; want one like example.org or *.example.org, without a port", given)
		}
		if to[key] != nil {
			return fmt.Errorf("two sites have the host %s", given)
		}
		to[key] = s
	}
	return nil
}

// Site is the site of a host, which may have a port; nil if there is none.
func (h *Hosts) Site(host []byte) *Site {
	if len(h.exact)+len(h.wild) == 0 || len(host) == 0 {
		return h.fallback
	}
	var buf [maxHost]byte
	name := bareHost(host)
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

// bareHost is host without its port and the dot of the root.
func bareHost(host []byte) []byte {
	if host[0] == '[' {
		if end := bytes.IndexByte(host, ']'); end > 0 {
			return host[:end+1]
		}
	}
	if colon := bytes.LastIndexByte(host, ':'); colon >= 0 {
		host = host[:colon]
	}
	return bytes.TrimSuffix(host, []byte("."))
}

// Serve is the handler. It may park.
func (h *Hosts) Serve(x *knot.Ctx) error {
	s := h.Site(x.HostBytes())
	if s == nil {
		return knot.Status(421)
	}
	return s.Serve(x)
}

// ErrorPage is Server.ErrorPage for all sites.
func (h *Hosts) ErrorPage(x *knot.Ctx, status int) (ctype string, page []byte) {
	if s := h.Site(x.HostBytes()); s != nil {
		return s.ErrorPage(x, status)
	}
	return "", nil
}

// A Switch serves by the Hosts that were set last. A request that has begun goes on with those that
// it began with. Safe from anywhere.
type Switch struct{ hosts atomic.Pointer[Hosts] }

// Set makes h what is served from now on.
func (s *Switch) Set(h *Hosts) { s.hosts.Store(h) }

// Serve is the handler. It may park.
func (s *Switch) Serve(x *knot.Ctx) error { return s.hosts.Load().Serve(x) }

// ErrorPage is Server.ErrorPage.
func (s *Switch) ErrorPage(x *knot.Ctx, status int) (ctype string, page []byte) {
	return s.hosts.Load().ErrorPage(x, status)
}
