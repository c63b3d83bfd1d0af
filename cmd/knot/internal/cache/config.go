package cache

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/cache/rfc"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/knot"
)

// A Config is a table [[site.cache]]. Sizes ("64MB") and times ("10m") are texts.
type Config struct {
	// Match is the pattern of the paths that it is for; "": all.
	Match string `toml:"match"`
	// Memory is how much of it responses may take; "": 64MB.
	Memory string `toml:"memory"`
	// Folder has the responses in files too: for more than Memory has room for, and after a restart; "": there are no files.
	Folder string `toml:"folder"`
	// Disk is how much files in Folder may take; "": 1GB.
	Disk string `toml:"disk"`
	// MaxEntry is the largest body that is kept; "": 8MB.
	MaxEntry string `toml:"max-entry"`
	// Entries is how many responses are kept, in memory and on disk; 0: 50,000.
	Entries int `toml:"entries"`
	// Lifetimes are for how long responses are fresh that don't say, by status; none.
	Lifetimes map[string]string `toml:"lifetimes"`
	// Heuristic is the most that a tenth of the time since a response was modified counts; "": it does not count.
	Heuristic string `toml:"heuristic"`
	// Revalidate and IfError are for how long stale responses may be used that don't say; "": not at all.
	Revalidate string `toml:"stale-while-revalidate"`
	IfError    string `toml:"stale-if-error"`
	// StaleMax bounds both, whatever responses say; "": 24h.
	StaleMax string `toml:"stale-max"`
	// IgnoreQuery are parameters of the query, "utm_*" too, that neither the key nor the backend gets; none.
	IgnoreQuery []string `toml:"ignore-query"`
	// IgnoreClients: Cache-Control of requests does not count.
	IgnoreClients bool `toml:"ignore-clients"`
	// Wait is how long a request waits for one that is under way; "": 10s.
	Wait string `toml:"wait"`
	// Cookies are names of cookies that the proxies of the site set, which are no reason not to keep a response.
	Cookies []string `toml:"-"`
}

const (
	defaultMemory   = 64 << 20
	defaultDisk     = 1 << 30
	defaultMaxEntry = 8 << 20
	defaultEntries  = 50_000
	defaultStaleMax = 24 * time.Hour
	defaultWait     = 10 * time.Second
	// mostEntries bounds Entries: each takes about a kilobyte of memory, on disk too.
	mostEntries = 10_000_000
	// mostIgnored bounds IgnoreQuery: each parameter of a request is compared with all.
	mostIgnored = 100
)

// A Cache answers requests by what it keeps. Safe from anywhere.
type Cache struct {
	*state // of an earlier configuration too, see Adopt
	config Config
	scope  string
	match  site.Pattern
	rules  rfc.Rules
	ignore []string
	obeys  bool // Cache-Control of requests counts
	wait   time.Duration

	started bool
}

// New reads a table. scope tells its site from others. size reads sizes, as "64MB". now is the time. Nothing is opened
// before Start.
func New(c Config, scope string, size func(string) (int64, error), now func() time.Time, log *slog.Logger) (made *Cache, wrong []site.Fault) {
	note := site.NoteIn(&wrong)
	bytes := func(key, text string, otherwise int64) int64 {
		if text == "" {
			return otherwise
		}
		n, err := size(text)
		if err == nil && n <= 0 {
			err = fmt.Errorf("%q is no room at all; want a size like \"64MB\"", text)
		}
		note(key, err)
		return n
	}
	span := func(key, text string, otherwise time.Duration) time.Duration {
		if text == "" {
			return otherwise
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			note(key, fmt.Errorf("%q is not a time; want one like \"10m\"", text))
		}
		return d
	}
	made = &Cache{config: c, scope: scope, obeys: !c.IgnoreClients}
	var err error
	made.match, err = site.NewPattern(cmp.Or(c.Match, "/**"))
	note("match", err)
	limits := limits{
		memory: bytes("memory", c.Memory, defaultMemory), disk: bytes("disk", c.Disk, defaultDisk),
		entry: bytes("max-entry", c.MaxEntry, defaultMaxEntry), entries: cmp.Or(c.Entries, defaultEntries),
	}
	if c.MaxEntry == "" {
		limits.entry = min(limits.entry, limits.memory)
	} else if limits.entry > limits.memory && len(wrong) == 0 {
		note("max-entry", errors.New("it is larger than memory, through which every body goes; want less, or more memory"))
	}
	if c.Entries < 0 || c.Entries > mostEntries {
		note("entries", fmt.Errorf("%d; want 1 to %d", c.Entries, mostEntries))
	}
	if c.Disk != "" && c.Folder == "" {
		note("disk", errors.New(`say which folder the files go to, as folder = "/var/cache/knot/example"`))
	}
	if c.Folder != "" && !filepath.IsAbs(c.Folder) {
		note("folder", fmt.Errorf("%q does not begin with a slash: files would lie elsewhere when knot is started elsewhere", c.Folder))
	}
	made.rules = rfc.Rules{
		Heuristic: span("heuristic", c.Heuristic, 0), Revalidate: span("stale-while-revalidate", c.Revalidate, 0),
		IfError: span("stale-if-error", c.IfError, 0), StaleMax: span("stale-max", c.StaleMax, defaultStaleMax), Cookies: c.Cookies,
	}
	if c.StaleMax != "" && made.rules.StaleMax == 0 {
		made.rules.StaleMax = 1 // ns: none is used stale
	}
	made.wait = span("wait", c.Wait, defaultWait)
	for text, lifetime := range c.Lifetimes {
		status, err := strconv.Atoi(text)
		if err != nil || status < 200 || status > 599 || status == 206 || status == 304 {
			note("lifetimes."+text, fmt.Errorf("%q is not a status whose responses can be kept; want 200 to 599, but 206 and 304", text))
			continue
		}
		if made.rules.Lifetimes == nil {
			made.rules.Lifetimes = make(map[int]time.Duration)
		}
		made.rules.Lifetimes[status] = span("lifetimes."+text, lifetime, 0)
	}
	if len(c.IgnoreQuery) > mostIgnored {
		note("ignore-query", fmt.Errorf("%d names; want at most %d", len(c.IgnoreQuery), mostIgnored))
	}
	for _, name := range c.IgnoreQuery {
		if _, err := path.Match(name, ""); err != nil || name == "" || strings.ContainsAny(name, "&=/?#") {
			note("ignore-query", fmt.Errorf("%q is not the name of a parameter; want one like \"fbclid\" or \"utm_*\"", name))
		}
	}
	made.ignore = c.IgnoreQuery
	made.state = newState(limits, c.Folder, &made.rules, now, log)
	return made, wrong
}

// Adopt has c go on with what old keeps, if their tables are alike, and reports whether they are. It is for a new
// reading of the configuration, before Start.
func (c *Cache) Adopt(old *Cache) bool {
	if c.scope != old.scope || !reflect.DeepEqual(c.config, old.config) {
		return false
	}
	c.state = old.state
	return true
}

// A Set has the caches of a site. The first cache whose pattern matches a path counts.
type Set []*Cache

// Before returns a handler that answers by what is kept, and asks next for the rest. trust names proxies whose word next
// takes, besides the proxies that the server trusts. bypasses reports whether a request goes past the cache, because next answers
// it otherwise than requests of other clients.
func (s Set) Before(next knot.Handler, trust knot.Trust, bypasses func(x *knot.Ctx) bool) knot.Handler {
	return func(x *knot.Ctx) error {
		for _, c := range s {
			if c.match.MatchBytes(x.PathBytes()) {
				return c.handle(x, next, trust, bypasses)
			}
		}
		return next(x)
	}
}

// Folder is where its files are; "": nowhere.
func (c *Cache) Folder() string { return c.config.Folder }
