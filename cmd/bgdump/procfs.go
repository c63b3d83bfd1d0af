//go:build linux

package main

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A kernel is what is needed of the operating system to ask a process for a dump;
// tests have a folder of their own in place of /proc, and processes to match.
type kernel struct {
	proc string                              // where procfs is mounted
	hold func(pid int) (process, error)      // holds on to a process, so that its id cannot pass to another
	open func(path string) (*os.File, error) // opens a descriptor of a process by its name in procfs
}

// A process is one that was held on to.
type process interface {
	Signal() error // sends SIGUSR2
	Ended() bool
	Close() error
}

func systemKernel() *kernel {
	return &kernel{proc: "/proc", hold: holdProcess, open: openRegular}
}

// A pidfd is a process; pid is for kernels that have no such thing (before 5.3).
type pidfd struct{ fd, pid int }

// holdProcess returns the process with a number. A descriptor of it makes sure that a later process of that number is not taken for it.
func holdProcess(pid int) (process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	switch err {
	case nil:
		return pidfd{fd, pid}, nil
	case unix.ENOSYS, unix.EPERM: // old, or a sandbox
		return pidfd{-1, pid}, nil
	case unix.EINVAL, unix.ENOENT: // a thread other than the first; its status says so
		return pidfd{-1, pid}, nil
	}
	return nil, err
}

func (p pidfd) Signal() error {
	if p.fd < 0 {
		return unix.Kill(p.pid, unix.SIGUSR2)
	}
	return unix.PidfdSendSignal(p.fd, unix.SIGUSR2, nil, 0)
}

func (p pidfd) Ended() bool {
	if p.fd < 0 {
		return unix.Kill(p.pid, 0) == unix.ESRCH
	}
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

func (p pidfd) Close() error {
	if p.fd < 0 {
		return nil
	}
	return unix.Close(p.fd)
}

// openRegular opens a file for reading without waiting for a writer, and nothing but
// a file.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	return onlyRegular(f)
}

func onlyRegular(f *os.File) (*os.File, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: errors.New("not a file")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// A status is what /proc/PID/status says, as far as it matters here.
type status struct {
	name    string
	zombie  bool
	stopped bool // by a signal or a debugger
	leader  int  // id of the process, if the id asked for is that of a thread
	uid     int  // effective
	own     int  // id of the process as it sees itself
	catches uint64
}

func (k *kernel) path(pid int, rest string) string {
	return filepath.Join(k.proc, strconv.Itoa(pid), rest)
}

// cpu is the time that the process has used, in user mode and in the kernel, with that of threads that have ended. proc(5) has the
// format.
func (k *kernel) cpu(pid int) (time.Duration, error) {
	text, err := os.ReadFile(k.path(pid, "stat"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // the name may have blanks
	const user, system = 11, 12                                               // behind the name
	if len(fields) <= system {
		return 0, fmt.Errorf("%s has %d fields", k.path(pid, "stat"), len(fields))
	}
	u, err := strconv.ParseInt(fields[user], 10, 40)
	s, err2 := strconv.ParseInt(fields[system], 10, 40)
	const tick = 10 * time.Millisecond // USER_HZ is 100 wherever Go runs
	return time.Duration(u+s) * tick, errors.Join(err, err2)
}

func (k *kernel) status(pid int) (status, error) {
	st := status{uid: -1, own: pid, leader: pid}
	text, err := os.ReadFile(k.path(pid, "status"))
	if err != nil {
		return st, err
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		switch key {
		case "Name":
			st.name = printable(value)
		case "State":
			st.zombie, st.stopped = fields[0] == "Z" || fields[0] == "X", strings.EqualFold(fields[0], "t")
		case "Tgid":
			st.leader, err = strconv.Atoi(fields[0])
		case "Uid":
			st.uid, err = strconv.Atoi(fields[min(1, len(fields)-1)])
		case "NSpid":
			st.own, err = strconv.Atoi(fields[len(fields)-1])
		case "SigCgt":
			st.catches, err = strconv.ParseUint(fields[0], 16, 64)
		}
		if err != nil {
			return st, fmt.Errorf("%s, line %s: %w", k.path(pid, "status"), key, err)
		}
	}
	return st, nil
}

// A marker is how a runtime announces that it answers SIGUSR2 by writing its graph: a
// memfd of a known name, which tells where the graph is written to. There is no other
// way to know, as SIGUSR2 ends a program that does not expect it, even one that
// catches the signal, as every Go program does.
type marker struct {
	file *os.File // open as long as an answer is expected, see readMarker
	pid  int      // as the process sees itself
	path string
}

const (
	markerLink   = "/memfd:capriccio-bgraph (deleted)" // what a descriptor of it links to
	markerFormat = "capriccio-bgraph "
	maxMarker    = 64 << 10
)

// markers finds those of a process.
func (k *kernel) markers(pid, own int) ([]*marker, error) {
	folder := k.path(pid, "fd")
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int {
		i, _ := strconv.Atoi(a.Name())
		j, _ := strconv.Atoi(b.Name())
		return i - j
	})
	var found []*marker
	for _, e := range entries {
		name := filepath.Join(folder, e.Name())
		if link, err := os.Readlink(name); err != nil || link != markerLink {
			continue // if it has just been closed, it is none
		}
		m, err := k.readMarker(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // closed
		}
		if err == nil && m.pid != own { // passed on by another process
			m.file.Close()
			continue
		}
		if err != nil {
			closeAll(found)
			return nil, err
		}
		found = append(found, m)
	}
	return found, nil
}

func closeAll(markers []*marker) {
	for _, m := range markers {
		m.file.Close()
	}
}

func (k *kernel) readMarker(name string) (*marker, error) {
	f, err := k.open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxMarker))
	if err != nil {
		f.Close()
		return nil, err
	}
	m, err := parseMarker(text)
	if err != nil {
		f.Close()
		return nil, err
	}
	m.file = f
	// While another process has a lock on the memfd, the runtime knows that the signal is from a program,
	// and does not print the summary that people expect from the signal. Without the
	// lock the summary is printed too, so an error is ignored.
	_ = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	return m, nil
}

// parseMarker reads a line with the version of the format, then lines that consist of
// a key and its value. Lines with an unknown key are ignored.
func parseMarker(text []byte) (*marker, error) {
	head, rest, ok := bytes.Cut(text, []byte("\n"))
	version, named := strings.CutPrefix(string(head), markerFormat)
	if !ok || !named {
		return nil, errors.New("what it announces about its graph cannot be understood")
	}
	if version != "1" {
		return nil, fmt.Errorf("it announces its graph in version %s, and this bgdump knows only version 1; use a newer one", clip(printable(version), 20))
	}
	m := new(marker)
	for line := range strings.Lines(string(rest)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		var err error
		switch key {
		case "pid":
			m.pid, err = strconv.Atoi(value)
		case "path":
			m.path, err = strconv.Unquote(value)
		}
		if err != nil {
			return nil, fmt.Errorf("what it announces about its graph cannot be understood: %s: %w", key, err)
		}
	}
	if m.pid == 0 || !filepath.IsAbs(m.path) {
		return nil, errors.New("what it announces about its graph is not complete")
	}
	return m, nil
}

// owner is how to name the user that a process belongs to.
func (st status) owner() string {
	if st.uid < 0 {
		return "another user"
	}
	if u, err := user.LookupId(strconv.Itoa(st.uid)); err == nil {
		return "the user " + u.Username
	}
	return fmt.Sprintf("the user with the number %d", st.uid)
}

const module = "github.com/capriccio-go/capriccio"

// whyNoMarker reports what is known about a process that announces nothing.
func (k *kernel) whyNoMarker(pid int) string {
	exe := k.path(pid, "exe")
	info, err := buildinfo.ReadFile(exe)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "which program it runs cannot be seen"
	case err != nil:
		if _, err := os.Stat(exe); err != nil {
			return "its program cannot be read"
		}
		return "it is not a Go program"
	}
	linked := info.Main.Path == module
	for _, dep := range info.Deps {
		linked = linked || dep.Path == module
	}
	if !linked {
		return "it is a Go program without the module " + module
	}
	return "it is built with " + module + ", but has no runtime at work now that writes its graph when asked to"
}
