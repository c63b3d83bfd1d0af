// Package hidden has types that other packages cannot name.
package hidden

import "fmt"

type secret struct{ n int }

func (s secret) Get() int  { return s.n }
func (s *secret) Inc() int { s.n++; return s.n }

// Secret returns a value of a type without a name outside.
func Secret(n int) secret { return secret{n} }

// Pointer returns a pointer to one.
func Pointer(n int) *secret { return &secret{n} }

// Both takes and returns such values.
func Both(s secret, by int) (secret, error) { return secret{s.n + by}, nil }

// Show takes an interface that cannot be named either.
func Show(v shower) string { return v.show() }

type shower interface{ show() string }

func (s secret) show() string { return fmt.Sprint("secret ", s.n) }

// Map has a key of such a type.
func Map(m map[secret]string, s secret) string { return m[s] }

// Keys makes one.
func Keys() map[secret]string { return map[secret]string{{1}: "one", {2}: "two"} }

type base struct{ log []string }

// Add is promoted through an embedded type without a name.
func (b *base) Add(s string) int { b.log = append(b.log, s); return len(b.log) }

// Outer embeds base.
type Outer struct{ base }

// Log is what was added.
func (o *Outer) Log() []string { return o.log }
