//go:build linux

package recorder

import (
	"runtime/metrics"
	"syscall"

	"github.com/capriccio-go/capriccio/internal/bgraph"
)

// A usage is the CPU time that the process has used until some moment.
type usage struct {
	process   bgraph.Nanos // user and system time, see getrusage(2)
	collector bgraph.Nanos // estimated by the Go runtime at the end of each collection; without what idle processors did
}

func usageNow() usage {
	var u usage
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) == nil {
		u.process = bgraph.Nanos(r.Utime.Nano() + r.Stime.Nano())
	}
	read := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/idle:cpu-seconds"}}
	metrics.Read(read)
	if read[0].Value.Kind() == metrics.KindFloat64 && read[1].Value.Kind() == metrics.KindFloat64 {
		u.collector = bgraph.Nanos(1e9 * max(read[0].Value.Float64()-read[1].Value.Float64(), 0))
	}
	return u
}
