package main

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/logwriter"
	"github.com/capriccio-go/capriccio/knot"
)

// A logFile is where the access log goes.
type logFile struct {
	*logwriter.Writer
	name    string   // fixed
	reopens bool     // rotation opens it again, which a pipe does not allow; fixed
	file    *os.File // nil: the standard output, which is not ours to close. Only the caller of reopen touches it
}

// openLog opens the access log of that name; - is stdout, and the empty name nil.
func openLog(name string, stdout *logwriter.Writer, errorLog *slog.Logger) (*logFile, error) {
	switch name {
	case "":
		return nil, nil
	case "-":
		return &logFile{name: name, Writer: stdout}, nil
	}
	l := &logFile{name: name, Writer: logwriter.New(nil, "knot: the access log", func() *slog.Logger { return errorLog })}
	if err := l.reopen(); err != nil {
		return nil, err
	}
	info, err := l.file.Stat()
	l.reopens = err != nil || info.Mode().IsRegular()
	return l, nil
}

// reopen opens the file anew under its name, after it was renamed to begin another. It leaves the old file in use if the
// new one can't be opened.
func (l *logFile) reopen() error {
	file, err := os.OpenFile(l.name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	l.Redirect(file)
	old := l.file
	l.file = file
	if old != nil {
		return old.Close()
	}
	return nil
}

// close writes what is left.
func (l *logFile) close() error {
	err := l.Flush()
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
	}
	return err
}

// retire writes what is left, when hardly a line is written to it any more. Late lines go nowhere.
func (l *logFile) retire(errorLog *slog.Logger) {
	if l == nil || l.file == nil {
		return
	}
	err := l.Drain(lastWords)
	if err == nil {
		l.Redirect(io.Discard)
		err = l.file.Close()
	} else {
		l.file.Close() // which ends the Write that waits
		l.Redirect(io.Discard)
	}
	if err != nil {
		errorLog.Error("knot: what was left of the access log that was switched off could not be written", "log", l.name, "error", err)
	}
}

// An accessLog is where the access log goes at the moment. Safe from any goroutine but those of loops.
type accessLog struct {
	stdout   *logwriter.Writer
	errorLog *slog.Logger

	mu  sync.Mutex
	now *logFile // nil: nowhere; guarded by mu
}

// open opens the log that set wants, for its server.
func (a *accessLog) open(set *settings) (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now, err = openLog(set.log, a.stdout, a.errorLog)
	a.now.serves(set)
	return err
}

// serves gives the server of set an AccessLog to l.
func (l *logFile) serves(set *settings) {
	if l != nil {
		set.server.AccessLog = knot.NewAccessLog(l.Writer, set.format)
	}
}

// prepare is open for a reload: a log of the same name stays open.
func (a *accessLog) prepare(fresh *settings, errorLog *slog.Logger) (change, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.now
	if old != nil && old.name == fresh.log || old == nil && fresh.log == "" {
		old.serves(fresh)
		return change{func() {}, func() {}}, nil
	}
	next, err := openLog(fresh.log, a.stdout, a.errorLog)
	if err != nil {
		return change{}, err
	}
	next.serves(fresh)
	return change{
		undo: func() { next.retire(errorLog) },
		apply: func() {
			a.mu.Lock()
			a.now = next
			a.mu.Unlock()
			old.retire(errorLog)
		},
	}, nil
}

// reopen opens the log anew if it is a file that can be, see logFile.reopen.
func (a *accessLog) reopen() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now == nil || !a.now.reopens {
		return nil
	}
	return a.now.reopen()
}

func (a *accessLog) reopens() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now != nil && a.now.reopens
}

// dropped is how many lines were lost of the log of the moment.
func (a *accessLog) dropped() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now == nil {
		return 0
	}
	return a.now.Dropped()
}

// close writes what is left.
func (a *accessLog) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now == nil {
		return nil
	}
	return a.now.close()
}

// onHangup decides what SIGHUP does until stop is called. If log is a file that can be, it is opened anew, and
// reload is called unless it is nil. If there is neither, there is nothing to do, unless the terminal
// is gone that knot was started from: then end is called.
func (c *caught) onHangup(log *accessLog, reload func(), errorLog *slog.Logger, end func()) (stop func()) {
	if !log.reopens() && reload == nil && c.nohup {
		signal.Ignore(syscall.SIGHUP)
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range c.hangups {
			if !log.reopens() && reload == nil {
				if terminalGone(int(os.Stdin.Fd())) {
					end()
				} else {
					errorLog.Info("knot: SIGHUP: there is no log file (-log) to open anew")
				}
				continue
			}
			if err := log.reopen(); err != nil {
				errorLog.Error("knot: the access log can't be opened anew; the old file stays in use", "error", err)
			}
			if reload != nil {
				reload()
			}
		}
	}()
	return func() {
		signal.Stop(c.hangups)
		close(c.hangups)
		<-ended
	}
}

// terminalGone reports whether fd is a terminal that was hung up: every ioctl then fails with
// EIO.
func terminalGone(fd int) bool {
	var attributes syscall.Termios
	_, _, err := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TCGETS, uintptr(unsafe.Pointer(&attributes)))
	return err == syscall.EIO
}
