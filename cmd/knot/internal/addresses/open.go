package addresses

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Open opens a socket without a runtime, unless there is one. The file of a Unix socket belongs to the user and group then.
func (p *Point) Open(uid, gid int) error {
	if len(p.sockets) > 0 {
		return p.openDatagram()
	}
	fd, err := openSocket(p.Addr)
	if err != nil {
		return err
	}
	p.sockets = []Socket{{FD: fd}}
	if err := p.openDatagram(); err != nil {
		return err
	}
	if path, ok := strings.CutPrefix(p.Addr, ofUnix); ok && !strings.HasPrefix(path, "@") {
		return os.Chown(path, uid, gid)
	}
	return nil
}

// openSocket listens on an address.
func openSocket(addr string) (int, error) {
	network, addr := networkOf(addr)
	var config net.ListenConfig
	config.SetMultipathTCP(false) // it has no filters (SO_ATTACH_FILTER), and so no stop without resets: netpoll.Listener.Drain
	ln, err := config.Listen(context.Background(), network, addr)
	if err != nil {
		return -1, err
	}
	defer ln.Close()
	if ln, ok := ln.(*net.UnixListener); ok {
		ln.SetUnlinkOnClose(false)
	}
	file, err := ln.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		return -1, err
	}
	defer file.Close()
	return duplicate(file)
}

// duplicate is another descriptor of the socket in file, which it leaves as it is: File.Fd would make it blocking.
func duplicate(file *os.File) (fd int, err error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return -1, err
	}
	controlErr := raw.Control(func(from uintptr) { fd, err = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(err, controlErr)
}

// RemoveStale removes the file of a Unix socket that no process listens on any more, which one that
// was killed has left behind.
func (p *Point) RemoveStale() error {
	path, ok := strings.CutPrefix(p.Addr, ofUnix)
	if !ok || len(p.sockets) > 0 {
		return nil
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != os.ModeSocket {
		return nil // listening tells
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
		return nil
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return os.Remove(path)
	}
	return nil
}
