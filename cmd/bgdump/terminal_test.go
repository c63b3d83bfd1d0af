//go:build linux

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// onTerminal runs fn with a terminal of 80 columns, and returns what was written to it.
func onTerminal(t *testing.T, fn func(terminal *os.File)) string {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no pseudo terminals here: ", err)
	}
	defer master.Close()
	fd := int(master.Fd())
	testenv.Must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n := testenv.Need(unix.IoctlGetInt(fd, unix.TIOCGPTN))(t)
	testenv.Must(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	slave := testenv.Need(os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	written := make(chan string)
	go func() {
		var b bytes.Buffer
		_, _ = io.Copy(&b, master) // ends with EIO once nobody has the terminal any more
		written <- b.String()
	}()
	fn(slave)
	slave.Close()
	return <-written
}

func TestAProfileIsNotForTerminals(t *testing.T) {
	onTerminal(t, func(terminal *os.File) {
		sur := &surroundings{stdout: terminal, clock: newFakeClock()}
		commandIn(t, context.Background(), sur, "-pprof", shopFile).fails(t, "write it to a file with -o FILE")
	})
}

func TestTablesInAFileDoNotFitTheTerminal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table")
	onTerminal(t, func(terminal *os.File) {
		commandIn(t, context.Background(), &surroundings{stdout: terminal, clock: newFakeClock()}, "-o", path, shopFile).ok(t)
	})
	if got, want := string(testenv.Need(os.ReadFile(path))(t)), command(t, shopFile).ok(t); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTablesFitTheTerminal(t *testing.T) {
	text := onTerminal(t, func(terminal *os.File) {
		sur := &surroundings{stdout: terminal, clock: newFakeClock()}
		if r := commandIn(t, context.Background(), sur, "-limit", "1", shopFile); r.code != exitOK {
			t.Errorf("%+v", r)
		}
	})
	if !strings.Contains(text, "LOOK AT FIRST") || strings.Contains(text, "edges a loop)x") {
		t.Error(text)
	}
}
