//go:build linux

package uring

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What both rings can do, without a Driver.
func TestRing(t *testing.T) {
	newTestDriver(t, Config{}) // skips
	ring := need(CreateRing(8))(t)
	defer ring.QueueExit()
	if n, err := ring.Submit(); n != 0 || err != nil {
		t.Errorf("Submit of nothing: %d, %v", n, err)
	}
	ts := syscall.NsecToTimespec(int64(time.Millisecond))
	if _, err := ring.SubmitAndWaitTimeout(1, &ts, nil); !errors.Is(err, unix.ETIME) {
		t.Errorf("SubmitAndWaitTimeout: %v, want ETIME", err)
	}
	if _, err := ring.WaitCQETimeout(&ts); !errors.Is(err, unix.ETIME) {
		t.Errorf("WaitCQETimeout: %v, want ETIME", err)
	}
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
	if cqe.UserData != 100 {
		t.Errorf("first completion: %d, want 100", cqe.UserData)
	}
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
	if _, err := CreateRing(1 << 20); !errors.Is(err, unix.EINVAL) {
		t.Errorf("too many entries: %v, want EINVAL", err)
	}
}
