package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/capriccio-go/capriccio/knot"
)

// byteSize is a flag that takes a number of bytes, with a unit or without. As memory is
// sold, a KB has 1024 bytes.
type byteSize int64

var byteUnits = []struct {
	name string
	size int64
}{{"GB", 1 << 30}, {"MB", 1 << 20}, {"KB", 1 << 10}, {"B", 1}}

// String implements flag.Value: the largest unit that leaves a whole number. A size that is not set is like 0: the text of the
// flag says what is the default.
func (b byteSize) String() string {
	if b <= 0 {
		return "0"
	}
	for _, u := range byteUnits {
		if int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	panic("every number is a multiple of 1")
}

var errByteSize = errors.New("want a size like 500KB, 64MB or 2GB")

// Set implements flag.Value.
func (b *byteSize) Set(text string) error {
	digits, unit := cutUnit(strings.TrimSpace(strings.ToUpper(text)))
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > 1<<62/unit {
		return errByteSize
	}
	*b = byteSize(n * unit)
	return nil
}

// cutUnit cuts a unit off text: one of byteUnits, also in the form KiB, and K alone. Without a unit it is the byte.
func cutUnit(text string) (digits string, unit int64) {
	for _, u := range byteUnits {
		for _, name := range []string{u.name[:1] + "IB", u.name, u.name[:1]} {
			if rest, ok := strings.CutSuffix(text, name); ok {
				return strings.TrimSpace(rest), u.size
			}
		}
	}
	return text, 1
}

// ownCache stands for a size that knot chooses, see cacheOf.
const ownCache = -1

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
