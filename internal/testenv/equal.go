package testenv

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// These checks fail the test and let it go on, as Check does. Their messages begin with what: nothing, or a
// format and its arguments.

// Equal wants got to be want.
func Equal[T comparable](t testing.TB, got, want T, what ...any) {
	if got != want {
		t.Helper()
		differ(t, got, want, what)
	}
}

// MustEqual wants got to be want, and ends the test otherwise, as Must does.
func MustEqual[T comparable](t testing.TB, got, want T, what ...any) {
	if got != want {
		t.Helper()
		differ(t, got, want, what)
		t.FailNow()
	}
}

// Got wants a call to return want, and no error:
//
//	testenv.Got(c.Recv())(t, 7)
func Got[T comparable](got T, err error) func(t testing.TB, want T, what ...any) {
	return func(t testing.TB, want T, what ...any) {
		t.Helper()
		Check(t, err, what...)
		Equal(t, got, want, what...)
	}
}

// AtMost wants got to be no more than limit.
func AtMost[T cmp.Ordered](t testing.TB, got, limit T, what ...any) {
	if got > limit {
		t.Helper()
		t.Errorf("%sgot %v, want at most %v", prefix(what), got, limit)
	}
}

// AtLeast wants got to be no less than limit.
func AtLeast[T cmp.Ordered](t testing.TB, got, limit T, what ...any) {
	if got < limit {
		t.Helper()
		t.Errorf("%sgot %v, want at least %v", prefix(what), got, limit)
	}
}

// EqualSlices wants the same elements in both.
func EqualSlices[S ~[]E, E comparable](t testing.TB, got, want S, what ...any) {
	if !slices.Equal(got, want) {
		t.Helper()
		differ(t, got, want, what)
	}
}

// ErrorIs wants err to be the error target, as errors.Is sees it.
func ErrorIs(t testing.TB, err, target error, what ...any) {
	if !errors.Is(err, target) {
		t.Helper()
		t.Errorf("%sgot error %v, want %v", prefix(what), err, target)
	}
}

// True checks a condition; format and args say what is the case instead.
func True(t testing.TB, ok bool, format string, args ...any) {
	if !ok {
		t.Helper()
		t.Errorf(format, args...)
	}
}

// Fails wants an error.
func Fails(t testing.TB, err error, what ...any) {
	if err == nil {
		t.Helper()
		t.Errorf("%sgot no error", prefix(what))
	}
}

// ErrorSays wants an error that says part.
func ErrorSays(t testing.TB, err error, part string, what ...any) {
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Helper()
		t.Errorf("%sgot error %v, want one that says %q", prefix(what), err, part)
	}
}

// Err is the error of a call that returns something besides.
func Err[T any](_ T, err error) error { return err }

// Contains wants part to stand in text.
func Contains(t testing.TB, text, part string, what ...any) {
	if !strings.Contains(text, part) {
		t.Helper()
		t.Errorf("%sthere is no %q in\n%s", prefix(what), part, text)
	}
}

func differ(t testing.TB, got, want any, what []any) {
	t.Helper()
	verb := "%+v"
	_, isErr := got.(error)
	switch text, isText := got.(string); {
	case isErr:
	case isText && strings.Contains(text, "\n"):
		verb = "\n%.5000s\n"
	case isText:
		verb = "%.1000q"
	case reflect.ValueOf(got).Kind() == reflect.Pointer: // what it points to may be changing
		verb = "%p"
	}
	t.Errorf("%sgot "+verb+", want "+verb, prefix(what), got, want)
}

func prefix(what []any) string {
	switch len(what) {
	case 0:
		return ""
	case 1:
		return fmt.Sprint(what[0], ": ")
	}
	return fmt.Sprintf(fmt.Sprint(what[0], ": "), what[1:]...)
}
