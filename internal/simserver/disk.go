//go:build linux

package simserver

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Disk decides how long package aio waits for files, and what fails. The bytes are in
// real files.
type Disk struct {
	w *World

	// All guarded by World.mu.
	latency time.Duration // of an operation, on average
	cold    float64       // share of reads that memory does not have
	full    bool          // writes fail with ENOSPC
	broken  float64       // share of operations that fail with EIO
}

func newDisk(w *World) *Disk { return &Disk{w: w, latency: 200 * time.Microsecond} }

// Set says how the disk behaves from now on.
func (d *Disk) Set(latency time.Duration, cold, broken float64, full bool) {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.latency, d.cold, d.broken, d.full = latency, cold, broken, full
}

// Now implements kernel.Files.
func (d *Disk) Now(fd int32, write bool, n int) (int, syscall.Errno) {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if write || d.w.draw().Float64() < d.cold {
		return 0, unix.EAGAIN // what is written goes by the disk, where it may fail
	}
	d.w.charge(costSmall + time.Duration(n)*costKiB/1024)
	return n, 0
}

// Wait implements kernel.Files.
func (d *Disk) Wait(fd int32, op string, n int) (int, syscall.Errno) {
	d.w.mu.Lock()
	took := time.Duration(d.w.draw().ExpFloat64()*float64(d.latency)) + 1
	var e syscall.Errno
	switch {
	case op == "write" && d.full:
		e = unix.ENOSPC
	case (op == "read" || op == "write" || op == "sync") && d.w.draw().Float64() < d.broken:
		e = unix.EIO
	case op == "write" && n > 1 && d.w.Net.chance(d.w.Net.faults.Short):
		n = 1 + d.w.draw().IntN(n-1)
	}
	d.w.mu.Unlock()
	time.Sleep(took)
	return n, e
}
