// Package ownctx gives the packages of this module the methods of a knot.Ctx that programs do not need: those of a proxy and
// of the command. It lies below package knot and does not know it.
package ownctx

import "time"

// inner is that of package knot; nil in programs without it.
var inner func(x any) any

// Register is for package knot, when it is initialised.
func Register(of func(x any) any) { inner = of }

// Of returns the value with these methods for a *knot.Ctx. Its user asserts the methods that it needs; package knot documents
// them.
func Of(x any) any { return inner(x) }

// StatusGone is the status in the access log of a request whose client has disconnected, as nginx has it: nothing is sent.
const StatusGone = 499

// A Demand is what a request says of how long its client will wait, and how important it is, and by which lines that is passed on.
type Demand struct {
	TimeoutHeader, UrgencyHeader string    // "": it is neither read nor passed on
	Deadline                     time.Time // zero: none
	Urgency                      int
	Urgent                       bool // Urgency was said
}

// A Body is the body of a request that is read beside the handler that writes the response: on another task or goroutine, one
// at a time.
type Body interface {
	// Read is that of knot's Ctx.Body. It parks.
	Read(p []byte) (int, error)
	// Unread reports whether the client is known to have sent more, so that a Read will not wait. It may park while another
	// Read waits.
	Unread() bool
	// Trailer returns the lines of the trailer, each with its CR LF, once Read has returned io.EOF, without lines that may not
	// stand in a trailer (RFC 9110, 6.5.1). It may park.
	Trailer() []byte
	// End interrupts a Read that waits, and gives the rest of the body back to the request. It is for the handler. It may
	// park.
	End()
}

// A LoggedError is the error of a handler that says itself what the log has of it.
type LoggedError interface {
	error
	// LogLine returns the message, and keys and values by turns. The server adds what it knows of the request.
	LogLine() (message string, attrs []any)
}

// A Receiver takes the response to a request that the method Fetch has begun. Its methods are called one after another by the task of
// that request, and may park;
// bytes that they get are views. An error of Head or Body ends the request.
type Receiver interface {
	// Head takes the head of the response, once; each calls a function for its lines, without those that frame the body, until
	// that returns false. length is that of the body in bytes, -1: not known. Informational responses (1xx) are left out.
	Head(status int, length int64, each func(func(name, value []byte) bool)) error
	// Body takes a piece of the body.
	Body(piece []byte) error
	// End is the last call: nil, or why the response is not whole, or there is none: what the handler has returned, too.
	End(err error)
}
