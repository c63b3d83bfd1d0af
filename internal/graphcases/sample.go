// Package graphcases has graphs for the tests of the packages that show graphs: a sample of a web shop, a trace,
// random ones, and odd ones that no collector would make. It has no state; only tests use it.
package graphcases

import (
	"bytes"
	_ "embed"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/buckets"
)

// Keys of the sample's nodes.
const (
	sampleAccept  bgraph.Key = 0x1f3a5c7e90b2d4f6
	SampleRead    bgraph.Key = 0x2b4d6f8091a3c5e7
	SampleMutex   bgraph.Key = 0x3c5e7f9102b4d6f8
	SampleRender  bgraph.Key = 0x4d6f8a0213c5e7f9
	SampleOffload bgraph.Key = 0x5e7f9b1324d6f80a
	SampleSleep   bgraph.Key = 0x6f80ac2435e7f91b
	SampleWrite   bgraph.Key = 0x7091bd3546f80a2c
	SampleRecv    bgraph.Key = 0x81a2ce465709ab3d
	SampleDisk    bgraph.Key = 0xf2b3df57681abc4e
)

// SampleTrace is a stack of the sample, as the watchdog reports it.
const SampleTrace = `goroutine 57 [running]:
example.com/shop/web.(*page).sortOffers(0xc0001a4000)
	/src/shop/web/page.go:212 +0x1a4
example.com/shop/web.(*page).render(0xc0001a4000, {0x7f21c0, 0xc0000b2000})
	/src/shop/web/page.go:91 +0x2f0
example.com/shop/web.(*conn).serve(0xc00012e000)
	/src/shop/web/conn.go:64 +0x88
`

// SampleDump is the graph of a web shop of 2 loops after a minute under load, as package bgraph encodes it.
//
//go:embed sample.bgraph
var SampleDump []byte

// Sample returns the graph of SampleDump, decoded anew.
func Sample() *bgraph.Snapshot {
	s, err := bgraph.Decode(bytes.NewReader(SampleDump))
	if err != nil {
		panic(err)
	}
	return s
}

// SampleTimes makes count durations: three quarters in the bucket of typical, the others fewer and
// fewer towards worst, which is the longest.
func SampleTimes(count uint64, typical, worst bgraph.Nanos) bgraph.Times {
	t := bgraph.Times{Count: count, Max: worst, Hist: make([]uint64, buckets.Of(worst)+1)}
	at, left := buckets.Of(typical), count
	for b := at; b < len(t.Hist) && left > 0; b++ {
		n := max(left*3/4, 1)
		if b == len(t.Hist)-1 {
			n = left
			for above := at; above < b && n > 2; above++ { // the worst were few
				t.Hist[above] += n - 2
				n = 2
			}
		}
		t.Hist[b] += n
		left -= n
		t.Sum += bgraph.Nanos(n) * max(min(bgraph.Nanos(buckets.From(b))*4/3, worst), min(typical, worst))
	}
	if count == 1 {
		t.Hist[at], t.Hist[len(t.Hist)-1], t.Sum = 0, 1, worst
	}
	return t
}
