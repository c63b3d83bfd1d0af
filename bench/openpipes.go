package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// spareDescriptors are left for everything but the pipes.
const spareDescriptors = 100

// openPipes opens n pipes: two descriptors each where they fit below the limit,
// otherwise one each that reads and writes.
func openPipes(n int, double func() (pipe, error), single func(fd int) (pipe, error)) ([]pipe, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil, fmt.Errorf("getrlimit: %w", err)
	}
	open := double
	if uint64(2*n+spareDescriptors) > limit.Cur {
		open = func() (pipe, error) {
			fd, err := openBothWays()
			if err != nil {
				return pipe{}, err
			}
			return single(fd)
		}
	}
	pipes := make([]pipe, n)
	for i := range pipes {
		var err error
		if pipes[i], err = open(); err != nil {
			return nil, fmt.Errorf("pipe %d of %d: %w", i+1, n, err)
		}
	}
	return pipes, nil
}

// openBothWays opens a pipe through one non-blocking descriptor that reads what
// it wrote (fifo(7): a FIFO opened for reading and writing).
func openBothWays() (int, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return -1, fmt.Errorf("pipe2: %w", err)
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	path := fmt.Sprintf("/proc/self/fd/%d", ends[0])
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", path, err)
	}
	return fd, nil
}
