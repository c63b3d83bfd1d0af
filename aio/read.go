//go:build linux

package aio

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// ReadAt fills p from offset off on (io.ReaderAt): it reads less only at the end of the
// file, with io.EOF, or with another error. It parks unless memory has it all.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	uses, ok := f.enter()
	if !ok {
		return 0, f.fail("read", errClosed)
	}
	if off >= 0 && !f.direct && f.traits.Load()&traitRefusesRead == 0 {
		n, e := now(opRead, f.fd, atOnce(p), off, unix.RWF_NOWAIT)
		if n == len(p) && e == 0 {
			f.exit()
			pace(uses, n)
			return n, nil
		}
		if e != 0 {
			f.noteRefusal(traitRefusesRead, e)
		} else if n > 0 {
			return f.readOn(p, n, off)
		} else {
			f.exit()
			pace(uses, n)
			return 0, io.EOF
		}
	}
	return f.readOn(p, 0, off)
}

// noteRefusal remembers that f can't be tried without waiting, if e is the answer of a file system, or a kernel, that can't
// tell whether a transfer would wait.
func (f *File) noteRefusal(trait uint32, e syscall.Errno) {
	if e == unix.EOPNOTSUPP || e == unix.ENOSYS || e == unix.EINVAL || e == unix.EPERM {
		f.traits.Or(trait)
	}
}

// readOn is ReadAt from the point where n bytes have been read and more may have to be
// waited for. The caller has entered f; readOn exits.
func (f *File) readOn(p []byte, n int, off int64) (int, error) {
	defer f.exit()
	if off < 0 {
		return 0, f.fail("readat", errNegativeOffset)
	}
	for n < len(p) {
		k, err := f.readSome(p[n:], off+int64(n), n > 0)
		if err != nil {
			return n, f.fail("read", err)
		}
		n += k
		// With O_DIRECT the end shows by a length that is not aligned, and from there one
		// can't read on.
		if k == 0 || f.direct && n < len(p) && k%minBlock != 0 {
			return n, io.EOF
		}
	}
	return n, nil
}

// readSome reads at least one byte, or 0 at the end of the file. With try set it looks
// into memory first; without, the caller has, or knows better.
func (f *File) readSome(p []byte, off int64, try bool) (int, error) {
	if !f.direct {
		if flag, ok := f.quickFlag(traitRefusesRead); ok && (try || flag == 0) {
			if n, e := quick(opRead, f.fd, p, off, flag); e == 0 {
				return n, nil
			}
		}
	}
	n, err := f.transfer(opRead, p, off)
	if err == unix.EINVAL && f.direct {
		return f.directEnd(off)
	}
	return n, err
}

// Read reads up to len(p) bytes at the file's position and moves it; at the end of the
// file it returns io.EOF. It parks unless memory has the first of them.
func (f *File) Read(p []byte) (int, error) {
	uses, err := f.enterAtPosition("read")
	if err != nil {
		return 0, err
	}
	n, e := 0, syscall.Errno(unix.EAGAIN)
	if !f.direct && f.traits.Load()&traitRefusesRead == 0 {
		if n, e = now(opRead, f.fd, atOnce(p), currentOffset, unix.RWF_NOWAIT); e != 0 {
			f.noteRefusal(traitRefusesRead, e)
		}
	}
	if e != 0 || n == maxAtOnce && n < len(p) {
		return f.readHere(p, n)
	}
	f.exitPosition()
	pace(uses, n)
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// readHere is Read when it has to wait, or n bytes have been read and memory may have more; it exits and unlocks.
func (f *File) readHere(p []byte, n int) (int, error) {
	defer f.exitPosition()
	if n > 0 {
		more, _ := quick(opRead, f.fd, p[n:], currentOffset, unix.RWF_NOWAIT)
		return n + more, nil
	}
	at := f.position()
	n, err := f.readSome(p, at, false)
	if err != nil {
		return 0, f.fail("read", err)
	}
	f.advance(at, n)
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// position is the file's position, or currentOffset for what has none, like a FIFO. What
// waits is given the position and moves it by itself, because io_uring does not move it
// if the disk takes its time. The caller holds f.pos.
func (f *File) position() int64 {
	f.settle()
	if f.traits.Load()&traitStream == 0 {
		if at, e := f.lseek(0, io.SeekCurrent); e == 0 {
			return at
		}
	}
	return currentOffset
}

// advance moves the position from at by n bytes.
func (f *File) advance(at int64, n int) {
	if at != currentOffset && n > 0 {
		f.lseek(at+int64(n), io.SeekStart)
	}
}
