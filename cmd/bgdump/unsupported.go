//go:build !linux

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
)

// Other systems than Linux have no /proc, so processes can't be asked. Files, traces and URLs work as on Linux.

type kernel struct{}

func systemKernel() *kernel { return nil }

func (*kernel) listening(int, bool) ([]string, error) {
	return nil, errors.New("that is known on Linux only")
}

func (*kernel) cpu(int) (time.Duration, error) { return 0, errors.New("that is known on Linux only") }

type processSource struct {
	pid     int
	kernel  *kernel
	clock   clock
	timeout time.Duration
}

func (*processSource) isPlainGo() bool { return false }

func (*processSource) Name() string { return "the process" }

func (*processSource) Snapshot(context.Context) (*bgraph.Snapshot, error) {
	return nil, errors.New("a process can be asked by its id on Linux only; name the URL of its admin address, or a file")
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func terminalWidth(io.Writer) int { return 0 }
