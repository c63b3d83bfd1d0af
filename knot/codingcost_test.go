package knot

import (
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/store"
)

// What compression on the fly may cost.

// TestCompressionThatDoesNotPay is not tried again, nor one that fails.
func TestCompressionThatDoesNotPay(t *testing.T) {
	settleFiles(t)
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "a.css"), strings.Repeat("plain ", 1000))
	for name, compress := range map[string]func(src []byte) ([]byte, error){
		"dull":  func(src []byte) ([]byte, error) { return src[:len(src)-len(src)/32], nil },
		"fails": func(src []byte) ([]byte, error) { return nil, errors.New("no") },
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			f := openWith(t, root, FilesConfig{Codings: []Coding{{Name: "gzip", Compress: func(src []byte) ([]byte, error) { n++; return compress(src) }}}})
			for range 3 {
				if answer := askFile(f, "/a.css", "Accept-Encoding: gzip\r\n"); headerOf(answer, "Content-Encoding") != "" || len(bodyOf(answer)) != 6000 {
					t.Errorf("%.300q", answer)
				}
			}
			testenv.Equal(t, n, 1, "tried N times")
		})
	}
}

// TestCompressionIsBounded: while as many compress as may, others get the file as it is.
func TestCompressionIsBounded(t *testing.T) {
	settleFiles(t)
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "a.css"), strings.Repeat("plain ", 1000))
	var count atomic.Int32
	f := openWith(t, root, FilesConfig{Codings: []Coding{squeeze("gzip", &count)}})
	store.Compressing.Acquire(store.MostCompressing)
	if answer := askFile(f, "/a.css", "Accept-Encoding: gzip\r\n"); len(bodyOf(answer)) != 6000 || count.Load() != 0 {
		t.Errorf("%.300q", answer)
	}
	store.Compressing.Release(store.MostCompressing)
	if answer := askFile(f, "/a.css", "Accept-Encoding: gzip\r\n"); bodyOf(answer) != "gzip of 6000 bytes" {
		t.Errorf("%.300q", answer)
	}
}

// TestCompressionIsBoundedForAllSites: each has a Files of its own, and the processors are the same.
func TestCompressionIsBoundedForAllSites(t *testing.T) {
	settleFiles(t)
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "a.css"), strings.Repeat("plain ", 1000))
	var sites []*Files
	made := 0
	ask := func() {
		if len(sites) > 0 {
			f := sites[0]
			sites = sites[1:]
			askFile(f, "/a.css", "Accept-Encoding: gzip\r\n")
		}
	}
	// Each site is asked while those before it compress.
	gzip := Coding{Name: "gzip", Compress: func([]byte) ([]byte, error) { made++; ask(); return []byte("coded"), nil }}
	for range store.MostCompressing + 3 {
		sites = append(sites, openWith(t, root, FilesConfig{CacheBytes: 1 << 20, Codings: []Coding{gzip}}))
	}
	ask()
	testenv.Equal(t, int64(made), store.MostCompressing, "%d compress at a time", made)
}

// TestCompressionThatDoesNotFit into the cache, though the welcome was for less, is not made again for every request.
func TestCompressionThatDoesNotFit(t *testing.T) {
	settleFiles(t)
	root := t.TempDir()
	const size = 400_000
	writeFile(t, filepath.Join(root, "a.css"), strings.Repeat("plain   ", size/8))
	made := 0
	most := func(src []byte) ([]byte, error) { made++; return src[:3*len(src)/4], nil }
	codings := []Coding{{Name: "br", Compress: most}, {Name: "gzip", Compress: most}}
	f := openWith(t, root, FilesConfig{CacheBytes: 256 << 10, CacheFileMax: 8 << 10, OpenFiles: 16, Codings: codings})
	for range 3 {
		if answer := askFile(f, "/a.css", "Accept-Encoding: br, gzip\r\n"); headerOf(answer, "Content-Encoding") != "" || len(bodyOf(answer)) != size {
			t.Errorf("%.300q", answer)
		}
	}
	if made != len(codings) {
		t.Errorf("made %d times, want once with each coding", made)
	}
	checkCache(t, f)
}
