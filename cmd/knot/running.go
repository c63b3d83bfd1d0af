package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/addresses"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/loadreport"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/internal/regular"
	"github.com/capriccio-go/capriccio/knot"
)

// A running is what is served at the moment. Safe from anywhere.
type running struct {
	parts *parts                    // set at the start
	loads *loadreport.Reporter      // set at the start
	now   atomic.Pointer[built]     // changed with mu held
	on    atomic.Pointer[listening] // nil: not known yet

	mu     sync.Mutex
	sites  map[string]*site.Switch // by the addresses of the points, see at; guarded by mu
	before []*built                // earlier configurations whose requests may be under way; guarded by mu
	logs   map[string]*logFile     // access logs of sites, by name; guarded by mu
	again  bool                    // a reload was asked for before the first load; guarded by mu

	reloads    sync.Mutex // held by reload and handOver
	handedOver bool       // guarded by reloads
}

// handOver calls replace, while nothing is read again: the successor gets the sockets that there are, and opens those that the
// file has besides. Once it serves, addresses are its own affair.
func (r *running) handOver(replace func() error) error {
	r.reloads.Lock()
	defer r.reloads.Unlock()
	err := replace()
	r.handedOver = err == nil
	return err
}

// load serves as set says from now on. The sites served before are closed after their last requests.
func (r *running) load(set *settings, log *slog.Logger) error {
	b, err := build(set, log)
	if err != nil {
		return err
	}
	if err := b.startCaches(r.now.Load()); err != nil {
		b.close()
		return err
	}
	if err := r.openLogs(b.logs, log); err != nil {
		b.close()
		return err
	}
	b.serving.Store(int32(len(b.hosts)))
	for _, hosts := range b.hosts {
		hosts.OnRetire(func() {
			if b.serving.Add(-1) == 0 {
				b.retired.Store(true)
				go b.close() // not on a loop
			}
		})
	}
	b.startProxies(r.now.Load())
	if b.fleet != nil {
		b.fleet.Start()
	}
	for _, s := range b.reports {
		s.Begin(r.loads)
	}
	r.mu.Lock()
	r.before = slices.DeleteFunc(r.before, (*built).over)
	if before := r.now.Swap(b); before != nil {
		r.before = append(r.before, before)
	}
	for addr, hosts := range b.hosts {
		r.atLocked(addr).Set(hosts)
	}
	for addr, on := range r.sites {
		if b.hosts[addr] == nil {
			on.Set(&site.Hosts{Gone: true}) // it is not in the configuration any more
		}
	}
	r.mu.Unlock()
	return nil
}

// at is what serves the sites of the point with that address.
func (r *running) at(addr string) *site.Switch {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.atLocked(addr)
}

func (r *running) atLocked(addr string) *site.Switch {
	if r.sites == nil {
		r.sites = make(map[string]*site.Switch)
	}
	if r.sites[addr] == nil {
		r.sites[addr] = new(site.Switch)
	}
	return r.sites[addr]
}

// close ends what is served, when no request is under way.
func (r *running) close() error {
	if now := r.now.Load(); now != nil {
		now.close()
	}
	return r.closeLogs()
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

// tooOften is how many requests were refused that came too often.
func (r *running) tooOften() (n uint64) {
	if now := r.now.Load(); now != nil {
		for _, c := range now.limits {
			n += c.Refused()
		}
	}
	return n
}

// change serves what fresh says, but for its addresses: they are prepared, unless nothing is listened on yet. After an error
// everything is as before.
func (r *running) change(fresh *settings, log *slog.Logger) (addrs *relisten, err error) {
	parts, err := r.parts.prepare(fresh, log)
	if err != nil {
		return nil, r.explain(err, fresh)
	}
	if on := r.on.Load(); on != nil {
		if addrs, err = on.prepare(fresh); err != nil {
			err = r.explain(err, fresh)
		}
	}
	if err == nil {
		if err = r.load(fresh, log); err != nil && addrs != nil {
			addrs.change.Undo()
		}
	}
	if err != nil {
		parts.undo()
		return nil, err
	}
	parts.apply()
	return addrs, nil
}

// explain is like the function explain, for a reload: the address that is taken may be one that Knot itself listens on.
func (r *running) explain(err error, fresh *settings) error {
	own := []string{fullAdmin(r.parts.admin.configured())}
	if on := r.on.Load(); on != nil {
		for _, p := range on.now() {
			own = append(own, p.Addr)
		}
	}
	if taken := (*addressError)(nil); errors.Is(err, syscall.EADDRINUSE) && errors.As(err, &taken) {
		for _, addr := range own {
			if addresses.Same(addr, taken.addr) || addresses.Overlap(addr, taken.addr) {
				return fmt.Errorf("%w\nKnot itself listens there as %s: it takes a start, or two reloads, to change that", err, addr)
			}
		}
	}
	return errors.New(explain(err, fresh))
}

// reload reads the configuration file again and serves what it says now. If something is wrong with it, everything stays as it
// was. It logs the keys that have changed and take effect only at a start. set is what knot was started with, from args.
// Before anything is served, when root's rights may not be given up yet, it only notes for catchUp that it was called. After
// handOver it only opens logs anew.
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
	r.reopenLogs(log)
	if r.handedOver {
		return
	}
	fresh, err := parseReading(args, io.Discard, regular.Read) // a FIFO would hold up every later reload
	var addrs *relisten
	if err == nil {
		addrs, err = r.change(fresh, log)
	}
	if err != nil {
		log.Error("knot: the configuration can't be used; what was served before still is", "error", err)
		return
	}
	if addrs != nil {
		addrs.apply()
	} else if !slices.EqualFunc(set.points, fresh.points, func(a, b *addresses.Point) bool { return a.Addr == b.Addr }) {
		log.Warn("knot: other addresses are listened on after the next SIGHUP: this one has come before the first were open")
	}
	if on := r.on.Load(); on != nil {
		on.startACME()
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

// reloading is what SIGHUP does: reload, and then what TLS does. nil: nothing.
func (r *running) reloading(set *settings, args []string, log *slog.Logger, secure *tlsNow) func() {
	switch {
	case set.config != "":
		return func() {
			r.reload(set, args, log)
			secure.reload()
		}
	case secure.now.Load().reload != nil:
		return secure.reload
	}
	return nil
}

// atStartOnly are flags that only the start of knot goes by: those of the runtime and the process.
var atStartOnly = []string{"user", "loops", "poller", "dump", "quiet", "tls-tickets", "timeout-header", "urgency-header", "http3-conns"}

// changedValues are the names among atStartOnly whose values differ.
func changedValues(before, after []config.Value) (names []string) {
	for _, name := range atStartOnly {
		if valueOf(before, name) != valueOf(after, name) {
			names = append(names, name)
		}
	}
	return names
}

// valueOf is the text of the value with that name, "" if there is none.
func valueOf(all []config.Value, name string) string {
	for _, v := range all {
		if v.Name == name {
			return v.Text
		}
	}
	return ""
}
