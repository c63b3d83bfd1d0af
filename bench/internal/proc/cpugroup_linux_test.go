package proc

import (
	"os"
	"testing"
	"time"
)

func TestCPUGroupHoldsItsProcessesBack(t *testing.T) {
	g, err := NewCPUGroup(0.1)
	if err != nil {
		t.Skip(err)
	}
	child, err := Start(shell("read line; while :; do :; done"))
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	if err := g.Add(child.PID()); err != nil {
		t.Fatal(err)
	}
	before, err := CPUTime(child.PID())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := child.Tell("go"); err != nil {
		t.Fatal(err)
	}
	// A period gives 10 ms and a little more, as the kernel looks at every tick.
	used := time.Duration(0)
	for used < 45*time.Millisecond {
		now, err := CPUTime(child.PID())
		if err != nil {
			t.Fatal(err)
		}
		used = now - before
	}
	if took := time.Since(began); took < 150*time.Millisecond {
		t.Errorf("%v of CPU time within %v, in a group that gets a tenth", used, took)
	}
	child.Close()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(g.Dir()); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
}
