package testenv

import "runtime"

// Heap returns how many bytes of the heap are in use, without objects that are only in a sync.Pool.
func Heap() int {
	for range 3 { // a pool drops in the second collection what it had before the first
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
