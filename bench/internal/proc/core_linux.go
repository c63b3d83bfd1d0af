package proc

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/stat, USER_HZ of every architecture.
const tick = time.Second / 100

// CoreBusy is how long a core has been busy since the system started, time that a
// hypervisor took included (proc_stat(5)).
func CoreBusy(core int) (time.Duration, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return coreBusy(data, core)
}

func coreBusy(stat []byte, core int) (time.Duration, error) {
	name := "cpu" + strconv.Itoa(core)
	for lines := bufio.NewScanner(bytes.NewReader(stat)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 9 || fields[0] != name {
			continue
		}
		total := time.Duration(0)
		for i, field := range fields[1:9] { // user nice system idle iowait irq softirq steal
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("/proc/stat: %w", err)
			}
			if i != 3 && i != 4 {
				total += time.Duration(n) * tick
			}
		}
		return total, nil
	}
	return 0, fmt.Errorf("/proc/stat has no core %d", core)
}
