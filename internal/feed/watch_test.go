package feed

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/probe"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func watching(t *testing.T) (w *selfWatch, state func(name string) admit.ResourceReport, heap func(time.Duration, float64)) {
	t.Helper()
	l := admit.NewLedger()
	memory, err := l.Add(admit.Spec{Name: probe.Heap, Limit: 1})
	testenv.Must(t, err)
	if w, err = newSelfWatch(l); err != nil {
		t.Fatal(err)
	}
	state = func(name string) admit.ResourceReport {
		var r admit.Report
		l.Report(&r)
		for _, x := range r.Resources {
			if x.Name == name {
				return x
			}
		}
		t.Fatalf("there is no %q", name)
		return admit.ResourceReport{}
	}
	return w, state, func(now time.Duration, share float64) { l.Observe(now, memory, share) }
}

func TestHowBusyTheLoopsAre(t *testing.T) {
	w, state, _ := watching(t)
	now, idle := time.Second, time.Duration(0)
	for _, c := range []struct {
		idle time.Duration // of both loops in 10 ms
		want float64
		is   admit.State
	}{
		{20 * time.Millisecond, 0, admit.Low},
		{10 * time.Millisecond, 0.5, admit.Low},
		{0, 1, admit.AtLimit},
		{1 * time.Millisecond, 0.95, admit.AtLimit},
		{30 * time.Millisecond, 0, admit.Low}, // a reading that was torn
	} {
		for range 30 { // until the trend is forgotten
			w.loops(now, idle, 2, 2, 0, 1)
			now, idle = now+10*time.Millisecond, idle+c.idle
		}
		if got := state(processor); got.Used < c.want-0.001 || got.Used > c.want+0.001 || got.State != c.is {
			t.Errorf("idle for %v of 2 × 10ms: busy %.3f, %v; want %.3f, %v", c.idle, got.Used, got.State, c.want, c.is)
		}
	}
}

func TestDelaysFromReadyToRunning(t *testing.T) {
	w, state, _ := watching(t)
	w.ready(time.Second, 4e6, 4)
	if got := state(readyDelay); got.Used != 0.001 || got.State != admit.Low {
		t.Errorf("after four of 1 ms: %+v", got)
	}
	w.ready(2*time.Second, 4e6, 4) // nothing new
	w.ready(3*time.Second, 28e6, 6)
	if got := state(readyDelay); got.Used != 0.012 || got.State != admit.AtLimit {
		t.Errorf("after two of 12 ms: %+v", got)
	}
}

// Productivity is lost if, with as much under way, less gets done although the loops have
// no time left. It counts while memory is not plentiful.
func TestLostProductivity(t *testing.T) {
	for _, c := range []struct {
		name     string
		busy     bool
		tasks    int // with the lower rate
		progress uint64
		behind   float64 // what is seen at least
	}{
		{"thrashing", true, 100, 250, 3.5},
		{"a little less", true, 100, 900, 1},
		{"less to do", false, 100, 250, 0},
		{"fewer tasks", true, 10, 250, 0},
	} {
		w, state, heap := watching(t)
		now, idle, done := time.Second, time.Duration(0), uint64(0)
		run := func(progress uint64, tasks int, busy bool) {
			for range 200 { // 10 ms each
				heap(now, 0.9)
				w.loops(now, idle, 1, 1, done, tasks)
				now, done = now+10*time.Millisecond, done+progress
				if !busy {
					idle += 5 * time.Millisecond
				}
			}
		}
		run(1000, 100, true)
		if got := state(productivity); got.State != admit.Low {
			t.Errorf("%s: before, %+v", c.name, got)
		}
		run(c.progress, c.tasks, c.busy)
		got := state(productivity)
		if got.Used < c.behind || c.behind == 0 && got.Used != 0 || (got.State == admit.AtLimit) != (c.behind > muchLost) {
			t.Errorf("%s: %+v; want at least %.1f", c.name, got, c.behind)
		}
	}
}

// What a real loop measures of itself comes through.
func TestALoopThatIsIdle(t *testing.T) {
	rt, s := fed(t, 1, 1, Config{Policy: Resource})
	defer rt.Close()
	for range 3 {
		s.self.look(rt)
		testenv.Must(t, rt.Go(func() { engine.Sleep(50 * time.Millisecond) }).Join())
	}
	s.self.look(rt)
	var r admit.Report
	s.ledger.Report(&r)
	for _, x := range r.Resources {
		if x.Name == processor && x.Used > 0.5 { // by the runtime's clock, on which only waiting takes time
			t.Errorf("a loop that sleeps is busy for %.2f of the time", x.Used)
		}
	}
	if idle := rt.Loop(0).Idle(); idle < 150*time.Millisecond || idle > rt.Now() {
		t.Errorf("idle for %v of %v, want at least the 150 ms of sleeping", idle, rt.Now())
	}
}

// Refusals are logged once a second, by cause, and not again if there were none since.
func TestRefusalsAreLogged(t *testing.T) {
	var out strings.Builder
	rt, s := fed(t, 1, 1, Config{Policy: Resource, Log: slog.New(slog.NewTextHandler(&out, nil))})
	defer rt.Close()
	a := admit.NewAdmission(0, true, func(int) *admit.ConcurrencyLimit { return s.ledger.NewLimit("test") })
	s.mu.Lock()
	s.loops = append(s.loops, &loopSide{loop: rt.Loop(0), admission: a})
	s.mu.Unlock()
	late := &admit.QueueState{Waiting: 1, Oldest: time.Hour}
	lines := func() int { return strings.Count(out.String(), "work is refused") }
	for i, want := range []int{0, 1, 1, 2} { // a second has to pass between two
		now := time.Duration(i+1) * 600_000_032
		testenv.MustEqual(t, a.Next(now, 0, late), admit.Refuse, "verdict")
		s.reportRefusals(now)
		if got := lines(); got != want {
			t.Errorf("after %v: %d lines, want %d:\n%s", now, got, want, out.String())
		}
	}
	if s.reportRefusals(time.Hour); lines() != 2 {
		t.Errorf("a line although nothing was refused:\n%s", out.String())
	}
	testenv.Contains(t, out.String(), "waited too long", "the cause is not named")
	testenv.Contains(t, out.String(), "seconds=1.2\n", "the time is not rounded")
}
