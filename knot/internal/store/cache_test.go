package store

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// zipf draws from n names, the first the most often.
func zipf(r *rand.Rand, n int) int { return int(math.Pow(float64(n), r.Float64())) - 1 }

// TestScanLeavesTheCacheAlone: files that are asked for once each do not drive out those
// that are asked for often. The rival is the same cache without that rule.
func TestScanLeavesTheCacheAlone(t *testing.T) {
	hits := func(choosy bool) float64 {
		c := testenv.Need(newFileCache(24<<20, 256<<10, 0))(t)
		defer c.close()
		if !choosy {
			for i := range c.Shards {
				c.Shards[i].Seen = nil
			}
		}
		r := rand.New(rand.NewPCG(3, 3))
		want, got := 0, 0
		for i := range 100_000 {
			path := fmt.Sprint("/popular/", zipf(r, 20_000))
			if i%4 == 0 {
				path = fmt.Sprint("/once/", i)
			}
			hit := simulate(c, path, 500+int64(i*7919%30_000))
			if i > 33_000 && i%4 != 0 {
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
