package stackchunk

import (
	"maps"
	"strconv"
	"testing"
)

func TestTheSmallestClassWithTheRoomIsTaken(t *testing.T) {
	check := func(room Bytes) {
		t.Helper()
		class := classOf(room)
		if class < classes && roomOf(class) < room {
			t.Errorf("for %d bytes a chunk with %d is taken", room, roomOf(class))
		}
		if class > 0 && roomOf(class-1) >= room {
			t.Errorf("for %d bytes class %d is taken, although %d has %d", room, class, class-1, roomOf(class-1))
		}
	}
	for room := Bytes(0); room < 200<<10; room++ {
		check(room)
	}
	for class := range classes {
		for _, room := range []Bytes{roomOf(class) - 1, roomOf(class), roomOf(class) + 1} {
			check(room)
		}
	}
	check(1 << 63)
}

func TestSitesInExcessWork(t *testing.T) {
	sites.mu.Lock()
	kept := maps.Clone(sites.all)
	sites.mu.Unlock()
	defer func() {
		sites.mu.Lock()
		sites.all = kept
		sites.mu.Unlock()
	}()
	for i := range MaxSites + 10 {
		s := NewSite("excess:"+strconv.Itoa(i), 16)
		if i > MaxSites {
			called := false
			s.Call(func() { called = true })
			if !called {
				t.Fatal("not called")
			}
		}
	}
	if n := len(allSites()); n != MaxSites {
		t.Errorf("%d sites are in the statistics, want %d", n, MaxSites)
	}
}
