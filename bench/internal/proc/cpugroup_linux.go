package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// CPUGroup is a cgroup whose processes may use a share of one processor together: then
// they are stopped until the next period begins (cpu.cfs_quota_us of version 1, cpu.max of
// version 2 of cgroups(7)). It belongs to one goroutine.
type CPUGroup struct {
	group
}

// quotaPeriod is the kernel's default, which container runtimes take.
const quotaPeriod = 100 * time.Millisecond

// NewCPUGroup makes a group with a share in (0,1]. The error says why there can be none.
func NewCPUGroup(share float64) (*CPUGroup, error) {
	g, err := newGroup("cpu", func(dir string) error {
		period := quotaPeriod.Microseconds()
		quota := int64(share * float64(period))
		err := os.WriteFile(filepath.Join(dir, "cpu.cfs_period_us"), []byte(strconv.FormatInt(period, 10)), 0)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "cpu.cfs_quota_us"), []byte(strconv.FormatInt(quota, 10)), 0)
		}
		if err != nil {
			err = os.WriteFile(filepath.Join(dir, "cpu.max"), fmt.Appendf(nil, "%d %d", quota, period), 0)
		}
		return err
	})
	return &CPUGroup{g}, err
}
