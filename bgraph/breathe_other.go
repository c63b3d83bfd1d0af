//go:build !linux

package bgraph

// Where there are no loops, nobody has to be let breathe.

func breathe() (done func()) { return func() {} }

type breather struct{}

func (*breather) take() {}
