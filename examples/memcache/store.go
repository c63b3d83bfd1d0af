package main

import (
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A store is the items. It may be used by tasks of any loop: its locks are held for a few lines
// that never wait.
type store struct {
	limit   int64 // bytes
	largest int   // value, bytes
	now     func() time.Time
	began   time.Time
	seed    maphash.Seed
	shards  []shard
	cas     atomic.Uint64
	open    atomic.Int64
	opened  atomic.Int64
}

// A shard has a part of the items and of the memory.
type shard struct {
	mu    sync.Mutex
	items map[string]*item // guarded by mu
	list  item             // guarded by mu: of all items, the one that was used last behind it
	bytes int64            // guarded by mu
	limit int64
	flush time.Time // guarded by mu: when it comes, everything older goes; zero: never

	gets, hits, sets, evicted uint64 // guarded by mu
}

// An item is guarded by the mu of its shard.
type item struct {
	next, prev *item
	key        string
	value      []byte
	flags      uint32
	cas        uint64
	expires    time.Time
	stored     time.Time
}

// overhead is about what an item takes beside key and value, in bytes.
const overhead = 160

func (i *item) size() int64 { return int64(len(i.key)+len(i.value)) + overhead }

func newStore(limit int64, largest int, now func() time.Time) *store {
	// Each shard gives away its own items only, so it must have room for a number of large ones.
	shards := min(max(limit/(16*int64(largest)), 1), 64)
	s := &store{limit: limit, largest: largest, now: now, began: now(), seed: maphash.MakeSeed(), shards: make([]shard, shards)}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.items = make(map[string]*item)
		sh.list.next, sh.list.prev = &sh.list, &sh.list
		sh.limit = limit / shards
	}
	return s
}

func (s *store) shard(key []byte) *shard {
	return &s.shards[maphash.Bytes(s.seed, key)%uint64(len(s.shards))]
}

// find returns the item that key has, nil if there is none any more. Caller holds mu.
func (sh *shard) find(key []byte, now time.Time) *item {
	i := sh.items[string(key)]
	if i == nil {
		return nil
	}
	if sh.flushed(i, now) || !now.Before(i.expires) {
		sh.drop(i)
		return nil
	}
	return i
}

// flushed reports whether a flush that has come covers i. Caller holds mu.
func (sh *shard) flushed(i *item, now time.Time) bool {
	return !sh.flush.IsZero() && !now.Before(sh.flush) && i.stored.Before(sh.flush)
}

// use puts i where the item is that was used last. Caller holds mu.
func (sh *shard) use(i *item) {
	if i.next != nil {
		i.next.prev, i.prev.next = i.prev, i.next
	}
	i.next, i.prev = sh.list.next, &sh.list
	i.next.prev, sh.list.next = i, i
}

// drop forgets i. Caller holds mu.
func (sh *shard) drop(i *item) {
	delete(sh.items, i.key)
	i.next.prev, i.prev.next = i.prev, i.next
	sh.bytes -= i.size()
}

// get appends a copy of a value to buf. If at is not nil the item then lives until at.
func (s *store) get(key, buf []byte, at *time.Time) (value []byte, flags uint32, cas uint64, ok bool) {
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.gets++
	i := sh.find(key, s.now())
	if i == nil {
		return buf, 0, 0, false
	}
	sh.hits++
	sh.use(i)
	if at != nil {
		i.expires = *at
	}
	return append(buf, i.value...), i.flags, i.cas, true
}

// put carries out a command that comes with a value, which it keeps, and returns the answer.
func (s *store) put(how, key string, value []byte, flags uint32, expires time.Time, cas uint64) string {
	sh := s.shard([]byte(key))
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.sets++
	now := s.now()
	old := sh.find([]byte(key), now)
	switch {
	case how == "cas" && old == nil:
		return "NOT_FOUND\r\n"
	case how == "cas" && old.cas != cas:
		return "EXISTS\r\n"
	case how == "add" && old != nil, how != "add" && how != "set" && how != "cas" && old == nil:
		return "NOT_STORED\r\n"
	case how == "append":
		value, flags, expires = append(append([]byte(nil), old.value...), value...), old.flags, old.expires
	case how == "prepend":
		value, flags, expires = append(value, old.value...), old.flags, old.expires
	}
	if len(value) > s.largest {
		return "SERVER_ERROR object too large for cache\r\n"
	}
	s.set(sh, old, &item{key: key, value: value, flags: flags, expires: expires, stored: now})
	return "STORED\r\n"
}

// set puts i in the place of old, which may be nil, and makes room for it. Caller holds sh.mu.
func (s *store) set(sh *shard, old, i *item) {
	if old != nil {
		sh.drop(old)
	}
	i.cas = s.cas.Add(1)
	sh.items[i.key] = i
	sh.use(i)
	for sh.bytes += i.size(); sh.bytes > sh.limit; sh.evicted++ {
		sh.drop(sh.list.prev)
	}
}

// add adds to a number, or takes from it, and returns the answer.
func (s *store) add(key []byte, by uint64, down bool) string {
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	old := sh.find(key, s.now())
	if old == nil {
		return "NOT_FOUND\r\n"
	}
	n, err := strconv.ParseUint(string(old.value), 10, 64)
	switch {
	case err != nil:
		return "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
	case !down:
		n += by // and round, as memcached does
	default:
		n -= min(n, by)
	}
	i := *old
	i.next, i.prev, i.value = nil, nil, strconv.AppendUint(nil, n, 10)
	s.set(sh, old, &i)
	return string(i.value) + "\r\n"
}

func (s *store) touch(key []byte, expires time.Time) bool {
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	i := sh.find(key, s.now())
	if i == nil {
		return false
	}
	i.expires = expires
	sh.use(i)
	return true
}

// remove reports whether there was an item to remove.
func (s *store) remove(key []byte) bool {
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	i := sh.find(key, s.now())
	if i != nil {
		sh.drop(i)
	}
	return i != nil
}

// flush lets everything that has been stored go, after a time. It takes the place of a flush that has not come yet.
func (s *store) flush(after time.Duration) {
	now := s.now()
	for n := range s.shards {
		sh := &s.shards[n]
		sh.mu.Lock()
		for i := sh.list.next; i != &sh.list; i = i.next {
			if after == 0 || sh.flushed(i, now) {
				sh.drop(i)
			}
		}
		if sh.flush = now.Add(after); after == 0 {
			sh.flush = time.Time{}
		}
		sh.mu.Unlock()
	}
}

func (s *store) connected(change int64) {
	s.open.Add(change)
	s.opened.Add(max(change, 0))
}

type totals struct {
	uptime                     time.Duration
	open, opened, items, bytes int64
	gets, hits, sets, evicted  uint64
}

func (s *store) totals() totals {
	t := totals{uptime: s.now().Sub(s.began), open: s.open.Load(), opened: s.opened.Load()}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		t.items += int64(len(sh.items))
		t.bytes += sh.bytes
		t.gets, t.hits, t.sets, t.evicted = t.gets+sh.gets, t.hits+sh.hits, t.sets+sh.sets, t.evicted+sh.evicted
		sh.mu.Unlock()
	}
	return t
}
