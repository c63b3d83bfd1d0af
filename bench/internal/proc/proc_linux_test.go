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
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func shell(script string) Command {
	return Command{Path: "/bin/sh", Args: []string{"-c", script}, Core: AnyCore}
}

func TestChildIsPinnedBeforeItRuns(t *testing.T) {
	cores := testenv.Need(Cores())(t)
	last := cores[len(cores)-1]
	c := shell("grep Cpus_allowed_list /proc/self/status")
	c.Core = last
	lines := testenv.Need(Output(t.Context(), c))(t)
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
	testenv.ErrorIs(t, testenv.Err(Output(t.Context(), c)), syscall.EINVAL)
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
	child := testenv.Need(Start(shell("echo one; echo two")))(t)
	defer child.Close()
	for _, want := range []string{"one", "two"} {
		testenv.Got(child.Line(t.Context()))(t, want)
	}
	if got, err := child.Line(t.Context()); err == nil {
		t.Errorf("after the end got %q", got)
	}
}

func TestEndedContextKillsTheChildAndItsChildren(t *testing.T) {
	child := testenv.Need(Start(shell("sleep 1000 & echo $!; wait")))(t)
	defer child.Close()
	line := testenv.Need(child.Line(t.Context()))(t)
	var grandchild int
	testenv.Need(fmt.Sscan(line, &grandchild))(t)
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
	first := testenv.Need(CPUTime(pid))(t)
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
		testenv.Fails(t, testenv.Err(CPUTime(nobody)), "CPU time of process %d", nobody)
		testenv.Fails(t, testenv.Err(Memory(nobody)), "memory of process %d", nobody)
		testenv.Fails(t, testenv.Err(PeakMemory(nobody)), "peak of memory of process %d", nobody)
	}
}

func TestKilobyteField(t *testing.T) {
	const data = "Name:\tx\nPss:                 12 kB\nPss_Dirty: 5 kB\nBad: many kB\n"
	testenv.Got(kilobyteField([]byte(data), "Pss:"))(t, 12<<10)
	for _, name := range []string{"Bad:", "None:"} {
		testenv.Fails(t, testenv.Err(kilobyteField([]byte(data), name)), name)
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
	testenv.Fails(t, testenv.Err(Switches(1<<27)), "a process that is not there")
}

func TestBusyTimeOfACore(t *testing.T) {
	const stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 4 8 16 32 64 128 7 7\ncpu1 1 0 0 5 0 0 0 0 0 0\ncpu10 x 0 0 5 0 0 0 0 0 0\n"
	for core, want := range []time.Duration{231 * tick, tick} {
		testenv.Got(coreBusy([]byte(stat), core))(t, want, "core %d", core)
	}
	for _, core := range []int{2, 10} {
		testenv.Fails(t, testenv.Err(coreBusy([]byte(stat), core)), "core %d", core)
	}
	cores := testenv.Need(Cores())(t)
	if got, err := CoreBusy(cores[0]); got <= 0 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}
