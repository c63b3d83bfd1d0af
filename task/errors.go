package task

import "github.com/capriccio-go/capriccio/internal/engine"

// ErrShutdown is the cause with which the tasks of a runtime are cancelled when it is
// shut down, and the error for what it can't do after that. errors.Is(ErrShutdown,
// context.Canceled) holds.
var ErrShutdown = engine.ErrShutdown

// ErrGoexit is what Join returns for a task that ended by runtime.Goexit.
var ErrGoexit = engine.ErrGoexit

// A PanicError describes a panic of a task:
//
//	type PanicError struct {
//		Task  string // name and number
//		Value any    // what panic was called with
//		Stack []byte // of the task, where it panicked
//	}
//
// Unwrap returns the value if it is an error.
type PanicError = engine.PanicError
