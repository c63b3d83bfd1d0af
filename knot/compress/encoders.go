package compress

import (
	"io"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/capriccio-go/capriccio/knot"
)

// Encoders of responses. They have small windows: each is held for as long as the client takes the response.
const (
	// streamBrotli is the quality from which on a higher one takes more time than it saves bytes.
	streamBrotli = 4
	// streamGzip is the level below that at which the time of gzip grows fourfold.
	streamGzip = 5
	// streamWindow is how far back encoders look, in bytes: what responses repeat is near, and memory grows with it.
	streamWindow, streamWindowBits = 256 << 10, 18
)

// An encoderKind makes encoders of one coding.
type encoderKind struct {
	name   string
	memory int64 // that an encoder takes, in bytes, measured
	make   func(out io.Writer) writer
	pool   sync.Pool // of *encoder
}

type writer interface {
	io.WriteCloser
	Flush() error
	Reset(out io.Writer)
}

// encoders are all kinds, best first.
var encoders = [...]*encoderKind{
	{name: "zstd", memory: 1800 << 10, make: func(out io.Writer) writer {
		w, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(streamWindow), zstd.WithLowerEncoderMem(true), zstd.WithZeroFrames(true))
		if err != nil {
			panic(err) // by the options alone
		}
		return w
	}},
	{name: "br", memory: 3000 << 10, make: func(out io.Writer) writer {
		return brotli.NewWriterOptions(out, brotli.WriterOptions{Quality: streamBrotli, LGWin: streamWindowBits})
	}},
	{name: "gzip", memory: 1100 << 10, make: func(out io.Writer) writer {
		w, err := gzip.NewWriterLevel(out, streamGzip)
		if err != nil {
			panic(err)
		}
		return w
	}},
}

// An encoder is a knot.Encoder that is used again. It writes by way of itself, so that what rests in the pool holds no response.
type encoder struct {
	writer
	kind *encoderKind
	of   *compressor
	out  sink
}

type sink struct{ io.Writer }

// start is an encoder that writes to out; nil if there is no memory for it.
func (c *compressor) start(kind *encoderKind, out io.Writer) knot.Encoder {
	if c.memory >= 0 && c.used.Add(kind.memory) > c.memory {
		c.used.Add(-kind.memory)
		return nil
	}
	e, ok := kind.pool.Get().(*encoder)
	if !ok {
		e = &encoder{kind: kind}
		e.writer = kind.make(&e.out)
	}
	e.of, e.out.Writer = c, out
	e.Reset(&e.out)
	return e
}

// Release implements knot.Encoder.
func (e *encoder) Release() {
	if e.of.memory >= 0 {
		e.of.used.Add(-e.kind.memory)
	}
	e.of, e.out.Writer = nil, nil
	e.kind.pool.Put(e)
}
