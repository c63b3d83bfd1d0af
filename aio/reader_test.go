//go:build linux

package aio

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestReaderAndFS(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		want := content(70_001)
		name := scratch(t, want)
		f, err := Open(name)
		must(t, err)
		defer f.Close()
		testenv.Check(t, iotest.TestReader(f, want))
		_, err = f.Seek(0, io.SeekStart)
		must(t, err)
		var b bytes.Buffer
		n, err := io.Copy(&b, f)
		if err != nil || n != int64(len(want)) || !bytes.Equal(b.Bytes(), want) {
			t.Errorf("copied %d bytes, %v; want %d", n, err, len(want))
		}
	})
}

func TestFS(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		dir := t.TempDir()
		must(t, MkdirAll(filepath.Join(dir, "a/b/c"), 0o755))
		var names []string
		for _, n := range []string{"one", "a/two", "a/b/three", "a/b/c/four"} {
			must(t, WriteFile(filepath.Join(dir, n), []byte(n), 0o644))
			names = append(names, n)
		}
		must(t, os.Symlink("one", filepath.Join(dir, "link")))
		testenv.Check(t, fstest.TestFS(DirFS(dir), names...))
	})
}
