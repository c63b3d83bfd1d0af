//go:build knot_dns_rfc2136

package acme

import (
	"github.com/caddyserver/certmagic"
	"github.com/libdns/rfc2136"
)

func init() {
	providers["rfc2136"] = func() certmagic.DNSProvider { return new(rfc2136.Provider) }
}
