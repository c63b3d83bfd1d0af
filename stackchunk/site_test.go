package stackchunk_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/stackchunk"
)

func TestSitesInExcessWork(t *testing.T) {
	const inChild = "STACKCHUNK_TEST_SITES"
	if os.Getenv(inChild) == "" { // in a process of its own, as sites stay
		testenv.Run(t, "", []string{inChild + "=1"}, os.Args[0], "-test.run=^TestSitesInExcessWork$")
		return
	}
	for i := range stackchunk.MaxSites + 10 {
		s := stackchunk.NewSite("excess:"+strconv.Itoa(i), 16)
		called := false
		if s.Call(func() { called = true }); !called {
			t.Fatal("not called")
		}
	}
	testenv.Equal(t, len(stackchunk.ReadStats().Sites), stackchunk.MaxSites, "sites are in the statistics")
}
