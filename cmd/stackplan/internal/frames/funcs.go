package frames

import "fmt"

// maxFrame is the largest frame that is believed; Go limits a stack to 1 GB, and runtime.call1073741824
// is as large as that.
const maxFrame = 1<<30 + 1<<12

// readFuncs reads all functions, but not their calls.
func (t *table) readFuncs(b *Binary) error {
	b.Funcs = make([]Func, 0, t.nfunc)
	var spans []span
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
		size := uint64(end - entry)
		if spans, err = t.pcvalues(raw.fields[fieldPCSP], size, spans); err != nil {
			return fmt.Errorf("%s: frame size: %w", f.Name, err)
		}
		for _, s := range spans {
			if s.value < -maxPops || s.value > maxFrame {
				return fmt.Errorf("%w: %s has a frame of %d bytes", errDamaged, f.Name, s.value)
			}
			f.Frame = max(f.Frame, int(s.value))
		}
		if err := t.readPlaces(&f, &raw, size); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		b.Funcs = append(b.Funcs, f)
	}
	return nil
}

// readPlaces finds out what the source of a function is: its file, and what was inlined.
func (t *table) readPlaces(f *Func, raw *rawFunc, size uint64) error {
	files, err := t.pcvalues(raw.fields[fieldPCFile], size, nil)
	if err != nil {
		return fmt.Errorf("files: %w", err)
	}
	inl, err := t.pcvalues(raw.pcdata(pcdataInlTree), size, nil)
	if err != nil {
		return fmt.Errorf("inlined calls: %w", err)
	}
	if len(files) > 0 {
		f.File = t.file(raw, files[0].value)
	}
	p := places{t: t, f: f, raw: raw, size: size, files: files, index: make(map[int32]int), byFunc: make(map[Inlined]int)}
	if off, ok := raw.funcdata(funcdataInlTree); ok {
		p.tree = t.im.at(t.im.funcdata + uint64(off))
	}
	return p.walk(inl)
}

// places collects the inlined functions of one function.
type places struct {
	t      *table
	f      *Func
	raw    *rawFunc
	size   uint64
	files  []span
	tree   []byte
	index  map[int32]int // position in the tree to index in Func.Inlined
	byFunc map[Inlined]int
}

// walk goes through the code in steps in which neither file nor function changes.
func (p *places) walk(inl []span) error {
	for pc := uint64(0); pc < p.size; pc = min(p.size, endAt(inl, pc), endAt(p.files, pc)) {
		if _, err := p.inlined(valueAt(inl, pc, -1), pc); err != nil {
			return err
		}
	}
	return nil
}

// inlined returns the index in Func.Inlined of a call in the tree of inlined calls,
// which has code at pc, and sees to it that the calls that it stands in are there too.
func (p *places) inlined(call int32, pc uint64) (int, error) {
	if call < 0 {
		return -1, nil
	}
	if at, ok := p.index[call]; ok {
		return at, nil
	}
	const size = 16 // of runtime.inlinedCall
	var fields [4]uint32
	for i := range fields {
		v, ok := u32(p.tree, uint64(call)*size+uint64(i)*4)
		if !ok {
			return 0, fmt.Errorf("%w: inlined call %d", errDamaged, call)
		}
		fields[i] = v
	}
	name, ok := text(p.t.names, fields[1])
	if !ok {
		return 0, fmt.Errorf("%w: name of inlined call %d", errDamaged, call)
	}
	x := Inlined{Name: name, File: p.t.file(p.raw, valueAt(p.files, pc, -1)), StartLine: int(int32(fields[3]))}
	at, ok := p.byFunc[x]
	if !ok {
		at = len(p.f.Inlined)
		p.f.Inlined = append(p.f.Inlined, x)
		p.byFunc[x] = at
	}
	p.index[call] = at
	return at, nil
}

// maxPops is how far above its start assembly may leave the stack pointer for a moment:
// around vfork, the return address is kept in a register.
const maxPops = 64
