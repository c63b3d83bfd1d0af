package main

import (
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"unsafe"
)

// keepOpen is a log that is not ours to close.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

func openLog(name string, stdout io.Writer) (io.WriteCloser, error) {
	if name == "-" {
		return keepOpen{stdout}, nil
	}
	l := &logFile{name: name}
	if err := l.reopen(); err != nil {
		return nil, err
	}
	if info, err := l.file.Stat(); err == nil && !info.Mode().IsRegular() {
		return l.file, nil // a pipe, of which there is no other to be opened
	}
	return l, nil
}

// A logFile is a file that can be opened anew under its name, after somebody has renamed it to
// begin another.
type logFile struct {
	name string // fixed
	mu   sync.Mutex
	file *os.File // guarded by mu
}

// reopen leaves the old file in use if the new one can't be opened.
func (l *logFile) reopen() error {
	file, err := os.OpenFile(l.name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.file
	l.file = file
	if old != nil {
		return old.Close()
	}
	return nil
}

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Write(p)
}

func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// onHangup decides what SIGHUP does until stop is called. If log is a file, that is opened anew, and
// reload is called unless it is nil. If there is neither, there is nothing to do, unless the terminal
// is gone that knot was started from: then end is called.
func (c *caught) onHangup(log io.Writer, reload func(), errorLog *slog.Logger, end func()) (stop func()) {
	file, _ := log.(*logFile)
	if file == nil && reload == nil && c.nohup {
		signal.Ignore(syscall.SIGHUP)
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range c.hangups {
			if file == nil && reload == nil {
				if terminalGone(int(os.Stdin.Fd())) {
					end()
				} else {
					errorLog.Info("knot: SIGHUP: there is no log file (-log) to open anew")
				}
				continue
			}
			if file != nil {
				if err := file.reopen(); err != nil {
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
