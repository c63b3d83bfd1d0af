package stackchunk

import (
	"maps"
	"strconv"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
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
	testenv.Equal(t, len(allSites()), MaxSites, "sites are in the statistics")
}
