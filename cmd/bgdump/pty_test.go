//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A pty is a terminal that a test looks at and types on.
type pty struct {
	t      *testing.T
	master *os.File
	slave  *os.File // what the program under test has for a terminal
	before unix.Termios

	mu      sync.Mutex
	changed *sync.Cond
	raw     strings.Builder // guarded by mu: all that was ever written
	screen  *screen         // guarded by mu
	gone    bool            // guarded by mu: no more is coming
}

func openPTY(t *testing.T, width, height int) *pty {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no pseudo terminals here: ", err)
	}
	n := 0
	control(t, master, func(fd int) error {
		err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
		if err == nil {
			n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		}
		return err
	})
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	noErr(t, err)
	p := &pty{t: t, master: master, slave: slave, before: termios(t, slave)}
	p.changed = sync.NewCond(&p.mu)
	p.resize(width, height)
	read := make(chan bool)
	go func() {
		defer close(read)
		p.read()
	}()
	t.Cleanup(func() {
		master.Close()
		<-read
		slave.Close()
	})
	return p
}

// control leaves f in the mode in which Close ends a Read.
func control(t *testing.T, f *os.File, fn func(fd int) error) {
	t.Helper()
	conn, err := f.SyscallConn()
	noErr(t, err)
	noErr(t, conn.Control(func(fd uintptr) { err = fn(int(fd)) }))
	noErr(t, err)
}

func termios(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	got, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	noErr(t, err)
	return *got
}

func (p *pty) resize(width, height int) {
	control(p.t, p.master, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(height), Col: uint16(width)})
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.screen = newScreen(width, height)
}

func (p *pty) read() {
	b := make([]byte, 4096)
	for {
		n, err := p.master.Read(b)
		p.mu.Lock()
		p.raw.Write(b[:n])
		p.screen.write(b[:n])
		p.gone = err != nil
		p.changed.Broadcast()
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (p *pty) types(keys string) {
	p.t.Helper()
	_, err := p.master.WriteString(keys)
	noErr(p.t, err)
}

// patience is when a test gives up waiting for what should come at once.
const patience = 60 * time.Second

// shows waits until the screen has all of want.
func (p *pty) shows(want ...string) string {
	p.t.Helper()
	return p.until(fmt.Sprintf("%q", want), func(text string) bool {
		for _, w := range want {
			if !strings.Contains(text, w) {
				return false
			}
		}
		return true
	})
}

// until waits until what is on the screen is as wanted, and returns it.
func (p *pty) until(what string, is func(text string) bool) string {
	p.t.Helper()
	late := false
	timer := time.AfterFunc(patience, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		late = true
		p.changed.Broadcast()
	})
	defer timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !is(p.screen.String()) {
		if late || p.gone {
			p.t.Fatalf("the screen does not show %s; it is\n%s", what, p.screen)
		}
		p.changed.Wait()
	}
	return p.screen.String()
}

// restored says that the terminal is as it was, and what was on it is back.
func (p *pty) restored() {
	p.t.Helper()
	if termios(p.t, p.slave) != p.before {
		p.t.Error("the terminal has other settings than before")
	}
	p.until("the ordinary screen, with a cursor", func(string) bool { return !p.screen.alternate && p.screen.cursor && p.screen.wrap })
}

// A screen understands as much of what terminals do as -top makes use of, and panics
// at the rest.
type screen struct {
	width, height           int
	cells                   [][]rune
	row, col                int
	alternate, cursor, wrap bool
	pending                 []byte
	frame                   string // what was there before the one that is being drawn
	drawing                 bool
}

func newScreen(width, height int) *screen {
	s := &screen{width: width, height: height, cursor: true, wrap: true}
	s.clear()
	return s
}

func (s *screen) clear() {
	s.cells = make([][]rune, s.height)
	for i := range s.cells {
		s.cells[i] = []rune(strings.Repeat(" ", s.width))
	}
}

// String is what there is to see.
func (s *screen) String() string {
	if s.drawing {
		return s.frame
	}
	var lines []string
	for _, row := range s.cells {
		lines = append(lines, strings.TrimRight(string(row), " "))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

func (s *screen) write(b []byte) {
	s.pending = append(s.pending, b...)
	for len(s.pending) > 0 {
		k, n := nextRune(s.pending)
		if n == 0 {
			return // the rest is coming
		}
		seq := string(s.pending[:n])
		s.pending = s.pending[n:]
		switch {
		case k == 0x1b:
			s.control(seq)
		case k == '\r':
			s.col = 0
		case k == '\n':
			s.row = min(s.row+1, s.height-1)
		case s.col < s.width && s.row < s.height:
			s.cells[s.row][s.col] = k
			s.col++
		case s.wrap:
			s.col, s.row = 0, min(s.row+1, s.height-1)
		}
	}
}

// nextRune takes a character or a whole control sequence.
func nextRune(b []byte) (rune, int) {
	if b[0] != 0x1b {
		for n := 1; n <= min(4, len(b)); n++ {
			if r := []rune(string(b[:n])); len(r) == 1 && r[0] != '\uFFFD' {
				return r[0], n
			}
		}
		return 0, 0
	}
	for i := 2; i < len(b); i++ {
		if b[i] >= 0x40 && b[i] <= 0x7e {
			return 0x1b, i + 1
		}
	}
	return 0, 0
}

func (s *screen) control(seq string) {
	switch seq {
	case "\x1b[H":
		s.row, s.col = 0, 0
	case "\x1b[2J":
		s.clear()
	case beginFrame:
		s.frame, s.drawing = s.String(), true
	case endFrame:
		s.drawing = false
	case "\x1b[J":
		s.erase()
		for i := s.row + 1; i < s.height; i++ {
			s.cells[i] = []rune(strings.Repeat(" ", s.width))
		}
	case "\x1b[K":
		s.erase()
	case bold, inverse, plain:
	case "\x1b[?1049h":
		s.alternate = true
		s.clear()
	case "\x1b[?1049l":
		s.alternate = false
		s.clear()
	case "\x1b[?25h", "\x1b[?25l":
		s.cursor = seq[5] == 'h'
	case "\x1b[?7h", "\x1b[?7l":
		s.wrap = seq[4] == 'h'
	default:
		panic(fmt.Sprintf("unexpected control sequence %q", seq))
	}
}

func (s *screen) erase() {
	for i := s.col; i < s.width; i++ {
		s.cells[s.row][i] = ' '
	}
}
