package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/task"
	"golang.org/x/sys/unix"
)

// taskDisk reads with tasks and package aio.
func taskDisk(j job, d *diskReads) error {
	return onLoopOf(oneLoop, func(j job) error {
		large, err := aio.OpenFile(d.large, d.largeFlags(), 0)
		if err != nil {
			return err
		}
		largeInfo, err := large.Stat()
		if err != nil {
			return err
		}
		if err := expectLots(large); err != nil {
			return err
		}
		var cut error
		sleep := func(d time.Duration) { cut = errors.Join(cut, task.Sleep(d)) }
		if d.misses == 100 {
			d.opened(nil, large, 0, largeInfo.Size())
			return errors.Join(d.measure(j, taskSpawn, sleep), cut)
		}
		small, err := aio.Open(d.small)
		if err != nil {
			return err
		}
		smallInfo, err := small.Stat()
		if err != nil {
			return err
		}
		d.opened(small, large, smallInfo.Size(), largeInfo.Size())
		return errors.Join(d.measure(j, taskSpawn, sleep), cut)
	})(j)
}

// expectLots tells the kernel that blocks are drawn by lot, so that it reads no others.
func expectLots(f *aio.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.Fadvise(int(fd), 0, 0, unix.FADV_RANDOM) }); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("fadvise: %w", failed)
	}
	return nil
}
