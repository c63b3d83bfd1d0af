package stackchunk

import (
	"maps"
	"strconv"
	"testing"
)

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
