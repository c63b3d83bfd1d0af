package knot

// entryBytes is what an entry takes besides its header lines, path and content: itself, its
// place in the map, what the allocator adds.
const entryBytes = 384

// evictTries is how many entries in use are passed over in search of one that is not.
const evictTries = 64

// overhead is what an entry with a content takes on the Go heap, twice, because the
// collector lets that grow to twice what is in use.
func (e *entry) overhead() int64 { return 2 * int64(entryBytes+cap(e.lines)+len(e.key)+len(e.name)) }

// charged is what is charged to the shard for e.
func (e *entry) charged() int64 { return int64(chunksFor(e.length))*chunkBytes + e.overhead() }

// fits reports whether there would be room for the content of e if there was nothing else.
func (s *cacheShard) fits(e *entry) bool { return e.charged() <= s.most }

// reserve gives e memory for the content of its file, at the cost of what has not been
// used for longest; hash is that of its path. It refuses a file that is asked for the
// first time when others would have to go for it, so that files that are asked for once,
// by a robot, say, don't drive out those that are asked for often.
func (s *cacheShard) reserve(e *entry, hash uint64) bool {
	var out *entry
	defer func() { releaseAll(out) }()
	if !s.fits(e) {
		return false
	}
	size := e.charged()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes+size > s.most && !s.known(hash) {
		s.stats.Refused++
		return false
	}
	freed, tries := int64(0), 0
	for old := s.held.last; s.bytes+size-freed > s.most; {
		if old == nil || tries == evictTries {
			break
		}
		prev := old.prev
		if old.users.Load() == 1 { // nobody but us, and nobody comes while we hold mu
			freed += old.size
			s.stats.Evictions++
			out = s.evict(old, out)
		} else {
			tries++
		}
		old = prev
	}
	for old := out; old != nil; old = old.next {
		s.discharge(old) // not only at its release, in a moment
	}
	if s.bytes+size > s.most {
		return false
	}
	var ok bool
	if e.parts, ok = s.memory.take(e.length); !ok {
		return false
	}
	e.size = size
	s.charge(size)
	s.trim()
	return true
}

// welcome reports whether reserve would find room for about that many bytes, and notes that the path
// was asked for.
func (s *cacheShard) welcome(size int64, hash uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes+size <= s.most || size <= s.most && s.known(hash)
}

// trim gives memory back to the system that entries of another kind need now: larger
// ones take less on the heap. Caller holds mu, which is let go meanwhile.
func (s *cacheShard) trim() {
	m := &s.memory
	excess := s.bytes + int64(m.blocks)*blockBytes - m.used() - s.most
	if excess < blockBytes {
		return
	}
	if part, ok := m.idle(int(excess / blockBytes)); ok {
		s.mu.Unlock()
		m.giveBack(part)
		s.mu.Lock()
		m.rested(part)
	}
}

// charge needs mu.
func (s *cacheShard) charge(n int64) {
	s.bytes += n
	if n < 0 {
		fileBytes.Release(-n)
	} else {
		fileBytes.Acquire(n)
	}
}

// discharge takes its memory from e, which nobody uses. Caller holds mu.
func (s *cacheShard) discharge(e *entry) {
	s.bytes -= e.size
	fileBytes.Release(e.size)
	s.memory.put(e.parts)
	e.size, e.parts = 0, nil
}

// known reports whether the path with this hash was asked for before, not too long ago, and
// notes it. Caller holds mu.
func (s *cacheShard) known(hash uint64) bool {
	if len(s.seen) == 0 { // a test: everything is welcome
		return true
	}
	at := &s.seen[hash>>8&uint64(len(s.seen)-1)]
	mark := uint32(hash>>32) | 1
	was := *at == mark
	*at = mark
	return was
}

// giveBack is discharge for a caller that does not hold mu.
func (e *entry) giveBack() {
	e.shard.mu.Lock()
	e.shard.discharge(e)
	e.shard.mu.Unlock()
}
