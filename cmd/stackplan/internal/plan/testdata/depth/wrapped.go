package main

import (
	"strings"
	"sync"

	"example.com/depth/wrap"
)

// flat takes little stack, abyss much: if the analysis takes one for the other, a
// bound is exceeded.
type flat struct{ n int }

//go:noinline
func (f *flat) Put(n int) { f.n += n; probe() }

type abyss struct{ n int }

//go:noinline
func (a *abyss) Put(n int) {
	var b [9000]byte
	b[uint(n)%9000] = 1
	a.n += int(b[uint(n*7)%9000])
	probe()
}

// textAbyss is flat but for text.
type textAbyss struct{ flat }

//go:noinline
func (a *textAbyss) PutText(s string) {
	var b [9000]byte
	copy(b[:], s)
	a.n += int(b[len(s)])
	probe()
}

var (
	global    wrap.Sink = &flat{}
	unchanged wrap.Sink = &flat{}
	kept                = struct{ out *wrap.Out }{wrap.NewOut(&flat{})}
	channel             = make(chan wrap.Sink, 1)
	byName              = map[string]wrap.Sink{"flat": &flat{}}
	pool                = sync.Pool{New: func() any { return &holder{out: wrap.NewOut(&abyss{})} }}
)

type holder struct {
	out  *wrap.Out
	sink wrap.Sink
}

type mirror struct{ Sink wrap.Sink }

type outer struct{ *wrap.Out }

//go:noinline
func choose(n int) wrap.Sink {
	if n%2 == 0 {
		return &flat{n}
	}
	return &abyss{n}
}

//go:noinline
func replaced() (s wrap.Sink) {
	defer func() {
		if recover() != nil {
			s = &abyss{}
		}
	}()
	s = &flat{}
	panic("replaced")
}

//go:noinline
func fill(s *wrap.Sink) { *s = &abyss{} }

//go:noinline
func setHolder(h *holder) { h.sink = &abyss{} }

// flatOnly are the functions that must be seen to need little.
var flatOnly = map[string]func(int){
	"flatAssert":    flatAssert,
	"flatUnchanged": flatUnchanged,
	"flatForward":   flatForward,
	"flatDeep":      flatDeep,
}

//go:noinline
func flatAssert(n int) { wrap.WriteText(&flat{}, "text"[:n&3]) }

//go:noinline
func flatUnchanged(n int) { wrap.Forward(unchanged, n) }

//go:noinline
func flatForward(n int) {
	s := wrap.Sink(&flat{n})
	func() { wrap.Forward(s, n) }()
}

//go:noinline
func flatDeep(n int) { wrap.Deep4(&flat{n}, n) }

//go:noinline
func viaMaker(n int) { wrap.NewOut(&abyss{}).Twice(n) }

//go:noinline
func viaLate(n int) {
	l := wrap.NewLate(&flat{})
	l.Reset(&abyss{})
	l.Emit(n)
}

//go:noinline
func viaCopy(n int) {
	c := wrap.NewCopied(&flat{})
	c.Take(wrap.NewCopied(&abyss{}))
	c.Emit(n)
}

//go:noinline
func viaLeak(n int) {
	l := wrap.NewLeaked(&flat{})
	*l.At() = &abyss{}
	l.Emit(n)
}

//go:noinline
func viaTwin(n int) {
	t := wrap.NewTwin(&flat{})
	m := (*mirror)(t)
	m.Sink = &abyss{}
	t.Emit(n)
}

//go:noinline
func viaChosen(n int) { wrap.NewChosen(&flat{}, &abyss{}, n > 5).Emit(n) }

//go:noinline
func viaBox(n int) {
	wrap.NewBox(&abyss{}).Emit(n)
	wrap.NewBox(wrap.Sink(&abyss{})).Emit(n)
}

//go:noinline
func viaAssert(n int) { wrap.WriteText(&textAbyss{}, strings.Repeat("a", n&7)) }

//go:noinline
func viaDeep(n int) { wrap.Deep4(&textAbyss{}, n) }

//go:noinline
func viaGlobal(n int) {
	global = &abyss{}
	wrap.Forward(global, n)
}

//go:noinline
func viaCaptured(n int) {
	s := wrap.Sink(&flat{})
	func() { s = &abyss{} }()
	wrap.WriteText(s, "")
	t := wrap.Sink(&flat{})
	change := func() { func() { t = &abyss{} }() }
	change()
	func() { wrap.WriteText(t, "") }()
}

//go:noinline
func viaPointer(n int) {
	var s wrap.Sink = &flat{}
	fill(&s)
	wrap.WriteText(s, "")
	h := &holder{sink: &flat{}}
	setHolder(h)
	wrap.WriteText(h.sink, "")
}

//go:noinline
func viaField(n int) {
	kept.out = wrap.NewOut(&abyss{})
	kept.out.Twice(n)
	h := holder{out: wrap.NewOut(choose(1))}
	h.out.Emit(n)
}

//go:noinline
func viaChannel(n int) {
	channel <- &abyss{}
	wrap.WriteText(<-channel, "")
	byName["abyss"] = &abyss{}
	wrap.WriteText(byName["abyss"], "")
	list := []wrap.Sink{&flat{}, &abyss{}}
	for _, s := range list {
		wrap.WriteText(s, "")
	}
}

//go:noinline
func viaResult(n int) { wrap.WriteText(choose(n), "") }

//go:noinline
func viaReplaced(int) { wrap.WriteText(replaced(), "") }

//go:noinline
func viaPool(n int) {
	h := pool.Get().(*holder)
	h.out.Twice(n)
	pool.Put(h)
}

//go:noinline
func viaEmbedded(n int) {
	outer{wrap.NewOut(&abyss{})}.Twice(n)
	var t interface{ Twice(int) } = outer{wrap.NewOut(&abyss{})}
	t.Twice(n)
	f := wrap.NewOut(&abyss{}).Twice
	f(n)
}

//go:noinline
func viaDeferred(n int) {
	defer wrap.NewOut(&abyss{}).Emit(n)
	defer wrap.WriteText(&textAbyss{}, "")
}

var wrapped = map[string]func(int){
	"viaMaker": viaMaker, "viaLate": viaLate, "viaCopy": viaCopy, "viaLeak": viaLeak, "viaTwin": viaTwin, "viaChosen": viaChosen,
	"viaBox": viaBox, "viaAssert": viaAssert, "viaDeep": viaDeep, "viaGlobal": viaGlobal, "viaCaptured": viaCaptured,
	"viaPointer": viaPointer, "viaField": viaField, "viaChannel": viaChannel, "viaResult": viaResult, "viaReplaced": viaReplaced,
	"viaPool": viaPool, "viaEmbedded": viaEmbedded, "viaDeferred": viaDeferred,
}
