package store

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/task"
)

// cache remembers files by the path that they were asked for: the contents of small
// ones, within a budget of bytes, and descriptors of others, up to a number. What has not
// been asked for longest goes first.
//
// It is divided into shards by a hash of the path, each with its part of the budget and
// a lock of its own, which is never held across a system call. So it may be used from
// any loop and any goroutine.
type cache struct {
	seed   maphash.Seed
	Shards []shard // their number is a power of two; fixed
}

type shard struct {
	Mu      sync.Mutex
	Entries map[string]*Entry  // guarded by mu
	Flights map[string]*flight // guarded by mu
	Held    entryList          // with contents; guarded by mu
	Opened  entryList          // with a descriptor; guarded by mu

	Memory Memory // of contents; guarded by mu
	Bytes  int64  // that entries with contents take, also those still being sent after their eviction; guarded by mu
	Most   int64  // of bytes; fixed
	Files  int    // longest that opened may be; fixed

	// Seen has hashes of paths that were asked for when the cache was full, each at a place that the
	// hash says: a path that is asked for again is worth a place. guarded by mu
	Seen []uint32

	stats Stats    // guarded by mu; what can be counted on the fly
	_     [64]byte // another shard's lock is not on our cache line
}

// An Entry is a file at a moment. All but the links is fixed once it is published.
//
//	made ─→ in entries and in held or opened ─→ out of them ─→ finished
//	                                              (evicted)     (last user gone)
//
// A task that has been given it is a user until release; so are the lists.
type Entry struct {
	Shard *shard
	Key   string
	id    identity
	name  string // path of the file below the root, with a slash
	Head  Head
	Lines []byte                   // header lines, blank line
	Parts [][]byte                 // the content, if full; memory of the shard
	FD    int                      // -1 if full
	File  atomic.Pointer[aio.File] // of fd, once something has had to be waited for
	// Length is that of the content in bytes: not of the file if that was compressed on the fly.
	Length int64
	size   int64 // bytes charged to the shard
	Full   bool
	kept   bool   // it has been in the cache
	beside uint32 // a bit for each coding that has a file beside this one
	// Young: the file was changed so shortly before it was read that another change may
	// look the same.
	Young bool

	// dull has a bit for each coding that does not make the file smaller, or not small enough. atomic
	dull       atomic.Uint32
	users      atomic.Int32
	checked    atomic.Int64 // reading of the clock when id was last compared
	Seen       atomic.Int64 // reading of a server's clock when all of fd was last seen in memory; 0: never
	used       int64        // reading of the clock; guarded by shard.mu
	Next, Prev *Entry       // guarded by shard.mu
	in         *entryList   // guarded by shard.mu; nil: evicted, or not published
}

// entryList is a list of entries, most recently used first.
type entryList struct {
	First, Last *Entry
	Count       int
}

func (l *entryList) push(e *Entry) {
	e.in, e.Prev, e.Next = l, nil, l.First
	if l.First != nil {
		l.First.Prev = e
	} else {
		l.Last = e
	}
	l.First = e
	l.Count++
}

func (l *entryList) remove(e *Entry) {
	if e.Prev != nil {
		e.Prev.Next = e.Next
	} else {
		l.First = e.Next
	}
	if e.Next != nil {
		e.Next.Prev = e.Prev
	} else {
		l.Last = e.Prev
	}
	e.in, e.Prev, e.Next = nil, nil, nil
	l.Count--
}

// A flight is one opening of a file that several may wait for.
type flight struct {
	shard    *shard
	key      string
	landed   task.WaitGroup
	Joined   int32  // how many wait; guarded by shard.mu
	finished bool   // guarded by shard.mu
	e        *Entry // constant once landed, and err
	err      error
}

// cacheShards bounds the number of shards: more of them than loops that meet.
const cacheShards = 16

// newFileCache fails if there is no address space for that many bytes.
func newFileCache(bytes, fileMax int64, files int) (*cache, error) {
	n := cacheShards
	// A shard must have room for several of the largest.
	for n > 1 && (bytes > 0 && bytes/int64(n) < 16*(fileMax+entryBytes) || files > 0 && files/n < 8) {
		n /= 2
	}
	c := &cache{seed: maphash.MakeSeed(), Shards: make([]shard, n)}
	for i := range c.Shards {
		s := &c.Shards[i]
		s.Entries = make(map[string]*Entry)
		s.Flights = make(map[string]*flight)
		s.Most, s.Files = bytes/int64(n), files/n
		if err := s.Memory.reserve(s.Most); err != nil {
			c.close()
			return nil, err
		}
		// As many as there may be entries of 4 KiB, a power of two.
		slots := 64
		for int64(slots) < s.Most>>12 && slots < 1<<20 {
			slots *= 2
		}
		s.Seen = make([]uint32, slots)
	}
	return c, nil
}

func (c *cache) Shard(path []byte) (*shard, uint64) {
	h := maphash.Bytes(c.seed, path)
	return &c.Shards[h&uint64(len(c.Shards)-1)], h
}

// Get finds path. The caller gets an entry that it must release, or a flight to wait
// for, or, with mine, a flight that it must land. counts means that it is the first of its request.
func (c *cache) Get(path []byte, now int64, counts bool) (e *Entry, fl *flight, mine bool) {
	s, _ := c.Shard(path)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if e = s.Entries[string(path)]; e != nil {
		e.users.Add(1)
		e.used = now
		if l := e.in; l.First != e {
			l.remove(e)
			l.push(e)
		}
		switch {
		case !counts:
		case e.Full:
			s.stats.Hits++
		default:
			s.stats.OpenHits++
		}
		return e, nil, false
	}
	if counts {
		s.stats.Misses++
	}
	if fl = s.Flights[string(path)]; fl != nil {
		fl.Joined++
		return nil, fl, false
	}
	fl = &flight{shard: s, key: string(path)}
	fl.landed.Add(1)
	s.Flights[fl.key] = fl
	return nil, fl, true
}

// wait returns what the flight brought. It parks.
func (fl *flight) wait() (e *Entry, err error) {
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
	fl.shard.Mu.Lock()
	finished := fl.finished
	if !finished {
		fl.Joined--
	}
	fl.shard.Mu.Unlock()
	if finished && fl.e != nil {
		fl.e.Release()
	}
}

// land ends the flight: e, which may be nil, goes to the caller and all that wait, and
// into the cache if keep.
func (fl *flight) land(e *Entry, err error, keep bool, now int64) {
	s := fl.shard
	var out *Entry
	s.Mu.Lock()
	delete(s.Flights, fl.key)
	fl.e, fl.err, fl.finished = e, err, true
	if e != nil {
		e.users.Store(1 + fl.Joined)
		if keep {
			out = s.insert(e, now)
		}
	}
	s.Mu.Unlock()
	fl.landed.Done()
	releaseAll(out)
}

// insert publishes e, for whose data there is room, and returns what had to go, linked
// by next. Caller holds mu.
func (s *shard) insert(e *Entry, now int64) (out *Entry) {
	if old := s.Entries[e.Key]; old != nil {
		out = s.evict(old, out)
	}
	e.users.Add(1)
	e.used = now
	s.Entries[e.Key] = e
	if e.Full {
		s.Held.push(e)
		return out
	}
	s.Opened.push(e)
	for s.Opened.Count > s.Files {
		s.stats.OpenEvictions++
		out = s.evict(s.Opened.Last, out)
	}
	return out
}

// evict takes e out of the lists and links it before out: the caller releases it when
// it does not hold mu any more.
func (s *shard) evict(e, out *Entry) *Entry {
	delete(s.Entries, e.Key)
	e.in.remove(e)
	e.Next = out
	return e
}

func releaseAll(out *Entry) {
	for out != nil {
		next := out.Next
		out.Next = nil
		out.Release()
		out = next
	}
}

// Release ends a use of e.
func (e *Entry) Release() {
	if e.users.Add(-1) > 0 {
		return
	}
	if e.size > 0 {
		e.giveBack()
	}
	if e.FD >= 0 {
		e.close()
	}
}

// Drop takes e out of the cache if it is there: the file is not what it was.
func (e *Entry) Drop() {
	s := e.Shard
	if s == nil { // nothing is kept
		return
	}
	s.Mu.Lock()
	var out *Entry
	if e.in != nil {
		s.stats.Stale++
		out = s.evict(e, nil)
	}
	s.Mu.Unlock()
	releaseAll(out)
}

// CloseIdle closes the descriptors that have not been used since then; it returns how
// many remain in the lists.
func (c *cache) CloseIdle(since int64) (left int) {
	for i := range c.Shards {
		s := &c.Shards[i]
		var out *Entry
		s.Mu.Lock()
		for e := s.Opened.Last; e != nil && e.used < since; e = s.Opened.Last {
			out = s.evict(e, out)
		}
		left += s.Opened.Count
		s.Mu.Unlock()
		releaseAll(out)
	}
	return left
}

// Empty drops everything.
func (c *cache) Empty() {
	for i := range c.Shards {
		s := &c.Shards[i]
		var out *Entry
		s.Mu.Lock()
		for _, e := range s.Entries {
			out = s.evict(e, out)
		}
		s.Mu.Unlock()
		releaseAll(out)
	}
}

// close drops everything, and lets the memory go once no response uses it.
func (c *cache) close() {
	c.Empty()
	for i := range c.Shards {
		s := &c.Shards[i]
		s.Mu.Lock()
		s.Memory.close()
		s.Mu.Unlock()
	}
}

func (c *cache) stats() (sum Stats) {
	for i := range c.Shards {
		s := &c.Shards[i]
		s.Mu.Lock()
		one := s.stats
		one.Bytes, one.Files, one.Open = s.Bytes, s.Held.Count, s.Opened.Count
		s.Mu.Unlock()
		one.MaxBytes, one.MaxOpen = s.Most, s.Files
		sum.Add(one)
	}
	return sum
}

// Add makes s the counts of both s and other.
func (s *Stats) Add(other Stats) {
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
