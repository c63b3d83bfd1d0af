package logwriter

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A stalledFile takes nothing until its reader comes.
type stalledFile struct {
	testenv.Buffer
	reader chan struct{} // closed when it comes
}

func (f *stalledFile) Write(p []byte) (int, error) {
	<-f.reader
	return f.Buffer.Write(p)
}

// TestReaderThatStalls: the task that logs does not wait, what it logs does not pile up, and the reader learns how much is
// missing when it comes back.
func TestReaderThatStalls(t *testing.T) {
	f := &stalledFile{reader: make(chan struct{})}
	w := New(f, "the log", nil)
	line := strings.Repeat("x", 999) + "\n"
	written := 0
	for ; w.Dropped() < 10; written++ {
		io.WriteString(w, line)
	}
	testenv.AtMost(t, len(w.buf), maxBuffered+len(line), "bytes wait")
	testenv.Fails(t, w.Drain(time.Millisecond), "Drain does not say that lines are left")
	close(f.reader)
	testenv.Until(t, "the loss is told", func() bool {
		return strings.Contains(f.String(), `msg="the log is written too slowly, lines are lost" lines_lost=10`)
	})
	testenv.Must(t, w.Drain(time.Minute))
	testenv.Equal(t, strings.Count(f.String(), line), written-10, "lines have come")
}

// TestLinesWaitForOthers: lines may wait for each other, but not behind one that may not.
func TestLinesWaitForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := new(testenv.Buffer)
		w := New(out, "the log", nil)
		add := func(text string) {
			w.Append(time.Second, func(b []byte) []byte { return append(b, text...) })
		}
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			testenv.Equal(t, out.String(), want, "written")
		}
		add("a\n")
		expect("")
		time.Sleep(time.Second)
		expect("a\n")
		add("b\n")
		io.WriteString(w, "c\n")
		expect("a\nb\nc\n")
		long := strings.Repeat("d", flushSize) + "\n"
		add(long)
		expect("a\nb\nc\n" + long)
	})
}

// fickleFile writes half of what it is given and fails, as long as fail is set.
type fickleFile struct{ fail error }

func (f *fickleFile) Write(p []byte) (int, error) {
	if f.fail != nil {
		return len(p) / 2, f.fail
	}
	return len(p), nil
}

// TestLostLinesAreReported: when it begins, once a minute, and when it is over.
func TestLostLinesAreReported(t *testing.T) {
	f := new(fickleFile)
	now := time.Unix(1e9, 0)
	var said testenv.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	w := New(f, "the log", func() *slog.Logger { return log })
	w.now = func() time.Time { return now }
	write := func(lines int) {
		w.Append(time.Hour, func(b []byte) []byte { return append(b, strings.Repeat("line\n", lines)...) })
		w.Flush()
	}
	seen := 0
	reported := func(what, want string) {
		t.Helper()
		got := said.String()[seen:]
		seen += len(got)
		if (want == "") != (got == "") || !strings.Contains(got, want) || strings.Count(got, "\n") > 1 {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	write(1)
	reported("all is well", "")
	f.fail = syscall.ENOSPC
	write(4) // two of them are written
	reported("the first failure", `level=ERROR msg="the log can't be written, lines are lost" error="no space left on device" lines_lost=2`)
	write(2)
	reported("soon after", "")
	now = now.Add(troubleEvery)
	write(4)
	reported("a minute later", "lines_lost=3")
	f.fail = nil
	write(1)
	reported("written again", "level=INFO")
	write(1)
	reported("and on", "")
	w.mu.Lock()
	w.dropped += 7
	w.mu.Unlock()
	write(1)
	reported("too slow", `level=WARN msg="the log is written too slowly, lines are lost" lines_lost=7`)
	testenv.Equal(t, w.Dropped(), 2+3+7, "lines are lost")
	testenv.Must(t, w.Flush(), "the last line is written")
	f.fail = syscall.ENOSPC
	write(1)
	testenv.ErrorIs(t, w.Flush(), syscall.ENOSPC, "the last line is lost")
	w.Redirect(new(fickleFile))
	testenv.Must(t, w.Flush(), "no line is lost of the other file")
}

// fullDisk takes room bytes.
type fullDisk struct {
	text []byte
	room int
}

func (d *fullDisk) Write(p []byte) (n int, err error) {
	if n = len(p); n > d.room {
		n, err = d.room, syscall.ENOSPC
	}
	d.text = append(d.text, p[:n]...)
	d.room -= n
	return n, err
}

// TestLineAfterAFullDisk: what a full disk has left of a line does not spoil the first one that has room again, be it there
// or in another file.
func TestLineAfterAFullDisk(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		d := &fullDisk{room: 10}
		w := New(d, "the log", func() *slog.Logger { return nil })
		write := func(text string) {
			io.WriteString(w, text)
			w.Flush()
		}
		write("lost 1\nlost 2\nlost 3\n")
		write("a\n") // there is still no room, not for a line break either
		want := "lost 1\nlos\nb\n"
		if elsewhere {
			d, want = new(fullDisk), "b\n"
			w.Redirect(d)
		}
		d.room = 1000
		write("b\n")
		testenv.Equal(t, string(d.text), want, "elsewhere: %v", elsewhere)
		testenv.Equal(t, w.Dropped(), 3, "lines are lost")
	}
}

// TestHandlerThatStalls: as TestReaderThatStalls, for records.
func TestHandlerThatStalls(t *testing.T) {
	f := &stalledFile{reader: make(chan struct{})}
	text := slog.NewTextHandler(f, nil)
	q := new(recordQueue)
	log := slog.New(beside{q, func() slog.Handler { return text }}).With("a", 1).WithGroup("g")
	long := strings.Repeat("x", 1000)
	put := 0
	for lost := 0; lost < 10; put++ {
		log.Info("said", "n", put, "long", long)
		q.mu.Lock()
		lost = q.dropped
		testenv.AtMost(t, q.size, maxBuffered+2000, "bytes wait")
		q.mu.Unlock()
	}
	testenv.Equal(t, log.Enabled(context.Background(), slog.LevelDebug), false, "a level that the handler does not want")
	close(f.reader)
	q.handle()
	testenv.Equal(t, strings.Count(f.String(), "a=1 g.n="), put-10, "records have come")
	testenv.Contains(t, f.String(), "records_lost=10", "the log")
}
