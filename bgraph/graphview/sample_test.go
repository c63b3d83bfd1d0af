package graphview

import (
	"github.com/capriccio-go/capriccio/bgraph"
)

// Keys of the sample's nodes.
const (
	sampleAccept  bgraph.Key = 0x1f3a5c7e90b2d4f6
	sampleRead    bgraph.Key = 0x2b4d6f8091a3c5e7
	sampleMutex   bgraph.Key = 0x3c5e7f9102b4d6f8
	sampleRender  bgraph.Key = 0x4d6f8a0213c5e7f9
	sampleOffload bgraph.Key = 0x5e7f9b1324d6f80a
	sampleSleep   bgraph.Key = 0x6f80ac2435e7f91b
	sampleWrite   bgraph.Key = 0x7091bd3546f80a2c
	sampleRecv    bgraph.Key = 0x81a2ce465709ab3d
	sampleDisk    bgraph.Key = 0xf2b3df57681abc4e
)

const sampleTrace = `goroutine 57 [running]:
example.com/shop/web.(*page).sortOffers(0xc0001a4000)
	/src/shop/web/page.go:212 +0x1a4
example.com/shop/web.(*page).render(0xc0001a4000, {0x7f21c0, 0xc0000b2000})
	/src/shop/web/page.go:91 +0x2f0
example.com/shop/web.(*conn).serve(0xc00012e000)
	/src/shop/web/conn.go:64 +0x88
`

const sampleFile = "../testdata/sample.bgraph"

// sampleSnapshot is the sample of package bgraph, read anew.
func sampleSnapshot() *bgraph.Snapshot {
	s, err := bgraph.ReadFile(sampleFile)
	if err != nil {
		panic(err)
	}
	return s
}

// sampleTimes makes count durations around typical of which the longest is worst: three
// quarters in the bucket of typical, the others fewer and fewer towards worst.
func sampleTimes(count uint64, typical, worst bgraph.Nanos) bgraph.Times {
	t := bgraph.Times{Count: count, Max: worst, Hist: make(bgraph.Histogram, bgraph.BucketOf(worst)+1)}
	at, left := bgraph.BucketOf(typical), count
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
		t.Sum += bgraph.Nanos(n) * max(min(bgraph.BucketFrom(b)*4/3, worst), min(typical, worst))
	}
	if count == 1 {
		t.Hist[at], t.Hist[len(t.Hist)-1], t.Sum = 0, 1, worst
	}
	return t
}
