package web

import (
	"fmt"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/cmd/bgdump/web/internal/sample"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// snapshotOf fails the test if the program has none.
func snapshotOf(t *testing.T, p *sample.Program) *bgraph.Snapshot {
	t.Helper()
	s := testenv.Need(p.Snapshot(t.Context()))(t)
	return s
}

// fill adds a snapshot for each of n seconds.
func fill(t *testing.T, h *history, p *sample.Program, n int) {
	t.Helper()
	for range n {
		p.Advance(time.Second)
		s := snapshotOf(t, p)
		if !h.add(s, s.Taken) {
			t.Fatal("a new snapshot was taken for an old one")
		}
	}
}

// chargedTwice adds up anew what the moments hold.
func chargedTwice(moments []*moment) int {
	total := 0
	var prev *bgraph.Snapshot
	for _, m := range moments {
		total += charge(prev, m.snap)
		prev = m.snap
	}
	return total
}

func TestHistoryKeepsFirstAndLastAndThinsOutWhatIsOld(t *testing.T) {
	h := &history{maxMoments: 50, maxBytes: 1 << 30}
	p := sample.Shop()
	fill(t, h, p, 700)
	moments, era := h.all()
	if len(moments) != 50 || era != 1 {
		t.Fatalf("%d moments of era %d; want 50 of era 1", len(moments), era)
	}
	if moments[0].id != 1 || moments[49].id != 700 {
		t.Errorf("from %d to %d; want the first and the last, 1 to 700", moments[0].id, moments[49].id)
	}
	recent, old := moments[49].id-moments[44].id, moments[6].id-moments[1].id
	if recent > 10 || old < 4*recent {
		t.Errorf("five moments cover %d s at the end and %d s at the beginning; want few, and many", recent, old)
	}
	for i := 2; i < len(moments); i++ {
		if moments[i].id <= moments[i-1].id {
			t.Fatalf("moment %d comes after %d", moments[i].id, moments[i-1].id)
		}
	}
}

func TestHistoryStaysWithinItsBytes(t *testing.T) {
	const most = 3 << 20
	h := &history{maxMoments: 600, maxBytes: most}
	p := sample.Wide(200)
	fill(t, h, p, 60)
	moments, _ := h.all()
	testenv.AtMost(t, h.bytes, most, "bytes")
	if len(moments) < 5 || len(moments) == 60 {
		t.Errorf("%d moments; want some of 60", len(moments))
	}
	testenv.Equal(t, chargedTwice(moments), h.bytes, "counted %d bytes while moments came and went, N afterwards", h.bytes)
}

func TestHistoryHoldsTwoMomentsHoweverLarge(t *testing.T) {
	h := &history{maxMoments: 1, maxBytes: 1}
	fill(t, h, sample.Shop(), 5)
	if moments, _ := h.all(); len(moments) != 2 || moments[0].id != 1 || moments[1].id != 5 {
		t.Errorf("%d moments; want the first and the last", len(moments))
	}
}

func TestMomentsShareWhatIsEqual(t *testing.T) {
	h := &history{maxMoments: 10, maxBytes: 1 << 30}
	p := sample.Shop()
	fill(t, h, p, 2)
	moments, _ := h.all()
	a, b := moments[0].snap, moments[1].snap
	for i := range b.Nodes {
		n := &b.Nodes[i]
		if was := a.Node(n.Key); len(n.Stack) > 0 && &was.Stack[0] != &n.Stack[0] {
			t.Fatalf("the stack of %s is there twice", n.Name())
		}
	}
	if moments[1].bytes >= moments[0].bytes {
		t.Errorf("the second moment counts for %d bytes, the first for %d; want less, as it shares", moments[1].bytes, moments[0].bytes)
	}
	fresh := snapshotOf(t, p)
	if fmt.Sprint(fresh.Nodes) != fmt.Sprint(b.Nodes) || fmt.Sprint(fresh.Edges) != fmt.Sprint(b.Edges) {
		t.Error("sharing has changed what a moment says")
	}
}

func TestHistoryBeginsAnewWithTheProgram(t *testing.T) {
	h := &history{maxMoments: 10, maxBytes: 1 << 30}
	p := sample.Shop()
	fill(t, h, p, 3)
	p.Restart()
	fill(t, h, p, 2)
	moments, era := h.all()
	if len(moments) != 2 || era != 2 || moments[0].id != 4 {
		t.Errorf("%d moments of era %d from id %d; want 2 of era 2 from 4", len(moments), era, moments[0].id)
	}
	testenv.Equal(t, chargedTwice(moments), h.bytes, "%d bytes counted; there are", h.bytes)
}

func TestHistoryPassesOverARepeatedSnapshot(t *testing.T) {
	h := &history{maxMoments: 10, maxBytes: 1 << 30}
	p := sample.Shop()
	fill(t, h, p, 1)
	if h.add(snapshotOf(t, p), time.Now()) {
		t.Error("a snapshot that was taken when the last one was is new")
	}
	if moments, _ := h.all(); len(moments) != 1 {
		t.Errorf("%d moments; want 1", len(moments))
	}
}
