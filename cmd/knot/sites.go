package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/cache"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/discovery"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/limit"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/loadreport"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/sharedlimit"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/compress"
	"github.com/capriccio-go/capriccio/knot/proxy"
)

// built are the sites of a configuration, open.
type built struct {
	hosts   map[string]*site.Hosts // by the addresses of the points
	serving atomic.Int32           // how many of hosts are not retired; atomic
	files   []*knot.Files          // of each site
	limits  []*limit.Rule          // of all sites
	tracer  tracer                 // nil: nothing is traced
	fleet   *sharedlimit.Fleet     // of servers that count for limits together; nil: this one counts for itself
	proxies []*proxy.Proxy
	finders []*discovery.Finder // of their backends
	caches  []*cache.Cache
	logs    []*siteLog
	reports []*loadreport.Site

	retired atomic.Bool // they serve no request any more; tunnels may go on; atomic
}

func (b *built) close() {
	for _, f := range b.files {
		f.Close()
	}
	for _, p := range b.proxies {
		p.Close()
	}
	for _, c := range b.caches {
		c.Close()
	}
	if b.fleet != nil {
		b.fleet.Close()
	}
	if b.tracer != nil {
		b.tracer.Close()
	}
}

// build opens the sites. The error is about all that is wrong with them.
func build(set *settings, log *slog.Logger) (*built, error) {
	b := &built{hosts: make(map[string]*site.Hosts)}
	for _, p := range set.points {
		if !p.Redirects {
			b.hosts[p.Addr] = new(site.Hosts)
		}
	}
	var errs []error
	var err error
	if b.tracer, err = set.tracing.open(log); err != nil {
		errs = append(errs, set.placed(err))
	}
	if set.limitsRedis != "" {
		if b.fleet, err = sharedlimit.New(set.limitsRedis, log); err != nil {
			errs = append(errs, fmt.Errorf("-limits-redis: %w", err))
		}
	}
	for i := range set.sites {
		one := &set.sites[i]
		for _, m := range b.add(set, one, log) {
			errs = append(errs, set.ofSite(i, m))
		}
	}
	if err = errors.Join(errs...); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// add opens a site. It returns all that is wrong with it.
func (b *built) add(set *settings, c *config.Site, log *slog.Logger) (wrong mistakes) {
	s := &site.Site{Listing: c.Listing, ListingMax: c.ListingMax, Fallback: c.Fallback}
	add := wrong.add
	var err error
	s.Rate, err = size(c.Rate)
	add("rate", err)
	s.RateAfter, err = size(c.RateAfter)
	add("rate-after", err)
	if c.RateAfter != "" && c.Rate == "" {
		add("rate-after", errors.New(`there is no rate that it puts off; want one too, as rate = "2MB"`))
	}
	if c.Fallback != "" && (c.Fallback[0] != '/' || path.Clean(c.Fallback) != c.Fallback || c.Fallback == "/") {
		add("fallback", fmt.Errorf("%q is not the path of a file below the root, as /index.html", c.Fallback))
	}
	if c.ListingMax < 0 {
		add("listing-max", fmt.Errorf("%d is negative", c.ListingMax))
	} else if c.ListingMax > 0 && !c.Listing {
		add("listing-max", errors.New("there are no listings; want listing = true too"))
	}
	if b.tracer != nil {
		s.Prepare = append(s.Prepare, b.tracer.Prepare)
	}
	ids := addRequestIDs(s, c, &wrong)
	set.addClientCerts(s, c, &wrong)
	b.addLog(set, s, c, &wrong)
	b.addLoadReport(s, c, &wrong)
	set.limitBodies(s, c, &wrong)
	b.addLimits(s, c, &wrong)
	addMaintenance(s, c, log, &wrong)
	addCORS(s, c, &wrong)
	if len(c.Redirects) > 0 {
		s.Steps = append(s.Steps, set.redirects(c, &wrong).Handle)
	}
	b.addRewrites(s, c, &wrong)
	rules := addHeaders(s, c, &wrong)
	b.addGuards(s, c, ids, log, &wrong)
	hosts := c.Hosts
	if len(hosts) == 0 {
		hosts = []string{"*"}
	}
	add("hosts", set.addTo(b.hosts, s, c, hosts))
	checkIntercepts(c, &wrong)
	b.addProxies(s, c.Proxies, b.addCaches(c, log, &wrong), linesForBackends(rules, ids), log, &wrong)
	needsRoot := len(c.ErrorPages) > 0 || len(c.Index) > 0 || c.Listing || c.Fallback != "" || c.Try != nil || c.MaxRanges != 0
	if c.Root == "" && len(c.Proxies)+len(c.Redirects) > 0 && !needsRoot { // no files
		if slices.ContainsFunc(s.Headers, func(h site.HeaderRule) bool { return !h.Always }) {
			add("header", errors.New("there is no root, and no file that a header could be added to; want always = true"))
		}
		return wrong
	}
	if s.Files = openFiles(set, c, s.Headers, &wrong); s.Files != nil {
		b.files = append(b.files, s.Files)
	}
	if len(c.ErrorPages) > 0 {
		s.Errors, err = site.OpenErrorPages(c.Root, c.ErrorPages, log)
		var pages mistakes
		pages.add("error-pages", err)
		wrong = append(wrong, slices.DeleteFunc(pages, func(m mistake) bool {
			var path *os.PathError
			return errors.As(m.err, &path) && path.Path == c.Root // that has been told
		})...)
	}
	return wrong
}

// openFiles opens the root of a site, with its part of the memory for files.
func openFiles(set *settings, c *config.Site, rules []site.HeaderRule, wrong *mistakes) *knot.Files {
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
		want := "say which folder to serve"
		if len(c.Proxies) == 0 {
			want += ", or by [[site.proxy]] which servers requests go to"
		}
		wrong.add("root", errors.New(want))
		return nil
	}
	f, err := knot.OpenFiles(c.Root, fc)
	for _, one := range each(err) {
		m := mistake{"index", one}
		if path := (*os.PathError)(nil); errors.As(one, &path) {
			m = mistake{"root", rootError(set, c.Root, one)}
		}
		*wrong = append(*wrong, m)
	}
	return f
}

// rootError is what to say of err about the root.
func rootError(set *settings, root string, err error) error {
	from := "(root)"
	if set.config == "" || set.root != "" {
		from = "(-root)"
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("there is no folder %s %s", root, from)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s is not a folder %s", root, from)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("the files of %s can't be opened: this user has no right to %s", root, from)
	}
	return err
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

// divided is the n-th part of a limit. A limit that is not positive stands for something else, and is not divided.
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
