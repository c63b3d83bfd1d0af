package web

import (
	"context"
	"iter"
	"net/http/httptest"
	"testing"

	"github.com/capriccio-go/capriccio/cmd/bgdump/web/internal/sample"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A slowFleet takes long to open the source slow.
type slowFleet struct{ begun, goOn chan bool }

func (*slowFleet) Name() string                                  { return "fleet" }
func (*slowFleet) Sum(context.Context) (*bgraph.Snapshot, error) { return nil, nil }

func (s *slowFleet) Open(name string) (Source, iter.Seq[*bgraph.Snapshot], error) {
	if name == "slow" {
		s.begun <- true
		<-s.goOn
	}
	return sample.Shop(), nil, nil
}

func TestPagesDoNotWaitForAnotherToOpen(t *testing.T) {
	fleet := &slowFleet{make(chan bool), make(chan bool)}
	f := &fleetPage{fleet: fleet, static: staticFiles(), ctx: t.Context()}
	defer f.close()
	get := func(name string) {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, request("GET", "localhost", "/source/"+name+"/api/state"))
		testenv.Equal(t, w.Code, 200, w.Body.String())
	}
	done := make(chan bool)
	for range 2 {
		go func() { get("slow"); done <- true }()
		<-fleet.begun
	}
	get("quick")
	close(fleet.goOn)
	<-done
	<-done
	testenv.Equal(t, len(f.open), 2, "pages")
}
