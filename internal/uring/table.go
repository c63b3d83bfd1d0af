//go:build linux

package uring

// A Completer takes the completions of a request. It is called on the loop, from Reap,
// Wait or Close, and must not call those; Entry, Track and Cancel it may. res is what the
// system call would have returned, or minus the errno. If flags has CQEFMore, further
// completions follow.
type Completer interface {
	Complete(res int32, flags uint32)
}

// A Token stands for a request from Track until its last completion. It is never 0. It
// carries the generation of its place in the table, so that neither a completion nor a
// Cancel that comes too late can meet the next request in the same place.
type Token uint64

// A table finds the Completer of a token. It keeps it referenced, and with it the memory
// that the kernel uses. Loop-private. It grows to the largest number of requests that
// were in flight at once and keeps 24 bytes for each.
type table struct {
	slots []slot
	free  uint32 // first free slot plus one; 0: none
	used  int    // slots with a Completer
}

// slot belongs to one request at a time:
//
//	      put: generation+1             last completion
//	free ───────────────────▶ in flight ────────────────▶ free
type slot struct {
	c          Completer // nil: free
	generation uint32
	next       uint32 // of a free slot: the next free one plus one; 0: none
}

// put finds a place for c.
func (t *table) put(c Completer) Token {
	if t.free == 0 {
		t.slots = append(t.slots, slot{})
		t.free = uint32(len(t.slots))
	}
	i := t.free - 1
	s := &t.slots[i]
	t.free = s.next
	if s.generation++; s.generation == 0 {
		s.generation = 1
	}
	s.c = c
	t.used++
	return Token(s.generation)<<32 | Token(i)
}

// find returns the slot of a token in flight, or nil.
func (t *table) find(k Token) *slot {
	i := uint32(k)
	if int64(i) >= int64(len(t.slots)) {
		return nil
	}
	if s := &t.slots[i]; s.c != nil && s.generation == uint32(k>>32) {
		return s
	}
	return nil
}

// take returns the Completer of a token, nil if it is not in flight, and frees its place
// if last.
func (t *table) take(k Token, last bool) Completer {
	s := t.find(k)
	if s == nil {
		return nil
	}
	c := s.c
	if last {
		s.c = nil
		s.next = t.free
		t.free = uint32(k) + 1
		t.used--
	}
	return c
}

// tokens are those in flight.
func (t *table) tokens() (list []Token) {
	for i := range t.slots {
		if s := &t.slots[i]; s.c != nil {
			list = append(list, Token(s.generation)<<32|Token(i))
		}
	}
	return list
}
