package probe

import (
	"math"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestHeap(t *testing.T) {
	r := Runtime{MemoryLimit: 4 * gib, Percent: 100}
	p, _ := newProbe(t, machine.write(t), func(c *Config) { c.Runtime = func() Runtime { return r } })
	now := time.Duration(0)
	old := false
	check := func(what string, want float64, wantFound bool) {
		t.Helper()
		got, found := find(p.Read(now), Heap)
		if found != wantFound || found && (got.Value != want || got.Limit != 0.9*4*gib) || got.Old != old {
			t.Errorf("%s: %+v, %v; want %v of %v, %v, old: %v", what, got, found, want, 0.9*4*gib, wantFound, old)
		}
	}
	r.Objects = 2 * gib
	check("no collection yet: all is reachable", 2*gib, true)
	r.Cycles, r.Live = 1, gib
	check("a collection has ended", gib, true)
	r.Objects = 2 * gib
	now += 10 * time.Millisecond
	check("nothing new: how much of it is garbage is not known", 0, false)
	now += time.Second
	old = true
	check("and so for long: only the limit is new", gib, true)
	old = false
	now += 10 * time.Millisecond
	r.Cycles, r.Live = 3, 1.5*gib
	check("another collection", 1.5*gib, true)
}

func TestHeapLimits(t *testing.T) {
	for _, c := range []struct {
		name  string
		r     Runtime
		limit float64 // 0: none
	}{
		{"GOMEMLIMIT", Runtime{MemoryLimit: 1 * gib, Percent: 100}, 0.9 * gib},
		{"GOMEMLIMIT and no GOGC", Runtime{MemoryLimit: 1 * gib, Percent: math.MaxUint64}, 0.9 * gib},
		{"the machine", Runtime{MemoryLimit: math.MaxInt64, Percent: 100}, 16 * gib * 0.9 / 2},
		{"the machine, GOGC 300", Runtime{MemoryLimit: math.MaxInt64, Percent: 300}, 16 * gib * 0.9 / 4},
		{"the machine, no GOGC", Runtime{MemoryLimit: math.MaxInt64, Percent: math.MaxUint64}, 16 * gib * 0.9},
	} {
		p, _ := newProbe(t, machine.write(t), func(cfg *Config) { cfg.Runtime = func() Runtime { return c.r } })
		if got, _ := find(p.Read(0), Heap); math.Abs(got.Limit-c.limit) > 1 {
			t.Errorf("%s: limit %.0f, want %.0f", c.name, got.Limit, c.limit)
		}
	}
	// Neither the runtime nor the machine says anything.
	p, _ := newProbe(t, t.TempDir(), nil)
	if got, found := find(p.Read(0), Heap); found {
		t.Errorf("%+v without any limit", got)
	}
}

func TestCollectorsShare(t *testing.T) {
	r := Runtime{MemoryLimit: math.MaxInt64, Percent: 100, Cycles: 5, GC: 10, CPU: 100}
	p, _ := newProbe(t, machine.write(t), func(c *Config) { c.Runtime = func() Runtime { return r } })
	if got, found := find(p.Read(0), GC); found {
		t.Errorf("%+v at the first reading", got)
	}
	if got, found := find(p.Read(1), GC); found {
		t.Errorf("%+v though no collection has ended", got)
	}
	r.Cycles, r.GC, r.CPU = 6, 10.2, 100.2
	got, found := find(p.Read(2), GC)
	if !found || got.Limit != MuchGC || !got.Sign {
		t.Errorf("%+v, %v", got, found)
	}
	if got.Value < 0.3 || got.Value > 0.5 {
		t.Errorf("%.2f after 0.2 s of nothing but collection, and little before; want 0.3 to 0.5", got.Value)
	}
	r.Cycles = 7 // no time has gone by
	if got, found := find(p.Read(3), GC); found {
		t.Errorf("%+v", got)
	}
	for range 10 {
		r.Cycles, r.GC, r.CPU = r.Cycles+1, r.GC+0.1, r.CPU+1
		got, _ = find(p.Read(4), GC)
	}
	testenv.AtMost(t, math.Abs(got.Value-0.1), 0.001, "%.4f after 10 s with a share of 0.1", got.Value)
}
