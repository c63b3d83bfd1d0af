package frames

import "encoding/binary"

// amd64 tries each byte as an instruction.
func (r *reader) amd64(code []byte) {
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
		next := r.f.Entry + uint64(at) + 5
		r.found(uint64(i), next+uint64(int64(int32(binary.LittleEndian.Uint32(code[at+1:])))), tail, 8)
	}
}

// arm64 decodes B, B.cond, CBZ, CBNZ, TBZ, TBNZ and BL.
func (r *reader) arm64(code []byte) {
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
		r.found(uint64(i), r.f.Entry+uint64(i)+uint64(offset), tail, 0)
	}
}

// found notes a call or jump at pc, counted from the entry, to an address, if that is a
// function's. A call pushes this many bytes.
func (r *reader) found(pc, target uint64, tail bool, push int) {
	to, ok := r.entries[target]
	if !ok {
		to = r.b.find(target)
		// Assembly has few names for entries in the middle besides these two.
		if to < 0 || !r.duff[to] {
			return
		}
	}
	if tail {
		push = 0
		if to == r.at {
			return // a loop
		}
	}
	c := Call{Target: to, In: -1, Depth: int(valueAt(r.sp, pc, int32(r.f.Frame))) + push, Line: int(valueAt(r.lines, pc, 0))}
	if call := valueAt(r.inl, pc, -1); call >= 0 {
		c.In = r.index[call]
	}
	r.f.Calls = append(r.f.Calls, c)
}
