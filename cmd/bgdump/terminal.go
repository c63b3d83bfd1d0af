//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// isTerminal reports whether w is a terminal.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// terminalWidth is the number of columns of w, 0 if it is no terminal or does not know.
func terminalWidth(w any) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// A terminal is one that is used as a whole: what is on it comes back in the end, and
// keys come one by one without being shown.
type terminal struct {
	in, out *os.File
	before  unix.Termios // of in, to go back to
	opened  bool         // in is ours to close

	mu   sync.Mutex
	used bool // guarded by mu
}

const (
	// The second screen; no cursor; long lines are cut, not wrapped.
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H\x1b[2J"
	leaveScreen = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// newTerminal finds the terminal; keys are read from stdin, or, if that is something
// else, from the terminal that controls the process.
func newTerminal(stdin io.Reader, stdout io.Writer) (*terminal, error) {
	if !isTerminal(stdout) {
		return nil, errors.New("-top needs a terminal, and the standard output is none; for one table, leave out -top")
	}
	t := &terminal{out: stdout.(*os.File)}
	in, ok := stdin.(*os.File)
	if !ok || !isTerminal(in) {
		var err error
		if in, err = os.OpenFile("/dev/tty", os.O_RDWR, 0); err != nil {
			return nil, fmt.Errorf("-top needs a terminal to read keys from: %w", err)
		}
		t.opened = true
	}
	t.in = in
	before, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS)
	if err != nil {
		t.close()
		return nil, fmt.Errorf("-top needs a terminal to read keys from: %w", err)
	}
	t.before = *before
	return t, nil
}

// enter takes the terminal over.
func (t *terminal) enter() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.used {
		return nil
	}
	raw := t.before
	raw.Lflag &^= unix.ICANON | unix.ECHO | unix.ISIG | unix.IEXTEN
	raw.Iflag &^= unix.IXON | unix.ICRNL
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(int(t.in.Fd()), unix.TCSETS, &raw); err != nil {
		return fmt.Errorf("the terminal cannot be set up: %w", err)
	}
	t.used = true
	_, err := t.out.WriteString(enterScreen)
	return err
}

// leave gives the terminal back as it was. It may be called again and again.
func (t *terminal) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.used {
		return
	}
	t.used = false
	// A reader that can't be told so any more need not be.
	_, _ = t.out.WriteString(leaveScreen)
	_ = unix.IoctlSetTermios(int(t.in.Fd()), unix.TCSETS, &t.before)
}

// close gives the terminal back, and what was opened for it.
func (t *terminal) close() {
	t.leave()
	if t.opened {
		t.in.Close()
	}
}

// size is 80 columns and 24 rows if the terminal does not know.
func (t *terminal) size() (width, height int) {
	size, err := unix.IoctlGetWinsize(int(t.out.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return 80, 24
	}
	return int(size.Col), int(size.Row)
}

// suspend stops the process and those that it shares its terminal with, as Ctrl-Z
// does, until it is told to go on.
func suspend() { _ = unix.Kill(0, unix.SIGTSTP) }

// escapeMillis is how long the rest of a key may take that begins with the escape
// character; a slow line may send it in two parts.
const escapeMillis = 50

// readKeys sends keys until the terminal is gone or quit can be read from; then it
// closes keys.
func (t *terminal) readKeys(quit *os.File, keys chan<- key) {
	defer close(keys)
	var in []byte
	for {
		for {
			k, n := nextKey(in, false)
			if n == 0 {
				break
			}
			in = in[n:]
			keys <- k
		}
		timeout := -1
		if len(in) > 0 {
			timeout = escapeMillis
		}
		ready, err := t.poll(quit, timeout)
		switch {
		case err != nil:
			return
		case !ready: // nothing more is coming
			k, n := nextKey(in, true)
			in = in[n:]
			keys <- k
		default:
			var b [256]byte
			n, err := unix.Read(int(t.in.Fd()), b[:])
			if err == unix.EINTR || err == unix.EAGAIN {
				continue
			}
			if n <= 0 || err != nil {
				return
			}
			in = append(in, b[:n]...)
		}
	}
}

// poll waits until something can be read; an error means that this is over.
func (t *terminal) poll(quit *os.File, millis int) (ready bool, err error) {
	fds := []unix.PollFd{{Fd: int32(t.in.Fd()), Events: unix.POLLIN}, {Fd: int32(quit.Fd()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, millis)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return false, err
		case fds[1].Revents != 0:
			return false, io.EOF
		}
		return n > 0, nil
	}
}

// notifyResized lets c know when the terminal has another size.
func notifyResized(c chan<- os.Signal) { signal.Notify(c, unix.SIGWINCH) }
