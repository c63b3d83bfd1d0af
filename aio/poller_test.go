//go:build linux

package aio

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/uring"
)

// A ringPoller waits with a driver of io_uring and nothing else.
type ringPoller struct {
	d     *uring.Driver
	wakes int // an eventfd, read by a request of the driver
	count *[8]byte
	armed bool
}

func openRing() (engine.Poller, error) {
	d, err := uring.NewDriver(uring.Config{Entries: 256})
	if err != nil {
		return nil, err
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	return &ringPoller{d: d, wakes: fd, count: new([8]byte)}, err
}

func (p *ringPoller) Driver() (*uring.Driver, error) { return p.d, nil }

func (p *ringPoller) Poll(timeout time.Duration) error {
	if !p.armed {
		e, err := p.d.Entry()
		if err != nil {
			return err
		}
		e.OpCode, e.Fd, e.Addr, e.Len, e.Off = uring.OpRead, int32(p.wakes), uint64(uintptr(unsafe.Pointer(p.count))), 8, ^uint64(0)
		p.d.Track(e, p)
		p.armed = true
	}
	return p.d.Wait(timeout)
}

func (p *ringPoller) Complete(int32, uint32) { p.armed = false }

func (p *ringPoller) Wake() error {
	_, err := unix.Write(p.wakes, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	return err
}

func (p *ringPoller) Active() bool { return p.d.Pending() > 0 || p.d.InFlight() > 1 }

func (p *ringPoller) Close() error {
	err := p.d.Close()
	unix.Close(p.wakes)
	return err
}
