package h2

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

var errParts = errors.New("knot: a response that is none")

// responseParts takes a response apart that Ctx has written:
//
//	head ─→ fixed | size ─→ chunk ─→ chunkEnd ─→ size ... ─→ trailer ─→ done
//	 ↑────┘ informational
type responseParts struct {
	st      *Stream
	phase   partsPhase
	line    []byte // of a head, or a line of framing, what has come
	left    int64  // bytes of the body, or the chunk
	trailer []byte
}

type partsPhase uint8

const (
	partsHead partsPhase = iota
	partsFixed
	partsSize
	partsChunk
	partsChunkEnd
	partsTrailer
	partsDone
)

func (r *responseParts) write(p []byte) error {
	for len(p) > 0 {
		switch r.phase {
		case partsHead:
			text := p
			if len(r.line) > 0 {
				r.line = append(r.line, p...)
				text = r.line
			}
			end := bytes.Index(text, []byte("\r\n\r\n"))
			if end < 0 {
				if len(r.line) == 0 {
					r.line = append(r.line, p...)
				}
				return nil
			}
			p = p[len(p)-(len(text)-end-4):]
			if err := r.head(text[:end+2]); err != nil {
				return err
			}
			r.line = r.line[:0]
		case partsFixed, partsChunk:
			n := int(min(int64(len(p)), r.left))
			if err := r.st.sendData(p[:n], int64(n) == r.left && r.phase == partsFixed); err != nil {
				return err
			}
			p = p[n:]
			r.passed(n)
		case partsDone:
			return errParts
		default:
			i := bytes.IndexByte(p, '\n')
			if i < 0 {
				r.line = append(r.line, p...)
				return nil
			}
			r.line = append(r.line, p[:i+1]...)
			p = p[i+1:]
			if err := r.framing(bytes.TrimSuffix(r.line, []byte("\r\n"))); err != nil {
				return err
			}
			r.line = r.line[:0]
		}
	}
	return nil
}

// passed counts n bytes of the body.
func (r *responseParts) passed(n int) {
	switch r.left -= int64(n); {
	case r.left > 0:
	case r.phase == partsFixed:
		r.phase = partsDone
	default:
		r.phase = partsChunkEnd
	}
}

// framing takes a line of chunked framing.
func (r *responseParts) framing(line []byte) error {
	switch r.phase {
	case partsChunkEnd:
		r.phase = partsSize
	case partsSize:
		size, f := h1.ChunkSize(line)
		if f != nil {
			return f
		}
		r.left, r.phase = size, partsChunk
		if size == 0 {
			r.phase = partsTrailer
		}
	case partsTrailer:
		if len(line) > 0 {
			r.trailer = append(append(r.trailer, line...), "\r\n"...)
			break
		}
		r.phase = partsDone
		if len(r.trailer) == 0 {
			return r.st.sendData(nil, true)
		}
		return r.st.sendHead(0, r.trailer, true)
	}
	return nil
}

// head takes the head of a response, with a CR LF behind each line.
func (r *responseParts) head(text []byte) error {
	if len(text) < len("HTTP/1.1 200") {
		return errParts
	}
	status, err := strconv.Atoi(string(text[9:12]))
	if err != nil || status < 100 {
		return errParts
	}
	r.phase = partsDone
	if status < 200 {
		r.phase = partsHead
	} else if !h1.Bodyless(status) && !r.st.headOnly {
		if r.phase, err = r.bodyOf(text); err != nil {
			return err
		}
	}
	return r.st.sendHead(status, text, r.phase == partsDone)
}

// bodyOf reports how the body begins that follows.
func (r *responseParts) bodyOf(text []byte) (partsPhase, error) {
	_, text, _ = bytes.Cut(text, []byte("\r\n"))
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\r\n"))
		switch name, value, _ := bytes.Cut(line, []byte(": ")); {
		case h1.TokenIs(name, "transfer-encoding"):
			return partsSize, nil
		case h1.TokenIs(name, "content-length"):
			length, err := strconv.ParseInt(string(value), 10, 64)
			if err != nil || length < 0 {
				return partsDone, errParts
			}
			if r.left = length; length > 0 {
				return partsFixed, nil
			}
			return partsDone, nil
		}
	}
	return partsDone, nil
}
