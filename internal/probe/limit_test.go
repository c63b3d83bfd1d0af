package probe

import (
	"math"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestMemoryLimit(t *testing.T) {
	unlimited := tree{"proc/self/cgroup": "0::/\n"}
	for _, c := range []struct {
		name string
		tree tree
		goes float64 // GOMEMLIMIT
		want int64
	}{
		{"the machine", machine, math.MaxInt64, 16 * gib},
		{"version 2, inner group", version2, math.MaxInt64, gib},
		{"version 2, outer group less", version2.with(tree{"sys/fs/cgroup/pod/memory.max": "500000000\n"}), math.MaxInt64, 500_000_000},
		{"version 2, high", version2.with(tree{"sys/fs/cgroup/pod/app/memory.high": "999000000\n"}), math.MaxInt64, 999_000_000},
		{"version 2, max", version2.with(tree{"sys/fs/cgroup/pod/app/memory.max": "max\n", "sys/fs/cgroup/pod/memory.max": "max\n"}), math.MaxInt64, 16 * gib},
		{"version 1", version1.with(tree{"sys/fs/cgroup/memory/app/memory.limit_in_bytes": "300000000\n"}), math.MaxInt64, 300_000_000},
		{"hybrid", hybrid.with(tree{"sys/fs/cgroup/memory/app/memory.limit_in_bytes": "300000000\n"}), math.MaxInt64, 300_000_000},
		{"GOMEMLIMIT", version2, 1 << 20, 1 << 20},
		{"nothing says", unlimited, math.MaxInt64, 0},
		{"only GOMEMLIMIT says", unlimited, 1 << 20, 1 << 20},
	} {
		got := MemoryLimit(Config{Root: c.tree.write(t), Runtime: func() Runtime { return Runtime{MemoryLimit: c.goes, Percent: 100} }})
		testenv.Equal(t, got, c.want, c.name)
	}
	if MemoryLimit(Config{}) <= 0 {
		t.Error("this machine has no memory")
	}
}
