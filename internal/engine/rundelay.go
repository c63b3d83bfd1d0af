package engine

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// processDelay is runDelay; tests replace it.
var processDelay = runDelay

// runDelay is how long, in sum, the threads of the process have been ready to run but
// had no processor (/proc/PID/task/TID/schedstat, second field; the kernel's
// Documentation/scheduler/sched-stats). ok is false where that can't be read.
func runDelay() (sum time.Duration, ok bool) {
	const dir = "/proc/self/task"
	threads, err := os.ReadDir(dir)
	if err != nil {
		return 0, false
	}
	for _, t := range threads {
		text, err := os.ReadFile(dir + "/" + t.Name() + "/schedstat")
		if os.IsNotExist(err) && ok {
			continue // the thread has just ended
		}
		d, good := parseSchedstat(text)
		if err != nil || !good {
			return 0, false
		}
		sum += d
		ok = true
	}
	return sum, ok
}

// parseSchedstat returns the second of the three numbers in a schedstat file.
func parseSchedstat(text []byte) (delay time.Duration, ok bool) {
	fields := bytes.Fields(text)
	if len(fields) != 3 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return time.Duration(n), err == nil && n >= 0
}
