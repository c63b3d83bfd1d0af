//go:build linux

package uring

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

// RegisterFiles gives the ring a table of descriptors, whose indices entries with
// SqeFixedFile name as Fd; -1 leaves a slot empty. The kernel holds the files open until
// UnregisterFiles or Close. Errors are *os.SyscallError: EBUSY (there is a table), EMFILE
// (more than RLIMIT_NOFILE), EBADF.
func (d *Driver) RegisterFiles(fds []int32) error {
	if len(fds) == 0 {
		return errors.New("uring: Driver.RegisterFiles: got no descriptors; want at least one, -1 for an empty slot")
	}
	_, err := d.register(RegisterFiles, unsafe.Pointer(unsafe.SliceData(fds)), len(fds))
	runtime.KeepAlive(fds)
	return err
}

// UpdateFiles replaces slots of the table from index first on; -1 empties one.
func (d *Driver) UpdateFiles(first int, fds []int32) error {
	if len(fds) == 0 {
		return nil
	}
	update := &struct {
		offset uint32
		_      uint32
		fds    uint64
	}{offset: uint32(first), fds: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(fds))))}
	n, err := d.register(RegisterFilesUpdate, unsafe.Pointer(update), len(fds))
	runtime.KeepAlive(fds)
	if err == nil && int(n) != len(fds) {
		return fmt.Errorf("uring: Driver.UpdateFiles: %d of %d slots were replaced; is %d still an open descriptor?", n, len(fds), fds[n])
	}
	return err
}

// UnregisterFiles gives up the table.
func (d *Driver) UnregisterFiles() error {
	_, err := d.register(UnregisterFiles, nil, 0)
	return err
}

func (d *Driver) register(op uint32, arg unsafe.Pointer, n int) (uint, error) {
	if d.closed {
		return 0, ErrClosed
	}
	r, e := d.ring.Register(d.ring.RingFd(), op, arg, uint32(n))
	if e != 0 {
		return 0, os.NewSyscallError("io_uring_register", e)
	}
	return r, nil
}
