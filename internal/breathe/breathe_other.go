//go:build !linux

package breathe

// Where there are no loops, nothing needs a pause.

// Begin does nothing.
func Begin() (done func()) { return func() {} }

// A Breather does nothing.
type Breather struct{}

// Take does nothing.
func (*Breather) Take() {}
