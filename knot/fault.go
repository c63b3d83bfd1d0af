package knot

import "github.com/capriccio-go/capriccio/knot/internal/h1"

// fault is a Fault as what reads a body returns it.
type fault h1.Fault

func (f *fault) Error() string { return f.Reason }

// Is lets errors.Is(err, knot.Status(413)) work on what a body read returns.
func (f *fault) Is(target error) bool {
	status, ok := target.(Status)
	return ok && f.Status == int(status)
}
