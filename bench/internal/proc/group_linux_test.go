package proc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestGroupsAreMadeWhereTheMemoryControllerIs(t *testing.T) {
	const mountV1 = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n" +
		"cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
	const mountV2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"
	for _, c := range []struct {
		own, mounts string
		want        []string
	}{
		{"9:name=systemd:/\n4:cpu,memory:/a/b\n0::/\n", mountV1, []string{"/sys/fs/cgroup/memory/a/b", "/sys/fs/cgroup/memory"}},
		{"4:memory:/\n0::/\n", mountV1, []string{"/sys/fs/cgroup/memory"}},
		{"0::/user.slice/me.scope\n", mountV2, []string{"/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"}},
		{"0::/\n", mountV2, []string{"/sys/fs/cgroup"}},
		{"0::/\n", "proc /proc proc rw 0 0\n", nil},
	} {
		testenv.EqualSlices(t, groupParents(c.own, c.mounts, "memory"), c.want, "%q", c.own)
	}
}

func TestMemoryGroupHoldsAProcess(t *testing.T) {
	g, err := NewMemoryGroup(64 << 20)
	if err != nil {
		t.Skip(err)
	}
	command := shell("cat /proc/self/cgroup; echo; read line")
	command.Groups = []*Group{nil, g}
	child := testenv.Need(Start(command))(t)
	defer child.Close()
	in := false // from the start
	for line := "begin"; line != ""; line = testenv.Need(child.Line(t.Context()))(t) {
		in = in || strings.HasSuffix(line, "/"+filepath.Base(g.dir))
	}
	if !in {
		t.Error("the child is not in its group")
	}
	used, err := g.Bytes()
	if err != nil || used < 0 || used > 64<<20 {
		t.Errorf("uses %d, %v", used, err)
	}
	if most, err := g.Peak(); err != nil || most < used || most > 64<<20 {
		t.Errorf("uses %d, and %d at most, %v", used, most, err)
	}
	child.Close()
	testenv.Must(t, g.Close())
	if _, err := os.Stat(g.dir); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
}

func TestFetchedBytes(t *testing.T) {
	if n, err := FetchedBytes(os.Getpid()); err != nil || n < 0 {
		t.Errorf("got %d, %v", n, err)
	}
	if n, err := FetchedBytes(1 << 27); err == nil {
		t.Errorf("process 1<<27 fetched %d", n)
	}
}

func TestCPUGroupHoldsItsProcessesBack(t *testing.T) {
	g, err := NewCPUGroup(0.1)
	if err != nil {
		t.Skip(err)
	}
	command := shell("read line; while :; do :; done")
	command.Groups = []*Group{g}
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
}
