package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/knot"
)

// A failure is why a request could not be passed on, or its response not be passed back.
type failure struct {
	status  knot.Status
	cause   cause
	backend string
	err     error
	unsent  bool // the backend can't have acted upon the request
	silent  bool // nothing has come back
}

func (f *failure) Error() string {
	if f.backend == "" {
		return fmt.Sprintf("proxy: %v", f.err)
	}
	return fmt.Sprintf("proxy: backend %s: %s: %v", f.backend, f.cause, f.err)
}

// LogLine names the backend in a field of its own. It is for the server, see ownctx.LoggedError.
func (f *failure) LogLine() (message string, attrs []any) {
	switch f.cause {
	case causeNoBackend:
		return "no backend for a request", []any{"error", f.err}
	case causeQueue:
		return "backend has no free connection", []any{"backend", f.backend, "error", f.err}
	}
	return "backend failed", []any{"backend", f.backend, "cause", f.cause.String(), "error", f.err}
}

// Unwrap lets the server find the status.
func (f *failure) Unwrap() []error { return []error{f.status, f.err} }

var (
	errNoBackend = errors.New("no backend is well")
	errQueueFull = errors.New("as many requests wait as may")
	errQueued    = errors.New("waited too long for a connection")
	errGone      = errors.New("the client has gone")
)

// errRemoved is the error of a try whose backend was removed before the request was sent: while it waited for its turn, for instance.
var errRemoved = errors.New("the backend was removed")

// errOver stops the task that sends a body to a backend that has answered.
var errOver = errors.New("the backend has answered")

var errTooLong = errors.New("a head or a line of framing is too long")

// interrupted is the error of a request whose waits interrupt has ended, else nil.
func (e *exchange) interrupted() error {
	e.waits.mu.Lock()
	why := e.waits.why
	e.waits.mu.Unlock()
	var client *clientError
	switch {
	case errors.As(why, &client):
		return client.err
	case why != nil:
		return &failure{status: ownctx.StatusGone, cause: causeGone, backend: e.b.name, err: errGone}
	}
	return nil
}

// broken reports what an error of the connection means.
func (e *exchange) broken(err error, unsent, silent bool) error {
	var already *failure
	why := e.interrupted()
	switch {
	case why != nil:
		return why
	case errors.As(err, &already):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &failure{status: 504, cause: causeTimeout, backend: e.b.name, err: err}
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return &failure{status: 502, cause: causeBroken, backend: e.b.name, err: err, unsent: unsent, silent: silent}
}

// unreached is the failure of making a connection.
func (e *exchange) unreached(err error) error {
	if why := e.interrupted(); why != nil {
		return why
	}
	status := knot.Status(502)
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		status = 504
	}
	return &failure{status: status, cause: causeConnect, backend: e.b.name, err: err, unsent: true}
}

// malformed is the failure for bytes that are no response.
func (e *exchange) malformed(err error) error {
	return &failure{status: 502, cause: causeMalformed, backend: e.b.name, err: err}
}
