package engine

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// processDelays is runDelays; tests replace it.
var processDelays = runDelays

// delays are how long threads of the process, by their number, have been ready to run but had no
// processor.
type delays map[string]time.Duration

// since returns how much has been added since before: in sum, and most for one thread.
func (d delays) since(before delays) (sum, most time.Duration) {
	for thread, delay := range d {
		added := delay - before[thread]
		sum += added
		most = max(most, added)
	}
	return sum, most
}

// runDelays asks the kernel (/proc/PID/task/TID/schedstat, second field; the kernel's
// Documentation/scheduler/sched-stats). It returns nil where that can't be read.
func runDelays() delays {
	const dir = "/proc/self/task"
	threads, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	found := make(delays, len(threads))
	for _, t := range threads {
		var text [96]byte // three numbers of 64 bits
		n, err := readInto(dir+"/"+t.Name()+"/schedstat", text[:])
		if (err == syscall.ENOENT || err == syscall.ESRCH) && len(found) > 0 {
			continue // the thread has just ended
		}
		d, good := parseSchedstat(text[:n])
		if err != nil || !good {
			return nil
		}
		found[t.Name()] = d
	}
	return found
}

// readInto reads the beginning of a file of the kernel's, with three system calls where os.ReadFile takes eight: every
// step that takes long has all of the process's threads looked at.
func readInto(path string, p []byte) (n int, err error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer syscall.Close(fd)
	n, err = syscall.Read(fd, p)
	return max(n, 0), err
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
