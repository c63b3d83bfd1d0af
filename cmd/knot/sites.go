package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/internal/regular"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/compress"
	"github.com/capriccio-go/capriccio/knot/proxy"
	"github.com/capriccio-go/capriccio/knot/site"
)

// built are the sites of a configuration, open.
type built struct {
	hosts   *site.Hosts
	files   []*knot.Files   // of each site
	clients []*site.Clients // of those sites that have a limit
	proxies []*proxy.Proxy

	retired atomic.Bool // nobody is served by them any more; tunnels may go on; atomic
}

func (b *built) close() {
	for _, f := range b.files {
		f.Close()
	}
	for _, p := range b.proxies {
		p.Close()
	}
}

// A running is what is served at the moment. Safe from anywhere.
type running struct {
	sites site.Switch
	now   atomic.Pointer[built] // changed with mu held

	mu     sync.Mutex
	before []*built // those whose proxies may have something under way; guarded by mu
	again  bool     // a reload was asked for before the first load; guarded by mu

	reloads sync.Mutex // held by reload
}

// load serves what set says from now on. What was served is closed when nobody is by it any more.
func (r *running) load(set *settings, log *slog.Logger) error {
	b, err := build(set, log)
	if err != nil {
		return err
	}
	b.hosts.OnRetire(func() {
		b.retired.Store(true)
		go b.close() // not on a loop
	})
	for _, p := range b.proxies {
		p.Start()
	}
	r.mu.Lock()
	r.before = slices.DeleteFunc(r.before, (*built).over)
	if before := r.now.Swap(b); before != nil && len(before.proxies) > 0 {
		r.before = append(r.before, before)
	}
	r.sites.Set(b.hosts)
	r.mu.Unlock()
	return nil
}

// close ends what is served, when nobody is.
func (r *running) close() {
	if now := r.now.Load(); now != nil {
		now.close()
	}
}

// stats are those of all sites together.
func (r *running) stats() (sum knot.FilesStats) {
	now := r.now.Load()
	if now == nil {
		return sum // nothing is served yet
	}
	for _, f := range now.files {
		sum.Add(f.Stats())
	}
	return sum
}

// tooOften is how many requests of clients were refused that ask too often.
func (r *running) tooOften() (n uint64) {
	if now := r.now.Load(); now != nil {
		for _, c := range now.clients {
			n += c.Refused()
		}
	}
	return n
}

// reload reads the configuration file again and serves the sites that it has now. If something is
// wrong with it, what is served stays as it is. Of flags, which can't change while knot runs, it
// says which ones would. set is what knot was started with, from args. Before anything is served, when root's
// rights may not be given up yet, it only notes for catchUp that it was called.
func (r *running) reload(set *settings, args []string, log *slog.Logger) {
	r.reloads.Lock()
	defer r.reloads.Unlock()
	r.mu.Lock()
	early := r.now.Load() == nil
	r.again = r.again || early
	r.mu.Unlock()
	if early {
		return
	}
	fresh, err := parseReading(args, io.Discard, regular.Read) // a FIFO would hold up every later reload
	if err == nil {
		err = r.load(fresh, log)
	}
	if err != nil {
		log.Error("knot: the configuration can't be used; what was served before still is", "error", err)
		return
	}
	log.Info("knot: the configuration was read again", "file", set.config, "sites", len(fresh.sites))
	if changed := changedValues(set.values, fresh.values); len(changed) > 0 {
		log.Warn("knot: these keys of the configuration take effect when knot is started anew", "keys", strings.Join(changed, ", "))
	}
}

// catchUp does what reload was called for before the first load.
func (r *running) catchUp(set *settings, args []string, log *slog.Logger) {
	r.mu.Lock()
	again := r.again
	r.again = false
	r.mu.Unlock()
	if again {
		r.reload(set, args, log)
	}
}

// reloading is what SIGHUP does: reload, and then what TLS does, which is nil without.
func (r *running) reloading(set *settings, args []string, log *slog.Logger, secure func()) func() {
	if set.config == "" {
		return secure
	}
	return func() {
		r.reload(set, args, log)
		if secure != nil {
			secure()
		}
	}
}

// ofFiles are flags about files, which sites take up when they are opened: at each reading of the configuration.
var ofFiles = []string{"cache", "cache-file-max", "open-files", "revalidate"}

// changedValues are the names whose values differ, but for those that the sites go by.
func changedValues(before, after []config.Value) (names []string) {
	values := make(map[string]string)
	for _, v := range before {
		values[v.Name] = v.Text
	}
	for _, v := range after {
		if old, was := values[v.Name]; !was || old != v.Text {
			names = append(names, v.Name)
		}
		delete(values, v.Name)
	}
	names = append(names, slices.Collect(maps.Keys(values))...)
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.Contains(ofOneSite, name) || slices.Contains(ofFiles, name)
	})
}

// build opens the sites. The error is about all that is wrong with them.
func build(set *settings, log *slog.Logger) (*built, error) {
	b := &built{hosts: new(site.Hosts)}
	var errs []error
	for i := range set.sites {
		one := &set.sites[i]
		for _, err := range b.add(set, one, log) {
			if set.config != "" {
				err = fmt.Errorf("%s:%d: site %d: %w", set.config, one.Line, i+1, err)
			}
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// add opens a site. The errors are all that is wrong with it.
func (b *built) add(set *settings, c *config.Site, log *slog.Logger) []error {
	s := &site.Site{Listing: c.Listing, ListingMax: c.ListingMax, Fallback: c.Fallback}
	var errs []error
	note := func(key string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	var err error
	s.Rate, err = size(c.Rate)
	note("rate", err)
	s.RateAfter, err = size(c.RateAfter)
	note("rate-after", err)
	if c.RateAfter != "" && c.Rate == "" {
		note("rate-after", errors.New(`there is no rate that it puts off; want one too, as rate = "2MB"`))
	}
	if c.Fallback != "" && (c.Fallback[0] != '/' || path.Clean(c.Fallback) != c.Fallback || c.Fallback == "/") {
		note("fallback", fmt.Errorf("%q is not the path of a file below the root, as /index.html", c.Fallback))
	}
	if c.ListingMax < 0 {
		note("listing-max", fmt.Errorf("%d is negative", c.ListingMax))
	} else if c.ListingMax > 0 && !c.Listing {
		note("listing-max", errors.New("there are no listings; want listing = true too"))
	}
	s.Headers, err = headerRules(c.Headers)
	note("header", err)
	s.Realms, err = realms(c.Passwords)
	note("password", err)
	if c.RequestsPerSecond == 0 && (c.Burst != 0 || c.MaxClients != 0) {
		note("requests-per-second", errors.New("it is missing, and burst and max-clients are about it; want one, as requests-per-second = 20"))
	} else if c.RequestsPerSecond != 0 {
		s.Clients, err = site.NewClients(c.RequestsPerSecond, c.Burst, c.MaxClients)
		note("requests-per-second", err)
	}
	hosts := c.Hosts
	if len(hosts) == 0 {
		hosts = []string{"*"}
	}
	note("hosts", b.hosts.Add(s, hosts...))
	note("proxy", b.addProxies(s, c.Proxies, log))
	if s.Clients != nil {
		b.clients = append(b.clients, s.Clients)
	}
	needsRoot := len(c.ErrorPages) > 0 || len(c.Index) > 0 || c.Listing || c.Fallback != "" || c.MaxRanges != 0
	if c.Root == "" && len(c.Proxies) > 0 && !needsRoot { // nothing but a proxy
		if slices.ContainsFunc(c.Headers, func(h config.Header) bool { return !h.Always }) {
			note("header", errors.New("there is no root, and no file that a header could be added to; want always = true"))
		}
		return errs
	}
	if s.Files, err = openFiles(set, c, s.Headers); err != nil {
		return append(errs, err)
	}
	b.files = append(b.files, s.Files)
	if len(c.ErrorPages) > 0 {
		s.Errors, err = site.OpenErrorPages(c.Root, c.ErrorPages, log)
		note("error-pages", err)
	}
	return errs
}

// openFiles opens the root of a site, with its part of the memory for files.
func openFiles(set *settings, c *config.Site, rules []site.HeaderRule) (*knot.Files, error) {
	fc := set.files
	if n := len(set.sites); n > 1 {
		fc.CacheBytes = divided(fc.CacheBytes, int64(n))
		fc.OpenFiles = int(divided(int64(openFilesOf(fc.OpenFiles)), int64(n)))
		if fc.CacheBytes > 0 {
			fc.CacheFileMax = min(fc.CacheFileMax, fc.CacheBytes)
		}
	}
	fc.Index, fc.MaxRanges = c.Index, c.MaxRanges
	fc.Header = site.FileHeaders(rules)
	if c.Compress == nil || *c.Compress {
		fc.Codings = compress.Codings()
	}
	if c.Root == "" {
		return nil, errors.New("root: say which folder to serve")
	}
	f, err := knot.OpenFilesWith(c.Root, fc)
	var wrong *os.PathError
	if !errors.As(err, &wrong) {
		return f, err
	}
	from := "(root)"
	if set.config == "" || set.root != "" {
		from = "(-root)"
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		return nil, fmt.Errorf("there is no folder %s %s", c.Root, from)
	case errors.Is(err, syscall.ENOTDIR):
		return nil, fmt.Errorf("%s is not a folder %s", c.Root, from)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("the files of %s can't be opened: this user has no right to %s", c.Root, from)
	}
	return nil, err
}

// openFilesOf is how many files all sites together keep open: 0 is the default, which is that of one site
// (knot.FilesConfig).
func openFilesOf(given int) int {
	var limit syscall.Rlimit
	if given != 0 || syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return given
	}
	return int(max(16, min(limit.Cur/64, 4096)))
}

// divided is the n-th part of a limit, of which what is not positive stands for something else.
func divided(limit, n int64) int64 {
	if limit <= 0 {
		return limit
	}
	return max(1, limit/n)
}

func size(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	var s byteSize
	err := s.Set(text)
	return int64(s), err
}

func headerRules(given []config.Header) (rules []site.HeaderRule, err error) {
	for i := range given {
		h := &given[i]
		match, err := site.NewPattern(h.Match)
		if err != nil {
			return nil, fmt.Errorf("match: %w", err)
		}
		rule := site.HeaderRule{Match: match, Always: h.Always}
		for _, name := range slices.Sorted(maps.Keys(h.Set)) {
			if slices.ContainsFunc(rule.Set, func(before knot.Header) bool { return strings.EqualFold(before.Name, name) }) {
				return nil, fmt.Errorf("set has %s twice", name)
			}
			// The type of a file can be set with the file; everything else of the server's own
			// can't.
			if err := knot.CheckHeader(name, h.Set[name]); err != nil && (h.Always || !strings.EqualFold(name, "Content-Type")) {
				return nil, errors.New(strings.TrimPrefix(err.Error(), "knot: "))
			}
			rule.Set = append(rule.Set, knot.Header{Name: name, Value: h.Set[name]})
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

func realms(given []config.Password) (all []site.Realm, err error) {
	users := make(map[string]*site.Users) // a file is read once
	for i := range given {
		p := &given[i]
		match, err := site.NewPattern(p.Match)
		if err != nil {
			return nil, fmt.Errorf("match: %w", err)
		}
		if strings.ContainsFunc(p.Realm, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
			return nil, fmt.Errorf("realm %q has control characters", p.Realm)
		}
		if p.Users == "" {
			return nil, errors.New("users: say which file has the names and passwords")
		}
		if users[p.Users] == nil {
			if users[p.Users], err = site.OpenUsers(p.Users); err != nil {
				return nil, fmt.Errorf("users: %w", err)
			}
		}
		all = append(all, site.Realm{Match: match, Name: p.Realm, Users: users[p.Users]})
	}
	return all, nil
}
