package frames

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sort"
)

// A table is Go's table of functions and program counters, see runtime/symtab.go and
// golang.org/s/go12symtab; the layout is that since Go 1.20.
type table struct {
	im      *image
	quantum uint64 // of program counters
	nfunc   uint64
	names   []byte
	cu      []byte
	files   []byte
	pcs     []byte
	funcs   []byte // starts with the index

	fileNames map[uint32]string
}

// errDamaged is the reason for every offset that leads out of its table.
var errDamaged = errors.New("damaged table of functions")

const magic120 = 0xfffffff1

func newTable(im *image, data []byte) (*table, error) {
	const header = 8 + 8*8
	if len(data) < header {
		return nil, fmt.Errorf("%w: it has %d bytes only", errDamaged, len(data))
	}
	if magic := binary.LittleEndian.Uint32(data); magic != magic120 {
		return nil, fmt.Errorf("the table of functions has the unknown format %#x; known is that of Go 1.20 to 1.26, %#x", magic, uint32(magic120))
	}
	if data[6] != 1 && data[6] != 4 || data[7] != 8 {
		return nil, fmt.Errorf("%w: instruction size %d, pointer size %d", errDamaged, data[6], data[7])
	}
	t := &table{im: im, quantum: uint64(data[6]), fileNames: make(map[uint32]string)}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(data[8+8*i:]) }
	t.nfunc = word(0)
	for i, part := range []*[]byte{&t.names, &t.cu, &t.files, &t.pcs, &t.funcs} {
		off := word(3 + i)
		if off > uint64(len(data)) {
			return nil, fmt.Errorf("%w: part %d is at %#x of %#x", errDamaged, i, off, len(data))
		}
		*part = data[off:]
	}
	if t.nfunc > maxFuncs || (t.nfunc*2+1)*4 > uint64(len(t.funcs)) {
		return nil, fmt.Errorf("%w: %d functions", errDamaged, t.nfunc)
	}
	return t, nil
}

// u32 reads the aligned or unaligned word at off; ok is false if there is none.
func u32(b []byte, off uint64) (v uint32, ok bool) {
	if off > uint64(len(b)) || uint64(len(b))-off < 4 {
		return 0, false
	}
	return binary.LittleEndian.Uint32(b[off:]), true
}

func text(b []byte, off uint32) (string, bool) {
	if uint64(off) >= uint64(len(b)) {
		return "", false
	}
	b = b[off:]
	for i, c := range b[:min(len(b), math.MaxUint16)] {
		if c == 0 {
			return string(b[:i]), true
		}
	}
	return "", false
}

// A rawFunc is a runtime._func.
type rawFunc struct {
	fields [11]uint32
	data   []byte // starts with the struct
}

// The fields of rawFunc that are used.
const (
	fieldEntry = iota
	fieldName
	_
	_
	fieldPCSP
	fieldPCFile
	fieldPCLine
	fieldNPCData
	fieldCU
	fieldStartLine
	fieldFlags
	fieldCount
)

const (
	pcdataInlTree   = 2
	funcdataInlTree = 3
	flagAsm         = 1 << 2
)

func (t *table) raw(off uint32) (f rawFunc, err error) {
	if uint64(off) >= uint64(len(t.funcs)) {
		return f, fmt.Errorf("%w: a function at %#x", errDamaged, off)
	}
	f.data = t.funcs[off:]
	if len(f.data) < 4*fieldCount {
		return f, fmt.Errorf("%w: a function at %#x", errDamaged, off)
	}
	for i := range f.fields {
		f.fields[i] = binary.LittleEndian.Uint32(f.data[4*i:])
	}
	return f, nil
}

func (f *rawFunc) asm() bool { return f.fields[fieldFlags]>>8&flagAsm != 0 }

// pcdata is the offset of one of the function's tables, 0 if it has none.
func (f *rawFunc) pcdata(which uint32) uint32 {
	if which >= f.fields[fieldNPCData] {
		return 0
	}
	v, _ := u32(f.data, 4*(fieldCount+uint64(which)))
	return v
}

// funcdata is the offset of one of the function's data, ok is false if it has none.
func (f *rawFunc) funcdata(which uint32) (uint32, bool) {
	if which >= f.fields[fieldFlags]>>24 {
		return 0, false
	}
	v, ok := u32(f.data, 4*(fieldCount+uint64(f.fields[fieldNPCData])+uint64(which)))
	return v, ok && v != math.MaxUint32
}

// A span means that a value holds up to a program counter, counted from the entry.
type span struct {
	end   uint64
	value int32
}

// pcvalues decodes a table of values by program counter: pairs of a zigzag-coded
// change of the value and a length, as varints, ended by a change of 0.
func (t *table) pcvalues(off uint32, size uint64, into []span) ([]span, error) {
	into = into[:0]
	if off == 0 {
		return into, nil
	}
	if uint64(off) >= uint64(len(t.pcs)) {
		return into, fmt.Errorf("%w: values at %#x", errDamaged, off)
	}
	p := t.pcs[off:]
	value, pc := int32(-1), uint64(0)
	for first := true; pc < size; first = false {
		change, n := binary.Uvarint(p)
		if n <= 0 || change > math.MaxUint32 {
			return into, fmt.Errorf("%w: values at %#x", errDamaged, off)
		}
		if change == 0 && !first {
			break
		}
		p = p[n:]
		value += int32(uint32(change)>>1) ^ -int32(uint32(change)&1)
		length, n := binary.Uvarint(p)
		if n <= 0 || length == 0 || length > math.MaxUint32 {
			return into, fmt.Errorf("%w: values at %#x", errDamaged, off)
		}
		p = p[n:]
		pc += length * t.quantum
		into = append(into, span{end: pc, value: value})
	}
	return into, nil
}

// at is the index of the span that holds at pc, len(spans) if there is none.
func at(spans []span, pc uint64) int {
	return sort.Search(len(spans), func(i int) bool { return spans[i].end > pc })
}

// valueAt is the value at pc, none if the table does not say.
func valueAt(spans []span, pc uint64, none int32) int32 {
	if i := at(spans, pc); i < len(spans) {
		return spans[i].value
	}
	return none
}

// endAt is where the span at pc ends, more than any pc if there is none.
func endAt(spans []span, pc uint64) uint64 {
	if i := at(spans, pc); i < len(spans) {
		return spans[i].end
	}
	return math.MaxUint64
}

// file is the name of a function's file with a number.
func (t *table) file(f *rawFunc, number int32) string {
	if number < 0 {
		return ""
	}
	off, ok := u32(t.cu, (uint64(f.fields[fieldCU])+uint64(number))*4)
	if !ok || off == math.MaxUint32 {
		return ""
	}
	name, ok := t.fileNames[off]
	if !ok {
		if name, ok = text(t.files, off); ok && name == "<autogenerated>" {
			name = ""
		}
		t.fileNames[off] = name
	}
	return name
}
