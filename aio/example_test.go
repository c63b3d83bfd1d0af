//go:build linux

package aio_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/aio"
)

func run(main func()) {
	err := capriccio.Run(context.Background(), func(context.Context) error { main(); return nil })
	if err != nil {
		fmt.Println(err)
	}
}

func Example() {
	folder, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(folder)
	run(func() {
		name := filepath.Join(folder, "poem")
		if err := aio.WriteFile(name, []byte("I wandered lonely as a cloud"), 0o600); err != nil {
			fmt.Println(err)
			return
		}
		f, err := aio.Open(name)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer f.Close()
		word := make([]byte, 8)
		if _, err := f.ReadAt(word, 2); err != nil { // waits for the disk, if need be
			fmt.Println(err)
		}
		rest, err := io.ReadAll(f)
		fmt.Printf("%s, %d bytes, %v\n", word, len(rest), err)
	})
	// Output: wandered, 28 bytes, <nil>
}

func ExampleDirFS() {
	folder, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(folder)
	run(func() {
		aio.MkdirAll(filepath.Join(folder, "a/b"), 0o700)
		aio.WriteFile(filepath.Join(folder, "a/b/c"), nil, 0o600)
		fs.WalkDir(aio.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
			fmt.Println(path, d.IsDir(), err)
			return nil
		})
	})
	// Output:
	// . true <nil>
	// a true <nil>
	// a/b true <nil>
	// a/b/c false <nil>
}
