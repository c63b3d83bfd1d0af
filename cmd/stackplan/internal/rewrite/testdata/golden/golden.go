// Package golden has one call of each form.
package golden

import (
	"io"
	"strings"
)

type buffer struct{ b []byte }

func (b *buffer) fill(n int, parts ...string) (int, error) {
	return n, io.EOF
}

func pair[T any](a, b T) []T { return []T{a, b} }

func forms[T any](b *buffer, t T, w io.Writer) (int, error) {
	b.fill(1)
	n, err := b.fill(2, "a",
		"b") // on two lines
	n, err = w.Write(b.b)
	if k := len(pair(t, t)); err == nil && k/strings.Count("x", "y") > 1 {
		defer b.fill(k)
	}
	return b.fill(n)
}

var _ = forms[int]
