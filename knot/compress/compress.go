// Package compress has the content codings of the web for knot.FilesConfig: Brotli (RFC 7932),
// Zstandard (RFC 8878) and gzip (RFC 1952), of files that were compressed beforehand and on the
// fly. It is a package of its own so that programs that do without it don't carry the encoders.
// Its functions may be called from any goroutine.
package compress

import (
	"bytes"
	"io"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/capriccio-go/capriccio/knot"
)

const (
	// brotliQuality is where a higher one begins to cost much more time than it saves bytes; a
	// file is compressed once, and sent often.
	brotliQuality = 5
	// zstdWindow is the most that clients must be able to undo (RFC 9659), in bytes.
	zstdWindow = 8 << 20
)

// Codings are br, zstd and gzip, in this order, with the suffixes .br, .zst and .gz.
func Codings() []knot.Coding {
	all := knot.Precompressed()
	for i := range all {
		switch all[i].Name {
		case "br":
			all[i].Compress = brotliOf
		case "zstd":
			all[i].Compress = zstdOf
		case "gzip":
			all[i].Compress = gzipOf
		}
	}
	return all
}

func brotliOf(src []byte) ([]byte, error) {
	var out bytes.Buffer
	return written(&out, brotli.NewWriterLevel(&out, brotliQuality), src)
}

func gzipOf(src []byte) ([]byte, error) {
	var out bytes.Buffer
	return written(&out, gzip.NewWriter(&out), src)
}

// written returns what w writes to out for src.
func written(out *bytes.Buffer, w io.WriteCloser, src []byte) ([]byte, error) {
	if _, err := w.Write(src); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

var zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true))
})

func zstdOf(src []byte) ([]byte, error) {
	w, err := zstdEncoder()
	if err != nil {
		return nil, err
	}
	return w.EncodeAll(src, nil), nil
}
