// Package acme gets certificates from an authority by ACME (RFC 8555) and renews them, by means of certmagic. Its callbacks read
// files and wait for the network natively: a task calls them in task.Offload.
package acme

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/certmagic"
	"golang.org/x/net/idna"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/sharedstore"
	"github.com/capriccio-go/capriccio/internal/regular"
)

// A Config says which certificates come from which authority. Each field has the name of the flag that it comes from.
type Config struct {
	Hosts     []string // -acme: names to get certificates for, from the start on
	Folder    string   // -acme-cache: where accounts and certificates are kept; several machines may share it. With Storage, where copies are
	Storage   string   // -acme-storage: URL of the shared storage where they are kept instead; "": in Folder
	Email     string   // -acme-email: address that the authority may write to; "": none
	Directory string   // -acme-directory: URL of the authority's directory; "": that of Let's Encrypt
	DNS       string   // -acme-dns: provider whose zone proves the names; "": HTTP-01 and TLS-ALPN-01 do
	DNSFile   string   // -acme-dns-file: JSON file with the settings of the provider; "": it has none
	Resolvers []string // -acme-resolvers: servers that are asked for zones and records, host:port; none: those of the system
	Ask       string   // -acme-ask: URL that says for which further names certificates are got on demand; "": for none
}

// IsOn reports whether an authority gives certificates.
func (c *Config) IsOn() bool { return len(c.Hosts) > 0 || c.Ask != "" }

// Faults are the mistakes of c, each with the name of its flag.
func (c *Config) Faults() (all []error) {
	note := func(wrong bool, format string, args ...any) {
		if wrong {
			all = append(all, fmt.Errorf(format, args...))
		}
	}
	note(c.IsOn() && c.Folder == "" && c.Storage == "", "-acme needs -acme-cache, a folder for the certificates, or -acme-storage: authorities give only a few in a week")
	note(!c.IsOn() && (c.Folder != "" || c.Storage != "" || c.Email != "" || c.Directory != "" || c.DNS != "" || c.DNSFile != "" || len(c.Resolvers) > 0),
		"-acme-cache, -acme-storage, -acme-email, -acme-directory, -acme-dns, -acme-dns-file and -acme-resolvers need -acme")
	note(c.DNS == "" && (c.DNSFile != "" || len(c.Resolvers) > 0), "-acme-dns-file and -acme-resolvers need -acme-dns")
	for _, host := range c.Hosts {
		if err := c.checkHost(host); err != nil {
			all = append(all, err)
		}
	}
	for _, addr := range c.Resolvers {
		_, _, err := net.SplitHostPort(addr)
		note(err != nil, "-acme-resolvers %q: want an address with a port, as 192.0.2.53:53", addr)
	}
	if c.Directory != "" {
		u, err := url.Parse(c.Directory)
		note(err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "", "-acme-directory %q is not the URL of a directory; want one like https://acme.example.org/directory", c.Directory)
	}
	if c.Ask != "" {
		u, err := url.Parse(c.Ask)
		note(err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "", "-acme-ask %q is not a URL; want one like http://127.0.0.1:9000/may", c.Ask)
	}
	if c.Storage != "" {
		s, err := sharedstore.New(c.Storage, slog.New(slog.DiscardHandler))
		note(err != nil, "-acme-storage: %w", err)
		if err == nil {
			s.Close()
		}
	}
	if c.DNS != "" {
		if _, err := c.provider(); err != nil {
			all = append(all, err)
		}
	}
	return all
}

// checkHost reports whether an authority can give a certificate for host.
func (c *Config) checkHost(host string) error {
	bare, star := strings.CutPrefix(host, "*.")
	if strings.Contains(bare, "*") {
		return fmt.Errorf("-acme %q: a star stands for the first part of a name only, as in *.example.org", host)
	}
	if star && c.DNS == "" {
		return fmt.Errorf("-acme %q: authorities give certificates for a star only by DNS; want -acme-dns with a provider, or the name of each host, as www.example.org", host)
	}
	if !fullName(bare) {
		return fmt.Errorf("-acme %q is not the full name of a host; want one like www.example.org, without a port", host)
	}
	return nil
}

// canonical is host as clients ask for it: in small letters, and in ASCII.
func canonical(host string) string {
	bare, star := strings.CutPrefix(strings.ToLower(host), "*.")
	if ascii, err := idna.Lookup.ToASCII(bare); err == nil {
		bare = ascii
	}
	if star {
		return "*." + bare
	}
	return bare
}

// fullName reports whether name may be that of a host, with a dot inside.
func fullName(name string) bool {
	return len(name) <= 253 && net.ParseIP(name) == nil && strings.Contains(name, ".") && strings.Trim(name, ".") == name &&
		!strings.Contains(name, "..") && !strings.ContainsAny(name, "/\\:+@*%? \t\r\n\x00")
}

// providers make the DNS providers that are compiled in. A file for each adds one, if its build tag is given.
var providers = make(map[string]func() certmagic.DNSProvider)

// offered are the providers that there is a file for.
var offered = []string{"cloudflare", "rfc2136"}

// provider makes the one of -acme-dns, with the settings of -acme-dns-file.
func (c *Config) provider() (certmagic.DNSProvider, error) {
	found := providers[c.DNS]
	switch {
	case found == nil && slices.Contains(offered, c.DNS):
		return nil, fmt.Errorf("-acme-dns %q is not in this knot, which has %s; build one that has it: go build -tags knot_dns_%s ./cmd/knot", c.DNS, compiledIn(), c.DNS)
	case found == nil:
		return nil, fmt.Errorf("-acme-dns %q: there is no such provider; want %s", c.DNS, strings.Join(offered, " or "))
	}
	p := found()
	if c.DNSFile == "" {
		return p, nil
	}
	text, err := regular.Read(c.DNSFile)
	if err != nil {
		return nil, fmt.Errorf("-acme-dns-file: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err = d.Decode(p); err == nil && d.More() {
		err = errors.New("there is more than one value")
	}
	if err != nil {
		return nil, fmt.Errorf("-acme-dns-file: %s: %w; want a JSON object with the settings of %s", c.DNSFile, err, c.DNS)
	}
	return p, nil
}

func compiledIn() string {
	if len(providers) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(providers)), " and ")
}
