// Package hidden has types that other packages cannot name.
package hidden

import "fmt"

type secret struct{ n int }

func (s secret) Get() int { return s.n }

// Secret returns a value of a type without a name outside.
func Secret(n int) secret { return secret{n} }

// Show takes an interface that cannot be named either.
func Show(v shower) string { return v.show() }

type shower interface{ show() string }

func (s secret) show() string { return fmt.Sprint("secret ", s.n) }

type base struct{ log []string }

// Add is promoted through an embedded type without a name.
func (b *base) Add(s string) int { b.log = append(b.log, s); return len(b.log) }

// Outer embeds base.
type Outer struct{ base }

// Log is what was added.
func (o *Outer) Log() []string { return o.log }
