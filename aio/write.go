//go:build linux

package aio

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// WriteAt writes all of p at offset off (io.WriterAt), which the page cache takes in;
// see Sync. It parks unless the file system can take it at once. On a file opened with
// O_APPEND it is an error.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	uses, ok := f.enter()
	if !ok {
		return 0, f.fail("write", errClosed)
	}
	if f.appends || off < 0 {
		f.exit()
		if f.appends {
			return 0, f.fail("writeat", errAppendAt)
		}
		return 0, f.fail("writeat", errNegativeOffset)
	}
	n := f.writeQuick(p, off)
	if n == len(p) {
		f.exit()
		pace(uses, n)
		return n, nil
	}
	return f.writeOn(p, n, off)
}

// writeQuick writes at once what can be written without waiting.
func (f *File) writeQuick(p []byte, off int64) int {
	if f.direct || len(p) == 0 || f.traits.Load()&traitRefusesWrite != 0 {
		return 0
	}
	n, e := now(opWrite, f.fd, atOnce(p), off, unix.RWF_NOWAIT)
	if e != 0 {
		f.noteRefusal(traitRefusesWrite, e)
		return 0
	}
	return n
}

// writeOn is WriteAt after the first n bytes. The caller has entered f; writeOn exits.
func (f *File) writeOn(p []byte, n int, off int64) (int, error) {
	defer f.exit()
	if n > 0 {
		more, _ := quick(opWrite, f.fd, p[n:], off+int64(n), unix.RWF_NOWAIT)
		n += more
	}
	return f.writeAll(p, n, off)
}

// writeAll writes p[n:], p[0] being at offset off.
func (f *File) writeAll(p []byte, n int, off int64) (int, error) {
	for n < len(p) {
		at := off
		if off != currentOffset {
			at += int64(n)
		}
		if flag, ok := f.quickFlag(traitRefusesWrite); ok && flag == 0 && !f.direct {
			if k, e := quick(opWrite, f.fd, p[n:], at, 0); e == 0 && k > 0 {
				n += k
				continue
			}
		}
		k, err := f.transfer(opWrite, p[n:], at)
		n += k
		if err == nil && k == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return n, f.fail("write", f.explainDirect(err))
		}
	}
	return n, nil
}

// Write writes all of p at the file's position, or, with O_APPEND, at the end, and moves
// it. It parks unless the file system can take it at once.
func (f *File) Write(p []byte) (int, error) {
	uses, err := f.enterAtPosition("write")
	if err != nil {
		return 0, err
	}
	n := f.writeQuick(p, currentOffset)
	if n < len(p) || n == 0 {
		return f.writeHere(p, n)
	}
	f.exitPosition()
	pace(uses, n)
	return n, nil
}

// writeHere is Write when it has to wait; it exits and unlocks.
func (f *File) writeHere(p []byte, n int) (int, error) {
	defer f.exitPosition()
	if n > 0 {
		more, _ := quick(opWrite, f.fd, p[n:], currentOffset, unix.RWF_NOWAIT)
		n += more
	}
	at := f.position()
	if f.appends || at == currentOffset {
		// The kernel finds the end by itself.
		m, err := f.writeAll(p, n, at)
		if f.appends && m > n {
			f.lseek(0, io.SeekEnd)
		}
		return m, err
	}
	m, err := f.writeAll(p, n, at-int64(n))
	f.advance(at, m-n)
	return m, err
}

// WriteString is Write.
func (f *File) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

// Seek sets the file's position (lseek(2)) and returns it. whence may also be one of those
// that lseek knows besides (SEEK_DATA, SEEK_HOLE); EINVAL is one that it does not know. On a folder, Seek to the
// start makes ReadDir begin anew. It parks only while another operation uses the
// position.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	if _, err := f.enterAtPosition("seek"); err != nil {
		return 0, err
	}
	defer f.exitPosition()
	at, e := f.lseek(offset, whence)
	if e != 0 {
		return 0, f.fail("seek", e)
	}
	f.entries = nil
	return at, nil
}

func (f *File) lseek(offset int64, whence int) (int64, syscall.Errno) {
	at, _, e := syscall.Syscall(unix.SYS_LSEEK, uintptr(f.fd), uintptr(offset), uintptr(whence))
	return int64(at), e
}

// Sync writes the file's content and attributes to the disk (fsync(2)). It parks.
func (f *File) Sync() error { return f.change("sync", newRequest(opSync, f.fd)) }

// Truncate sets the file's length in bytes (ftruncate(2)). It parks.
func (f *File) Truncate(size int64) error {
	r := newRequest(opTruncate, f.fd)
	r.off = size
	return f.change("truncate", r)
}

// change performs r on f.
func (f *File) change(op string, r *request) error {
	if _, ok := f.enter(); !ok {
		r.free()
		return f.fail(op, errClosed)
	}
	defer f.exit()
	if _, err := r.on(f).perform(); err != nil {
		return f.fail(op, err)
	}
	return nil
}
