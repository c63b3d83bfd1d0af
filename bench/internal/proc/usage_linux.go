package proc

import (
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

// fieldsOf are the fields behind the name in the line of data that begins with it; nil if there is none.
func fieldsOf(data []byte, name string) []string {
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == name {
			return fields[1:]
		}
	}
	return nil
}

// numberOf is the first of those fields, which has to be a number.
func numberOf(data []byte, name string) (int64, error) {
	fields := fieldsOf(data, name)
	if len(fields) == 0 {
		return 0, fmt.Errorf("no field %s in %.200q", name, data)
	}
	n, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("field %s: bad number %q", name, fields[0])
	}
	return n, nil
}

// kilobyteField finds a line such as "Pss:   1234 kB" and returns it in bytes.
func kilobyteField(data []byte, name string) (int64, error) {
	n, err := numberOf(data, name)
	return n << 10, err
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
func FetchedIn(data []byte) (int64, error) { return numberOf(data, "read_bytes:") }

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
		for _, name := range []string{"voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"} {
			n, err := numberOf(data, name)
			if err != nil {
				return 0, fmt.Errorf("process %d: %w", pid, err)
			}
			sum += n
		}
	}
	return sum, nil
}

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

func coreBusy(stat []byte, core int) (total time.Duration, err error) {
	fields := fieldsOf(stat, "cpu"+strconv.Itoa(core))
	if len(fields) < 8 {
		return 0, fmt.Errorf("/proc/stat has no core %d", core)
	}
	for i, field := range fields[:8] { // user nice system idle iowait irq softirq steal
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
