package proc

import (
	"os"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestCPUGroupHoldsItsProcessesBack(t *testing.T) {
	g, err := NewCPUGroup(0.1)
	if err != nil {
		t.Skip(err)
	}
	command := shell("read line; while :; do :; done")
	command.Group = g.Dir()
	child, err := Start(command)
	testenv.Must(t, err)
	defer child.Close()
	before, err := CPUTime(child.PID())
	testenv.Must(t, err)
	began := time.Now()
	testenv.Must(t, child.Tell("go"))
	// A period gives 10 ms and a little more, as the kernel looks at every tick.
	used := time.Duration(0)
	for used < 45*time.Millisecond {
		now, err := CPUTime(child.PID())
		testenv.Must(t, err)
		used = now - before
	}
	if took := time.Since(began); took < 150*time.Millisecond {
		t.Errorf("%v of CPU time within %v, in a group that gets a tenth", used, took)
	}
	child.Close()
	testenv.Must(t, g.Close())
	if _, err := os.Stat(g.Dir()); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
}
