package store

// entryBytes is what an entry takes besides its header lines, path and content: itself, its
// place in the map, what the allocator adds.
const entryBytes = 384

// evictTries is how many entries in use are passed over in search of one that is not.
const evictTries = 64

// Overhead is what an entry with a content takes on the Go heap, twice, because the
// collector lets that grow to twice what is in use.
func (e *Entry) Overhead() int64 { return 2 * int64(entryBytes+cap(e.Lines)+len(e.Key)+len(e.name)) }

// charged is what is charged to the shard for e.
func (e *Entry) charged() int64 { return int64(ChunksFor(e.Length))*ChunkBytes + e.Overhead() }

// fits reports whether there would be room for the content of e if there was nothing else.
func (s *shard) fits(e *Entry) bool { return e.charged() <= s.Most }

// reserve gives e memory for the content of its file, at the cost of what has not been
// used for longest; hash is that of its path. It refuses a file that is asked for the
// first time when others would have to go for it, so that files that are asked for once,
// by a robot, say, don't drive out those that are asked for often.
func (s *shard) reserve(e *Entry, hash uint64) bool {
	var out *Entry
	defer func() { releaseAll(out) }()
	if !s.fits(e) {
		return false
	}
	size := e.charged()
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Bytes+size > s.Most && !s.known(hash) {
		s.stats.Refused++
		return false
	}
	freed, tries := int64(0), 0
	for old := s.Held.Last; s.Bytes+size-freed > s.Most; {
		if old == nil || tries == evictTries {
			break
		}
		prev := old.Prev
		if old.users.Load() == 1 { // nobody but us, and nobody comes while we hold mu
			freed += old.size
			s.stats.Evictions++
			out = s.evict(old, out)
		} else {
			tries++
		}
		old = prev
	}
	for old := out; old != nil; old = old.Next {
		s.discharge(old) // not only at its release, in a moment
	}
	if s.Bytes+size > s.Most {
		return false
	}
	var ok bool
	if e.Parts, ok = s.Memory.take(e.Length); !ok {
		return false
	}
	e.size = size
	s.charge(size)
	s.trim()
	return true
}

// welcome reports whether reserve would find room for about that many bytes, and notes that the path
// was asked for.
func (s *shard) welcome(size int64, hash uint64) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Bytes+size <= s.Most || size <= s.Most && s.known(hash)
}

// trim gives memory back to the system that entries of another kind need now: larger
// ones take less on the heap. Caller holds mu, which is let go meanwhile.
func (s *shard) trim() {
	m := &s.Memory
	excess := s.Bytes + int64(m.blocks)*BlockBytes - m.Used() - s.Most
	if excess < BlockBytes {
		return
	}
	if part, ok := m.idle(int(excess / BlockBytes)); ok {
		s.Mu.Unlock()
		m.giveBack(part)
		s.Mu.Lock()
		m.rested(part)
	}
}

// charge needs mu.
func (s *shard) charge(n int64) {
	s.Bytes += n
	if n < 0 {
		contents.Release(-n)
	} else {
		contents.Acquire(n)
	}
}

// discharge takes its memory from e, which nobody uses. Caller holds mu.
func (s *shard) discharge(e *Entry) {
	s.Bytes -= e.size
	contents.Release(e.size)
	s.Memory.put(e.Parts)
	e.size, e.Parts = 0, nil
}

// known reports whether the path with this hash was asked for before, not too long ago, and
// notes it. Caller holds mu.
func (s *shard) known(hash uint64) bool {
	if len(s.Seen) == 0 { // a test: everything is welcome
		return true
	}
	at := &s.Seen[hash>>8&uint64(len(s.Seen)-1)]
	mark := uint32(hash>>32) | 1
	was := *at == mark
	*at = mark
	return was
}

// giveBack is discharge for a caller that does not hold mu.
func (e *Entry) giveBack() {
	e.Shard.Mu.Lock()
	e.Shard.discharge(e)
	e.Shard.Mu.Unlock()
}
