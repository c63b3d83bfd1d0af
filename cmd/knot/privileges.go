package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// An identity is whom to run as.
type identity struct {
	uid, gid int
	groups   []int // further ones
}

// identityOf reads "user" or "user:group", by names or numbers. The group of a user is that of its
// account; of a number without an account the number itself. Further groups are the groups that name the account.
func identityOf(text string) (id identity, err error) {
	name, group, hasGroup := strings.Cut(text, ":")
	account, err := user.Lookup(name)
	if err != nil {
		if id.uid, err = number(name); err != nil { // user.LookupId would cut it off, perhaps to root's
			return id, fmt.Errorf("there is no user %q", name)
		}
		id.gid = id.uid
		account, _ = user.LookupId(name)
	}
	if account != nil {
		id.uid, _ = strconv.Atoi(account.Uid)
		id.gid, _ = strconv.Atoi(account.Gid)
	}
	if hasGroup {
		if g, err := user.LookupGroup(group); err == nil {
			id.gid, _ = strconv.Atoi(g.Gid)
		} else if id.gid, err = number(group); err != nil {
			return id, fmt.Errorf("there is no group %q", group)
		}
	}
	if account != nil {
		id.groups, err = furtherGroups(account, id.gid, (*user.User).GroupIds)
	}
	return id, err
}

// number is one of a user or group: the kernel would cut off what is above 32 bits.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	return int(n), err
}

// furtherGroups are the groups that have the account among their members, as initgroups(3) gives them to a process of
// the group gid. list is User.GroupIds.
func furtherGroups(account *user.User, gid int, list func(*user.User) ([]string, error)) (groups []int, err error) {
	asked := *account
	asked.Gid = strconv.Itoa(gid) // it is in the list in any case; that of the account only if it names the account
	all, err := list(&asked)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a container without /etc/group
	}
	if err != nil {
		return nil, fmt.Errorf("the groups of the user %q: %w", account.Username, err)
	}
	for _, text := range all {
		g, err := number(text)
		if err != nil {
			return nil, fmt.Errorf("the user %q has a group %q", account.Username, text)
		}
		if g != gid && !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	return groups, nil
}

// become gives up the rights of the process for those of id, for good, on all threads. It does
// nothing if it is id already.
func (id identity) become() error {
	if syscall.Getuid() == id.uid && syscall.Geteuid() == id.uid && syscall.Getgid() == id.gid && syscall.Getegid() == id.gid {
		return nil
	}
	if err := syscall.Setgroups(append([]int{id.gid}, id.groups...)); err != nil {
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
// one. The sockets to serve on are opened before, as they may need them.
func (set *settings) dropRights(log *slog.Logger) error {
	if set.user == "" {
		return nil
	}
	id, err := identityOf(set.user)
	if err != nil {
		return fmt.Errorf("-user: %w", err)
	}
	for _, p := range set.points {
		switch err := p.Open(id.uid, id.gid); {
		case err != nil && p.Optional:
			reportOptional(p, err, log)
		case err != nil:
			return &addressError{p.Addr, p.Key, err}
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
	return writable("-dump", folder)
}

// checkCache makes the folder of -acme-cache, as ACME would with the first certificate, and reports early that none could
// be written there. It is asked after the rights are given up.
func (t *tlsSettings) checkCache() error {
	if t.acme.Folder == "" {
		return nil
	}
	if err := os.MkdirAll(t.acme.Folder, 0o700); err != nil {
		return fmt.Errorf("-acme-cache: %w", err)
	}
	return writable("-acme-cache", t.acme.Folder)
}

func writable(flag, folder string) error {
	if err := unix.Access(folder, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("%s: %w", flag, &os.PathError{Op: "write to", Path: folder, Err: err})
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
