package main

import (
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// keepOpen is a log that is not ours to close.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

func openLog(name string, stdout io.Writer) (io.WriteCloser, error) {
	if name == "-" {
		return keepOpen{stdout}, nil
	}
	l := &logFile{name: name}
	return l, l.reopen()
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

// reopenOnHangup opens log anew at each SIGHUP until stop is called.
func reopenOnHangup(log io.WriteCloser, errorLog *slog.Logger) (stop func()) {
	l, ok := log.(*logFile)
	if !ok {
		return func() {}
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range hangups {
			if err := l.reopen(); err != nil {
				errorLog.Error("knot: access log can't be opened anew", "error", err)
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
		<-ended
	}
}
