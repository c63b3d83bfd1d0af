//go:build linux

package sockaddr

import (
	"context"
	"errors"
	"os"
)

// Ended turns the error of a context that has ended into the one that Dial returns.
func Ended(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return ErrTimeout
	}
	return &dialCanceled{err}
}

// dialTimeout and dialCanceled stand for two errors that package net does not export, and
// say the same.

// ErrTimeout is a timeout in the words of every package.
var ErrTimeout error = dialTimeout{}

type dialTimeout struct{}

func (dialTimeout) Error() string   { return "i/o timeout" }
func (dialTimeout) Timeout() bool   { return true }
func (dialTimeout) Temporary() bool { return true }
func (dialTimeout) Is(target error) bool {
	return target == os.ErrDeadlineExceeded || target == context.DeadlineExceeded
}

type dialCanceled struct{ err error } // err is that of the context

func (*dialCanceled) Error() string   { return "operation was canceled" }
func (e *dialCanceled) Unwrap() error { return e.err }
