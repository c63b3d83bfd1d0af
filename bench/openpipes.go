package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// spareDescriptors are left for everything but the pipes.
const spareDescriptors = 100

// openPipes opens n pipes: two descriptors each where they fit below the limit,
// otherwise one each that reads and writes.
func openPipes(n int, double func() (pipe, error), single func(fd int) (pipe, error)) []pipe {
	var limit unix.Rlimit
	check(unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	open := double
	if uint64(2*n+spareDescriptors) > limit.Cur {
		open = func() (pipe, error) { return single(openBothWays()) }
	}
	pipes := make([]pipe, n)
	for i := range pipes {
		pipes[i] = must(open())
	}
	return pipes
}

// openBothWays opens a pipe through one non-blocking descriptor that reads what
// it wrote (fifo(7): a FIFO opened for reading and writing).
func openBothWays() int {
	var ends [2]int
	check(unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	return must(unix.Open(fmt.Sprintf("/proc/self/fd/%d", ends[0]), unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0))
}
