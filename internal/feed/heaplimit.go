package feed

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"sync"
)

// ofContainer is the part of a container's memory that the Go runtime may use. The rest
// is for what it does not count: the kernel's buffers of sockets, the page tables, the program.
const ofContainer = 0.9

// A heapLimit gives the Go runtime a memory limit that follows the container's, unless GOMEMLIMIT
// or the program has set one. Without a limit a collection may begin too late:
// with GOGC=100 a heap grows to twice the size after the last collection, and allocations during
// the next one are on top of that.
type heapLimit struct {
	of  *processLimit
	off bool // it is not ours, or not any more
	log *slog.Logger
}

// A processLimit is the memory limit of a process, which all its runtimes follow; the last one takes it back.
type processLimit struct {
	set func(int64) int64 // debug.SetMemoryLimit

	mu    sync.Mutex
	ours  int64 // guarded by mu: what was set here; 0: nothing
	users int   // guarded by mu
}

var ofProcess = processLimit{set: debug.SetMemoryLimit}

// limitGiven reports whether the environment sets GOMEMLIMIT; "off" counts. To the Go runtime an empty one is as good
// as none.
func limitGiven() bool { return os.Getenv("GOMEMLIMIT") != "" }

func newHeapLimit(log *slog.Logger, of *processLimit, given bool) *heapLimit {
	of.mu.Lock()
	defer of.mu.Unlock()
	of.users++
	return &heapLimit{of: of, off: given, log: log}
}

// follow is told the limit of the container in bytes, 0 if there is none.
func (h *heapLimit) follow(container float64) {
	if h.off {
		return
	}
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	if now := h.of.set(-1); now != math.MaxInt64 && now != h.of.ours {
		h.off = true // the program has set one
		return
	}
	want := int64(math.MaxInt64)
	if container > 0 && container*ofContainer < math.MaxInt64 {
		want = int64(container * ofContainer)
	}
	if want == h.of.ours || want == math.MaxInt64 && h.of.ours == 0 {
		return
	}
	h.of.set(want)
	h.of.ours = want
	if h.log != nil {
		h.log.Info("capriccio: the Go runtime's memory limit follows the container's; GOMEMLIMIT sets another, or off",
			"limit", want, "container", int64(container))
	}
}

// release removes the memory limit, unless another runtime follows it too or the program has changed it since.
func (h *heapLimit) release() {
	h.off = true
	p := h.of
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users > 0 || p.ours == 0 {
		return
	}
	if p.set(-1) == p.ours {
		p.set(math.MaxInt64)
	}
	p.ours = 0
}
