//go:build linux

package uring

import (
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"golang.org/x/sys/unix"
)

// What both rings can do, without a Driver.
func TestRing(t *testing.T) {
	newTestDriver(t, Config{}) // skips
	ring := need(CreateRing(8))(t)
	defer ring.QueueExit()
	testenv.Got(ring.Submit())(t, 0, "Submit of nothing")
	ts := syscall.NsecToTimespec(int64(time.Millisecond))
	testenv.ErrorIs(t, testenv.Err(ring.SubmitAndWaitTimeout(1, &ts, nil)), unix.ETIME, "SubmitAndWaitTimeout")
	testenv.ErrorIs(t, testenv.Err(ring.WaitCQETimeout(&ts)), unix.ETIME, "WaitCQETimeout")
	for i := range uint64(8) {
		e := ring.GetSQE()
		e.PrepareNop()
		e.UserData = i + 100
	}
	if e := ring.GetSQE(); e != nil || ring.SQReady() != 8 {
		t.Errorf("full: entry %v, ready %d; want nil, 8", e, ring.SQReady())
	}
	n := need(ring.SubmitAndWait(3))(t)
	if n != 8 || ring.SQReady() != 0 || ring.CQReady() != 8 {
		t.Errorf("submitted %d, ready %d, completed %d; want 8, 0, 8", n, ring.SQReady(), ring.CQReady())
	}
	cqe := need(ring.WaitCQE())(t)
	testenv.Equal(t, cqe.UserData, 100, "first completion")
	ring.CQESeen(cqe)
	batch := make([]*CompletionQueueEvent, 5)
	if n := ring.PeekBatchCQE(batch); n != 5 || batch[0].UserData != 101 || batch[4].UserData != 105 {
		t.Errorf("batch of %d; want 5, from 101 on", n)
	}
	ring.CQAdvance(5)
	if n := ring.PeekBatchCQE(batch); n != 2 || batch[1].UserData != 107 {
		t.Errorf("batch of %d; want 2", n)
	}
}

func TestRingIsGivenUp(t *testing.T) {
	newTestDriver(t, Config{}).Close()
	fds, maps := openRings(t)
	for range 20 {
		ring := need(CreateRing(4))(t)
		ring.QueueExit()
	}
	if f, m := openRings(t); f != fds || m != maps {
		t.Errorf("descriptors %d, mappings %d; want %d, %d as before", f, m, fds, maps)
	}
	testenv.ErrorIs(t, testenv.Err(CreateRing(1<<20)), unix.EINVAL, "too many entries")
}
