package capriccio_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bgraph/graphhttp"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/stackchunk"
	"github.com/capriccio-go/capriccio/task"
)

// A library declares what it has under names of its own, for each runtime that it works on.
type library struct {
	in    *ressched.Entrance
	slots *ressched.Resource
	log   *ressched.Stage
}

func newLibrary(t *testing.T, name string) library {
	in := testenv.Need(ressched.NewEntrance(name))(t)
	slots := testenv.Need(ressched.NewResource(name, ""))(t)
	log := testenv.Need(ressched.NewStage(name))(t)
	return library{in, slots, log}
}

func (l library) work(t *testing.T, rt *task.Runtime, n int64) {
	testenv.Must(t, rt.Go(func() {
		testenv.Check(t, l.in.Enter())
		defer l.in.Leave()
		l.slots.Acquire(n)
		stackchunk.Call(64<<10, func() { l.log.Do(func() {}) })
		l.slots.Release(n)
		ressched.Progress(1)
	}).Join())
}

// Two runtimes, one after the other and at once, show nothing of each other, whether or not what they use has
// the same names.
func TestRuntimesShowNothingOfEachOther(t *testing.T) {
	start := func() *task.Runtime {
		rt := testenv.Need(capriccio.New(capriccio.WithLoops(1), capriccio.WithoutSignals(), capriccio.WithScheduler(capriccio.Resource)))(t)
		t.Cleanup(func() { rt.Close() })
		return rt
	}
	check := func(rt *task.Runtime, name string, taken uint64) {
		t.Helper()
		s := (*engine.Runtime)(rt).Graph().Snapshot()
		counts := map[string]uint64{}
		for _, r := range s.Resources {
			counts[r.Name] = r.Acquired
			if r.InUse != 0 && r.Name != "descriptors" && r.Name != "progress" {
				t.Errorf("%d of %q in use", r.InUse, r.Name)
			}
		}
		for _, n := range []string{"mine", "yours"} {
			got, listed := counts[n]
			if listed != (n == name) || listed && got != taken {
				t.Errorf("of %q %d taken, listed: %v", n, got, listed)
			}
			testenv.Equal(t, scheduled(s, n), n == name, "the scheduler of %q lists %q; %+v", name, n, s.Sched.Resources)
			if label := slices.ContainsFunc(s.Nodes, func(x bgraph.Node) bool { return x.Label == n }); label != (n == name) {
				t.Errorf("a place of %q: %v", n, label)
			}
		}
		switch {
		case counts["tasks"] > 1 || counts["progress"] > 1:
			t.Errorf("%d tasks, %d of progress; want those of this runtime", counts["tasks"], counts["progress"])
		case s.Sched.Admitted > 1:
			t.Errorf("%d admitted", s.Sched.Admitted)
		}
	}
	mine := newLibrary(t, "mine")
	first := start()
	mine.work(t, first, 5)
	check(first, "mine", 5)
	testenv.Must(t, first.Close())
	check(first, "mine", 5)

	second := start() // after the first, with the same names
	check(second, "", 0)
	testenv.Equal(t, (*engine.Runtime)(second).Graph().Snapshot().Chunks.Links, 0, "links")
	newLibrary(t, "mine").work(t, second, 3)
	check(second, "mine", 3)

	third := start() // beside the second, with other names
	newLibrary(t, "yours").work(t, third, 4)
	check(third, "yours", 4)
	check(second, "mine", 3)

	fourth := start() // with the declarations of another
	mine.work(t, fourth, 2)
	check(fourth, "mine", 2)
	check(second, "mine", 3)
	check(first, "mine", 5)
	testenv.Equal(t, capriccio.Snapshot(new(task.Runtime)), nil, "a graph for a runtime that is not ours")
}

// scheduled reports whether the scheduler has a gate of that entrance.
func scheduled(s *bgraph.Snapshot, entrance string) bool {
	return slices.ContainsFunc(s.Sched.Resources, func(r bgraph.SchedResource) bool { return r.Name == "inside "+entrance })
}

// A task that takes a graph parks: else its loop could not say what its scheduler does, and other tasks would wait.
func TestATaskThatTakesAGraphParks(t *testing.T) {
	testenv.Must(t, capriccio.Run(t.Context(), func(context.Context) error {
		for name, take := range map[string]func(){
			"Snapshot": func() { capriccio.Snapshot(nil) },
			"Handler": func() {
				h := graphhttp.Handler(nil)
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/?format=dump&seconds=1", nil).WithContext(testenv.Cancelled()))
			},
		} {
			ran := false
			task.Go(func() { ran = true })
			take()
			testenv.Equal(t, ran, true, "%s: another task ran meanwhile", name)
		}
		return nil
	}, capriccio.WithLoops(1), capriccio.WithoutSignals()))
}
