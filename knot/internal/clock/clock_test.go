package clock

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A clock that is read now and then stands, and every reading is of that moment; one that is read often ticks
// for a while.
func TestTheClockTicksWhereItIsReadOften(t *testing.T) {
	var k Clock
	defer k.Close()
	ticks := func() bool { return k.passed.Load() != 0 }
	last := int64(0)
	read := func() {
		now := k.Now()
		if now <= last && !ticks() || now < last || now <= 0 {
			t.Fatalf("the clock reads %d after %d", now, last)
		}
		last = now
		if late := time.Since(k.At(now)); late < 0 {
			t.Fatalf("the clock is ahead by %v", -late)
		}
		if s := k.Stamp(); s.Unix > time.Now().Unix() || s.Unix < time.Now().Unix()-60 {
			t.Fatalf("the stamp is of second %d", s.Unix)
		}
	}
	for range 3 * manyReads {
		read()
		k.mu.Lock()
		k.from -= 2 * int64(Tick) // as if that was some time ago
		k.mu.Unlock()
	}
	testenv.Equal(t, ticks(), false, "the clock ticks where it is read seldom")
	for n := 0; !ticks(); n++ {
		if n > 1000*manyReads {
			t.Fatal("the clock does not tick")
		}
		read()
	}
	read()
	k.timer.Stop()
	testenv.Until(t, "the clock stands", func() bool { k.tick(); return !ticks() })
	k.timer.Stop()
	read()
	k.Close()
	for range 3 * manyReads {
		read()
	}
	testenv.Equal(t, ticks(), false, "the clock ticks after it was closed")
}

func TestRareIsLoggedRarely(t *testing.T) {
	var r Rare
	for _, c := range []struct {
		at     time.Duration
		untold int64
		due    bool
	}{{0, 0, true}, {1, 0, false}, {rareEvery - 1, 0, false}, {rareEvery + 1, 2, true}, {rareEvery + 2, 0, false}, {3 * rareEvery, 1, true}} {
		if untold, due := r.Due(int64(c.at)); untold != c.untold || due != c.due {
			t.Errorf("at %v: %d, %v; want %d, %v", c.at, untold, due, c.untold, c.due)
		}
	}
}
