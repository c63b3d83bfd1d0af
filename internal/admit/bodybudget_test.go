package admit

import (
	"math"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// An upload is a body of the tests, and what its handler holds of it.
type upload struct {
	body       Body
	size, read int64
	keeps      bool
	shed       bool
}

// uploading reads bodies by 1 MiB a tick each, with a collection every fifth, and returns the most that was held and how
// many have come to their ends.
func uploading(in *BodyBudget, limit, ballast float64, all []*upload) (most float64, done int, took time.Duration) {
	const step = 1 << 20
	under := len(all)
	for ; under > 0 && took < time.Minute; took += bodyPause {
		live := ballast
		for _, u := range all {
			if u.keeps && u.read < u.size && !u.shed {
				live += float64(u.read)
			}
		}
		most = max(most, live)
		in.Tick(took, limit, live, took%(5*bodyPause) == 0)
		for _, u := range all {
			if u.read == u.size || u.shed {
				continue
			}
			if u.body.number == 0 {
				u.body.number = in.last.Add(1)
			}
			pause, refused := in.ask(&u.body, 0, u.size-u.read)
			if pause > 0 {
				continue
			}
			if !refused {
				u.read += step
				in.free.Add(-step)
				in.ask(&u.body, step, u.size-u.read)
			}
			if u.shed = refused; u.shed || u.read == u.size {
				in.End(&u.body)
				under--
				if !u.shed {
					done++
				}
			}
		}
	}
	return most, done, took
}

func uploads(n int, size int64, keeps bool) (all []*upload) {
	for range n {
		all = append(all, &upload{size: size << 20, keeps: keeps})
	}
	return all
}

func TestBodyBudgetKeepsBodiesWithinTheLimit(t *testing.T) {
	for _, c := range []struct {
		name           string
		limit, ballast float64 // MiB
		n              int
		size           int64
		keeps          bool
		least          int // that come to their ends
		within         time.Duration
	}{
		{"100 of 20 MB", 200, 10, 100, 20, true, 100, time.Minute},
		{"too large beside others", 200, 10, 20, 90, true, 1, time.Minute},
		{"beside a cache", 200, 120, 50, 10, true, 50, time.Minute},
		{"passed on beside a cache", 200, 120, 100, 100, false, 100, 5 * time.Second},
		{"passed on beside a large cache", 200, 170, 100, 100, false, 100, 5 * time.Second},
		{"memory to spare", 20_000, 10, 100, 20, true, 100, 21 * bodyPause},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := new(BodyBudget)
			most, done, took := uploading(in, c.limit*(1<<20), c.ballast*(1<<20), uploads(c.n, c.size, c.keeps))
			if most > c.limit*(1<<20) || done < c.least || took > c.within || len(in.asked) > 0 {
				t.Errorf("%v MiB were held, limit %v; %d of %d in %v; %d left", math.Round(most/(1<<20)), c.limit, done, c.n, took, len(in.asked))
			}
			t.Log(most/(1<<20), done, took)
		})
	}
}

// A body that was to be shed, and went on as there was memory again before its reader looked, is held as long as any
// other the next time.
func TestBodyBudgetForgetsThatItWouldHaveShed(t *testing.T) {
	const heap = 1 << 20
	in := new(BodyBudget)
	var bodies [2]Body // the first goes on all the time
	ask := func(when string, now time.Duration, live float64, waits ...bool) {
		t.Helper()
		in.Tick(now, heap, live, true)
		for i := range bodies {
			if pause, refused := in.Held(&bodies[i], 1<<30); refused || pause > 0 != waits[i] {
				t.Errorf("%s: body %d: pause %v, refused %v; waits: %v", when, i, pause, refused, waits[i])
			}
		}
	}
	for i := range bodies {
		bodies[i].number = uint64(i + 1)
	}
	ask("short", 0, heap, true, true)
	ask("the first goes on", time.Second, heap, false, true)
	for now := time.Second; now <= time.Minute; now += longestTurn {
		in.Tick(now, heap, heap, true)
	}
	ask("plenty", time.Minute, 0, false, false)
	ask("short again", time.Minute, heap, false, true)
	ask("still short", time.Minute+time.Second, heap, false, true)
}

// A body is not refused as the process was paused while it was held.
func TestBodyBudgetOutlastsAPause(t *testing.T) {
	const heap = 1 << 20
	in := new(BodyBudget)
	bodies := [2]Body{{number: 1}, {number: 2}} // the first goes on all the time
	var refused bool
	tick := func(now time.Duration) {
		in.Tick(now, heap, heap, true)
		for i := range bodies {
			_, refused = in.Held(&bodies[i], 1<<30)
		}
	}
	tick(time.Second)
	tick(time.Minute)
	testenv.Equal(t, refused, false, "after a pause it is refused")
	for now := time.Minute; now <= time.Minute+longestWait; now += longestTurn {
		tick(now)
	}
	testenv.Equal(t, refused, true, "after the longest wait it is refused")
}
