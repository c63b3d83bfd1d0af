package feed

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"
)

// ofContainer is the part of a container's memory that the Go runtime may use. The rest
// is for what it does not count: the kernel's buffers of sockets, the page tables, the program.
const ofContainer = 0.9

// A heapLimit gives the Go runtime a memory limit that follows the container's, unless somebody
// else has given it one. Without it a collection may begin when it is too late:
// with GOGC=100 a heap grows to twice what the last one has left over, and what comes in while the next
// goes on is on top of that.
type heapLimit struct {
	set  func(int64) int64 // debug.SetMemoryLimit
	mine int64             // what was set here; 0: nothing
	off  bool              // it is not ours
	log  *slog.Logger
}

func newHeapLimit(log *slog.Logger) *heapLimit {
	_, given := os.LookupEnv("GOMEMLIMIT")
	return &heapLimit{set: debug.SetMemoryLimit, off: given, log: log}
}

// follow is told the limit of the container in bytes, 0 if there is none.
func (h *heapLimit) follow(container float64) {
	if h.off {
		return
	}
	if now := h.set(-1); now != math.MaxInt64 && now != h.mine {
		h.off = true // the program has set one
		return
	}
	want := int64(math.MaxInt64)
	if container > 0 && container*ofContainer < math.MaxInt64 {
		want = int64(container * ofContainer)
	}
	if want == h.mine || want == math.MaxInt64 && h.mine == 0 {
		return
	}
	h.set(want)
	h.mine = want
	if h.log != nil {
		h.log.Info("capriccio: the Go runtime's memory limit follows the container's; GOMEMLIMIT sets another, or off",
			"limit", want, "container", int64(container))
	}
}

// release takes the limit back.
func (h *heapLimit) release() {
	if !h.off && h.mine != 0 && h.set(-1) == h.mine {
		h.set(math.MaxInt64)
	}
	h.off = true
}
