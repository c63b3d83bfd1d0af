package limit

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/knot"
)

const (
	// Most is how many tables a site may have.
	Most = 100
	// DefaultKeys is how many keys a table remembers.
	DefaultKeys = 100_000
	// mostKeys bounds MaxKeys: some 2 GB.
	mostKeys = 10_000_000
	// mostBurst is the largest number in a structured field (RFC 9651, 3.3.1) that a float64 counts to one by one.
	mostBurst = 999_999_999_999_999
)

// A Config is a table [[site.limit]].
type Config struct {
	// Match is a pattern of paths; "": every path.
	Match string `toml:"match"`
	// Methods of requests that count; none: all.
	Methods []string `toml:"methods"`
	// Key has what requests with a common limit have in common: "client", "path", "header:NAME", "cookie:NAME"; none: the client.
	Key []string `toml:"key"`
	// Rate is how often requests with the same key may come: "20/s", "100/m", "1000/h".
	Rate string `toml:"rate"`
	// Burst is how many of them may come at once; 0: those of one unit of Rate.
	Burst int `toml:"burst"`
	// MaxKeys is how many keys are remembered; 0: DefaultKeys.
	MaxKeys int `toml:"max-keys"`
	// IPv4Prefix and IPv6Prefix are how many bits of an address tell clients apart; 0: 32 and 64.
	IPv4Prefix int `toml:"ipv4-prefix"`
	IPv6Prefix int `toml:"ipv6-prefix"`
	// Name is what the limit is called in RateLimit; "": "limit-1" for the first table, and so on.
	Name string `toml:"name"`
}

// New reads the tables of a site. wrong has what is wrong with each table, by its index.
func New(tables []Config) (rs Rules, wrong map[int][]site.Fault) {
	names := make(map[string]bool)
	wrong = site.ReadTables(len(tables), Most, "rate", "limits", func(i int) []site.Fault {
		c := tables[i]
		if c.Name == "" {
			c.Name = fmt.Sprint("limit-", i+1)
		}
		r, faults := read(c)
		if names[c.Name] {
			faults = append(faults, site.Fault{Key: "name", Err: fmt.Errorf("another limit is called %q too", c.Name)})
		}
		names[c.Name] = true
		rs = append(rs, r)
		return faults
	})
	return rs, wrong
}

// PerClient is a limit for each client, without lines in the header of responses that it lets pass. burst 0 means one second's
// worth, and at least 1; most 0 means DefaultKeys.
func PerClient(perSecond, burst float64, most int) (*Rule, error) {
	if !(perSecond > 0) || math.IsInf(perSecond, 0) || burst < 0 || math.IsNaN(burst) || math.IsInf(burst, 0) {
		return nil, fmt.Errorf("a client can't have %v requests a second in bursts of %v", perSecond, burst)
	}
	if most < 0 || most > mostKeys {
		return nil, fmt.Errorf("%d clients can't be remembered; want at most %d", most, mostKeys)
	}
	if burst == 0 {
		burst = perSecond
	}
	if most == 0 {
		most = DefaultKeys
	}
	every, _ := site.OptionalPattern("")
	return &Rule{match: every, parts: []part{{kind: byClient}}, bits4: 32, bits6: 64, buckets: newBuckets(perSecond, burst, most)}, nil
}

// read reads a table. A rule with faults is not used.
func read(c Config) (r *Rule, wrong []site.Fault) {
	r = &Rule{methods: c.Methods, bits4: 32, bits6: 64}
	note := site.NoteIn(&wrong)
	within := func(key string, n, least, most, standard int) int {
		if n == 0 {
			return standard
		}
		if n < least || n > most {
			note(key, fmt.Errorf("%d; want %d to %d", n, least, most))
		}
		return n
	}
	var err error
	r.match, err = site.OptionalPattern(c.Match)
	note("match", err)
	for _, m := range c.Methods {
		note("methods", site.CheckMethod(m))
	}
	r.parts, err = parts(c.Key)
	note("key", err)
	perSecond, standard, err := rate(c.Rate)
	note("rate", err)
	burst := within("burst", c.Burst, 1, mostBurst, standard)
	r.buckets = newBuckets(perSecond, float64(burst), within("max-keys", c.MaxKeys, 1, mostKeys, DefaultKeys))
	r.bits4 = within("ipv4-prefix", c.IPv4Prefix, 1, 32, 32)
	r.bits6 = within("ipv6-prefix", c.IPv6Prefix, 1, 128, 64)
	if strings.ContainsFunc(c.Name, func(ch rune) bool { return ch < ' ' || ch > '~' || ch == '"' || ch == '\\' }) {
		note("name", fmt.Errorf("%q; want ASCII without quotes and backslashes", c.Name))
	}
	r.name = `"` + c.Name + `"`
	if perSecond > 0 {
		r.policy = fmt.Sprintf("%s;q=%d;w=%.0f", r.name, burst, max(1, math.Ceil(float64(burst)/perSecond)))
	}
	return r, wrong
}

var units = map[string]float64{"s": 1, "m": 60, "h": 3600}

// rate reads a Rate. burst is what it has in one unit.
func rate(text string) (perSecond float64, burst int, err error) {
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	seconds := units[strings.TrimSpace(unit)]
	switch {
	case text == "":
		return 0, 0, errors.New(`say how often requests may come, as "20/s", "100/m" or "1000/h"`)
	case err != nil || seconds == 0 || !(n > 0) || n > 1e9:
		return 0, 0, fmt.Errorf(`%q is not a rate; want one like "20/s", "100/m" or "1000/h", up to a billion`, text)
	}
	return n / seconds, int(max(1, n)), nil
}

// parts reads a Key.
func parts(given []string) (all []part, err error) {
	if len(given) == 0 {
		given = []string{"client"}
	}
	for _, text := range given {
		kind, name, named := strings.Cut(text, ":")
		p := part{name: name}
		switch {
		case text == "client":
			p.kind = byClient
		case text == "path":
			p.kind = byPath
		case kind == "header" && knot.CheckHeader(name, "") == nil:
			p.kind = byHeader
		case kind == "cookie" && named && name != "" && !strings.ContainsAny(name, "=; \t"):
			p.kind = byCookie
		default:
			return nil, fmt.Errorf(`%q is no part of a key; want client, path, header:NAME or cookie:NAME`, text)
		}
		all = append(all, p)
	}
	return all, nil
}
