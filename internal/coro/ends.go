package coro

// plainEnds gives both ends of a pull one type, as asEnds does, but leans on nothing.
func plainEnds(next func() (struct{}, bool), yield func(struct{}) bool) (n, y func() bool) {
	return func() bool { _, ok := next(); return ok }, func() bool { return yield(struct{}{}) }
}
