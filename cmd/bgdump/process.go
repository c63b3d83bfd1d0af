//go:build linux

package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/bgraph"
)

// A processSource is a process of this machine. It is asked by SIGUSR2 and answers by
// writing a file.
type processSource struct {
	pid     int
	kernel  *kernel
	clock   clock
	timeout time.Duration
}

func (p *processSource) Name() string { return fmt.Sprintf("process %d", p.pid) }

// Snapshot sends the signal if, and only if, the process announces that it expects it.
func (p *processSource) Snapshot(ctx context.Context) (*bgraph.Snapshot, error) {
	held, err := p.kernel.hold(p.pid)
	if err != nil {
		return nil, p.holdError(err)
	}
	defer held.Close()
	st, markers, err := p.examine()
	if err != nil {
		return nil, err
	}
	defer closeAll(markers)
	before := make([]identity, len(markers))
	for i, m := range markers {
		before[i], err = p.identify(m.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, p.readError(m.path, st, err)
		}
	}
	if err := held.Signal(); err != nil {
		return nil, p.holdError(err)
	}
	ctx, cancel := withTimeout(ctx, p.clock, p.timeout)
	defer cancel()
	var graphs []*bgraph.Snapshot
	for i, m := range markers {
		if err := p.await(ctx, held, m.path, before[i]); err != nil {
			return nil, err
		}
		s, err := p.read(m)
		if err != nil {
			return nil, p.readError(m.path, st, err)
		}
		graphs = append(graphs, s)
	}
	if len(graphs) == 1 {
		return graphs[0], nil
	}
	s, err := bgraph.Merge(graphs...)
	if err != nil {
		return nil, fmt.Errorf("%s has %d runtimes, whose graphs do not fit together: %w", p.Name(), len(graphs), err)
	}
	s.Program.PID = graphs[0].Program.PID // which Merge leaves out
	// Each of them tells these of the whole process, since it began.
	oldest := slices.MinFunc(graphs, func(a, b *bgraph.Snapshot) int { return a.Program.Started.Compare(b.Program.Started) })
	s.ProcessCPU, s.CollectorCPU, s.Chunks = oldest.ProcessCPU, oldest.CollectorCPU, oldest.Chunks
	return s, nil
}

func (p *processSource) holdError(err error) error {
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, fs.ErrNotExist):
		return endedError{fmt.Errorf("there is no process %d", p.pid)}
	case errors.Is(err, unix.EPERM):
		return p.notPermitted()
	}
	return fmt.Errorf("%s: %w", p.Name(), err)
}

func (p *processSource) notPermitted() error {
	st, err := p.kernel.status(p.pid)
	if err != nil {
		st.uid = -1
	}
	if st.uid == os.Geteuid() {
		return fmt.Errorf("%s cannot be looked into, although it is yours: it is protected, or runs in another container; try as root, or ask by its URL", p.Name())
	}
	return fmt.Errorf("%s belongs to %s; run bgdump as that user or as root, or ask by its URL", p.Name(), st.owner())
}

// examine finds out where the process writes its graphs. An error means that it must
// not be sent the signal.
func (p *processSource) examine() (status, []*marker, error) {
	st, err := p.kernel.status(p.pid)
	switch {
	case err != nil:
		return st, nil, p.holdError(err)
	case st.leader != p.pid:
		return st, nil, fmt.Errorf("%d is a thread of process %d; ask that one", p.pid, st.leader)
	case st.zombie:
		return st, nil, endedError{fmt.Errorf("%s (%s) has ended", p.Name(), st.name)}
	}
	markers, err := p.kernel.markers(p.pid, st.own)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return st, nil, p.notPermitted()
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
		return st, nil, endedError{fmt.Errorf("%s (%s) has ended", p.Name(), st.name)}
	case err != nil:
		return st, nil, fmt.Errorf("%s (%s): %w", p.Name(), st.name, err)
	}
	const asks = 1 << (uint(unix.SIGUSR2) - 1)
	if len(markers) == 0 || st.catches&asks == 0 {
		closeAll(markers)
		return st, nil, p.refusal(st, len(markers))
	}
	return st, markers, nil
}

// isPlainGo reports whether the process is a Go program that announces no graph.
func (p *processSource) isPlainGo() bool {
	st, err := p.kernel.status(p.pid)
	if err != nil {
		return false
	}
	markers, err := p.kernel.markers(p.pid, st.own)
	closeAll(markers)
	if err != nil || len(markers) > 0 {
		return false
	}
	_, err = buildinfo.ReadFile(p.kernel.path(p.pid, "exe"))
	return err == nil
}

func (p *processSource) refusal(st status, markers int) error {
	because := "it announces a graph, but does not catch the signal"
	if markers == 0 {
		because = p.kernel.whyNoMarker(p.pid)
	}
	return fmt.Errorf(`%s (%s) was not asked, as the signal for that, SIGUSR2, could end it:
%s.
If it serves its graph on an admin address, ask there: bgdump http://HOST:PORT.
Any other Go program is asked by the id of its process, too, if it has these lines:
    import "net/http"
    import _ "net/http/pprof"
    go http.ListenAndServe("localhost:6060", nil)
With -probe, bgdump looks for that also where other machines reach the process.
If you know that it handles SIGUSR2, send it yourself (kill -USR2 %d) and give
bgdump the file that it writes`, p.Name(), st.name, because, p.pid)
}

// An identity tells one version of a file from another.
type identity struct {
	dev, ino uint64
	modified unix.Timespec
	size     int64
}

func (p *processSource) identify(path string) (identity, error) {
	f, err := p.open(path)
	if err != nil {
		return identity{}, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return identity{}, err
	}
	return identity{st.Dev, st.Ino, st.Mtim, st.Size}, nil
}

const (
	firstPoll = 2 * time.Millisecond
	lastPoll  = 50 * time.Millisecond
)

// await returns when the file is another one than before. It is complete then, as it
// gets its name only when it is.
func (p *processSource) await(ctx context.Context, held process, path string, before identity) error {
	for pause := firstPoll; ; pause = min(2*pause, lastPoll) {
		ended := held.Ended() // asked first: what it wrote before it ended counts
		if now, err := p.identify(path); err == nil && now != before {
			return nil
		}
		if ended {
			return endedError{fmt.Errorf("%s ended before it had written its graph", p.Name())}
		}
		if err := wait(ctx, p.clock, pause); err != nil {
			var late noAnswer
			if errors.As(err, &late) {
				hint := "If it cannot write there, its standard error says why"
				if st, err := p.kernel.status(p.pid); err == nil && st.stopped {
					hint = fmt.Sprintf("It is stopped, by a signal or a debugger, and answers once it goes on (kill -CONT %d)", p.pid)
				}
				return fmt.Errorf("%s was sent SIGUSR2 and has not written %s: %w.\n%s", p.Name(), printable(path), err, hint)
			}
			return err
		}
	}
}

func (p *processSource) read(m *marker) (*bgraph.Snapshot, error) {
	f, err := p.open(m.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := bgraph.Decode(f)
	if err != nil {
		return nil, err
	}
	if s.Program.PID != m.pid {
		return nil, fmt.Errorf("the graph is that of a process that calls itself %d, not %d", s.Program.PID, m.pid)
	}
	return s, nil
}

func (p *processSource) readError(path string, st status, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s writes its graph to %s, which only %s and root may read", p.Name(), printable(path), st.owner())
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err // procfs in it would only confuse
	}
	return fmt.Errorf("%s writes its graph to %s: %w", p.Name(), printable(path), err)
}

// open opens a file by the name that it has for the process, which may live in
// another container.
func (p *processSource) open(path string) (*os.File, error) {
	if p.sameRoot() {
		return openRegular(path)
	}
	rootName := p.kernel.path(p.pid, "root")
	root, err := unix.Open(rootName, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: rootName, Err: err}
	}
	defer unix.Close(root)
	// Links in there must not lead out of it.
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT}
	fd, err := unix.Openat2(root, strings.TrimPrefix(path, "/"), &how)
	if err == unix.ENOSYS || err == unix.EPERM { // before Linux 5.6, or a sandbox
		return openRegular(filepath.Join(rootName, path))
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return onlyRegular(os.NewFile(uintptr(fd), path))
}

// sameRoot reports whether the same names mean the same files for the process and for us.
func (p *processSource) sameRoot() bool {
	for _, link := range []string{"ns/mnt", "root"} {
		theirs, err := os.Readlink(p.kernel.path(p.pid, link))
		ours, err2 := os.Readlink(filepath.Join(p.kernel.proc, "self", link))
		if err != nil || err2 != nil || theirs != ours {
			return false
		}
	}
	return true
}
