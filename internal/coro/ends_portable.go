//go:build purego || !(amd64 || arm64)

package coro

// asEnds gives both ends of a pull one type.
func asEnds(next func() (struct{}, bool), yield func(struct{}) bool) (n, y func() bool) {
	return func() bool { _, ok := next(); return ok }, func() bool { return yield(struct{}{}) }
}
