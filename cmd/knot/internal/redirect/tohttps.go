package redirect

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/rule"
	"github.com/capriccio-go/capriccio/knot"
)

// Ports that URLs leave out.
const (
	HTTP  = 80
	HTTPS = 443
)

// challenges begins the paths that an authority of certificates asks for (RFC 8555, 8.3).
var challenges = []byte("/.well-known/acme-challenge/")

// ToHTTPS sends clients that speak HTTP to the same URL of HTTPS.
type ToHTTPS struct {
	From int        // port that is listened on
	To   func() int // port of HTTPS
	// Known reports whether there is a site for the host. Requests for others get 421: a redirect to any host that a
	// client names could end up in a cache.
	Known func(host []byte) bool
	// Prove, if not nil, returns what answers an authority of certificates, nil if none asks at the moment.
	Prove func() knot.Handler
}

// Handle is the handler. The status is 308, with which clients repeat a POST as it was, where 301 makes it a GET.
// It may park.
func (r *ToHTTPS) Handle(x *knot.Ctx) error {
	host, target := x.HostBytes(), x.Target()
	if r.Prove != nil && bytes.HasPrefix(x.PathBytes(), challenges) {
		if prove := r.Prove(); prove != nil {
			return prove(x)
		}
	}
	if len(host) == 0 {
		return knot.Status(400)
	}
	if !r.Known(host) {
		return knot.Status(421)
	}
	if target == "" || target[0] != '/' { // "*", or a URL as a proxy is asked: rebuilt of its parts
		target = rule.Escape(strings.TrimPrefix(x.Path(), "*"))
		if query := x.Query(); query != "" {
			target += "?" + query
		}
	}
	return x.Redirect(308, "https://"+r.authority(host)+target)
}

// authority is the host with the port of HTTPS. A client that has named no port and comes to another one than 80 comes
// through something that forwards port 80, and so surely port 443.
func (r *ToHTTPS) authority(host []byte) string {
	name, hasPort := string(host), false
	if end := bytes.LastIndexByte(host, ':'); end > bytes.LastIndexByte(host, ']') {
		name, hasPort = name[:end], true
	}
	to := r.To()
	if to == HTTPS || !hasPort && r.From != HTTP {
		return name
	}
	return name + ":" + strconv.Itoa(to)
}
