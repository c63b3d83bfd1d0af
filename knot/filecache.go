package knot

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/task"
)

// fileCache remembers files by the path that they were asked for: the contents of small
// ones, within a budget of bytes, and descriptors of others, up to a number. What has not
// been asked for longest goes first.
//
// It is divided into shards by a hash of the path, each with its part of the budget and
// a lock of its own, which is never held across a system call. So it may be used from
// any loop and any goroutine.
type fileCache struct {
	seed   maphash.Seed
	shards []cacheShard // their number is a power of two; fixed
}

type cacheShard struct {
	mu      sync.Mutex
	entries map[string]*entry  // guarded by mu
	flights map[string]*flight // guarded by mu
	held    entryList          // with contents; guarded by mu
	opened  entryList          // with a descriptor; guarded by mu

	memory fileMemory // of contents; guarded by mu
	bytes  int64      // that entries with contents take, also those still being sent after their eviction; guarded by mu
	most   int64      // of bytes; fixed
	files  int        // longest that opened may be; fixed

	// seen remembers of paths that were not worth a place in a full cache that they were
	// asked for: a hash each, at a place that the hash says. guarded by mu
	seen []uint32

	stats FilesStats // guarded by mu; what can be counted on the fly
	_     [64]byte   // another shard's lock is not on our cache line
}

// An entry is a file at a moment. All but the links is fixed once it is published.
//
//	made ─→ in entries and in held or opened ─→ out of them ─→ finished
//	                                              (evicted)     (last user gone)
//
// A task that has been given it is a user until release; so are the lists.
type entry struct {
	shard *cacheShard
	key   string
	id    identity
	name  string // path of the file below the root, with a slash
	head  fileHead
	lines []byte                   // header lines, blank line
	parts [][]byte                 // the content, if full; memory of the shard
	fd    int                      // -1 if full
	file  atomic.Pointer[aio.File] // of fd, once something has had to be waited for
	// length is that of the content in bytes: not of the file if that was compressed on the fly.
	length int64
	size   int64 // bytes charged to the shard
	full   bool
	kept   bool   // it has been in the cache
	beside uint32 // a bit for each coding of which a file stands beside this one
	// young: the file was changed so shortly before it was read that another change may
	// look the same.
	young bool

	// dull has a bit for each coding that does not make the file smaller, or not small enough. atomic
	dull       atomic.Uint32
	users      atomic.Int32
	checked    atomic.Int64 // reading of the clock when id was last compared
	seen       atomic.Int64 // reading of a server's clock when all of fd was last seen in memory; 0: never
	used       int64        // reading of the clock; guarded by shard.mu
	next, prev *entry       // guarded by shard.mu
	in         *entryList   // guarded by shard.mu; nil: evicted, or not published
}

// entryList is a list of entries, most recently used first.
type entryList struct {
	first, last *entry
	count       int
}

func (l *entryList) push(e *entry) {
	e.in, e.prev, e.next = l, nil, l.first
	if l.first != nil {
		l.first.prev = e
	} else {
		l.last = e
	}
	l.first = e
	l.count++
}

func (l *entryList) remove(e *entry) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		l.first = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		l.last = e.prev
	}
	e.in, e.prev, e.next = nil, nil, nil
	l.count--
}

// A flight is one opening of a file that several may wait for.
type flight struct {
	shard    *cacheShard
	key      string
	landed   task.WaitGroup
	joined   int32  // how many wait; guarded by shard.mu
	finished bool   // guarded by shard.mu
	e        *entry // constant once landed, and err
	err      error
}

// cacheShards bounds the number of shards: more of them than loops that meet.
const cacheShards = 16

// newFileCache fails if there is no address space for that many bytes.
func newFileCache(bytes, fileMax int64, files int) (*fileCache, error) {
	n := cacheShards
	// A shard must have room for several of the largest.
	for n > 1 && (bytes > 0 && bytes/int64(n) < 16*(fileMax+entryBytes) || files > 0 && files/n < 8) {
		n /= 2
	}
	c := &fileCache{seed: maphash.MakeSeed(), shards: make([]cacheShard, n)}
	for i := range c.shards {
		s := &c.shards[i]
		s.entries = make(map[string]*entry)
		s.flights = make(map[string]*flight)
		s.most, s.files = bytes/int64(n), files/n
		if err := s.memory.reserve(s.most); err != nil {
			c.close()
			return nil, err
		}
		// As many as there may be entries of 4 KiB, a power of two.
		slots := 64
		for int64(slots) < s.most>>12 && slots < 1<<20 {
			slots *= 2
		}
		s.seen = make([]uint32, slots)
	}
	return c, nil
}

func (c *fileCache) shard(path []byte) (*cacheShard, uint64) {
	h := maphash.Bytes(c.seed, path)
	return &c.shards[h&uint64(len(c.shards)-1)], h
}

// get finds path. The caller gets an entry that it must release, or a flight to wait
// for, or, with mine, a flight that it must land. counts means that it is the first of its request.
func (c *fileCache) get(path []byte, now int64, counts bool) (e *entry, fl *flight, mine bool) {
	s, _ := c.shard(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e = s.entries[string(path)]; e != nil {
		e.users.Add(1)
		e.used = now
		if l := e.in; l.first != e {
			l.remove(e)
			l.push(e)
		}
		switch {
		case !counts:
		case e.full:
			s.stats.Hits++
		default:
			s.stats.OpenHits++
		}
		return e, nil, false
	}
	if counts {
		s.stats.Misses++
	}
	if fl = s.flights[string(path)]; fl != nil {
		fl.joined++
		return nil, fl, false
	}
	fl = &flight{shard: s, key: string(path)}
	fl.landed.Add(1)
	s.flights[fl.key] = fl
	return nil, fl, true
}

// wait returns what the flight brought. It parks.
func (fl *flight) wait() (e *entry, err error) {
	returned := false
	defer func() {
		if !returned { // the runtime is closing
			fl.leave()
		}
	}()
	fl.landed.Wait()
	returned = true
	return fl.e, fl.err
}

// leave is for a task that has joined and will not take what comes.
func (fl *flight) leave() {
	fl.shard.mu.Lock()
	finished := fl.finished
	if !finished {
		fl.joined--
	}
	fl.shard.mu.Unlock()
	if finished && fl.e != nil {
		fl.e.release()
	}
}

// land ends the flight: e, which may be nil, goes to the caller and all that wait, and
// into the cache if keep.
func (fl *flight) land(e *entry, err error, keep bool, now int64) {
	s := fl.shard
	var out *entry
	s.mu.Lock()
	delete(s.flights, fl.key)
	fl.e, fl.err, fl.finished = e, err, true
	if e != nil {
		e.users.Store(1 + fl.joined)
		if keep {
			out = s.insert(e, now)
		}
	}
	s.mu.Unlock()
	fl.landed.Done()
	releaseAll(out)
}

// insert publishes e, for whose data there is room, and returns what had to go, linked
// by next. Caller holds mu.
func (s *cacheShard) insert(e *entry, now int64) (out *entry) {
	if old := s.entries[e.key]; old != nil {
		out = s.evict(old, out)
	}
	e.users.Add(1)
	e.used = now
	s.entries[e.key] = e
	if e.full {
		s.held.push(e)
		return out
	}
	s.opened.push(e)
	for s.opened.count > s.files {
		s.stats.OpenEvictions++
		out = s.evict(s.opened.last, out)
	}
	return out
}

// evict takes e out of the lists and links it before out: the caller releases it when
// it does not hold mu any more.
func (s *cacheShard) evict(e, out *entry) *entry {
	delete(s.entries, e.key)
	e.in.remove(e)
	e.next = out
	return e
}

func releaseAll(out *entry) {
	for out != nil {
		next := out.next
		out.next = nil
		out.release()
		out = next
	}
}

// release ends a use of e.
func (e *entry) release() {
	if e.users.Add(-1) > 0 {
		return
	}
	if e.size > 0 {
		e.giveBack()
	}
	if e.fd >= 0 {
		e.close()
	}
}

// drop takes e out of the cache if it is there: the file is not what it was.
func (e *entry) drop() {
	s := e.shard
	s.mu.Lock()
	var out *entry
	if e.in != nil {
		s.stats.Stale++
		out = s.evict(e, nil)
	}
	s.mu.Unlock()
	releaseAll(out)
}

// closeIdle closes the descriptors that have not been used since then; it returns how
// many remain in the lists.
func (c *fileCache) closeIdle(since int64) (left int) {
	for i := range c.shards {
		s := &c.shards[i]
		var out *entry
		s.mu.Lock()
		for e := s.opened.last; e != nil && e.used < since; e = s.opened.last {
			out = s.evict(e, out)
		}
		left += s.opened.count
		s.mu.Unlock()
		releaseAll(out)
	}
	return left
}

// empty drops everything.
func (c *fileCache) empty() {
	for i := range c.shards {
		s := &c.shards[i]
		var out *entry
		s.mu.Lock()
		for _, e := range s.entries {
			out = s.evict(e, out)
		}
		s.mu.Unlock()
		releaseAll(out)
	}
}

// close drops everything, and lets the memory go once nobody uses it.
func (c *fileCache) close() {
	c.empty()
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.memory.close()
		s.mu.Unlock()
	}
}

// FilesStats says what the caches of a Files hold and have done since it was opened.
type FilesStats struct {
	// Hits were answered from memory, OpenHits from a file that was open, Misses by
	// opening the file; Loads is how often a content was read into memory.
	Hits, OpenHits, Misses, Loads uint64
	// Evictions made room for other contents, OpenEvictions for other descriptors.
	// Refused contents were not worth evicting others for them. Stale files had changed.
	Evictions, OpenEvictions, Refused, Stale uint64
	// Bytes of contents are in memory now, of Files files; Open is how many descriptors
	// are kept. MaxBytes and MaxOpen are the limits.
	Bytes, MaxBytes      int64
	Files, Open, MaxOpen int
}

// Add makes s the counts of both s and other. It never parks.
func (s *FilesStats) Add(other FilesStats) {
	s.Hits += other.Hits
	s.OpenHits += other.OpenHits
	s.Misses += other.Misses
	s.Loads += other.Loads
	s.Evictions += other.Evictions
	s.OpenEvictions += other.OpenEvictions
	s.Refused += other.Refused
	s.Stale += other.Stale
	s.Bytes += other.Bytes
	s.MaxBytes += other.MaxBytes
	s.Files += other.Files
	s.Open += other.Open
	s.MaxOpen += other.MaxOpen
}

func (c *fileCache) stats() (sum FilesStats) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		one := s.stats
		one.Bytes, one.Files, one.Open = s.bytes, s.held.count, s.opened.count
		s.mu.Unlock()
		one.MaxBytes, one.MaxOpen = s.most, s.files
		sum.Add(one)
	}
	return sum
}
