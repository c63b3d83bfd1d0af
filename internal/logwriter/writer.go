// Package logwriter writes logs beside the loops. A Writer takes bytes, and Default takes the records of a slog.Logger;
// a goroutine writes them, which exists only while there is something to write. So a task that logs never waits for the
// reader of a pipe, for a terminal or for a disk. The queue of lines to be written is bounded; lines beyond are dropped and
// counted. All functions are safe from anywhere; a function that blocks says so.
package logwriter

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

const (
	// maxBuffered bounds what waits to be written, in bytes: some thousands of lines. As much may be in the Write
	// that is under way.
	maxBuffered = 1 << 20
	// flushSize makes lines be written at once, in bytes, however long they might wait.
	flushSize = 64 << 10
	// troubleEvery is how often lost lines are reported while more get lost.
	troubleEvery = time.Minute
)

// Stderr writes to the standard error.
var Stderr = New(os.Stderr, "the standard error", nil)

// A Writer writes lines to a file that may be slow or fail.
//
// mu is never held during a Write of the file, and writing is never taken by Write and Append.
type Writer struct {
	name string              // of what is written, for reports; fixed
	log  func() *slog.Logger // gets the reports; its result may be nil; fixed
	now  func() time.Time    // fixed

	writing sync.Mutex // held while out is written to
	out     io.Writer  // guarded by writing
	torn    bool       // the last Write that failed has left a part of a line; guarded by writing
	trouble trouble    // guarded by writing
	err     error      // of the last write to out; guarded by writing

	mu      sync.Mutex
	buf     []byte      // guarded by mu
	spare   []byte      // guarded by mu
	timer   *time.Timer // guarded by mu
	armed   bool        // a Flush is to come; guarded by mu
	urgent  bool        // ... at once; guarded by mu
	dropped uint64      // lines for which there was no room; guarded by mu
	failed  uint64      // lines lost in writes that failed; guarded by mu
}

// trouble is what has been said about lost lines. Guarded by its owner's lock.
//
//	fine ──lines lost──▶ told ──none lost for once──▶ fine
//	                     told ──more lost, a minute later──▶ told again
type trouble struct {
	told    time.Time // when lost lines were last reported; zero: fine
	failed  uint64    // lines lost in writes that failed, since then
	dropped uint64    // value of Writer.dropped that has been reported
}

// New returns a Writer to out, which gets one Write at a time. Lost lines are reported to log; nil means in the Writer's
// own lines. name is their subject.
func New(out io.Writer, name string, log func() *slog.Logger) *Writer {
	w := &Writer{name: name, log: log, now: time.Now, out: out}
	if log == nil {
		own := slog.New(slog.NewTextHandler(ownLines{w}, nil))
		w.log = func() *slog.Logger { return own }
	}
	return w
}

// Write takes whole lines, to be written at once. It neither blocks nor fails.
func (w *Writer) Write(lines []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.buf) >= maxBuffered {
		w.dropped += countLines(lines)
	} else {
		w.take(lines)
	}
	return len(lines), nil
}

// take needs mu.
func (w *Writer) take(lines []byte) {
	w.buf = append(w.buf, lines...)
	w.arm(0)
}

// ownLines takes a Writer's reports of itself, for which there is always room: they are few.
type ownLines struct{ *Writer }

func (o ownLines) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.take(line)
	return len(line), nil
}

// Append takes a line that line appends to the buffer that it is given. The line may wait for delay, for others to be
// written with it. line must not block.
func (w *Writer) Append(delay time.Duration, line func(buf []byte) []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.buf) >= maxBuffered {
		w.dropped++
		return
	}
	w.buf = line(w.buf)
	if len(w.buf) >= flushSize {
		delay = 0
	}
	w.arm(delay)
}

// arm has the buffer written after a time. It needs mu.
func (w *Writer) arm(after time.Duration) {
	switch {
	case w.armed && (after > 0 || w.urgent):
		return
	case after == 0:
		go w.Flush()
	case w.timer == nil:
		w.timer = time.AfterFunc(after, func() { w.Flush() })
	default:
		w.timer.Reset(after)
	}
	w.armed, w.urgent = true, after == 0
}

// Flush writes what is buffered, and returns the error of the last write. It blocks as long as the file's Write does.
func (w *Writer) Flush() error {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.mu.Lock()
	full := w.buf
	w.buf, w.spare = w.spare[:0], nil
	w.armed, w.urgent = false, false
	w.mu.Unlock()
	var lost uint64 // lines
	if len(full) > 0 {
		lost, w.err = w.write(full)
		w.report(lost, w.err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed += lost
	if cap(full) <= 2*flushSize && w.spare == nil {
		w.spare = full[:0]
	}
	return w.err
}

// Drain is Flush that blocks no longer than patience. Then its error says that the file takes nothing.
func (w *Writer) Drain(patience time.Duration) error {
	return within(patience, w.name, w.Flush)
}

// within calls flush, and blocks no longer than patience.
func within(patience time.Duration, name string, flush func() error) error {
	done := make(chan error, 1)
	go func() { done <- flush() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return fmt.Errorf("%s: the last lines were not taken within %v", name, patience)
	}
}

// Redirect has later lines written to out. It waits for the Write that is under way.
func (w *Writer) Redirect(out io.Writer) {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.out, w.torn, w.err = out, false, nil
}

// write writes lines, and returns how many are lost. The caller holds writing.
func (w *Writer) write(lines []byte) (lost uint64, err error) {
	n := 0
	if w.torn { // the next line is not to be lost as well
		if _, err = w.out.Write([]byte{'\n'}); err == nil {
			w.torn = false
		}
	}
	if err == nil {
		n, err = w.out.Write(lines)
	}
	if err == nil && n < len(lines) {
		err = io.ErrShortWrite
	}
	if err == nil {
		return 0, nil
	}
	n = min(max(n, 0), len(lines))
	w.torn = w.torn || n > 0 && lines[n-1] != '\n'
	return countLines(lines[n:]), err
}

func countLines(text []byte) uint64 { return uint64(bytes.Count(text, []byte{'\n'})) }

// report logs when lines begin to get lost, at most once a minute while more do, and when they are written again. lost
// are the lines that a Write that failed with err has left. The caller holds writing.
func (w *Writer) report(lost uint64, err error) {
	w.mu.Lock()
	dropped := w.dropped
	w.mu.Unlock()
	log, t := w.log(), &w.trouble
	t.failed += lost
	now, slow := w.now(), dropped-t.dropped
	switch {
	case log == nil:
	case err == nil && slow == 0 && !t.told.IsZero():
		log.Info(w.name+" is written again", "lines_lost", t.failed)
		*t = trouble{dropped: dropped}
	case err == nil && slow == 0, !t.told.IsZero() && now.Sub(t.told) < troubleEvery:
	case err != nil:
		log.Error(w.name+" can't be written, lines are lost", "error", err, "lines_lost", t.failed+slow)
		*t = trouble{told: now, dropped: dropped}
	default:
		log.Warn(w.name+" is written too slowly, lines are lost", "lines_lost", t.failed+slow)
		*t = trouble{told: now, dropped: dropped}
	}
}

// Dropped is how many lines were lost because the file's Write has failed or was too slow.
func (w *Writer) Dropped() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped + w.failed
}
