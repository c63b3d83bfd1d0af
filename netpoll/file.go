//go:build linux

package netpoll

import (
	"io"
	"io/fs"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// A File is one end of a pipe, or another descriptor that can be polled: a FIFO, a
// terminal, an eventfd, a socket made elsewhere. It implements io.ReadWriteCloser and
// syscall.Conn and has deadlines. Made by Pipe and NewFile; the zero value is of no
// use. Its methods may be called from any goroutine; Read and Write may park. Errors
// are *fs.PathError; after Close they are os.ErrClosed and net.ErrClosed.
type File struct {
	endpoint
	name string // constant
}

// Pipe makes a pipe (pipe2(2)) whose ends belong to the caller's loop. It never parks.
func Pipe() (r, w *File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	if r, err = newFile(p[0], "|0", kindPipe, false); err != nil {
		unix.Close(p[0])
		unix.Close(p[1])
		return nil, nil, err
	}
	if w, err = newFile(p[1], "|1", kindPipe, false); err != nil {
		r.Close()
		unix.Close(p[1])
		return nil, nil, err
	}
	return r, w, nil
}

// NewFile adopts an open descriptor, which is switched to non-blocking and closed by Close; name is for error messages.
// Regular files and directories can't be polled and are refused. If it fails, fd is still the caller's. The File
// belongs to the caller's loop. NewFile never parks.
func NewFile(fd int, name string) (*File, error) {
	k, err := kindOf(fd)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	var f *File
	if err == nil {
		f, err = newFile(fd, name, k, true)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "adopt", Path: name, Err: err}
	}
	return f, nil
}

// newFile makes a File. A shared descriptor may have duplicates that outlive it.
func newFile(fd int, name string, k kind, shared bool) (*File, error) {
	l, err := ownLoop()
	if err != nil {
		return nil, err
	}
	f := &File{name: name}
	f.d.owner = f
	f.d.read.p.Store(ready) // a descriptor open for writing only has no such event, and reading it is an error
	if shared {
		f.d.flags.Store(flagShared)
	}
	return f, f.d.init(fd, k, l, true)
}

// kindOf finds out what fd is.
func kindOf(fd int) (kind, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR:
		return 0, errNotPollable
	case unix.S_IFIFO:
		// In packet mode (O_DIRECT) a read ends with the packet, not with the data. Only
		// the writing end shows it, so a reading end by itself has to read to EAGAIN.
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err == nil && flags&unix.O_DIRECT == 0 && flags&unix.O_ACCMODE != unix.O_RDONLY {
			return kindPipe, nil
		}
	case unix.S_IFSOCK:
		typ, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
		if err != nil {
			return 0, err
		}
		switch typ {
		case unix.SOCK_STREAM:
			return kindStream, nil
		case unix.SOCK_SEQPACKET:
			return kindRecords, nil
		}
		return kindDatagram, nil
	}
	return kindFile, nil
}

// Name returns the name given to NewFile.
func (f *File) Name() string { return f.name }

func (f *File) describe() string { return "file " + f.name }

// Read reads at least one byte, or io.EOF when no writer is left (pipe(7)). It parks.
func (f *File) Read(b []byte) (int, error) {
	n, err := f.d.receive(b)
	if err != nil {
		return n, f.opError("read", "", err)
	}
	if n == 0 && len(b) > 0 && f.d.kind.stream() {
		return 0, io.EOF
	}
	return n, nil
}

// Write writes all of b; EPIPE when no reader is left. It parks while the pipe is full.
// Writes of up to 4096 bytes to a pipe are not mixed with others (PIPE_BUF).
func (f *File) Write(b []byte) (int, error) {
	n, err := f.d.send(b, 0, false)
	if err != nil {
		return n, f.opError("write", "", err)
	}
	return n, nil
}

//go:noinline
func (f *File) opError(op, _ string, err error) error {
	if err == net.ErrClosed {
		err = errFileClosed
	}
	return &fs.PathError{Op: op, Path: f.name, Err: err}
}
