package compress

import (
	"bytes"
	"io"
	"sync"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestRoundTrip: what is compressed, by several at a time, comes out as it was, and the same source
// gives the same result.
func TestRoundTrip(t *testing.T) {
	undo := map[string]func(io.Reader) (io.Reader, error){
		"br":   func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil },
		"gzip": func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
		"zstd": func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r, zstd.WithDecoderMaxWindow(zstdWindow)) },
	}
	all := Codings()
	testenv.MustEqual(t, len(all), len(undo), "codings")
	for _, c := range all {
		for _, size := range []int{0, 1, 1000, 3_000_000} {
			src := bytes.Repeat([]byte("Bowline, sheet bend. "), size/21+1)[:size]
			first := testenv.Need(c.Compress(src))(t)
			var workers sync.WaitGroup
			for range 4 {
				workers.Go(func() {
					coded, err := c.Compress(src)
					if err != nil || !bytes.Equal(coded, first) {
						t.Errorf("%s of %d bytes: %d bytes, then %d, %v", c.Name, size, len(first), len(coded), err)
						return
					}
					r, err := undo[c.Name](bytes.NewReader(coded))
					if err != nil {
						t.Error(c.Name, size, err)
						return
					}
					if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, src) {
						t.Errorf("%s of %d bytes: %d bytes, %v", c.Name, size, len(got), err)
					}
				})
			}
			workers.Wait()
			if size > 500 && len(first) > size/4 {
				t.Errorf("%s: %d bytes of %d", c.Name, len(first), size)
			}
		}
	}
}
