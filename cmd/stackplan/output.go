package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// checkOutputs reports early whether files can't be made where they are wanted.
func (set *settings) checkOutputs() error {
	for _, name := range []string{set.out, set.sweep} {
		if name == "" {
			continue
		}
		if info, err := os.Stat(filepath.Dir(name)); err != nil || !info.IsDir() {
			return fmt.Errorf("no file %s can be written: there is no folder %s", name, filepath.Dir(name))
		}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			return fmt.Errorf("no file %s can be written: it is a folder", name)
		}
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

// writeFile writes a file, which is replaced only if all goes well. Of a link, what it leads to is replaced; a device
// or a pipe is written to.
func writeFile(name string, f func(io.Writer) error) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		to, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(f(to), to.Close())
	}
	if final, err := filepath.EvalSymlinks(name); err == nil {
		name = final
	}
	part, err := os.CreateTemp(filepath.Dir(name), ".stackplan-")
	if err != nil {
		return err
	}
	err = errors.Join(f(part), part.Chmod(0o644), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), name)
	}
	if err != nil {
		os.Remove(part.Name())
	}
	return err
}
