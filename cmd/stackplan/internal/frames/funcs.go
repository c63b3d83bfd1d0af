package frames

import "fmt"

// maxFrame is the largest frame that is believed; Go limits a stack to 1 GB, and runtime.call1073741824
// is as large as that.
const maxFrame = 1<<30 + 1<<12

// maxPops is how far above its start assembly may leave the stack pointer for a moment:
// around vfork, the return address is kept in a register.
const maxPops = 64

// readFuncs reads all functions with their calls.
func (t *table) readFuncs(b *Binary) error {
	b.Funcs = make([]Func, 0, t.nfunc)
	raws := make([]rawFunc, 0, t.nfunc)
	for i := range t.nfunc {
		entry, _ := u32(t.funcs, 8*i)
		off, _ := u32(t.funcs, 8*i+4)
		end, ok := u32(t.funcs, 8*i+8)
		if !ok || end < entry {
			return fmt.Errorf("%w: function %d ends before it begins", errDamaged, i)
		}
		raw, err := t.raw(off)
		if err != nil {
			return err
		}
		if raw.fields[fieldEntry] != entry {
			return fmt.Errorf("%w: function %d is at %#x and at %#x", errDamaged, i, entry, raw.fields[fieldEntry])
		}
		f := Func{
			Entry:     t.im.text + uint64(entry),
			End:       t.im.text + uint64(end),
			StartLine: int(int32(raw.fields[fieldStartLine])),
			Asm:       raw.asm(),
		}
		if f.Name, ok = text(t.names, raw.fields[fieldName]); !ok {
			return fmt.Errorf("%w: the name of function %d", errDamaged, i)
		}
		b.Funcs, raws = append(b.Funcs, f), append(raws, raw)
	}
	r := newReader(b, t)
	for i := range b.Funcs {
		if err := r.read(i, raws[i]); err != nil {
			return fmt.Errorf("%s: %w", b.Funcs[i].Name, err)
		}
	}
	return nil
}

// A reader reads what the tables and the code say of one function after the other.
type reader struct {
	b       *Binary
	t       *table
	entries map[uint64]int
	duff    map[int]bool // functions that are entered in the middle

	at                    int // index of the function
	f                     *Func
	raw                   rawFunc
	sp, files, lines, inl []span
	tree                  []byte          // of inlined calls
	index                 map[int32]int   // position in the tree to index in Func.Inlined
	byFunc                map[Inlined]int // the same, by function
}

func newReader(b *Binary, t *table) *reader {
	r := &reader{b: b, t: t, entries: make(map[uint64]int, len(b.Funcs)), duff: make(map[int]bool)}
	for i := range b.Funcs {
		r.entries[b.Funcs[i].Entry] = i
		if n := b.Funcs[i].Name; n == "runtime.duffzero" || n == "runtime.duffcopy" {
			r.duff[i] = true
		}
	}
	return r
}

func (r *reader) read(i int, raw rawFunc) (err error) {
	r.at, r.f, r.raw = i, &r.b.Funcs[i], raw
	size := r.f.End - r.f.Entry
	for _, table := range []struct {
		of   string
		off  uint32
		into *[]span
	}{
		{"frame sizes", raw.fields[fieldPCSP], &r.sp},
		{"files", raw.fields[fieldPCFile], &r.files},
		{"lines", raw.fields[fieldPCLine], &r.lines},
		{"inlined calls", raw.pcdata(pcdataInlTree), &r.inl},
	} {
		if *table.into, err = r.t.pcvalues(table.off, size, *table.into); err != nil {
			return fmt.Errorf("%s: %w", table.of, err)
		}
	}
	for _, s := range r.sp {
		if s.value < -maxPops || s.value > maxFrame {
			return fmt.Errorf("%w: a frame of %d bytes", errDamaged, s.value)
		}
		r.f.Frame = max(r.f.Frame, int(s.value))
	}
	if len(r.files) > 0 {
		r.f.File = r.t.file(&r.raw, r.files[0].value)
	}
	if err := r.readInlined(size); err != nil {
		return err
	}
	code := r.t.im.at(r.f.Entry)
	code = code[:min(size, uint64(len(code)))]
	if r.b.Arch == "amd64" {
		r.amd64(code)
	} else {
		r.arm64(code)
	}
	return nil
}

// readInlined lists the functions that have code in this one. It goes through the code in steps in which neither file
// nor function changes.
func (r *reader) readInlined(size uint64) error {
	r.index, r.byFunc, r.tree = make(map[int32]int), make(map[Inlined]int), nil
	if off, ok := r.raw.funcdata(funcdataInlTree); ok {
		r.tree = r.t.im.at(r.t.im.funcdata + uint64(off))
	}
	for pc := uint64(0); pc < size; pc = min(size, endAt(r.inl, pc), endAt(r.files, pc)) {
		call := valueAt(r.inl, pc, -1)
		if _, known := r.index[call]; call < 0 || known {
			continue
		}
		const size = 16 // of runtime.inlinedCall
		at := uint64(call) * size
		nameAt, _ := u32(r.tree, at+4)
		line, ok := u32(r.tree, at+12)
		if !ok {
			return fmt.Errorf("%w: inlined call %d", errDamaged, call)
		}
		name, ok := text(r.t.names, nameAt)
		if !ok {
			return fmt.Errorf("%w: name of inlined call %d", errDamaged, call)
		}
		x := Inlined{Name: name, File: r.t.file(&r.raw, valueAt(r.files, pc, -1)), StartLine: int(int32(line))}
		if _, known := r.byFunc[x]; !known {
			r.byFunc[x] = len(r.f.Inlined)
			r.f.Inlined = append(r.f.Inlined, x)
		}
		r.index[call] = r.byFunc[x]
	}
	return nil
}
