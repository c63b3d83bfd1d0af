package admit

import (
	"fmt"
	"math"
	"time"
)

// A State says how much of a resource is in use. What each state begins and ends with
// is said at Spec.
type State uint8

// The states of a resource.
const (
	Low     State = iota // plentiful: use it
	Rising               // well used, or soon will be
	AtLimit              // using more would do harm
)

// String is "low", "rising" or "at limit".
func (s State) String() string {
	switch s {
	case Low:
		return "low"
	case Rising:
		return "rising"
	case AtLimit:
		return "at limit"
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// A Kind of resource.
type Kind uint8

// The kinds of resources.
const (
	// Taken by tasks, which give it back.
	Taken Kind = iota
	// Kept by tasks also while they wait to be admitted, like the descriptor of a
	// connection. When it becomes scarce, queues are not left to grow, see OverloadDetector.
	Kept
	// Collected: taken, but what is in use is known now and then only, and too high, like
	// what is reachable of a heap: a collection counts all that is allocated while it goes
	// on, which can be as much as the rest. Where admitted tasks have promised what they
	// take, that and the least of the last excesses over it counts as in use. Otherwise a heap
	// that is found full would stay so for ever, as no task is admitted to fill it again.
	Collected
	// Sign of thrashing, like the share of the processor that the garbage collector uses:
	// nothing that tasks take. Its Limit is how much is too much.
	Sign
	// Shown in reports; nothing is decided by it.
	Shown
)

// scarce reports whether a resource of this kind can run out.
func (k Kind) scarce() bool { return k != Sign && k != Shown }

// A Spec describes a resource to a Ledger. Zero fields have the defaults named.
//
// With u for the used share of the limit: the resource is AtLimit from u >= Target
// until u < Target-Margin; otherwise it is Rising from u >= Plenty, or if the trend leads to
// Target within 200 ms, until u < Plenty-Margin and no longer so; else it is Low.
type Spec struct {
	Name string // not empty, and unlike the others'
	// Limit is how much may be in use, in any unit. 0: unknown, to be found.
	Limit float64
	// Kind is how it comes to be in use, and what being at its limit means. Zero: Taken.
	Kind Kind
	// Find: find how much is good to use, but never more than Limit, by watching the signs
	// of thrashing and the other limits (see Knee).
	Find bool
	// Of: a sign counts only while the resource of this name is not plentiful. A program
	// that allocates much and holds little has a busy garbage collector as well, but less
	// load would not help. "": it always counts.
	Of string
	// Unknown is how much is reserved for a task of unknown demand; 0: nothing.
	Unknown float64
	Target  float64 // 0.95; how far to go, at least Plenty and below 1
	Margin  float64 // 0.05
	// Over: samples are averages over so much time before. 0: what is in use at the moment.
	Over time.Duration
}

func (s Spec) withDefaults() (Spec, error) {
	orElse := func(v *float64, or float64) {
		if *v == 0 {
			*v = or
		}
	}
	orElse(&s.Target, defaultTarget)
	orElse(&s.Margin, defaultMargin)
	switch {
	case s.Name == "":
		return s, fmt.Errorf("admit: a resource without name")
	case !(s.Limit >= 0) || math.IsInf(s.Limit, 1):
		return s, fmt.Errorf("admit: resource %q: limit %v; want a number, 0 if it is to be found", s.Name, s.Limit)
	case s.Kind > Shown:
		return s, fmt.Errorf("admit: resource %q: no kind has number %d", s.Name, s.Kind)
	case s.Kind == Sign && s.Find:
		return s, fmt.Errorf("admit: resource %q is a sign, and Find is set; limits are found by means of signs", s.Name)
	case s.Kind == Shown && (s.Find || s.Limit == 0):
		return s, fmt.Errorf("admit: resource %q is only shown; give it a limit, and not Find", s.Name)
	case s.Kind == Sign && s.Limit == 0:
		return s, fmt.Errorf("admit: resource %q is a sign of thrashing without a limit; say how much is too much", s.Name)
	case !(Plenty <= s.Target && s.Target < 1):
		return s, fmt.Errorf("admit: resource %q: target %v; want it from %v to below 1", s.Name, s.Target, Plenty)
	case !(s.Unknown >= 0) || math.IsInf(s.Unknown, 1):
		return s, fmt.Errorf("admit: resource %q: unknown %v; want what a task may hold of it, 0 if that does not matter", s.Name, s.Unknown)
	case !(0 < s.Margin && s.Margin < Plenty):
		return s, fmt.Errorf("admit: resource %q: margin %v; want it above 0 and below %v", s.Name, s.Margin, Plenty)
	case s.Over < 0:
		return s, fmt.Errorf("admit: resource %q: over %v; want a duration", s.Name, s.Over)
	}
	return s, nil
}
