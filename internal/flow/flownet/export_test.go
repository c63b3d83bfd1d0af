package flownet

import "time"

// SetNow replaces the clock for deadlines of writes, until undo is called.
func SetNow(f func() time.Time) (undo func()) {
	now = f
	return func() { now = time.Now }
}
