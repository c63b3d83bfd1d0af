//go:build linux

package aio

import (
	"context"
	"errors"
	"io/fs"
	"net"
)

var (
	errNegativeOffset = errors.New("negative offset")
	errAppendAt       = errors.New("WriteAt on a file opened with O_APPEND, which writes at the end only")
)

// errClosed is fs.ErrClosed, and net.ErrClosed for code that serves files and sockets.
var errClosed error = fileClosed{}

type fileClosed struct{}

func (fileClosed) Error() string { return fs.ErrClosed.Error() }
func (fileClosed) Is(target error) bool {
	return target == fs.ErrClosed || target == net.ErrClosed
}

// A contextError means that the waiting task's context ended.
type contextError struct{ err error }

func (e *contextError) Error() string { return "wait abandoned: " + e.err.Error() }
func (e *contextError) Unwrap() error { return e.err }
func (e *contextError) Timeout() bool { return errors.Is(e.err, context.DeadlineExceeded) }

// fail makes the error of an operation on f; it is apart to keep callers' frames small.
//
//go:noinline
func (f *File) fail(op string, err error) error { return pathError(op, f.name, err) }

//go:noinline
func pathError(op, path string, err error) error {
	return &fs.PathError{Op: op, Path: path, Err: err}
}
