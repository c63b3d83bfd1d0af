//go:build linux && giouring

package uring

import (
	"unsafe"

	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

// Implementation names the package that Ring comes from.
const Implementation = "giouring"

// In this build giouring has the declarations that this package has of its own otherwise.
type (
	Ring                 = giouring.Ring
	Params               = giouring.Params
	SubmissionQueueEntry = giouring.SubmissionQueueEntry
	CompletionQueueEvent = giouring.CompletionQueueEvent
	BufAndRing           = giouring.BufAndRing
)

// NewRing makes a Ring for QueueInit.
func NewRing() *Ring { return giouring.NewRing() }

// CreateRing makes a ring with default flags.
func CreateRing(entries uint32) (*Ring, error) { return giouring.CreateRing(entries) }

// params is how io_uring_setup(2) wants giouring.Params, whose fields can't be set from
// outside.
type params struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features uint32
	_                                                                [unsafe.Sizeof(Params{}) - 24]byte
}

func newParams(flags, completions uint32) *Params {
	p := new(Params)
	q := (*params)(unsafe.Pointer(p))
	q.flags, q.cqEntries = flags, completions
	return p
}

func paramsGot(p *Params) (features, completions uint32) {
	q := (*params)(unsafe.Pointer(p))
	return q.features, q.cqEntries
}

// freeBufRing gives up a ring of provided buffers and its memory, which FreeBufRing
// leaves mapped there.
func freeBufRing(ring *Ring, br *BufAndRing, group int, entries uint32) {
	ring.FreeBufRing(group)
	unix.MunmapPtr(unsafe.Pointer(br), uintptr(entries)*unsafe.Sizeof(BufAndRing{}))
}
