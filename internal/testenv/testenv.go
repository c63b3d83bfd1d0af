// Package testenv says how much the tests are to try. By default each package is tested in
// one setting or two, which takes seconds; with CAPRICCIO_TEST=full in every one: each
// poller, 1, 2 and 8 loops, large programs, and many random ones, which takes minutes.
package testenv

import (
	"os"
	"testing"
)

// Full reports whether everything is to be tried.
func Full() bool { return os.Getenv("CAPRICCIO_TEST") == "full" }

// NeedsFull skips the test, which takes long for the reason given, unless Full.
func NeedsFull(t testing.TB, why string) {
	t.Helper()
	if !Full() {
		t.Skipf("%s: tried with CAPRICCIO_TEST=full only", why)
	}
}

// Rounds is how often a random test goes on: all times if Full, else few times.
func Rounds(few, all int) int {
	if Full() {
		return all
	}
	return few
}

// Must ends the test if err is not nil. Like t.Fatal it is for the goroutine of the test.
// The message begins with what, as it does with Equal.
func Must(t testing.TB, err error, what ...any) {
	if err != nil {
		t.Helper()
		t.Fatalf("%s%v", prefix(what), err)
	}
}

// Need is what a call returns that the test can't do without. It ends the test if there is an error, as Must does:
//
//	f := testenv.Need(os.Open(name))(t)
func Need[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Must(t, err)
		return v
	}
}

// Check fails the test if err is not nil, and lets it go on: it is for any goroutine or task.
func Check(t testing.TB, err error, what ...any) {
	if err != nil {
		t.Helper()
		t.Errorf("%s%v", prefix(what), err)
	}
}
