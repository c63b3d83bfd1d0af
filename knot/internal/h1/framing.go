package h1

import (
	"bytes"
	"slices"
	"strconv"
)

const (
	// MaxChunkLine bounds a chunk size with its extensions, in bytes.
	MaxChunkLine = 1024
	// maxChunkDigits keeps a chunk size inside int64.
	maxChunkDigits = 15
	// chunkAllowance is what each chunk may take for its framing, in bytes, besides twice
	// what it carries. maxWaste bounds the sum of what chunks take beyond that, which is
	// extensions that are not read. net/http has the same rule.
	chunkAllowance = 16
	maxWaste       = 16 << 10
)

// bodyPhase is where the reader of a request body stands:
//
//	            Content-Length: data ─────────────────────────┐
//	chunked: size ─→ data ─→ dataEnd ─→ size ... ─→ trailer ─→ done
type bodyPhase uint8

const (
	BodyDone bodyPhase = iota
	BodyData
	BodySize
	BodyDataEnd
	BodyTrailer
)

// Framing is how far a body has been taken out of its framing. Every field is loop-private.
type Framing struct {
	Left    int64 // bytes left of the body or of the current chunk
	Read    int64 // bytes taken so far
	Framed  int64 // bytes of chunked framing so far
	waste   int64 // those of them that no honest client needs
	Trailer int   // bytes of trailer lines so far
	Phase   bodyPhase
	Chunked bool
	lenient bool // the sender is a backend: LF alone ends a line, and blanks may follow a size
}

func (b *Framing) Took(n int) {
	b.Left -= int64(n)
	b.Read += int64(n)
	if b.Left > 0 {
		return
	}
	b.Phase = BodyDone
	if b.Chunked {
		b.Phase = BodyDataEnd
	}
}

// Step takes a line of chunked framing; its CR LF, or LF, still follows it in the buffer. A line of the trailer is returned.
func (b *Framing) Step(line []byte, maxBody int64) (name, value []byte, f *Fault) {
	b.Framed += int64(len(line)) + 2
	switch b.Phase {
	case BodyDataEnd:
		if len(line) != 0 {
			return nil, nil, BadChunk
		}
		b.Phase = BodySize
	case BodySize:
		if b.lenient {
			line = bytes.TrimRight(line, " \t")
		}
		size, f := ChunkSize(line)
		if f != nil {
			return nil, nil, f
		}
		if size > maxBody-b.Read {
			return nil, nil, BodyTooLarge
		}
		b.waste = max(0, b.waste+int64(len(line))+4-chunkAllowance-min(2*size, maxWaste))
		if b.waste > maxWaste {
			return nil, nil, tooMuchFraming
		}
		b.Left, b.Phase = size, BodyData
		if size == 0 {
			b.Phase = BodyTrailer
		}
	case BodyTrailer:
		if len(line) == 0 {
			b.Phase = BodyDone
			return nil, nil, nil
		}
		b.Trailer += len(line) + 2
		whole := line[:len(line)+1]
		if whole[len(line)] == '\r' {
			whole = line[:len(line)+2]
		}
		one, _, f := scanField(whole, 0, b.lenient)
		if f != nil {
			return nil, nil, badTrailer
		}
		return one.Name.Of(line), one.Value.Of(line), nil
	}
	return nil, nil, nil
}

// ChunkSize reads the size before any extension (RFC 9112, 7.1).
func ChunkSize(line []byte) (int64, *Fault) {
	size, i := int64(0), 0
	for ; i < len(line); i++ {
		digit := HexValue(line[i])
		if digit < 0 {
			break
		}
		if i == maxChunkDigits {
			return 0, BadChunk
		}
		size = size<<4 | int64(digit)
	}
	if i == 0 {
		return 0, BadChunk
	}
	if !chunkExtensions(line[i:]) {
		return 0, BadChunk
	}
	return size, nil
}

// MaxTrailer is how large the trailer of a request may be, in bytes.
const MaxTrailer = 32 << 10

// AppendChunkHead appends what stands before the data of a chunk.
func AppendChunkHead(out []byte, size int) []byte {
	return append(strconv.AppendInt(out, int64(size), 16), "\r\n"...)
}

// ExtendChunk appends p to the chunk with so many bytes of data that out ends with, within the capacity of out. It reports
// whether it did.
func ExtendChunk(out []byte, chunk int, p []byte) ([]byte, bool) {
	if chunk == 0 {
		return out, false
	}
	var digits, before [16]byte
	size := strconv.AppendInt(digits[:0], int64(chunk+len(p)), 16)
	old := len(strconv.AppendInt(before[:0], int64(chunk), 16))
	if len(out)+len(p)+len(size)-old > cap(out) {
		return out, false
	}
	body := len(out) - chunk - 2
	out = append(out[:len(out)-2], p...)
	if at := body - 2 - old; len(size) == old {
		copy(out[at:], size)
	} else {
		out = slices.Replace(out, at, body-2, size...)
	}
	return append(out, "\r\n"...), true
}
