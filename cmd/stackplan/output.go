package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/capriccio-go/capriccio/internal/funcname"
)

// checkOutput reports early whether the file of -o can't be made where it is wanted.
func (set *settings) checkOutput() error {
	if info, err := os.Stat(filepath.Dir(set.out)); err != nil || !info.IsDir() {
		return fmt.Errorf("no file %s can be written: there is no folder %s", set.out, filepath.Dir(set.out))
	}
	if info, err := os.Stat(set.out); err == nil && info.IsDir() {
		return fmt.Errorf("no file %s can be written: it is a folder", set.out)
	}
	return nil
}

// write writes to the file that -o names, or to the standard output.
func (set *settings) write(f func(io.Writer) error) error {
	if set.out == "" {
		return f(set.stdout)
	}
	return writeFile(set.out, f)
}

// writeFile writes a file if f succeeds, and leaves it as it is if not.
func writeFile(name string, f func(io.Writer) error) error {
	var text bytes.Buffer
	if err := f(&text); err != nil {
		return err
	}
	return os.WriteFile(name, text.Bytes(), 0o644)
}

// shorten leaves of a list of functions the last element of import paths, and three functions.
func shorten(names string) string {
	list := strings.Split(names, ", ")
	for i, name := range list {
		list[i] = funcname.Short(name)
	}
	if len(list) > 3 {
		list = append(list[:3], fmt.Sprintf("and %d more", len(list)-3))
	}
	return strings.Join(list, ", ")
}
