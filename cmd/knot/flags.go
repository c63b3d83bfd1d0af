package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/addresses"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/flaghelp"
	"github.com/capriccio-go/capriccio/internal/probe"
	"github.com/capriccio-go/capriccio/internal/regular"
	"github.com/capriccio-go/capriccio/knot"
)

// settings is what the command line says.
type settings struct {
	root       string
	log        string
	formatName string
	format     knot.LogFormat
	version    bool        // is asked for
	one        config.Site // of a server of one site
	loops      int
	poller     string
	admin      string
	dump       string
	quiet      bool
	server     *knot.Server
	files      knot.FilesConfig
	tls        tlsSettings
	user       string         // to run as; "": as it was started
	trust      list           // proxies in front of knot
	config     string         // file; "": there is none
	read       bool           // ... is TOML, with values of the right types
	values     []config.Value // what it says for flags
	lines      config.Lines
	sites      []config.Site  // at least one
	hasSites   bool           // sites are tables of the configuration
	given      map[string]any // see effective

	maxBody int64 // of sites that do not say otherwise, in bytes; 0: no limit

	redirectHTTP list // addresses that send clients to HTTPS
	tracing      tracingSettings
	limitsRedis  string // by which servers count requests for limits together; empty: each for itself
	http3        bool   // serve HTTP/3 where HTTPS is
	http3Conns   int
	listens      []addresses.Listen // tables of the configuration; none: -addr is the address
	points       []*addresses.Point // where to listen, by these; at least one
	demands      demandSettings
}

const usage = `Knot serves the files of a folder to web browsers.

Usage:

  knot FOLDER [flags]
  knot -config FILE [flags]
  knot check FILE    lists the faults of a configuration file
  knot check -dump FILE
                     writes all its settings, with defaults, without secrets
  knot hash NAME     makes a line of a file of users, from a password on the standard input
  knot import FILE   translates a configuration of nginx
  knot schema        writes the JSON schema of configuration files, for editors
  knot help          the most important flags; knot help all is this text
  knot version

For example:

  knot .                             only this machine, http://127.0.0.1:8080
  knot ./public -addr :80            every address of this machine, port 80
  knot ./public -addr 127.0.0.1:0    some free port; knot prints which
  knot ./public -addr unix:/run/knot.sock
                                     a Unix socket, for a proxy in front of knot
  knot ./public -log -               show every request
  knot ./public -addr :443 -redirect-http :80 -tls-cert site.crt -tls-key site.key
                                     HTTPS, and HTTP is sent there; see docs/tls.md

A configuration file has the names of these flags, and a table for each site, with its
hosts, headers, error pages, passwords, limits, and servers that requests are passed on to
(HTTP, WebSocket, FastCGI), and one for each address if there are several. Flags override it.
docs/knot-config.md describes it. On SIGHUP it is read again.

A folder is shown by its index.html, or with -listing by a list of its files. Names that
begin with a dot are never served (except .well-known), nor are files outside FOLDER:
links are followed only as long as they stay inside and lead to no such name.
FOLDER itself may be a link; if it is switched to another folder, that is served.

Small files that are asked for often are kept in memory (-cache, -cache-file-max),
others are sent from the system's page cache. Every file is compared with the one on
disk before it is used again, but at most every -revalidate: until then an old version may
be served. To change a file, write a new file and rename it to the old name; a file that is
rewritten in place may be sent half old and half new.

Text is sent compressed (br, zstd, gzip) to clients that accept it: from a file that stands
beside it (app.js.br, .zst, .gz) and is smaller and not older, or compressed once and kept in
memory.

Where more requests come than can be served, knot answers some of them with 503 and says
so in the log. With CAPRICCIO_OVERLOAD=wait in the environment they wait instead.

Knot stops on Ctrl-C or SIGTERM: for the time that -grace says it answers the requests
under way and the first one of each client that has connected already, and takes no new
connections. A second signal stops it at once. On SIGHUP it opens the file of -log
anew: rename the old one first. Certificates are read again on SIGHUP, and when they have changed
(-tls-reload). With neither log file, certificates nor -config it stops on SIGHUP if its
terminal is gone.

On SIGUSR1 knot starts a new process of its program, which may be a newer version, hands over
its sockets, and answers the requests under way: no request is lost. It takes sockets from
systemd and reports its state; docs/knot-operations.md describes that, containers, metrics and
health.

To see what it is doing, open the address of -admin in a browser, or send
it SIGUSR2 (kill -USR2): it then prints where its tasks wait and the cost of their steps,
and writes the whole graph to the file of -dump, for bgdump.

Flags:

`

// shortUsage fits on a screen of 24 lines.
const shortUsage = `Knot serves the files of a folder to web browsers.

  knot FOLDER [flags]        one site, on http://127.0.0.1:8080
  knot -config FILE [flags]  several sites, proxies, passwords
  knot check FILE            lists the faults of a configuration file
  knot hash NAME             makes a line of a file of users, from a password
  knot help all              all flags, and how knot works
  knot version

  -addr HOST:PORT            where to listen; :80 for every address
  -listing                   list the files of folders that have no index.html
  -fallback /index.html      sent for paths that do not exist
  -log FILE                  access log; - shows every request
  -tls-cert FILE -tls-key FILE
                             HTTPS
  -admin HOST:PORT           metrics, profiles, and where requests wait
  -max-body SIZE             largest body of a request (default 8MB)
  -cache SIZE                memory for files (default a third of the memory)

Ctrl-C finishes the requests under way. kill -HUP reads the configuration again,
kill -USR1 starts a new version without losing a request.
`

// errVersion is what parse returns after printing the version.
var errVersion = errors.New("the version was asked for")

// minMaxHead is the least that -max-head may say, in bytes: a browser's shortest request
// has more than a line.
const minMaxHead = 256

// parse reads the command line. It returns flag.ErrHelp after printing the
// help. Beside an error it returns the settings without mistakes, so that knot check can look for more.
// The configuration may come from a pipe.
func parse(args []string, stdout io.Writer) (*settings, error) {
	return parseReading(args, stdout, os.ReadFile)
}

// parseReading is parse with how to read the configuration file.
func parseReading(args []string, stdout io.Writer, read func(name string) ([]byte, error)) (*settings, error) {
	set := &settings{server: new(knot.Server)}
	flags := set.flags()
	args = flaghelp.Flagged(args)
	others, err := flaghelp.Parse(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp) && !flaghelp.WantsAll(args):
		fmt.Fprint(stdout, shortUsage)
		return nil, err
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		flags.VisitAll(func(f *flag.Flag) { flaghelp.Write(stdout, flags, f.Name) })
		return nil, err
	case err != nil:
		return nil, err
	case set.version:
		fmt.Fprintln(stdout, flaghelp.Version("knot"))
		return nil, errVersion
	case len(others) == 1 && set.root == "" && set.config == "":
		set.root, others = others[0], nil
	}
	wrong := set.readConfig(flags, read)
	if wrong != nil && !set.read {
		return nil, wrong
	}
	set.given, set.hasSites = set.effective(flags), len(set.sites) > 0
	if len(set.sites) == 0 {
		set.one.Root = set.root
		set.sites = []config.Site{set.one}
	}
	return set, errors.Join(wrong, set.check(others))
}

// flags are all flags, which set the settings.
func (set *settings) flags() (flags *flag.FlagSet) {
	s := set.server
	flags = flag.NewFlagSet("knot", flag.ContinueOnError)
	flags.StringVar(&set.root, "root", "", "`folder` to serve; the same as knot FOLDER")
	flags.StringVar(&s.Addr, "addr", knot.DefaultAddr, "`host:port` to listen on, or unix:/path for a Unix socket; no host means every address of this machine, port 0 a free port")
	flags.Var(&set.redirectHTTP, "redirect-http", "`addresses`, separated by commas, where clients that speak HTTP are sent to HTTPS; with -acme names are proved there too; none: nowhere (default: port 80 with -acme on port 443)")
	flags.StringVar(&set.log, "log", "", "access log: a line per request is added to this `file`; - is the standard output; none by default")
	flags.StringVar(&set.formatName, "log-format", "combined", "`form` of the access log: combined, common or json")
	flags.StringVar(&set.config, "config", "", "configuration `file`; flags on the command line override it")
	set.siteFlags(flags)
	flags.IntVar(&set.loops, "loops", 0, "`number` of event loops; 0 means one per processor core")
	flags.StringVar(&set.poller, "poller", "", "how loops wait for the network, a `poller`: epoll or uring (default: epoll)")
	flags.StringVar(&set.admin, "admin", "", "`host:port` for operators: metrics, health, blocking graph and profiles; no host means only this machine; off by default")
	flags.StringVar(&set.dump, "dump", "", "`file` or folder that SIGUSR2 writes the blocking graph to (default: knot-PID.bgraph in the folder for temporary files)")
	flags.DurationVar(&s.IdleTimeout, "idle-timeout", knot.DefaultIdleTimeout, "how long a connection may wait for its next request, or its first; 0 means for ever")
	flags.DurationVar(&s.HeadTimeout, "head-timeout", knot.DefaultHeadTimeout, "how long a client may take to send the head of a request, from its first byte; 0 means for ever")
	flags.DurationVar(&s.BodyTimeout, "body-timeout", knot.DefaultBodyTimeout, "how long a client may pause while it sends the body of a request; 0 means for ever")
	flags.DurationVar(&s.WriteTimeout, "write-timeout", knot.DefaultWriteTimeout, "how long a client may pause while it takes a response; 0 means for ever")
	s.LeastRate = knot.DefaultLeastRate
	flags.Var((*byteSize)(&s.LeastRate), "least-rate", "how many bytes in a second a client must take of a response, or send of the body of a request, while knot waits for it; a `size` such as 1KB. A slower client is cut off after 30 s; 0 means no limit")
	flags.DurationVar(&s.ShutdownTimeout, "grace", knot.DefaultShutdownTimeout, "how long requests may take after a stop signal; 0 ends them at once")
	flags.IntVar(&s.MaxConns, "max-conns", 0, "`number` of connections served at a time; for a further connection an idle connection is closed, or the new one gets 503; 0 means as many as the limit on open files (ulimit -n) leaves besides files and backends, 100000 at most, -1 no limit")
	flags.IntVar(&s.MaxHead, "max-head", knot.DefaultMaxHead, "largest request head, in `bytes`; for a larger one the answer is 431")
	set.maxBody, s.MaxBody = knot.DefaultMaxBody, -1 // sites bound it themselves
	flags.Var((*byteSize)(&set.maxBody), "max-body", "largest request body, a `size` such as 64MB; for a larger one the answer is 413; 0 means no limit")
	flags.StringVar(&s.Name, "server-name", "", "`text` for the Server header; none by default")
	flags.Var(&set.trust, "trust", "proxies in front of knot whose word about the client counts, for the access log, limits and backends: `addresses` and networks like 10.0.0.0/8, separated by commas; unix: is every peer on a Unix socket")
	flags.StringVar(&set.limitsRedis, "limits-redis", "", "`URL` of a Redis, such as redis://:PASSWORD@10.0.0.7:6379, by which several servers count requests for limits together (default: each counts for itself)")
	set.tracing.flags(flags)
	flags.StringVar(&set.user, "user", "", "run as this `user`, or user:group, once the port, the access log and certificates are open")
	set.fileFlags(flags)
	set.tls.flags(flags)
	set.http3Flags(flags)
	set.demandFlags(flags)
	flags.BoolVar(&s.H2C, "h2c", false, "serve HTTP/2 without TLS to clients that begin with it, as a proxy in front of knot may")
	flags.BoolVar(&set.quiet, "quiet", false, "print nothing but the address and errors")
	flags.BoolVar(&set.version, "version", false, "print the version and stop")
	return flags
}

// siteFlags are those of a server of one site.
func (set *settings) siteFlags(flags *flag.FlagSet) {
	one := &set.one
	one.Compress = new(bool)
	flags.BoolVar(one.Compress, "compress", true, "send text compressed to clients that accept it")
	flags.BoolVar(&one.Listing, "listing", false, "list the files of folders that have no index.html")
	flags.StringVar(&one.Fallback, "fallback", "", "`path` of the page, such as /index.html, that is sent for paths that do not exist: for single-page applications")
}

// notInConfig are flags that make no sense in a configuration file.
var notInConfig = []string{"config", "version"}

// ofOneSite are flags that belong to a server of one site.
var ofOneSite = []string{"root", "compress", "listing", "fallback"}

// readConfig takes up the configuration file, as far as the command line does not say otherwise.
func (set *settings) readConfig(flags *flag.FlagSet, read func(name string) ([]byte, error)) error {
	if set.config == "" {
		return nil
	}
	text, err := read(set.config)
	if err != nil {
		return err
	}
	var names []string
	given := make(map[string]bool)
	flags.VisitAll(func(f *flag.Flag) {
		if !slices.Contains(notInConfig, f.Name) {
			names = append(names, f.Name)
		}
	})
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	file, err := config.Read(set.config, text, names, regular.Read)
	if file == nil {
		return err
	}
	set.read = true
	errs := []error{err}
	for _, v := range file.Values {
		if given[v.Name] {
			continue
		}
		if err := flags.Set(v.Name, v.Text); err != nil {
			errs = append(errs, fmt.Errorf("%s: %s = %q: %s", v.Place, v.Name, v.Text, flaghelp.Wanted(flags.Lookup(v.Name), err)))
		}
	}
	set.values, set.sites, set.listens, set.lines = file.Values, file.Sites, file.Listens, file.Lines
	set.demands.tables = file.Importance
	flags.Visit(func(f *flag.Flag) {
		if len(set.listens) > 0 && f.Name == "addr" {
			errs = append(errs, fmt.Errorf("-addr is for a server of one address; in %s each [[listen]] has its own", set.config))
		}
		if len(set.sites) > 0 && slices.Contains(ofOneSite, f.Name) {
			errs = append(errs, fmt.Errorf("-%s is for a server of one site; in %s each [[site]] has its own", f.Name, set.config))
		}
	})
	return errors.Join(errs...)
}

func (set *settings) fileFlags(flags *flag.FlagSet) {
	c := &set.files
	c.CacheBytes, c.CacheFileMax, c.Revalidate = ownCache, knot.DefaultCacheFileMax, knot.DefaultRevalidate
	flags.Var((*byteSize)(&c.CacheBytes), "cache", "`size` of the memory for contents of files, such as 64MB or 1GB; 0 keeps none (default a third of the memory that knot may use, which a container, GOMEMLIMIT or the machine limits; at most 1GB)")
	flags.Var((*byteSize)(&c.CacheFileMax), "cache-file-max", "`size` up to which files are kept in that memory")
	flags.IntVar(&c.OpenFiles, "open-files", -1, "`number` of larger files kept open; 0 keeps none; -1 means one in 64 of the files that the system lets knot open")
	flags.DurationVar(&c.Revalidate, "revalidate", c.Revalidate, "for how long a file is served without looking whether it has changed; 0 looks at every request")
}

// checkFiles turns what the flags say into what FilesConfig says.
func (set *settings) checkFiles() error {
	c := &set.files
	if c.CacheBytes == ownCache {
		c.CacheBytes = cacheOf(probe.MemoryLimit(probe.Config{}))
	}
	if c.CacheFileMax == knot.DefaultCacheFileMax {
		c.CacheFileMax = min(c.CacheFileMax, c.CacheBytes)
	}
	var f faults
	f.addIf(c.Revalidate < 0, "-revalidate %v is negative", c.Revalidate)
	f.addIf(c.OpenFiles < -1, "-open-files %d is negative; -1 stands for the default, 0 for none", c.OpenFiles)
	f.addIf(c.CacheFileMax > c.CacheBytes && c.CacheBytes > 0, "-cache-file-max %v is more than -cache %v", byteSize(c.CacheFileMax), byteSize(c.CacheBytes))
	// There 0 stands for the default, and what is negative for none.
	if c.CacheBytes == 0 || c.CacheFileMax == 0 {
		c.CacheBytes, c.CacheFileMax = -1, -1
	}
	switch c.OpenFiles {
	case -1:
		c.OpenFiles = 0
	case 0:
		c.OpenFiles = -1
	}
	if c.Revalidate == 0 {
		c.Revalidate = -1
	}
	return errors.Join(f...)
}

var logFormats = map[string]knot.LogFormat{"combined": knot.LogCombined, "common": knot.LogCommon, "json": knot.LogJSON}

func (set *settings) check(others []string) error {
	switch {
	case len(others) > 0 && set.config != "":
		return fmt.Errorf("unexpected argument %q; folders are in %s", others[0], set.config)
	case len(others) > 1 && set.root == "":
		return fmt.Errorf("%d folders; want one, or a configuration file with a site for each", len(others))
	case len(others) > 0:
		return fmt.Errorf("unexpected argument %q", others[0])
	case set.sites[0].Root == "" && set.config == "":
		return errors.New("say which folder to serve: knot FOLDER")
	}
	errs := faults{set.checkFiles(), set.tls.check(), set.checkLimits(), set.tracing.check()}
	errs.addIf(set.loops < 0 || set.loops > engine.MaxLoops, "-loops %d; want 1 to %d, or 0 for one per processor core", set.loops, engine.MaxLoops)
	known := false
	set.format, known = logFormats[set.formatName]
	errs.addIf(!known, "-log-format %q; want combined, common or json", set.formatName)
	errs.addIf(!slices.Contains([]string{"", "epoll", "uring"}, set.poller), "-poller %q; want epoll or uring", set.poller)
	s := set.server
	s.Timed = set.admin != ""
	trust, err := knot.ParseTrust(set.trust...)
	if err != nil {
		errs = append(errs, fmt.Errorf("-trust: %w", err))
	}
	s.Trust = trust
	odd := strings.ContainsFunc(s.Name, func(r rune) bool { return r < 0x20 || r >= 0x7f })
	errs.addIf(odd, "-server-name %q has a byte that does not belong into a header", s.Name)
	errs = append(errs, set.placePoints()...)
	errs = append(errs, set.checkDemands()...)
	return set.placed(errors.Join(errs...))
}

// faults are the errors of flags. The text of each begins with the name of the flag.
type faults []error

// addIf adds an error with that text if wrong.
func (f *faults) addIf(wrong bool, format string, args ...any) {
	if wrong {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// placed adds the lines of the configuration file to faults of flags that it sets.
func (set *settings) placed(err error) error {
	all := each(err)
	for i, one := range all {
		for _, v := range set.values {
			if text, ok := strings.CutPrefix(strings.TrimPrefix(one.Error(), "-"), v.Name); ok && text != "" && (text[0] == ' ' || text[0] == ':') {
				all[i] = fmt.Errorf("%s: %w", v.Place, one)
				break
			}
		}
	}
	return errors.Join(all...)
}

// checkLimits turns what the flags say about limits into what Server says.
func (set *settings) checkLimits() error {
	s := set.server
	if s.LeastRate == 0 {
		s.LeastRate = -1 // there 0 stands for the default
	}
	var f faults
	f.addIf(s.MaxHead < minMaxHead, "-max-head %d is too small for the requests of browsers; want at least %d", s.MaxHead, minMaxHead)
	f.addIf(s.MaxConns < -1, "-max-conns %d; want a number of connections, 0 for the default, or -1 for no limit", s.MaxConns)
	f.addIf(s.Addr == "unix:", "-addr unix: names no socket; want unix:/path")
	for _, limit := range []struct {
		flag string
		time *time.Duration
	}{
		{"-idle-timeout", &s.IdleTimeout}, {"-head-timeout", &s.HeadTimeout}, {"-body-timeout", &s.BodyTimeout},
		{"-write-timeout", &s.WriteTimeout}, {"-grace", &s.ShutdownTimeout},
	} {
		f.addIf(*limit.time < 0, "%s %v is negative", limit.flag, *limit.time)
		if *limit.time == 0 {
			*limit.time = -1 // there 0 stands for the default
		}
	}
	return errors.Join(f...)
}
