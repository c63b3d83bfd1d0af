package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func shell(script string) Command {
	return Command{Path: "/bin/sh", Args: []string{"-c", script}, Core: AnyCore}
}

func TestChildIsPinnedBeforeItRuns(t *testing.T) {
	cores, err := Cores()
	testenv.Must(t, err)
	last := cores[len(cores)-1]
	c := shell("grep Cpus_allowed_list /proc/self/status")
	c.Core = last
	lines, err := Output(t.Context(), c)
	testenv.Must(t, err)
	if want := fmt.Sprintf("Cpus_allowed_list:\t%d", last); len(lines) != 1 || lines[0] != want {
		t.Errorf("child says %q, want %q", lines, want)
	}
	if now, err := Cores(); err != nil || len(now) != len(cores) {
		t.Errorf("afterwards the driver may use %v (error %v), before %v", now, err, cores)
	}
}

func TestUnusableCoreIsAnError(t *testing.T) {
	c := shell("true")
	c.Core = 1000
	if _, err := Output(t.Context(), c); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("got %v, want EINVAL", err)
	}
}

func TestFailureTellsWhatTheChildSaid(t *testing.T) {
	_, err := Output(t.Context(), shell("echo to nobody; echo the reason >&2; exit 3"))
	if err == nil || !strings.Contains(err.Error(), "the reason") || !strings.Contains(err.Error(), "status 3") {
		t.Errorf("got %v", err)
	}
	_, err = Output(t.Context(), Command{Path: "/does/not/exist", Core: AnyCore})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want not existing", err)
	}
}

func TestLineReadsUntilTheEnd(t *testing.T) {
	child, err := Start(shell("echo one; echo two"))
	testenv.Must(t, err)
	defer child.Close()
	for _, want := range []string{"one", "two"} {
		if got, err := child.Line(t.Context()); got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if got, err := child.Line(t.Context()); err == nil {
		t.Errorf("after the end got %q", got)
	}
}

func TestCloseInputEndsAChildThatReads(t *testing.T) {
	child, err := Start(shell("cat; echo end"))
	testenv.Must(t, err)
	defer child.Close()
	child.CloseInput()
	if got, err := child.Line(t.Context()); got != "end" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	testenv.Check(t, child.Wait(t.Context()))
}

func TestEndedContextKillsTheChildAndItsChildren(t *testing.T) {
	child, err := Start(shell("sleep 1000 & echo $!; wait"))
	testenv.Must(t, err)
	defer child.Close()
	line, err := child.Line(t.Context())
	testenv.Must(t, err)
	var grandchild int
	if _, err := fmt.Sscan(line, &grandchild); err != nil {
		t.Fatal(err)
	}
	reason := errors.New("time is up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	if _, err := child.Line(ctx); !errors.Is(err, reason) {
		t.Errorf("Line returned %v, want the context's cause", err)
	}
	for _, pid := range []int{child.PID(), grandchild} {
		// The kernel ends it when it gets to it.
		testenv.Until(t, fmt.Sprint("process ", pid, " ends"), func() bool { return strings.Trim(stateOf(pid), "Z") == "" })
	}
}

// stateOf is the letter of /proc/PID/stat, "" for a process that is gone.
func stateOf(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return rest[:1]
}

func TestUsageOfThisProcess(t *testing.T) {
	pid := os.Getpid()
	first, err := CPUTime(pid)
	testenv.Must(t, err)
	second, err := CPUTime(pid)
	if err != nil || first <= 0 || second < first {
		t.Errorf("CPU time %v, then %v, error %v", first, second, err)
	}
	if memory, err := Memory(pid); err != nil || memory < 64<<10 {
		t.Errorf("memory %d, error %v", memory, err)
	}
	if peak, err := PeakMemory(pid); err != nil || peak < 64<<10 {
		t.Errorf("peak of memory %d, error %v", peak, err)
	}
	if free, err := Available(); err != nil || free <= 0 {
		t.Errorf("available %d, error %v", free, err)
	}
}

func TestUsageOfNobodyIsAnError(t *testing.T) {
	for _, nobody := range []int{-1, 0, 1 << 27, 1 << 40} {
		if got, err := CPUTime(nobody); err == nil {
			t.Errorf("CPU time of process %d is %v", nobody, got)
		}
		if got, err := Memory(nobody); err == nil {
			t.Errorf("memory of process %d is %d", nobody, got)
		}
		if got, err := PeakMemory(nobody); err == nil {
			t.Errorf("peak of memory of process %d is %d", nobody, got)
		}
	}
}

func TestKilobyteField(t *testing.T) {
	const data = "Name:\tx\nPss:                 12 kB\nPss_Dirty: 5 kB\nBad: many kB\n"
	if got, err := kilobyteField([]byte(data), "Pss:"); got != 12<<10 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	for _, name := range []string{"Bad:", "None:"} {
		if got, err := kilobyteField([]byte(data), name); err == nil {
			t.Errorf("%s gave %d", name, got)
		}
	}
}

func TestComplaintKeepsTheBeginning(t *testing.T) {
	var c complaint
	fmt.Fprint(&c, "the reason")
	fmt.Fprint(&c, strings.Repeat("x", 2*complaintLimit))
	fmt.Fprint(&c, "end")
	if got := c.quoted(); len(got) != complaintLimit+2 || !strings.HasPrefix(got, ": the reason") {
		t.Errorf("kept %d bytes beginning with %q", len(got), got[:20])
	}
}

func TestSwitchesAreThoseOfAllThreads(t *testing.T) {
	before, err := Switches(os.Getpid())
	if err != nil || before <= 0 {
		t.Fatalf("%d, %v", before, err)
	}
	done := make(chan bool)
	go func() { // on another thread, as this one is held
		runtime.LockOSThread()
		for range 20 {
			syscall.Nanosleep(&syscall.Timespec{Nsec: 1000}, nil)
		}
		after, err := Switches(os.Getpid())
		if err != nil || after < before+20 {
			t.Errorf("%d after 20 waits, %d before; %v", after, before, err)
		}
		done <- true
	}()
	<-done
	if _, err := Switches(1 << 27); err == nil {
		t.Error("a process that is not there")
	}
}
