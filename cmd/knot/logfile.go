package main

import (
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/logwriter"
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
		return &logFile{Writer: stdout}, nil
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

// onHangup decides what SIGHUP does until stop is called. If log is a file that can be, it is opened anew, and
// reload is called unless it is nil. If there is neither, there is nothing to do, unless the terminal
// is gone that knot was started from: then end is called.
func (c *caught) onHangup(log *logFile, reload func(), errorLog *slog.Logger, end func()) (stop func()) {
	reopens := log != nil && log.reopens
	if !reopens && reload == nil && c.nohup {
		signal.Ignore(syscall.SIGHUP)
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range c.hangups {
			if !reopens && reload == nil {
				if terminalGone(int(os.Stdin.Fd())) {
					end()
				} else {
					errorLog.Info("knot: SIGHUP: there is no log file (-log) to open anew")
				}
				continue
			}
			if reopens {
				if err := log.reopen(); err != nil {
					errorLog.Error("knot: the access log can't be opened anew; the old file stays in use", "error", err)
				}
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
