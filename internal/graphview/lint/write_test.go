package lint

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
	_ "github.com/capriccio-go/capriccio/netpoll" // its pollers
	"github.com/capriccio-go/capriccio/task"
)

// sick is a healthy graph with one finding of most checks.
func sick() scene {
	sc := healthy()
	sc.step(kRead, kLock).CPU = timesOf(100_000, 25*time.Millisecond)
	sc.step(kWorker, kWorker).Overruns = 400
	sc.Overruns = []bgraph.Overrun{{From: kWorker, To: kWorker, Task: "worker #12", Held: bgraph.Nanos(40 * time.Millisecond), At: sceneBegan,
		Stack: "goroutine 12 [running]:\nexample.org/shop.match(...)\n\t/src/shop/match.go:88 +0x1f\n"}}
	lock := sc.at(kLock)
	lock.Arrivals, lock.Departures, lock.Now, lock.Peak = 3_600_050, 3_600_000, 50, 600
	lock.Wait = timesOf(lock.Departures, 300*time.Millisecond)
	send := sc.at(kSend)
	send.Now, send.Arrivals = 400, send.Departures+400
	sc.at(kSlots).Oldest = bgraph.Nanos(20 * time.Minute)
	sc.Loops[1].Steps = 20_000_000
	sc.Overflow.Nodes = 99
	e := sc.step(kWrite, kRead)
	e.Changes[1] = bgraph.Change{Steps: e.Count, Sum: -3686 * int64(e.Count), Recent: bgraph.Moments{Mean: -3686}}
	r := &sc.Resources[1]
	r.Acquired, r.Released, r.InUse = 4096e6, 3686e6, 410e6
	return sc
}

func TestFindingsAsText(t *testing.T) {
	s := sick().Snapshot
	var out bytes.Buffer
	testenv.Must(t, Write(&out, s, Find(s)))
	testenv.Golden(t, "lint.txt", out.Bytes())
	for _, line := range strings.Split(out.String(), "\n") {
		testenv.AtMost(t, utf8.RuneCountInString(line), 100, "line of N columns: %s", line)
	}
}

// Of a long stack the program's functions are there, and an advice is given once.
func TestLongStacksOfFindings(t *testing.T) {
	stack := "goroutine 7 [running]:\n" + strings.Repeat("crypto/tls.(*Conn).Read(...)\n\t/go/tls.go:1\n", 15)
	f := Finding{Severity: SeverityInfo, Check: CheckLongStep, Advice: "Do less.", Stack: stack + "main.read(...)\n\t/main.go:2\n" + strings.Repeat("main.more(...)\n\t/main.go:3\n", 20)}
	var out bytes.Buffer
	testenv.Must(t, Write(&out, healthy().Snapshot, []Finding{f, f}))
	if text := out.String(); strings.Count(text, "main.read(...)") != 2 || strings.Count(text, "… 14 functions of the standard library\n") != 2 || strings.Count(text, "… 21 more lines") != 2 || strings.Count(text, "Do less.") != 1 {
		t.Error(text)
	}
}

func TestNoFindingsAsText(t *testing.T) {
	s := healthy().Snapshot
	var out bytes.Buffer
	testenv.Must(t, Write(&out, s, nil))
	testenv.Equal(t, out.String(), "Nothing found in shop (process 4711, 2 loops, 1h00m).\n")
}

// TestFindingsDoNotControlTheTerminal: names in a dump may be chosen by an attacker.
func TestFindingsDoNotControlTheTerminal(t *testing.T) {
	const evil = "a\x1b[2Jb\r\nc\x07\u202e"
	s := healthy().Snapshot
	s.Program.Name = evil
	var out bytes.Buffer
	testenv.Must(t, Write(&out, s, []Finding{{Severity: SeverityError, Check: CheckStuck, Name: evil, Message: evil, Advice: evil, Stack: evil}}))
	if got := out.String(); strings.ContainsAny(got, "\x1b\r\x07\u202e") {
		t.Errorf("control characters got through: %q", got)
	}
}

var errBroken = errors.New("broken")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestFindingsReportAWriteError(t *testing.T) {
	s := healthy().Snapshot
	testenv.Equal(t, Write(brokenWriter{}, s, nil), errBroken, "nothing found: error")
	testenv.Equal(t, Write(brokenWriter{}, s, []Finding{{Message: "x"}}), errBroken, "one finding: error")
}

func TestLintNativeWaits(t *testing.T) {
	const kNative = kTick + 1
	waits := func(n uint64) func(scene) {
		return func(sc scene) { sc.node(kNative, "native", n, 0, 3*time.Millisecond, 0) }
	}
	for _, c := range []lintCase{
		{"no native waits", waits(0), "", 0, nil},
		{"some, in an hour", waits(360), "info native", kNative, []string{"360 times, 0.1 a second", "2.895ms on average"}},
		{"many", waits(360_000), "warning native", kNative, []string{"360,000 times, 100 a second"}},
	} {
		c.run(t)
	}
	sc := healthy()
	for i := range 12 {
		sc.node(kNative+bgraph.Key(i), "native", uint64(i+1), 0, time.Millisecond, 0)
	}
	sc.order()
	named := map[bgraph.Key]bool{}
	for _, f := range Find(sc.Snapshot) {
		named[f.Node] = true
	}
	if len(named) != nativePlaces || named[kNative] || named[kNative+1] {
		t.Errorf("%d places are named; want the %d where most was", len(named), nativePlaces)
	}
}

// lintOf runs a program, one task for each function, and looks at its graph.
func lintOf(t *testing.T, o limits, program ...func()) []Finding {
	t.Helper()
	return findWith(graphOf(t, 1, program...), o)
}

// graphOf runs a program, its functions on the loops in turn.
func graphOf(t *testing.T, loops int, program ...func()) *bgraph.Snapshot {
	t.Helper()
	g := recorder.New(recorder.Config{Sampling: 1})
	rt, err := engine.New(engine.Config{
		Loops:     loops,
		NewPoller: func(int) (engine.Poller, error) { return poller.Epoll() },
		Graph:     g,
		HoldLimit: time.Hour,
	})
	testenv.Must(t, err)
	defer rt.Close()
	tasks := make([]*engine.Task, len(program))
	for i, fn := range program {
		tasks[i] = engine.GoOn(rt.Loop(i%loops), fn)
	}
	for _, one := range tasks {
		testenv.Must(t, one.Join())
	}
	return g.Snapshot()
}

func only(t *testing.T, found []Finding, check string) *Finding {
	t.Helper()
	for i := range found {
		if found[i].Check == check {
			return &found[i]
		}
	}
	t.Fatalf("no %s among %+v", check, found)
	return nil
}

func TestLintOfAConvoy(t *testing.T) {
	var mu task.Mutex
	var program []func()
	for range 16 {
		program = append(program, func() {
			for range 10 {
				mu.Lock()
				engine.Sleep(time.Millisecond)
				mu.Unlock()
			}
		})
	}
	f := only(t, lintOf(t, usual, program...), CheckConvoy)
	if !strings.HasPrefix(f.Name, "mutex ") || !strings.Contains(f.Message, "run to sleep ") || !strings.Contains(f.Advice, "held while the task waits") {
		t.Errorf("%+v", f)
	}
}

//go:noinline
func compute(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
	}
}

func TestLintOfALongStep(t *testing.T) {
	f := only(t, lintOf(t, usual, func() {
		for range 3 {
			engine.YieldAt("before")
			compute(15 * time.Millisecond)
			engine.YieldAt("after")
		}
	}), CheckLongStep)
	if f.Severity != SeverityError || f.Name != "before → after" || !strings.Contains(f.Stack, "TestLintOfALongStep") {
		t.Errorf("%+v", f)
	}
}

func TestLintOfAHealthyProgram(t *testing.T) {
	work := task.NewChan[int](8)
	done := task.NewChan[int](8)
	things := testenv.Need(admit.NewResource("things that come back", ""))(t)
	const jobs = 3000
	program := []func(){
		func() {
			for i := range jobs {
				work.Send(i)
			}
			work.Close()
		},
		func() {
			for range jobs {
				testenv.Check(t, testenv.Err(done.Recv()))
			}
		},
	}
	var mu task.Mutex
	last := -1
	for range 4 {
		program = append(program, func() {
			for {
				i, err := work.Recv()
				if err != nil {
					return
				}
				engine.Acquire(things, 1)
				mu.Lock()
				last = i
				mu.Unlock()
				engine.Yield()
				engine.Release(things, 1)
				done.Send(i)
			}
		})
	}
	defer func() {
		testenv.AtLeast(t, last, 0, "nothing was done")
	}()
	patient := usual
	patient.step, patient.starve, patient.ready = time.Minute, time.Minute, time.Minute
	for _, f := range lintOf(t, patient, program...) {
		t.Errorf("found %+v", f)
	}
}
