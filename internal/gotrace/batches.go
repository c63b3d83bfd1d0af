package gotrace

import (
	"bufio"
	"io"
)

// A batchReader reads a trace for package trace, which keeps a generation in memory, each batch in a buffer
// of its size. It looks for an end behind it, and doubles the buffer for that. So here each batch
// ends with io.EOF, and the next Read goes on behind it.
//
// Input that does not look like batches, as traces of Go 1.21 and older do not, is handed on as it is.
type batchReader struct {
	in    *bufio.Reader
	head  []byte // of buf; not handed on yet: the header of the trace, or of a batch
	buf   [64]byte
	left  int  // of a batch, behind its header
	begun bool // the header of the trace has been read
	plain bool
}

// Of traces since Go 1.22, see package internal/trace/tracev2 of the standard library: what a batch
// and the end of a generation begin with, and how long the first can be.
const (
	eventBatch      = 1
	endOfGeneration = 52
	maxBatch        = 64 << 10
)

// directRead is from which length on package bufio reads into the caller's memory. It is with such reads
// only that it hands on an error without keeping it.
const directRead = 4096

func (b *batchReader) Read(p []byte) (n int, err error) {
	if len(b.head) == 0 && b.left == 0 && !b.plain {
		b.next()
	}
	switch {
	case len(b.head) > 0:
		n = copy(p, b.head)
		b.head = b.head[n:]
		return n, nil
	case b.plain:
		return b.in.Read(p)
	case len(p) == b.left && b.left > directRead:
		n, err = io.ReadFull(b.in, p)
		if err == nil {
			err = io.EOF
		}
	default:
		n, err = b.in.Read(p[:min(len(p), b.left)])
	}
	b.left -= n
	return n, err
}

// next reads the next header, or as much as there is of it.
func (b *batchReader) next() {
	b.head = b.buf[:0]
	if !b.begun {
		b.begun = true
		n, _ := io.ReadFull(b.in, b.buf[:16])
		b.head = b.buf[:n]
		b.plain = !IsTrace(b.head) || string(b.head[:7]) < "go 1.22"
		return
	}
	value, shift, values := uint64(0), 0, 0
	for {
		c, err := b.in.ReadByte()
		if err != nil {
			b.plain = true
			return
		}
		b.head = append(b.head, c)
		if len(b.head) == 1 {
			if b.plain = c != eventBatch && c != endOfGeneration; c != eventBatch {
				return
			}
			continue
		}
		if value |= uint64(c&0x7f) << shift; c >= 0x80 {
			if shift += 7; shift > 63 {
				b.plain = true
				return
			}
			continue
		}
		if values++; values == 4 { // the generation, the thread, the time, and the length
			if b.plain = value > maxBatch; !b.plain {
				b.left = int(value)
			}
			return
		}
		value, shift = 0, 0
	}
}
