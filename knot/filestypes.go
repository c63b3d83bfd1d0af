package knot

import (
	"time"

	"github.com/capriccio-go/capriccio/knot/internal/store"
)

const (
	defaultCompressMin = 512
	defaultCompressMax = 4 << 20
)

// A Coding is a content coding (RFC 9110, 8.4) in which files are sent to clients that accept it.
type Coding struct {
	// Name is that of IANA's registry, in lower case: br, zstd, gzip.
	Name string
	// Suffix of a file that was compressed beforehand: app.js.br stands beside app.js. It must
	// begin with a dot. "": such files are not looked for.
	Suffix string
	// Compress makes the coded form of src, from which it must not keep anything. It is called
	// on a plain goroutine, several at a time. The same src must give the same result as long as
	// the program runs. nil: files are not compressed on the fly.
	Compress func(src []byte) ([]byte, error)
}

// Precompressed are the codings of files that were compressed beforehand, best first: .br, .zst
// and .gz beside the file. Package knot/compress has codings that compress on the fly too.
func Precompressed() []Coding {
	return []Coding{{Name: "br", Suffix: ".br"}, {Name: "zstd", Suffix: ".zst"}, {Name: "gzip", Suffix: ".gz"}}
}

// A Listed is a file or folder in a folder. For a link it describes the target.
type Listed struct {
	Name     string    // without the folder
	Dir      bool      // it is a folder, or a link to one
	Size     int64     // in bytes; 0 for a folder
	Modified time.Time // when the contents last changed
}

// FilesStats counts the contents of the caches of a Files, and their use since it was opened.
type FilesStats struct {
	// Hits were answered from memory, OpenHits from a file that was open, Misses by
	// opening the file; Loads is how often a content was read into memory.
	Hits, OpenHits, Misses, Loads uint64
	// Evictions made room for other contents, OpenEvictions for other descriptors.
	// Refused contents were not worth evicting others for them. Stale files had changed.
	Evictions, OpenEvictions, Refused, Stale uint64
	// Bytes of contents are in memory now, of Files files; Open is how many descriptors
	// are kept. MaxBytes and MaxOpen are the limits.
	Bytes, MaxBytes      int64
	Files, Open, MaxOpen int
}

// Add makes s the counts of both s and other. It never parks.
func (s *FilesStats) Add(other FilesStats) { (*store.Stats)(s).Add(store.Stats(other)) }
