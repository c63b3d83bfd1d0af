//go:build linux

package probe

import "math"

// MemoryLimit returns how much memory this process may use, in bytes: the least of what its
// containers, the machine and GOMEMLIMIT allow; 0 if none of them says. It reads files and
// does not park.
func MemoryLimit(cfg Config) int64 {
	p := New(cfg)
	defer p.Close()
	p.memory.read(p, 0)
	least := min(p.memory.most, p.cfg.Runtime().MemoryLimit)
	if least >= math.MaxInt64 {
		return 0
	}
	return int64(least)
}
