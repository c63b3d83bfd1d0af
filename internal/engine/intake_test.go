package engine

import (
	"errors"
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
func uploading(in *Intake, limit, ballast float64, all []*upload) (most float64, done int, took time.Duration) {
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
			place, err := in.ask(&u.body, 0, u.size-u.read)
			if err == nil && place > 0 {
				continue
			}
			if err == nil {
				u.read += step
				in.free.Add(-step)
				in.ask(&u.body, step, u.size-u.read)
			}
			if u.shed = errors.Is(err, ErrRefused); u.shed || u.read == u.size {
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

func TestIntakeKeepsBodiesWithinTheLimit(t *testing.T) {
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
			in := new(Intake)
			most, done, took := uploading(in, c.limit*(1<<20), c.ballast*(1<<20), uploads(c.n, c.size, c.keeps))
			if most > c.limit*(1<<20) || done < c.least || took > c.within || len(in.asked) > 0 {
				t.Errorf("%v MiB were held, limit %v; %d of %d in %v; %d left", math.Round(most/(1<<20)), c.limit, done, c.n, took, len(in.asked))
			}
			t.Log(most/(1<<20), done, took)
		})
	}
}

// A body that is held goes on when nobody has a use for it any more.
func TestIntakeLetsGoWhatIsOfNoUse(t *testing.T) {
	in := new(Intake)
	in.Tick(0, 1<<20, 1<<20, true)
	var b Body
	asked := 0
	err := in.Took(&b, bodyStep, 1<<20, func() bool { asked++; return asked > 1 })
	if err != nil || asked != 2 {
		t.Errorf("%v after %d questions; want to wait once", err, asked)
	}
	in.End(&b)
	testenv.Equal(t, len(in.asked), 0, "the body stands in the order after its end")
}

// A body that was to be shed, and went on as there was memory again before its reader looked, is held as long as any
// other the next time.
func TestIntakeForgetsThatItWouldHaveShed(t *testing.T) {
	const heap = 1 << 20
	in := new(Intake)
	var bodies [2]Body // the first goes on all the time
	ask := func(when string, now time.Duration, live float64, want ...int) {
		t.Helper()
		in.Tick(now, heap, live, true)
		for i := range bodies {
			testenv.Got(in.ask(&bodies[i], 0, 1<<30))(t, want[i], "%s: body %d has N before it", when, i)
		}
	}
	for i := range bodies {
		bodies[i].number = uint64(i + 1)
	}
	ask("short", 0, heap, 1, 2)
	ask("the first goes on", time.Second, heap, 0, 2)
	in.Tick(time.Minute, heap, heap, true)
	ask("plenty", time.Minute, 0, 0, 0)
	ask("short again", time.Minute, heap, 0, 2)
	ask("still short", time.Minute+time.Second, heap, 0, 2)
}
