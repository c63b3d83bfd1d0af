package store

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/clock"
)

// entryOf is an open file of that size.
func entryOf(t *testing.T, size int64) (path string, e *Entry) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "f")
	testenv.Must(t, os.WriteFile(path, make([]byte, size), 0o644))
	file := testenv.Need(aio.Open(path))(t)
	t.Cleanup(func() { file.Close() })
	e = &Entry{Length: size}
	e.File.Store(file)
	return path, e
}

// TestPagesAreNotLookedForWhileAFileIsHot: what was in memory a moment ago is taken to be there, also if it was looked
// for piece by piece, in order and without a gap. The moment is that of the first piece.
func TestPagesAreNotLookedForWhileAFileIsHot(t *testing.T) {
	const size = 100_000
	for _, test := range []struct {
		name string
		hot  bool
		ask  func(p *Pages, clock func(time.Duration)) bool // reports whether all was in memory
	}{
		{"at once", true, func(p *Pages, _ func(time.Duration)) bool { return p.Resident(0, size) == size }},
		{"in pieces, some of them twice", true, func(p *Pages, clock func(time.Duration)) bool {
			whole := p.Resident(0, size/2) == size/2
			clock(seenFor / 2)
			return whole && p.Resident(size/4, size/2) == size/2 && p.Resident(3*size/4, size/4) == size/4
		}},
		{"with a gap", false, func(p *Pages, _ func(time.Duration)) bool {
			return p.Resident(0, size/4) == size/4 && p.Resident(size/2, size/2) == size/2
		}},
		{"not from the beginning", false, func(p *Pages, _ func(time.Duration)) bool { return p.Resident(1, size-1) == size-1 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			path, e := entryOf(t, size)
			var k clock.Clock
			k.Close() // it stands where the test sets it
			clock := func(after time.Duration) { k.Set(1 + int64(after)) }
			clock(0)
			p := Pages{Of: e, Clock: &k}
			if !test.ask(&p, clock) {
				t.Skip("what was just written is not in memory here")
			}
			testenv.Must(t, os.Truncate(path, 10))
			for _, step := range []struct {
				after time.Duration
				hot   bool
			}{{0, test.hot}, {seenFor - 1, test.hot}, {seenFor, false}} {
				clock(step.after)
				if n := p.Resident(0, size); (n == size) != step.hot {
					t.Errorf("%v after it was seen in memory %d bytes count as in memory, want all: %v", step.after, n, step.hot)
				}
			}
		})
	}
}

// TestPagesOfTwoServers: the clock of each counts from its own start, and what one has seen by its own is not hot for
// the other until that one is as old.
func TestPagesOfTwoServers(t *testing.T) {
	const size = 100_000
	path, e := entryOf(t, size)
	pages := func(age time.Duration) *Pages {
		var k clock.Clock
		k.Close() // it stands
		k.Set(1 + int64(age))
		return &Pages{Of: e, Clock: &k}
	}
	if pages(time.Hour).Resident(0, size) != size || e.Seen.Load() == 0 {
		t.Skip("what was just written is not in memory here")
	}
	testenv.Must(t, os.Truncate(path, 10))
	if n := pages(0).Resident(0, size); n == size {
		t.Error("a younger server does not look whether the file is in memory")
	}
}

// zipf draws from n names, the first the most often.
func zipf(r *rand.Rand, n int) int { return int(math.Pow(float64(n), r.Float64())) - 1 }

// TestScanLeavesTheCacheAlone: files that are asked for once each do not drive out those
// that are asked for often. The rival is the same cache without that rule.
func TestScanLeavesTheCacheAlone(t *testing.T) {
	hits := func(choosy bool) float64 {
		c := testenv.Need(newFileCache(12<<20, 256<<10, 0))(t)
		defer c.close()
		if !choosy {
			for i := range c.Shards {
				c.Shards[i].Seen = nil
			}
		}
		r := rand.New(rand.NewPCG(3, 3))
		want, got := 0, 0
		for i := range 50_000 {
			path := fmt.Sprint("/popular/", zipf(r, 10_000))
			if i%4 == 0 {
				path = fmt.Sprint("/once/", i)
			}
			hit := simulate(c, path, 500+int64(i*7919%30_000))
			if i > 17_000 && i%4 != 0 {
				want++
				if hit {
					got++
				}
			}
		}
		return 100 * float64(got) / float64(want)
	}
	plain, choosy := hits(false), hits(true)
	t.Logf("of the requests for popular files %.1f %% were answered from memory, without the rule %.1f %%", choosy, plain)
	testenv.AtLeast(t, choosy, plain+1, "%% of hits with the rule, %.2f %% without it", plain)
}

// simulate asks for a file that is on no disk.
func simulate(c *cache, path string, size int64) (hit bool) {
	e, fl, mine := c.Get([]byte(path), 1, true)
	if !mine {
		e.Release()
		return true
	}
	s, hash := c.Shard([]byte(path))
	e = &Entry{Shard: s, Key: path, FD: -1, Full: true, id: identity{size: size}, Length: size}
	e.users.Store(1)
	keep := s.reserve(e, hash)
	fl.land(e, nil, keep, 1)
	e.Release()
	return false
}
