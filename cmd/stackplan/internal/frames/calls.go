package frames

import "encoding/binary"

// findCalls finds the direct calls of all functions.
func (b *Binary) findCalls(t *table) {
	entries := make(map[uint64]int, len(b.Funcs))
	for i := range b.Funcs {
		entries[b.Funcs[i].Entry] = i
	}
	s := scanner{b: b, t: t, entries: entries, duff: make(map[int]bool)}
	for i := range b.Funcs {
		if n := b.Funcs[i].Name; n == "runtime.duffzero" || n == "runtime.duffcopy" {
			s.duff[i] = true
		}
	}
	for i := range b.Funcs {
		code := t.im.at(b.Funcs[i].Entry)
		size := b.Funcs[i].End - b.Funcs[i].Entry
		code = code[:min(size, uint64(len(code)))]
		s.begin(i, size)
		if b.Arch == "amd64" {
			s.amd64(code)
		} else {
			s.arm64(code)
		}
	}
}

// A scanner looks for calls in one function after the other.
type scanner struct {
	b       *Binary
	t       *table
	entries map[uint64]int
	duff    map[int]bool // functions that are entered in the middle

	at             int // index of the function
	f              *Func
	raw            rawFunc
	sp, lines, inl []span
	files          []span
}

func (s *scanner) begin(i int, size uint64) {
	s.at, s.f = i, &s.b.Funcs[i]
	off, _ := u32(s.t.funcs, 8*uint64(i)+4)
	// readFuncs has decoded the same tables without an error.
	s.raw, _ = s.t.raw(off)
	s.sp, _ = s.t.pcvalues(s.raw.fields[fieldPCSP], size, s.sp)
	s.lines, _ = s.t.pcvalues(s.raw.fields[fieldPCLine], size, s.lines)
	s.inl, _ = s.t.pcvalues(s.raw.pcdata(pcdataInlTree), size, s.inl)
	s.files, _ = s.t.pcvalues(s.raw.fields[fieldPCFile], size, s.files)
}

// amd64 tries each byte as an instruction.
func (s *scanner) amd64(code []byte) {
	for i := 0; i+5 <= len(code); i++ {
		at, tail := i, true
		switch c := code[i]; {
		case c == 0xe8:
			tail = false
		case c == 0xe9:
		case c == 0x0f && code[i+1]&0xf0 == 0x80 && i+6 <= len(code):
			at++
		default:
			continue
		}
		next := s.f.Entry + uint64(at) + 5
		s.found(uint64(i), next+uint64(int64(int32(binary.LittleEndian.Uint32(code[at+1:])))), tail, 8)
	}
}

// arm64 decodes B, B.cond, CBZ, CBNZ, TBZ, TBNZ and BL.
func (s *scanner) arm64(code []byte) {
	for i := 0; i+4 <= len(code); i += 4 {
		w := binary.LittleEndian.Uint32(code[i:])
		var offset int64
		tail := true
		switch {
		case w>>26 == 0b100101: // BL
			offset, tail = int64(int32(w<<6)>>6)*4, false
		case w>>26 == 0b000101: // B
			offset = int64(int32(w<<6)>>6) * 4
		case w>>24 == 0b01010100, w>>25&0x3f == 0b011010: // B.cond, CBZ, CBNZ
			offset = int64(int32(w<<8)>>13) * 4
		case w>>25&0x3f == 0b011011: // TBZ, TBNZ
			offset = int64(int32(w<<13)>>18) * 4
		default:
			continue
		}
		s.found(uint64(i), s.f.Entry+uint64(i)+uint64(offset), tail, 0)
	}
}

// found notes a call or jump at pc, counted from the entry, to an address, if that is a
// function's. A call pushes this many bytes.
func (s *scanner) found(pc, target uint64, tail bool, push int) {
	to, ok := s.entries[target]
	if !ok {
		to = s.b.Find(target)
		// Assembly has few names for entries in the middle besides these two.
		if to < 0 || !s.duff[to] {
			return
		}
	}
	if tail && to == s.at {
		return // a loop
	}
	if tail {
		push = 0
	}
	c := Call{Target: to, In: -1}
	c.Depth = int(valueAt(s.sp, pc, int32(s.f.Frame))) + push
	c.Line = int(valueAt(s.lines, pc, 0))
	if call := valueAt(s.inl, pc, -1); call >= 0 {
		c.In = s.inlinedIndex(call, pc)
	}
	s.f.Calls = append(s.f.Calls, c)
}

// inlinedIndex finds the function of an inlined call again in Func.Inlined.
func (s *scanner) inlinedIndex(call int32, pc uint64) int {
	p := places{t: s.t, f: &Func{}, raw: &s.raw, files: s.files, index: map[int32]int{}, byFunc: map[Inlined]int{}}
	if off, ok := s.raw.funcdata(funcdataInlTree); ok {
		p.tree = s.t.im.at(s.t.im.funcdata + uint64(off))
	}
	if _, err := p.inlined(call, pc); err != nil {
		return -1
	}
	for i, x := range s.f.Inlined {
		if x == p.f.Inlined[0] {
			return i
		}
	}
	return -1
}
