//go:build linux

package simserver

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/capriccio-go/capriccio/knot"
)

// drawHTTP2 has some of the clients speak HTTP/2. It draws from a source of its own, so that
// what a seed was without it stays.
func (sc *Scenario) drawHTTP2() {
	r := rand.New(rand.NewPCG(sc.Seed, 0x2))
	if r.IntN(2) == 0 {
		return
	}
	var limits *http.HTTP2Config
	if r.IntN(2) == 0 {
		limits = &http.HTTP2Config{
			MaxConcurrentStreams: 1 + r.IntN(20), MaxReadFrameSize: r.IntN(64 << 10),
			MaxReceiveBufferPerConnection: r.IntN(128 << 10), MaxReceiveBufferPerStream: r.IntN(128 << 10),
			MaxEncoderHeaderTableSize: r.IntN(8 << 10), MaxDecoderHeaderTableSize: r.IntN(8 << 10),
		}
		sc.streams = limits.MaxConcurrentStreams
		sc.text = append(sc.text, fmt.Sprintf("limits of HTTP/2: %+v", *limits))
	}
	change := sc.Change
	sc.Change = func(k *knot.Server) {
		if change != nil {
			change(k)
		}
		k.H2C, k.HTTP2 = true, limits
	}
	for range len(sc.mutes) {
		if r.IntN(2) == 0 {
			says := mutesHTTP2()
			sc.mutes = append(sc.mutes, says[r.IntN(len(says))])
		}
	}
	for i := range sc.parts {
		if r.IntN(3) > 0 {
			sc.drawHabitHTTP2(r, i)
		}
	}
	if r.IntN(6) == 0 {
		sc.halt = time.Duration(20+r.IntN(300)) * time.Millisecond
		sc.text = append(sc.text, fmt.Sprintf("told to stop after %v", sc.halt))
	}
}

func (sc *Scenario) drawHabitHTTP2(r *rand.Rand, i int) {
	p := &sc.parts[i]
	maybe := func(in, v int) int {
		if r.IntN(in) > 0 {
			return 0
		}
		return v
	}
	if steps, is := strings.CutPrefix(p.path, "/?"); is && (p.body > 0 || r.IntN(3) == 0) {
		if p.body == 0 {
			p.body = 1 + r.IntN(300_000)
		}
		p.path = fmt.Sprintf("/?e%d.%s", p.body, strings.ReplaceAll(steps, "e0.", ""))
	}
	h := &HTTP2{
		Window: maybe(2, 1+p.want/200+r.IntN(1<<r.IntN(20))), Shut: r.IntN(8) == 0,
		Lag:   time.Duration(maybe(4, r.IntN(20_000))) * time.Microsecond,
		Table: maybe(4, 1+r.IntN(4<<10)), Piece: maybe(3, 1+p.body/200+r.IntN(20_000)), Heads: maybe(8, 1+r.IntN(64)),
		Padded: r.IntN(6) == 0, Unsized: r.IntN(3) == 0, Stubborn: r.IntN(2) == 0,
		Share: 1 + r.IntN(10), Fidget: float64(maybe(3, 1)) * r.Float64(),
		Reset: float64(maybe(3, 1)) * r.Float64(),
	}
	// Several requests share the connection, and its rates.
	p.habit.Path.UpRate *= 8
	p.habit.Path.Rate *= 8
	if r.IntN(2) == 0 {
		p.habit.Pipeline = 1 + r.IntN(20)
	}
	at := max(p.habit.Pipeline, 1) // as many requests as there were, on fewer connections
	p.n, p.rate = (p.n+at-1)/at, p.rate/float64(at)
	p.habit.HTTP2 = h
	sc.text = append(sc.text, fmt.Sprintf("part %d speaks HTTP/2, rate %.0f or %d clients, %d requests at a time, %q, body %d: %+v", i, p.rate, p.n, at, p.path, p.body, *h))
}

// mutesHTTP2 are the beginnings of clients of HTTP/2 that say no more.
func mutesHTTP2() []string {
	var settings, get, post, cut, torn bytes.Buffer
	http2.NewFramer(&settings, nil).WriteSettings()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range strings.Fields(":method=POST :scheme=http :path=/?e0 :authority=sim") {
		name, value, _ := strings.Cut(f, "=")
		enc.WriteField(hpack.HeaderField{Name: name, Value: value})
	}
	head := func(to *bytes.Buffer, ends, whole bool) {
		http2.NewFramer(to, nil).WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: ends, EndHeaders: whole})
	}
	head(&get, true, true)
	head(&post, false, true)
	head(&cut, true, false)
	head(&torn, false, true)
	http2.NewFramer(&torn, nil).WriteData(1, true, pattern[:100])
	begin := http2.ClientPreface + settings.String()
	return []string{
		http2.ClientPreface[:18], http2.ClientPreface, begin[:len(begin)-4], begin, begin + "nonsense\r\n\r\n",
		begin + get.String(), begin + get.String() + "\x00\x00", begin + post.String(), begin + cut.String(),
		begin + cut.String()[:12], begin + torn.String()[:torn.Len()-50],
	}
}
