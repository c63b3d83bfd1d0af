// Package regular opens files that must be regular ones. Opening or reading another one, a FIFO for instance, may wait for
// ever. Its functions may be called from any goroutine; they block as the disk does.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Open opens the file for reading by open, which is os.OpenFile or the method of an os.Root.
func Open(open func(name string, flag int, perm fs.FileMode) (*os.File, error), name string) (*os.File, error) {
	file, err := open(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0) // a FIFO is opened at once
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", name), err)
	}
	return file, nil
}

// Read is os.ReadFile for regular files.
func Read(name string) ([]byte, error) {
	file, err := Open(os.OpenFile, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}
