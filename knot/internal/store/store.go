// Package store has the files below one directory: it opens them without leaving the directory, keeps the contents of
// small files and descriptors of others, makes and finds their compressed forms, and prepares the header lines that
// responses about them have. It knows conditions and ranges of requests, but answers none: knot.Files does.
//
// A Store may be used from any task or goroutine. What is in the kernel's memory is read on the loop; for the rest its
// methods park. It never serves what lies outside of its root, or has a name that begins with a dot.
package store

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/knot/internal/clock"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// Config is knot.FilesConfig with the defaults filled in: 0 is none.
type Config struct {
	Bytes, FileMax           int64
	Open                     int
	Revalidate               time.Duration
	Index                    []string
	Codings                  []Coding
	CompressMin, CompressMax int64
	Header                   func(name string, add func(name, value string)) // nil: none
}

// Coding is knot.Coding.
type Coding struct {
	Name, Suffix string
	Compress     func(src []byte) ([]byte, error)
}

// Stats is knot.FilesStats.
type Stats struct {
	Hits, OpenHits, Misses, Loads            uint64
	Evictions, OpenEvictions, Refused, Stale uint64
	Bytes, MaxBytes                          int64
	Files, Open, MaxOpen                     int
}

// Request is what a Store has to know of a request, and memory for its answers that is used again. It is good for one
// task at a time.
type Request struct {
	Path   []byte   // of the file, clean
	Head   *h1.Head // of the request
	Text   []byte   // what the spans of Head count from
	Second int64    // of the Date of the response, since 1970
	Log    Log

	name   []byte // NUL-terminated
	key    []byte // in the cache
	ranges []Range
}

// Log is where a Store reports what the owner of the server has to know.
type Log interface {
	// Logger is for what is not about the request.
	Logger() *slog.Logger
	// LogRequest logs a message about the request.
	LogRequest(message string, args ...any)
}

// Forget lets go of memory that is larger than most bytes, and of the request.
func (q *Request) Forget(most int) {
	q.Path, q.Head, q.Text, q.Log = nil, nil, nil, nil
	if cap(q.key) > most {
		q.key = nil
	}
}

// A Store has the files below one directory. The Request that its methods take is that of the calling task.
type Store struct {
	Root       root
	Walks      bool                                            // no openat2: walk the path; fixed
	index      []string                                        // fixed
	codings    codings                                         // fixed
	header     func(name string, add func(name, value string)) // fixed
	Cached     bool                                            // the kernel has RESOLVE_CACHED; fixed
	fileMax    int64
	revalidate int64        // nanoseconds, 0: at every request; fixed
	Now        func() int64 // nanoseconds on some scale, never 0; fixed
	Caches     *cache       // nil if nothing is kept; fixed
	clock      clock.Clock

	mu      sync.Mutex
	sweeper *time.Timer // guarded by mu
	sweeps  bool        // sweeper is set; guarded by mu
	closed  bool        // guarded by mu
}

// Open opens the root.
func (f *Store) Open(root string, config Config) error {
	if err := f.Root.open(root); err != nil {
		return errors.Join(err, checkIndex(config.Index))
	}
	f.probe()
	if err := f.configure(&config); err != nil {
		unix.Close(f.Root.FD)
		return err
	}
	f.Root.Checked.Store(f.Now())
	return nil
}

func (f *Store) configure(config *Config) (err error) {
	f.revalidate, f.fileMax = int64(config.Revalidate), config.FileMax
	f.header, f.index = config.Header, config.Index
	if err := checkIndex(f.index); err != nil {
		return err
	}
	if err := f.configureCodings(config); err != nil {
		return err
	}
	if config.Bytes == 0 {
		f.fileMax = -1
	}
	if config.Bytes > 0 || config.Open > 0 {
		if f.Caches, err = newFileCache(config.Bytes, max(f.fileMax, 0), config.Open); err != nil {
			return err
		}
	}
	f.Now = f.clock.Now
	if f.revalidate < int64(10*clock.Tick) { // too fine for the coarse clock
		base := time.Now().Add(-1)
		f.Now = func() int64 { return int64(time.Since(base)) }
	}
	return nil
}

// checkIndex returns an error about the first name that can't be the index of a folder.
func checkIndex(names []string) error {
	for _, name := range names {
		if name == "" || hiddenPath(append([]byte("/"), name...)) || strings.ContainsAny(name, "/\x00") {
			return fmt.Errorf("knot: %q can't be the index of a folder; want the name of a file in it", name)
		}
	}
	return nil
}

// Close closes the root and what is kept open. Call it after the server has shut
// down.
func (f *Store) Close() error {
	f.mu.Lock()
	f.closed = true
	if f.sweeper != nil {
		f.sweeper.Stop()
	}
	f.mu.Unlock()
	f.clock.Close()
	if f.Caches != nil {
		f.Caches.close()
	}
	return unix.Close(f.Root.FD)
}

// Stats returns the counters of the caches. Safe from anywhere.
func (f *Store) Stats() Stats {
	if f.Caches == nil {
		return Stats{}
	}
	return f.Caches.stats()
}

const (
	// openIdle is for how long a descriptor is kept that no request asks for: it keeps the
	// space of a deleted file taken.
	openIdle   = 20 * time.Second
	sweepEvery = openIdle / 2
)

// sweepLater makes sure that idle descriptors get closed.
func (f *Store) sweepLater() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sweeps || f.closed {
		return
	}
	f.sweeps = true
	if f.sweeper == nil {
		f.sweeper = time.AfterFunc(sweepEvery, f.sweep)
	} else {
		f.sweeper.Reset(sweepEvery)
	}
}

func (f *Store) sweep() {
	f.mu.Lock()
	f.sweeps = false
	closed := f.closed
	f.mu.Unlock()
	if !closed && f.Caches.CloseIdle(f.Now()-int64(openIdle)) > 0 {
		f.sweepLater()
	}
}

// hiddenPath reports whether a clean path must not be looked up: a name beginning
// with a dot, or a backslash, which some clients take for a slash.
func hiddenPath(path []byte) bool {
	const wellKnown = "/.well-known/" // RFC 8615
	for i, ch := range path {
		if ch == '\\' {
			return true
		}
		if ch == '/' && i+1 < len(path) && path[i+1] == '.' &&
			!(i == 0 && bytes.HasPrefix(path, []byte(wellKnown))) {
			return true
		}
	}
	return false
}

var (
	// ErrHidden is for a name that is not served.
	ErrHidden = errors.New("knot: the name is hidden")
	// ErrKind is for what is neither a file nor a directory.
	ErrKind = errors.New("knot: neither a file nor a directory")
)

// Scarce reports whether err is that no descriptor was left.
func Scarce(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// StatusOf is the status of the response about an error of Find or List; 0: it is a failure of the server.
func StatusOf(err error) int {
	switch {
	case errors.Is(err, ErrHidden):
		return 404
	case errors.Is(err, ErrKind):
		return 403
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENAMETOOLONG),
		errors.Is(err, unix.EILSEQ), errors.Is(err, unix.EINVAL): // a file system that has no such names
		return 404
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM),
		errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP), // a link that leads out
		errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV): // a socket or dead device
		return 403
	case Scarce(err), errors.Is(err, unix.ENOMEM):
		return 503
	}
	return 0
}
