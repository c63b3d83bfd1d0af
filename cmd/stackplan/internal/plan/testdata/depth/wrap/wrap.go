// Package wrap calls what it is given, in the ways of the standard library: by structs
// that are made around an interface, and by what an interface can do besides.
package wrap

// A Sink takes numbers.
type Sink interface{ Put(n int) }

// A TextSink takes text too.
type TextSink interface{ PutText(s string) }

// Out never changes its sink.
type Out struct {
	sink Sink
	last int
}

// NewOut makes one.
func NewOut(s Sink) *Out { return &Out{sink: s} }

// Emit writes one.
//
//go:noinline
func (o *Out) Emit(n int) { o.sink.Put(n) }

// Twice writes two.
//
//go:noinline
func (o *Out) Twice(n int) { o.Emit(n); o.Emit(n + 1) }

// Late can change its sink.
type Late struct{ sink Sink }

// NewLate makes one.
func NewLate(s Sink) *Late { return &Late{sink: s} }

// Reset changes the sink.
//
//go:noinline
func (l *Late) Reset(s Sink) { l.sink = s }

// Emit writes one.
//
//go:noinline
func (l *Late) Emit(n int) { l.sink.Put(n) }

// Copied can become another.
type Copied struct{ sink Sink }

// NewCopied makes one.
func NewCopied(s Sink) *Copied { return &Copied{sink: s} }

// Take becomes d.
//
//go:noinline
func (c *Copied) Take(d *Copied) { *c = *d }

// Emit writes one.
//
//go:noinline
func (c *Copied) Emit(n int) { c.sink.Put(n) }

// Leaked gives its sink away.
type Leaked struct{ sink Sink }

// NewLeaked makes one.
func NewLeaked(s Sink) *Leaked { return &Leaked{sink: s} }

// At is where the sink is.
//
//go:noinline
func (l *Leaked) At() *Sink { return &l.sink }

// Emit writes one.
//
//go:noinline
func (l *Leaked) Emit(n int) { l.sink.Put(n) }

// Twin can be made of a struct with the same fields.
type Twin struct{ Sink Sink }

// NewTwin makes one.
func NewTwin(s Sink) *Twin { return &Twin{Sink: s} }

// Emit writes one.
//
//go:noinline
func (t *Twin) Emit(n int) { t.Sink.Put(n) }

// Chosen has one of two sinks.
type Chosen struct{ sink Sink }

// NewChosen makes one.
func NewChosen(a, b Sink, second bool) *Chosen {
	c := &Chosen{sink: a}
	if second {
		c.sink = b
	}
	return c
}

// Emit writes one.
//
//go:noinline
func (c *Chosen) Emit(n int) { c.sink.Put(n) }

// Box is generic.
type Box[S Sink] struct{ sink S }

// NewBox makes one.
func NewBox[S Sink](s S) *Box[S] { return &Box[S]{sink: s} }

// Emit writes one.
//
//go:noinline
func (b *Box[S]) Emit(n int) { b.sink.Put(n) }

// WriteText prefers text.
//
//go:noinline
func WriteText(s Sink, text string) {
	if t, ok := s.(TextSink); ok {
		t.PutText(text)
		return
	}
	s.Put(len(text))
}

// Forward is four calls away from the sink.
//
//go:noinline
func Forward(s Sink, n int) { forward(s, n) }

//go:noinline
func forward(s Sink, n int) { further(s, n, func() {}) }

//go:noinline
func further(s Sink, n int, then func()) { WriteText(s, "text"[:n&3]); then() }

// Deep4 to Deep0 are a longer chain than the rounds of the analysis.
//
//go:noinline
func Deep4(s Sink, n int) { deep3(n, s) }

//go:noinline
func deep3(n int, s Sink) { deep2(s, n) }

//go:noinline
func deep2(s Sink, n int) { deep1(n, n, s) }

//go:noinline
func deep1(_, n int, s Sink) { deep0(s, n) }

//go:noinline
func deep0(s Sink, n int) { Forward(s, n) }
