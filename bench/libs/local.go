package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/capriccio-go/capriccio/aio"
)

var localLibraries = []library{
	{name: "os/exec", about: "cat, with a pipe to it and one from it", local: true, tasks: 500, ops: 2, open: openExec},
	{name: "archive/zip", about: "over a file of package aio", local: true, tasks: 5000, ops: 1, open: openZip},
}

func openExec(e *env) *opened {
	return shared(func(n int) error {
		cmd := exec.Command("cat")
		cmd.Stdin = bytes.NewReader(fmt.Append(nil, n))
		out, err := cmd.Output()
		return answers(fmt.Sprint(n))(string(out), err)
	}, nil)
}

func openZip(e *env) *opened {
	const entries = 20
	name := filepath.Join(e.Dir, "archive.zip")
	sums := map[string][32]byte{}
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for i := range entries {
		data := bytes.Repeat(fmt.Append(nil, "line ", i, "\n"), 2000)
		entry := fmt.Sprint("entry", i)
		out := must(w.CreateHeader(&zip.FileHeader{Name: entry, Method: uint16(i%2) * zip.Deflate}))
		must(out.Write(data))
		sums[entry] = sha256.Sum256(data)
	}
	check(w.Close())
	check(os.WriteFile(name, archive.Bytes(), 0o644))
	var file interface {
		io.ReaderAt
		io.Closer
		Stat() (fs.FileInfo, error)
	}
	if e.Poller == "" {
		file = must(os.Open(name))
	} else {
		file = must(aio.Open(name))
	}
	r := must(zip.NewReader(file, int64(archive.Len())))
	return shared(func(n int) error {
		entry := fmt.Sprint("entry", n%entries)
		in, err := r.Open(entry)
		if err != nil {
			return err
		}
		defer in.Close()
		sum := sha256.New()
		_, err = io.Copy(sum, in)
		return answers(sums[entry])([32]byte(sum.Sum(nil)), err)
	}, func() { file.Close() })
}
