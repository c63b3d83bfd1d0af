package main

import "github.com/capriccio-go/capriccio/knot"

// ownCache stands for a size that knot chooses, see cacheOf.
const ownCache = -1

// cacheSize is a byteSize that can be left to knot.
type cacheSize byteSize

// String implements flag.Value.
func (c *cacheSize) String() string {
	if *c == ownCache {
		return byteSize(0).String() // like the zero value: the text says what is the default
	}
	return byteSize(*c).String()
}

// Set implements flag.Value.
func (c *cacheSize) Set(text string) error { return (*byteSize)(c).Set(text) }

// cacheOf is how large the cache is by default if the process may use this many bytes of
// memory; 0: unknown. A third leaves the rest to connections, and to the page cache,
// which counts against a container's limit too and which larger files are sent from.
func cacheOf(limit int64) int64 {
	const most, least = 1 << 30, 1 << 20
	if limit <= 0 {
		return knot.DefaultCacheBytes
	}
	return min(max(limit/3>>20<<20, least), most)
}
