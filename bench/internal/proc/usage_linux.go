package proc

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpuClockSched is CPUCLOCK_SCHED of the kernel's posix-timers.h: the clock that
// counts the scheduler's nanoseconds instead of ticks.
const cpuClockSched = 2

// CPUTime is the CPU time that process pid has used so far, user and kernel,
// all its threads together, in nanoseconds (clock_getcpuclockid(3)).
func CPUTime(pid int) (time.Duration, error) {
	// 0 would be the caller, and larger numbers lose bits below.
	if pid < 1 || pid >= 1<<28 {
		return 0, fmt.Errorf("cpu clock of process %d: no such number", pid)
	}
	var ts unix.Timespec
	clock := int32(^pid)<<3 | cpuClockSched
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, fmt.Errorf("cpu clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// Memory is the memory process pid holds now, in bytes: its proportional set
// size (smaps_rollup), or its resident set where the kernel gives no other.
func Memory(pid int) (int64, error) {
	if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)); err == nil {
		return kilobyteField(data, "Pss:")
	}
	return statusField(pid, "VmRSS:")
}

func statusField(pid int, name string) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	return kilobyteField(data, name)
}

// PeakMemory is the most that process pid has ever had resident since it began its program, in bytes. (What
// getrusage(2) says has the most of the process that started it, too.)
func PeakMemory(pid int) (int64, error) { return statusField(pid, "VmHWM:") }

// Available is the memory the machine can still give, in bytes.
func Available() (int64, error) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	return kilobyteField(data, "MemAvailable:")
}

// kilobyteField finds a line such as "Pss:   1234 kB" and returns it in bytes.
func kilobyteField(data []byte, name string) (int64, error) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != name {
			continue
		}
		kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil || kilobytes < 0 {
			return 0, fmt.Errorf("field %s: bad number %q", name, fields[1])
		}
		return kilobytes << 10, nil
	}
	return 0, fmt.Errorf("no field %s", name)
}

// FetchedBytes is what the kernel has read from disks for process pid so far (read_bytes of
// proc_pid_io(5)).
func FetchedBytes(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, err
	}
	return FetchedIn(data)
}

// FetchedIn finds the number in the text of /proc/PID/io.
func FetchedIn(data []byte) (int64, error) {
	for line := range bytes.Lines(data) {
		if value, ok := bytes.CutPrefix(line, []byte("read_bytes: ")); ok {
			return strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
		}
	}
	return 0, fmt.Errorf("no read_bytes in %q", data)
}

// Switches is how often the threads of process pid have been switched away from, by their own
// wish or not (proc_pid_status(5)). Threads that have ended are not counted.
func Switches(pid int) (int64, error) {
	folder := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(folder)
	if err != nil {
		return 0, fmt.Errorf("threads of process %d: %w", pid, err)
	}
	sum := int64(0)
	for _, t := range threads {
		data, err := os.ReadFile(folder + "/" + t.Name() + "/status")
		if err != nil {
			continue // it has ended meanwhile
		}
		for line := range strings.Lines(string(data)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.HasSuffix(name, "voluntary_ctxt_switches") {
				n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
				if err != nil {
					return 0, fmt.Errorf("%s of process %d: %w", name, pid, err)
				}
				sum += n
			}
		}
	}
	return sum, nil
}
