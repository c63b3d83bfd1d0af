package site

import (
	"errors"

	"github.com/capriccio-go/capriccio/knot"
)

// A Guard has rules about which requests may pass.
type Guard interface {
	// Find is the index of the first rule that is for the request if its path were this one; -1: none is.
	Find(x *knot.Ctx, path []byte) int
	// Admit returns an error if that rule does not let the request pass: a Status, a Refusal, or what has failed. It may park.
	Admit(x *knot.Ctx, rule int) error
}

// A Refusal is an error of a Guard with a response of its own.
type Refusal struct {
	Status knot.Status
	Send   func(x *knot.Ctx) error // may park
}

func (r *Refusal) Error() string { return r.Status.Error() }

// Unwrap lets the server find the status.
func (r *Refusal) Unwrap() error { return r.Status }

// guard lets the request pass if the Guards do: by the clean path, and by the one that a backend may see, should other rules
// be for that. It may park.
func (s *Site) guard(x *knot.Ctx) error {
	if len(s.Guards) == 0 {
		return nil
	}
	if err := s.guardPath(x, x.PathBytes()); err != nil {
		return err
	}
	other := OtherPath(x)
	if other == nil {
		return nil
	}
	for _, g := range s.Guards {
		if g.Find(x, x.PathBytes()) != g.Find(x, other) {
			return s.guardPath(x, other)
		}
	}
	return nil
}

// guardPath asks the guards that have a rule for the request if its path were this one. Of several errors a 401 counts, for
// which the client can do something, else the first one.
func (s *Site) guardPath(x *knot.Ctx, path []byte) (refused error) {
	for _, g := range s.Guards {
		rule := g.Find(x, path)
		if rule < 0 {
			continue
		}
		err := g.Admit(x, rule)
		if (err == nil) == s.AnyGuard {
			return err
		}
		if refused == nil || errors.Is(err, knot.Status(401)) && !errors.Is(refused, knot.Status(401)) {
			refused = err
		}
	}
	return refused
}

// refuse answers with an error of guard. It may park.
func refuse(x *knot.Ctx, err error) error {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Send(x)
	}
	return err
}
