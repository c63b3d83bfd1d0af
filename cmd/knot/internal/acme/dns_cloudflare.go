//go:build knot_dns_cloudflare

package acme

import (
	"github.com/caddyserver/certmagic"
	"github.com/libdns/cloudflare"
)

func init() {
	providers["cloudflare"] = func() certmagic.DNSProvider { return new(cloudflare.Provider) }
}
