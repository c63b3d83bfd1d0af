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
	child := testenv.Need(Start(command))(t)
	defer child.Close()
	before := testenv.Need(CPUTime(child.PID()))(t)
	began := time.Now()
	testenv.Must(t, child.Tell("go"))
	// A period gives 10 ms and a little more, as the kernel looks at every tick.
	used := time.Duration(0)
	for used < 45*time.Millisecond {
		now := testenv.Need(CPUTime(child.PID()))(t)
		used = now - before
	}
	testenv.AtLeast(t, time.Since(began), 150*time.Millisecond, "%v of CPU time, in a group that gets a tenth, within", used)
	child.Close()
	testenv.Must(t, g.Close())
	if _, err := os.Stat(g.Dir()); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
}
