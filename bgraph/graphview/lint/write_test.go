package lint

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
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
	if text := out.String(); strings.Count(text, "main.read(...)") != 2 || strings.Count(text, "… 14 functions of the standard library\n") != 2 || strings.Count(text, "more lines") != 2 || strings.Count(text, "Do less.") != 1 {
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

func TestLongStacksAreCut(t *testing.T) {
	var out bytes.Buffer
	stack := strings.Repeat("main.f(...)\n\tmain.go:1\n", 50)
	testenv.Must(t, Write(&out, healthy().Snapshot, []Finding{{Stack: stack}}))
	if got := out.String(); strings.Count(got, "main.f") != 12 || !strings.Contains(got, "… 76 more lines") {
		t.Errorf("a stack of 100 lines becomes %s", got)
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
