package proc

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// AnyCore leaves a child where the driver itself may run.
const AnyCore = -1

// onCore calls start with the calling thread pinned to core, so that a process
// forked by start inherits the pin (sched_setaffinity(2)). AnyCore only calls
// start. The thread's own set is put back before onCore returns.
func onCore(core int, start func() error) error {
	if core == AnyCore {
		return start()
	}
	runtime.LockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("sched_getaffinity: %w", err)
	}
	var only unix.CPUSet
	only.Set(core)
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("sched_setaffinity to core %d: %w", core, err)
	}
	err := start()
	if back := unix.SchedSetaffinity(0, &before); back != nil {
		// The thread stays locked: its goroutine must not hand a pinned thread back.
		if err == nil {
			err = fmt.Errorf("sched_setaffinity back: %w", back)
		}
		return err
	}
	runtime.UnlockOSThread()
	return err
}

// Cores reports which cores the driver may use, lowest first.
func Cores() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	var cores []int
	for core := 0; len(cores) < set.Count(); core++ {
		if set.IsSet(core) {
			cores = append(cores, core)
		}
	}
	return cores, nil
}

// RaiseDescriptorLimit lifts the soft limit of open descriptors to the hard
// one, for this process and the children started later, and returns it.
func RaiseDescriptorLimit() (int, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("getrlimit: %w", err)
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("setrlimit: %w", err)
	}
	return int(limit.Cur), nil
}
