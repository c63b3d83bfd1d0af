package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// An identity is whom to run as.
type identity struct{ uid, gid int }

// identityOf reads "user" or "user:group", by names or numbers. The group of a user is that of its
// account; of a number without an account the number itself.
func identityOf(text string) (id identity, err error) {
	name, group, hasGroup := strings.Cut(text, ":")
	account, err := user.Lookup(name)
	if err != nil {
		if account, err = user.LookupId(name); err != nil {
			if id.uid, err = strconv.Atoi(name); err != nil || id.uid < 0 {
				return id, fmt.Errorf("there is no user %q", name)
			}
			id.gid = id.uid
		}
	}
	if account != nil {
		id.uid, _ = strconv.Atoi(account.Uid)
		id.gid, _ = strconv.Atoi(account.Gid)
	}
	if !hasGroup {
		return id, nil
	}
	if g, err := user.LookupGroup(group); err == nil {
		id.gid, _ = strconv.Atoi(g.Gid)
	} else if id.gid, err = strconv.Atoi(group); err != nil || id.gid < 0 {
		return id, fmt.Errorf("there is no group %q", group)
	}
	return id, nil
}

// become gives up the rights of the process for those of id, for good, on all threads. It does
// nothing if it is id already.
func (id identity) become() error {
	if syscall.Getuid() == id.uid && syscall.Geteuid() == id.uid && syscall.Getgid() == id.gid && syscall.Getegid() == id.gid {
		return nil
	}
	if err := syscall.Setgroups([]int{id.gid}); err != nil {
		return fmt.Errorf("setgroups: %w", err)
	}
	if err := syscall.Setgid(id.gid); err != nil {
		return fmt.Errorf("setgid: %w", err)
	}
	if err := syscall.Setuid(id.uid); err != nil {
		return fmt.Errorf("setuid: %w", err)
	}
	if id.uid != 0 && syscall.Setuid(0) == nil {
		return errors.New("the rights of root could be had back")
	}
	return nil
}

// dropRights gives up the rights of the process for those of the user that -user says, if it says
// one. The socket to serve on is opened before, as it may need them.
func (set *settings) dropRights(from *inheritance) error {
	if set.user == "" {
		return nil
	}
	id, err := identityOf(set.user)
	if err != nil {
		return fmt.Errorf("-user: %w", err)
	}
	if len(from.sockets) == 0 {
		fd, err := openSocket(set.server.Addr)
		if err != nil {
			return err
		}
		from.sockets = []int{fd}
		if path, ok := strings.CutPrefix(set.server.Addr, "unix:"); ok && !strings.HasPrefix(path, "@") {
			if err := os.Chown(path, id.uid, id.gid); err != nil {
				return err
			}
		}
	}
	if err := id.become(); err != nil {
		return fmt.Errorf("can't run as %s (-user): %w", set.user, err)
	}
	return nil
}

// checkDump reports early that the graph can't be written where -dump wants it. It is asked after the rights
// are given up.
func (set *settings) checkDump() error {
	folder, err := set.dumpFolder()
	if err != nil || folder == "" {
		return err
	}
	if err := unix.Access(folder, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("-dump: %w", &os.PathError{Op: "write to", Path: folder, Err: err})
	}
	return nil
}

// dumpFolder is the folder that -dump wants the graph in, "" if it does not say; it must exist.
func (set *settings) dumpFolder() (string, error) {
	if set.dump == "" {
		return "", nil
	}
	folder := filepath.Dir(set.dump)
	if info, err := os.Stat(set.dump); err == nil && info.IsDir() {
		folder = set.dump
	}
	info, err := os.Stat(folder)
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "open", Path: folder, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return "", fmt.Errorf("-dump: %w", err)
	}
	return folder, nil
}

// openSocket listens on an address of -addr without a runtime.
func openSocket(addr string) (int, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	ln, err := net.Listen(network, addr)
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
	return unix.FcntlInt(descriptor(file), unix.F_DUPFD_CLOEXEC, 0)
}

// removeStale removes the file of a Unix socket that no process listens on any more, which one that
// was killed has left behind.
func removeStale(addr string) error {
	path, ok := strings.CutPrefix(addr, "unix:")
	if !ok {
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
