// Package fdlimit divides the descriptors that the process may have (getrlimit(2)) among connections, files and the rest.
package fdlimit

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// Conns is how many connections there is room for, at most most: it leaves some descriptors for files, listeners and the rest,
// and for the outgoing connections of handlers (< 0: as many as there are clients).
func Conns(most, outgoing int) int {
	if limit := of(); limit <= 1<<30 {
		return connsOf(limit, openNow(), most, outgoing)
	}
	return most
}

// of is the limit; where that can't be told, a very large one.
func of() int64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 1 << 40
	}
	return int64(min(limit.Cur, 1<<40))
}

// connsOf is Conns for a limit on descriptors, some of them open.
func connsOf(limit, open int64, most, outgoing int) int {
	left := max(limit-open-engine.SpareDescriptors(limit), 1)
	others := left / 2
	if outgoing >= 0 {
		others = min(others, int64(outgoing))
	}
	return int(min(int64(most), left-others))
}

// openNow is how many descriptors the process has; where that can't be told, what a runtime of
// two loops has.
func openNow() int64 {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 32
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	return int64(len(names))
}

// Rejects is how many connections above a limit may be told so at a time. They use descriptors that Conns leaves: at most
// 256 of 512, so that files have the rest.
func Rejects(conns int) int { return min(conns/8+8, 256) }

// Files is how many files may be kept open: one in 64 descriptors, from 16 to 4096.
func Files() int { return int(max(16, min(of()/64, 4096))) }
