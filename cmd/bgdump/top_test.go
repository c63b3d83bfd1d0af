//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A session of -top on a terminal of its own.
type session struct {
	*pty
	src     *scripted
	clock   *fakeClock
	resized chan os.Signal
	cancel  context.CancelFunc
	ended   chan error
	panics  chan any
}

func topOn(t *testing.T, width, height int, set *settings, suspend func()) *session {
	t.Helper()
	s := &session{
		pty: openPTY(t, width, height), src: new(scripted), clock: newFakeClock(),
		resized: make(chan os.Signal), ended: make(chan error, 1), panics: make(chan any, 1),
	}
	s.src.gives(shop(t), nil)
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	sur := &surroundings{stdin: s.slave, stdout: s.slave, clock: s.clock, resized: s.resized, suspend: suspend}
	if set == nil {
		set = new(settings)
	}
	set.interval = time.Second
	go func() {
		defer func() { s.panics <- recover() }()
		s.ended <- runTop(ctx, set, s.src, sur)
	}()
	t.Cleanup(cancel)
	return s
}

// end waits for the end, and checks what it leaves behind.
func (s *session) end() error {
	s.t.Helper()
	if p := <-s.panics; p != nil {
		s.t.Fatalf("it panicked: %v", p)
	}
	s.restored()
	return <-s.ended
}

// row is the position of the line with that text, -1 if there is none.
func row(text, part string) int {
	before, _, found := strings.Cut(text, part)
	if !found {
		return -1
	}
	return strings.Count(before, "\n")
}

func TestTopShowsTotalsAndThenRates(t *testing.T) {
	s := topOn(t, 120, 24, nil, nil)
	s.shows("shop, process 4711 on web-3", "all since the start (60.0s)")
	if got := termios(t, s.slave); got == s.before {
		t.Error("keys are still collected to lines")
	}
	s.src.gives(later(shop(t), 10*time.Second), nil)
	s.clock.advance(time.Second)
	text := s.shows("the last 10.0s", "29,192 steps/s")
	testenv.Golden(t, "top-120.txt", []byte(text))
	s.types("q")
	noErr(t, s.end())
}

func TestTopSortsScrollsAndSearches(t *testing.T) {
	s := topOn(t, 110, 10, nil, nil) // room for 5 rows
	first := s.shows("all since")
	if row(first, "read web") != 4 || !strings.Contains(first, "*Now") {
		t.Errorf("not sorted by tasks:\n%s", first)
	}
	s.types("w")
	s.until("by wait", func(text string) bool { return row(text, "sleep web") == 6 && strings.Contains(text, "*Wait") })
	s.types("-")
	s.until("by wait, the least first", func(text string) bool { return row(text, "sleep web") == -1 && strings.Contains(text, "^Wait") })
	s.types("\x1b[D\x1bOD") // left, twice: back to Now
	s.until("by tasks", func(text string) bool { return row(text, "read web") == 4 && strings.Contains(text, "*Now") })
	s.types("\x1b[D")
	s.until("by name", func(text string) bool { return row(text, "accept web") == 4 && strings.Contains(text, "*Node") })
	s.types("\x1b[C")
	s.shows("*Now")
	s.types("\x1b[B\x1b[B")
	s.until("two rows further", func(text string) bool { return row(text, "render page") == 4 })
	s.types("\x1b[6~\x1b[6~\x1b[6~\x1b[6~")
	s.until("the last row", func(text string) bool { return row(text, "overflow") == 8 && !strings.Contains(text, "more below") })
	s.types("\x1b[H")
	s.until("the first row", func(text string) bool { return row(text, "read web") == 4 })
	s.types("\x1b[F\x1b[A")
	s.until("all but the last row", func(text string) bool { return strings.Contains(text, "1 more below") })

	s.types("/se(ss")
	s.shows("match (Enter: all): se(ss_")
	s.types("\r")
	s.shows("not a regular expression: se(ss_")
	s.types("\x7f\x7f\x7fs")
	s.shows("match (Enter: all): ses_")
	s.types("s\r")
	s.until("what matches", func(text string) bool {
		return strings.Contains(text, "focus sess") && row(text, "mutex web") == 4 && row(text, "read web") == -1
	})
	s.types("/\x15nothing\x1b[Xq") // the escape sequence means nothing; q is text here
	s.shows("match (Enter: all): nothingq_")
	s.types("\x1b") // alone
	s.until("the focus as before", func(text string) bool { return strings.Contains(text, "focus sess") && row(text, "match (") == -1 })
	s.types("/\x15\r")
	s.until("everything", func(text string) bool { return !strings.Contains(text, "focus sess") && row(text, "read web") == 4 })
	s.types("Q")
	noErr(t, s.end())
}

func TestTopPauses(t *testing.T) {
	s := topOn(t, 100, 20, nil, nil)
	s.shows("all since")
	s.types("p")
	s.shows("PAUSED at")
	asked := s.src.count()
	s.src.gives(later(shop(t), 5*time.Second), nil)
	for range 3 {
		s.clock.advance(time.Second)
	}
	s.types("?") // has it dealt with the time before?
	s.shows("Keys")
	s.types("?")
	if n := s.src.count(); n != asked {
		t.Errorf("asked %d times during the pause", n-asked)
	}
	s.types(" ")
	s.shows("the last 5.00s")
	if n := s.src.count(); n != asked+1 {
		t.Errorf("asked %d times after the pause, want once", n-asked)
	}
	s.types("\x03")
	noErr(t, s.end())
}

func TestTopWhenTheSourceIsAway(t *testing.T) {
	s := topOn(t, 100, 20, nil, nil)
	s.shows("all since")
	s.src.gives(nil, errors.New("nobody\nlistens \x1b[5mthere"))
	s.clock.advance(time.Second)
	s.shows("NO ANSWER since "+s.clock.Now().Local().Format(time.TimeOnly)+": nobody listens ?[5mthere", "read web")
	s.clock.advance(time.Second)
	s.src.gives(later(shop(t), 5*time.Second), nil)
	s.clock.advance(time.Second)
	s.shows("the last 5.00s")
	again := shop(t)
	again.Program.PID, again.Program.Started = 5000, again.Program.Started.Add(time.Hour)
	s.src.gives(again, nil)
	s.clock.advance(time.Second)
	s.shows("process 5000", "all since the start")
	s.cancel() // as SIGTERM does
	noErr(t, s.end())
}

func TestTopDoesNotAskTwiceAtATime(t *testing.T) {
	s := topOn(t, 100, 20, nil, nil)
	s.shows("all since")
	answer := make(chan *bgraph.Snapshot)
	var asked atomic.Int32
	s.src.does(func() (*bgraph.Snapshot, error) {
		asked.Add(1)
		return <-answer, nil
	})
	for range 3 {
		s.clock.advance(time.Second)
	}
	s.types("?")
	s.shows("Keys") // a source that is slow does not make the keys slow
	s.types("?")
	answer <- later(shop(t), 2*time.Second)
	s.shows("the last 2.00s")
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times at once", n)
	}
	s.types("q")
	noErr(t, s.end())
}

func TestTopInOtherSizes(t *testing.T) {
	s := topOn(t, 80, 24, &settings{sort: "-oldest"}, nil)
	testenv.Golden(t, "top-80.txt", []byte(s.until("the whole table", func(text string) bool { return row(text, "q quit") == 23 })))
	s.types("?")
	testenv.Golden(t, "top-help.txt", []byte(s.shows("Keys", "the place where tasks wait")))
	s.types("?")
	for _, size := range [][2]int{{200, 8}, {44, 12}, {20, 6}} {
		s.resize(size[0], size[1])
		s.resized <- syscall.SIGWINCH
		s.until("all lines", func(text string) bool {
			return row(text, "q quit") == size[1]-1 && strings.Contains(text, "Oldest") == (size[0] > 20)
		})
	}
	s.resize(19, 5)
	s.resized <- syscall.SIGWINCH
	s.shows("The term")
	s.resize(0, 0) // as on a serial line
	s.resized <- syscall.SIGWINCH
	s.types("q")
	noErr(t, s.end())
}

func TestTopIsSuspended(t *testing.T) {
	var s *session
	suspended := make(chan bool)
	goOn := make(chan bool)
	s = topOn(t, 100, 20, nil, func() { suspended <- true; <-goOn })
	s.shows("all since")
	s.types("\x1a")
	<-suspended
	s.restored()
	goOn <- true
	s.shows("all since")
	if termios(t, s.slave) == s.before {
		t.Error("keys are collected to lines")
	}
	s.types("\x0c")
	s.shows("all since")
	s.types("q")
	noErr(t, s.end())
}

func TestTopRestoresTheTerminalAfterAPanic(t *testing.T) {
	s := topOn(t, 100, 20, nil, nil)
	s.shows("all since")
	s.src.does(func() (*bgraph.Snapshot, error) { panic("broken") })
	s.clock.advance(time.Second)
	if p, _ := (<-s.panics).(string); !strings.Contains(p, "broken") || !strings.Contains(p, "scripted") {
		t.Errorf("it ended with %q; want the panic and its stack", p)
	}
	s.restored()
}

func TestTopWhenTheTerminalGoesAway(t *testing.T) {
	s := topOn(t, 100, 20, nil, nil)
	s.shows("all since")
	noErr(t, s.master.Close())
	if p := <-s.panics; p != nil {
		t.Errorf("it panicked: %v", p)
	}
}

func TestTopNeedsATerminal(t *testing.T) {
	src := new(scripted)
	src.gives(shop(t), nil)
	err := runTop(context.Background(), new(settings), src, &surroundings{stdin: strings.NewReader(""), stdout: new(strings.Builder)})
	if err == nil || !strings.Contains(err.Error(), "-top needs a terminal, and the standard output is none") || src.count() != 0 {
		t.Errorf("got %v", err)
	}
}

func TestTopSaysOnTheOrdinaryScreenWhatIsWrongAtOnce(t *testing.T) {
	p := openPTY(t, 80, 24)
	src := new(scripted)
	src.gives(nil, errors.New("not there"))
	err := runTop(context.Background(), new(settings), src, &surroundings{stdin: p.slave, stdout: p.slave})
	if err == nil || err.Error() != "not there" {
		t.Errorf("got %v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.raw.Len() != 0 {
		t.Errorf("written to the terminal: %q", p.raw.String())
	}
}

// The command as a whole, ended by a signal.
func TestTopEndsOnSIGTERM(t *testing.T) {
	dir := recordings(t, 3)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
		p := openPTY(t, 100, 20)
		cmd := exec.Command("/proc/self/exe", "-top", dir)
		cmd.Env = append(os.Environ(), roleVariable+"=bgdump")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = p.slave, p.slave, p.slave
		noErr(t, cmd.Start())
		p.shows("shop, process 4711", "q quit")
		noErr(t, cmd.Process.Signal(signal))
		noErr(t, cmd.Wait())
		p.restored()
	}
}

// Keys come from the terminal of the process if the standard input is something else.
func TestTopWithAnotherStandardInput(t *testing.T) {
	p := openPTY(t, 100, 20)
	cmd := exec.Command("/proc/self/exe", "-top", recordings(t, 1))
	cmd.Env = append(os.Environ(), roleVariable+"=bgdump")
	cmd.Stdout, cmd.Stderr = p.slave, p.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
	noErr(t, cmd.Start())
	p.shows("q quit")
	p.types("q")
	noErr(t, cmd.Wait())
	p.restored()
}

func TestAProfileIsNotForTerminals(t *testing.T) {
	p := openPTY(t, 80, 24)
	sur := &surroundings{stdout: p.slave, clock: newFakeClock()}
	commandIn(t, context.Background(), sur, "-pprof", shopFile).fails(t, "write it to a file with -o FILE")
	r := commandIn(t, context.Background(), &surroundings{stdout: p.slave, clock: newFakeClock()}, "-limit", "1", shopFile)
	if r.code != exitOK {
		t.Fatalf("%+v", r)
	}
	if text := p.shows("LOOK AT FIRST"); strings.Contains(text, "edges a loop)x") {
		t.Error(text)
	}
}
