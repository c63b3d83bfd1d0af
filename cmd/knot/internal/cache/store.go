package cache

import (
	"container/list"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/cache/rfc"
	"github.com/capriccio-go/capriccio/task"
)

const (
	// maxVariants is how many responses are kept for one URL: one for each set of the fields that Vary names. A client can make up more.
	maxVariants = 32
	// entryCost is what an entry takes besides its body and lines, in bytes, about.
	entryCost = 1 << 10
	// aloneFor is how long requests for a URL are not kept waiting for each other, once its response could not be kept.
	aloneFor = 10 * time.Second
	// maxAlone is how many such URLs are remembered, and how many that were invalidated before the scans have ended.
	maxAlone = 10_000
)

// limits bound what is kept. Sizes in bytes.
type limits struct {
	memory, disk, entry int64
	entries             int
}

// state is what a Cache keeps, which outlives a reading of the configuration.
type state struct {
	limits limits
	rules  *rfc.Rules
	now    func() time.Time
	log    *slog.Logger
	files  *files // nil: no folder

	mu        sync.Mutex
	resources map[string]*resource   // by key; guarded by mu
	recent    list.List              // of *entry with their body in memory, the last used first; guarded by mu
	all       list.List              // of every *entry, the last used first; guarded by mu
	memory    int64                  // bytes that those of recent take; guarded by mu
	disk      int64                  // bytes of files; guarded by mu
	flights   map[string]*flight     // by key, and variant if that is known; those of one request by a number; guarded by mu
	apart     uint64                 // the last such number; guarded by mu
	alone     map[requests]time.Time // until when; guarded by mu
	purged    map[urls]time.Time     // what was invalidated when, so that the scans don't bring it back; nil: they have ended; guarded by mu
	users     int                    // caches that have it; guarded by mu

	counts counts
}

// counts are atomic.
type counts struct {
	hits, stale, misses, revalidated, joined, passed, stored, evicted, corrupt, bytes atomic.Uint64
}

// Stats says what a Cache has done, and what it keeps.
type Stats struct {
	// Hits were answered with a fresh response, Stale with a stale one, Revalidated after the backend had said that it is
	// still right, Misses by asking the backend, Joined by the response to another request that was under way. Passed went past
	// the cache.
	Hits, Stale, Revalidated, Misses, Joined, Passed uint64
	// Stored and Evicted are responses, Corrupt are files that were dropped. Bytes of bodies came from what is kept.
	Stored, Evicted, Corrupt, Bytes uint64
	// Entries are kept, which take that many bytes of Memory and Disk.
	Entries, Memory, Disk int64
}

// Stats returns the numbers of now.
func (s *state) Stats() Stats {
	c := &s.counts
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		Hits: c.hits.Load(), Stale: c.stale.Load(), Revalidated: c.revalidated.Load(), Misses: c.misses.Load(), Joined: c.joined.Load(),
		Passed: c.passed.Load(), Stored: c.stored.Load(), Evicted: c.evicted.Load(), Corrupt: c.corrupt.Load(), Bytes: c.bytes.Load(),
		Entries: int64(s.all.Len()), Memory: s.memory, Disk: s.disk,
	}
}

// Add adds the numbers of another cache.
func (s *Stats) Add(o Stats) {
	s.Hits += o.Hits
	s.Stale += o.Stale
	s.Revalidated += o.Revalidated
	s.Misses += o.Misses
	s.Joined += o.Joined
	s.Passed += o.Passed
	s.Stored += o.Stored
	s.Evicted += o.Evicted
	s.Corrupt += o.Corrupt
	s.Bytes += o.Bytes
	s.Entries += o.Entries
	s.Memory += o.Memory
	s.Disk += o.Disk
}

// requests are those for a URL with, or without, cookies: rfc.Rules may let a response to the latter only be kept.
type requests struct {
	key     string
	cookies bool
}

// A resource is what is kept for one URL.
type resource struct {
	variants []*entry // the last stored first
	vary     []string // names that the last Vary had
}

// An entry is a response that is kept.
type entry struct {
	*rfc.Stored
	key   string
	lines []line // of the header, but Age
	size  int64  // of the body
	cost  int64  // of memory, with the body

	loading task.Mutex // held while the body is read from its file

	body   []byte        // nil: it is only on disk; guarded by state.mu
	file   string        // its name; "": there is none; guarded by state.mu
	recent *list.Element // guarded by state.mu
	all    *list.Element // nil: it is not kept any more; guarded by state.mu
}

// A line is one of a header.
type line struct{ name, value []byte }

func newEntry(key string, stored *rfc.Stored, body []byte) *entry {
	e := &entry{Stored: stored, key: key, body: body, size: int64(len(body)), cost: entryCost + int64(len(body)+2*len(key))}
	for _, f := range stored.Header {
		if !strings.EqualFold(f.Name, "Age") {
			e.lines = append(e.lines, line{[]byte(f.Name), []byte(f.Value)})
		}
		e.cost += 2 * int64(len(f.Name)+len(f.Value))
	}
	if e.body == nil {
		e.body = []byte{}
	}
	return e
}

func newState(limits limits, folder string, rules *rfc.Rules, now func() time.Time, log *slog.Logger) *state {
	s := &state{limits: limits, rules: rules, now: now, log: log}
	s.resources, s.flights, s.alone = make(map[string]*resource), make(map[string]*flight), make(map[requests]time.Time)
	if folder != "" {
		s.purged = make(map[urls]time.Time)
		s.files = &files{folder: folder, s: s}
	}
	return s
}

// find returns the entry for a request whose lines get returns; nil: there is none.
func (s *state) find(key []byte, get func(name string) string) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resources[string(key)]
	if r == nil {
		return nil
	}
	var found *entry // of several the most recent one (RFC 9111, 4)
	for _, e := range r.variants {
		if (found == nil || e.Date().After(found.Date())) && e.Matches(get) {
			found = e
		}
	}
	if found != nil {
		s.all.MoveToFront(found.all)
		if found.recent != nil {
			s.recent.MoveToFront(found.recent)
		}
	}
	return found
}

// put keeps e in place of old, which may be nil, and of what it would be chosen before, unless what it was made of is
// outdated. It returns the names of files that have to be deleted.
func (s *state) put(e, old *entry, outdated *atomic.Bool) (garbage []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if outdated != nil && outdated.Load() || e.cost > s.limits.memory {
		return nil
	}
	return s.putLocked(e, old)
}

func (s *state) putLocked(e, old *entry) (garbage []string) {
	delete(s.alone, requests{e.key, false})
	delete(s.alone, requests{e.key, true})
	get := func(name string) string {
		for _, f := range e.Key {
			if f.Name == name {
				return f.Value
			}
		}
		return ""
	}
	for _, v := range s.variantsLocked(e.key) {
		if v == old || v.Matches(get) && len(v.Key) == len(e.Key) {
			garbage = append(garbage, s.dropLocked(v)...)
		}
	}
	if all := s.variantsLocked(e.key); len(all) >= maxVariants {
		garbage = append(garbage, s.dropLocked(all[len(all)-1])...)
		s.counts.evicted.Add(1)
	}
	r := s.resources[e.key]
	if r == nil {
		r = new(resource)
		s.resources[e.key] = r
	}
	r.vary = nil
	for _, f := range e.Key {
		r.vary = append(r.vary, f.Name)
	}
	r.variants = append([]*entry{e}, r.variants...)
	e.all = s.all.PushFront(e)
	if e.file != "" {
		s.disk += e.cost
	}
	if e.body != nil {
		s.rememberLocked(e)
		s.counts.stored.Add(1)
	}
	return append(garbage, s.makeRoomLocked()...)
}

// variantsLocked are the responses for key, the last stored first. The slice is fixed: put and dropLocked make another one.
func (s *state) variantsLocked(key string) []*entry {
	if r := s.resources[key]; r != nil {
		return r.variants
	}
	return nil
}

// attach notes that e is in the file with that name, too. It may park.
func (s *state) attach(e *entry, name string) {
	s.mu.Lock()
	garbage := []string{name}
	if e.all != nil {
		e.file = name
		s.disk += e.cost
		garbage = s.makeRoomLocked()
	}
	s.mu.Unlock()
	s.files.remove(garbage)
}

// rememberLocked counts the body of e, which is in memory.
func (s *state) rememberLocked(e *entry) {
	e.recent = s.recent.PushFront(e)
	s.memory += e.cost
}

// forgetLocked drops the body of e from memory.
func (s *state) forgetLocked(e *entry) {
	s.recent.Remove(e.recent)
	s.memory -= e.cost
	e.recent, e.body = nil, nil
}

// makeRoomLocked drops what was not used for the longest time, as far as there is too much.
func (s *state) makeRoomLocked() (garbage []string) {
	for s.memory > s.limits.memory && s.recent.Len() > 0 {
		e := s.recent.Back().Value.(*entry)
		if e.file != "" {
			s.forgetLocked(e)
			continue
		}
		garbage = append(garbage, s.dropLocked(e)...)
		s.counts.evicted.Add(1)
	}
	for s.all.Len() > s.limits.entries || s.disk > s.limits.disk {
		garbage = append(garbage, s.dropLocked(s.all.Back().Value.(*entry))...)
		s.counts.evicted.Add(1)
	}
	return garbage
}

// dropLocked keeps e no longer.
func (s *state) dropLocked(e *entry) (garbage []string) {
	if e.all == nil {
		return nil
	}
	s.all.Remove(e.all)
	e.all = nil
	if e.recent != nil {
		body := e.body
		s.forgetLocked(e)
		e.body = body // for requests that have found it
	}
	if e.file != "" {
		s.disk -= e.cost
		garbage = append(garbage, e.file)
		e.file = ""
	}
	r := s.resources[e.key]
	for i, v := range r.variants {
		if v == e {
			r.variants = append(r.variants[:i:i], r.variants[i+1:]...)
			break
		}
	}
	if len(r.variants) == 0 {
		delete(s.resources, e.key)
	}
	return garbage
}

// drop is dropLocked, and deletes the file. It may park.
func (s *state) drop(e *entry) {
	s.mu.Lock()
	garbage := s.dropLocked(e)
	s.mu.Unlock()
	s.files.remove(garbage)
}

// urls are the URL with that text, or, with prefix, all that begin with it. The text may be a key, too.
type urls struct {
	text   string
	prefix bool
}

// invalidate drops what is kept for u, and returns how many entries that were: for the keys that matches finds, nil: for
// the key u. What is being fetched for them is not kept, nor are files of a time before that the scans find. It may park.
func (s *state) invalidate(u urls, matches func(key string) bool) (n int) {
	var garbage []string
	s.mu.Lock()
	if s.purged != nil {
		if len(s.purged) >= maxAlone {
			clear(s.purged)
			s.purged[urls{prefix: true}] = s.now() // all
		}
		s.purged[u] = s.now()
	}
	dropAll := func(r *resource) {
		for r != nil && len(r.variants) > 0 {
			garbage = append(garbage, s.dropLocked(r.variants[0])...)
			n++
		}
	}
	if matches == nil {
		dropAll(s.resources[u.text])
	} else {
		for key, r := range s.resources {
			if matches(key) {
				dropAll(r)
			}
		}
	}
	for id, f := range s.flights {
		if matches == nil && f.key == u.text || matches != nil && matches(f.key) {
			f.outdated.Store(true)
			delete(s.flights, id)
		}
	}
	s.mu.Unlock()
	s.files.remove(garbage)
	return n
}

// Purge drops what is kept for a URL, or, with prefix, for all URLs that begin with it, and returns how many responses that
// were. It may park, or block.
func (c *Cache) Purge(url string, prefix bool) (n int, err error) {
	want, err := c.keyOf(url)
	if err != nil {
		return 0, err
	}
	return c.invalidate(urls{want, prefix}, func(key string) bool {
		key, _, _ = strings.Cut(key, " ")
		return key == want || prefix && strings.HasPrefix(key, want)
	}), nil
}

// wasPurgedLocked reports whether e was asked for before it was invalidated.
func (s *state) wasPurgedLocked(e *entry) bool {
	before := func(text string, prefix bool) bool {
		at, ok := s.purged[urls{text, prefix}]
		return ok && !e.Requested.After(at)
	}
	url, _, _ := strings.Cut(e.key, " ")
	for i := range len(url) + 1 {
		if before(url[:i], true) {
			return true
		}
	}
	return before(url, false) || before(e.key, false)
}

// bodyOf returns the body of e, from its file if need be; nil if that is not as it was written. It may park.
func (s *state) bodyOf(e *entry) []byte {
	if body, _ := s.inMemory(e); body != nil {
		return body
	}
	e.loading.Lock()
	defer e.loading.Unlock()
	body, file := s.inMemory(e)
	if body != nil || file == "" {
		return body
	}
	var err error
	task.Offload(func() { body, err = s.files.load(file, e) })
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) { // else the process that this one follows has dropped it
			s.counts.corrupt.Add(1)
			s.log.Warn("knot: a file of the cache can't be used, and is dropped", "file", s.files.path(file), "error", err)
		}
		s.drop(e)
		return nil
	}
	s.mu.Lock()
	var garbage []string
	if e.all != nil && e.recent == nil {
		e.body = body
		s.rememberLocked(e)
		garbage = s.makeRoomLocked()
	}
	s.mu.Unlock()
	s.files.remove(garbage)
	return body
}

func (s *state) inMemory(e *entry) (body []byte, file string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.body, e.file
}

// setAlone notes that the response to such requests can't be kept.
func (s *state) setAlone(r requests) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.alone) >= maxAlone {
		clear(s.alone)
	}
	s.alone[r] = s.now().Add(aloneFor)
}
